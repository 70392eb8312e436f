/* Matrix products with OpenBLAS. C is divided into blocks of fixed size, and each OpenBLAS call computes one block with
 * one thread. Operands that BLAS cannot read (without a unit stride, with negative or huge strides) are first copied to
 * the workspace.
 *
 * The bits are OpenBLAS's: the same for any number of threads on one machine, with no further guarantee. */
#include "kernels/kernels.h"
#include "kernels/machine/openblas.h"
#include "kernels/machine/parallel.h"
#include "kernels/products/product.h"
#include "kernels/products/product_backends.h"
#include "kernels/products/product_storage.h"
#include "kernels/sizes.h"

enum { BLOCK_ROWS = 384, BLOCK_COLUMNS = 768, MAX_STRIDE = 1 << 30 };

/* How a matrix is passed to BLAS. */
typedef enum access { IN_PLACE, TRANSPOSED, COPIED } access;

typedef struct openblas_plan {
    const th_openblas_functions *openblas;
    const th_kernels *kernels;
    th_product product;
    th_dtype dtype;
    int64_t size;                                   /* bytes of an element */
    int64_t block_rows, block_columns, block_steps; /* of a block */
    access a_access, b_access, c_access;
    size_t a_bytes, b_bytes, c_bytes, worker_bytes;
    int64_t column_blocks;
    char *workers; /* (threads, worker_bytes) */
} openblas_plan;

/* Returns whether BLAS accepts a block with contiguous columns and these strides. */
static bool blas_accepts(int64_t row, int64_t column, int64_t columns)
{
    return column == 1 && row >= columns && row <= MAX_STRIDE;
}

/* A stored operand is loaded with the layout that it has, so that BLAS does the same as with an operand in place. */
static access access_of(int64_t rows, int64_t columns, int64_t row, int64_t column, th_dtype storage)
{
    if (storage)
        return column == 1 ? IN_PLACE : TRANSPOSED;
    if (blas_accepts(row, column, columns))
        return IN_PLACE;
    return blas_accepts(column, row, rows) ? TRANSPOSED : COPIED;
}

static openblas_plan plan_product(th_dtype dtype, const th_machine *machine, const th_product *product)
{
    openblas_plan p = {.openblas = th_openblas(),
                       .kernels = th_kernels_for(machine, dtype),
                       .product = *product,
                       .dtype = dtype,
                       .size = th_element_size(dtype)};
    p.block_rows = th_smaller(product->m, BLOCK_ROWS);
    p.block_columns = th_smaller(product->n, BLOCK_COLUMNS);
    p.column_blocks = th_ceil_div(product->n, p.block_columns);
    p.a_access = access_of(product->m, product->k, product->a_row, product->a_col, product->a_storage);
    p.b_access = access_of(product->k, product->n, product->b_row, product->b_col, product->b_storage);
    p.c_access = blas_accepts(product->c_row, product->c_col, product->n) ? IN_PLACE : COPIED;
    /* The same blocks of k as in our own products: a product that is divided between blocks has the same bits. */
    p.block_steps = th_smaller(product->k, TH_PRODUCT_BLOCK);
    p.a_bytes = product->a_storage     ? th_product_load_bytes(p.size, p.block_rows, p.block_steps)
                : p.a_access == COPIED ? (size_t)(p.block_rows * p.block_steps * p.size)
                                       : 0;
    p.b_bytes = product->b_storage     ? th_product_load_bytes(p.size, p.block_steps, p.block_columns)
                : p.b_access == COPIED ? (size_t)(p.block_steps * p.block_columns * p.size)
                                       : 0;
    p.c_bytes = p.c_access == COPIED ? (size_t)(p.block_rows * p.block_columns * p.size) : 0;
    p.worker_bytes = th_aligned(p.a_bytes) + th_aligned(p.b_bytes) + th_aligned(p.c_bytes);
    return p;
}

size_t th_product_openblas_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    return (size_t)threads * plan_product(dtype, machine, product).worker_bytes;
}

/* One matrix of a call. */
typedef struct operand {
    const char *data;
    int64_t row, column; /* strides, one of them 1 */
} operand;

/* Returns a part of a matrix: in place, or in the memory of a copy. */
static operand load_operand(const openblas_plan *p, access access_kind, th_dtype storage, th_product_matrix whole,
                            int64_t row, int64_t rows, int64_t column, int64_t columns, void *copy)
{
    if (storage) {
        const th_product_matrix loaded =
            th_product_load(p->kernels, p->size, storage, whole, row, rows, column, columns, copy);
        return (operand){loaded.data, loaded.row, loaded.column};
    }
    const char *base = (const char *)whole.data + (row * whole.row + column * whole.column) * p->size;
    if (access_kind != COPIED)
        return (operand){base, whole.row, whole.column};
    p->kernels->product_copy(rows, columns, base, whole.row, whole.column, copy, columns, 1);
    return (operand){copy, columns, 1};
}

/* C = A B or C + A B for C (m, n), whose rows are c_row apart. */
static void call_gemm(const openblas_plan *p, int64_t m, int64_t n, int64_t k, operand a, operand b, bool add, char *c,
                      int64_t c_row)
{
    const int a_transpose = p->a_access == TRANSPOSED ? TH_BLAS_TRANSPOSE : TH_BLAS_NO_TRANSPOSE;
    const int b_transpose = p->b_access == TRANSPOSED ? TH_BLAS_TRANSPOSE : TH_BLAS_NO_TRANSPOSE;
    const int a_stride = (int)(p->a_access == TRANSPOSED ? a.column : a.row);
    const int b_stride = (int)(p->b_access == TRANSPOSED ? b.column : b.row);
    if (p->dtype == TH_FLOAT64)
        p->openblas->dgemm(TH_BLAS_ROW_MAJOR, a_transpose, b_transpose, (int)m, (int)n, (int)k, 1,
                           (const double *)(const void *)a.data, a_stride, (const double *)(const void *)b.data,
                           b_stride, add, (double *)(void *)c, (int)c_row);
    else
        p->openblas->sgemm(TH_BLAS_ROW_MAJOR, a_transpose, b_transpose, (int)m, (int)n, (int)k, 1,
                           (const float *)(const void *)a.data, a_stride, (const float *)(const void *)b.data, b_stride,
                           add, (float *)(void *)c, (int)c_row);
}

static void block_task(void *shared, int64_t index, int worker)
{
    const openblas_plan *p = shared;
    const th_product *product = &p->product;
    char *a_copy = p->workers + (size_t)worker * p->worker_bytes;
    char *b_copy = a_copy + th_aligned(p->a_bytes), *c_copy = b_copy + th_aligned(p->b_bytes);
    const int64_t row = index / p->column_blocks * p->block_rows, column = index % p->column_blocks * p->block_columns;
    const int64_t m = th_smaller(product->m - row, p->block_rows),
                  n = th_smaller(product->n - column, p->block_columns);
    char *c = (char *)product->c + (row * product->c_row + column * product->c_col) * p->size;
    char *to = p->c_access == COPIED ? c_copy : c;
    const int64_t to_row = p->c_access == COPIED ? n : product->c_row;
    if (product->bias)
        p->kernels->product_copy(m, n, (const char *)product->bias + column * p->size, 0, 1, to, to_row, 1);
    else if (product->add && p->c_access == COPIED)
        p->kernels->product_copy(m, n, c, product->c_row, product->c_col, to, to_row, 1);
    const th_product_matrix a_whole = {product->a, product->a_row, product->a_col},
                            b_whole = {product->b, product->b_row, product->b_col};
    const th_openblas_threads before = th_openblas_begin();
    for (int64_t step = 0; step < product->k; step += p->block_steps) {
        const int64_t k = th_smaller(product->k - step, p->block_steps);
        const operand a = load_operand(p, p->a_access, product->a_storage, a_whole, row, m, step, k, a_copy);
        const operand b = load_operand(p, p->b_access, product->b_storage, b_whole, step, k, column, n, b_copy);
        call_gemm(p, m, n, k, a, b, step > 0 || product->add || product->bias, to, to_row);
    }
    th_openblas_end(&before);
    if (p->c_access == COPIED)
        p->kernels->product_copy(m, n, to, to_row, 1, c, product->c_row, product->c_col);
}

void th_product_openblas_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                             void *workspace)
{
    openblas_plan p = plan_product(dtype, machine, product);
    p.workers = workspace;
    const int team = th_product_work(product) < (double)TH_PRODUCT_SERIAL ? 1 : threads;
    th_parallel(team, th_ceil_div(product->m, p.block_rows) * p.column_blocks, block_task, &p);
}
