/* Matrix products through OpenBLAS: C cut into slices of fixed size, one call with one thread for each. What its calls
 * cannot reach (no unit stride, negative or huge strides) is copied to workspace first.
 *
 * The bits are OpenBLAS's own: the same for any number of threads on one machine, nothing more. */
#include "kernels/kernels.h"
#include "kernels/openblas.h"
#include "kernels/parallel.h"
#include "kernels/product_item.h"

enum { SLICE_ROWS = 384, SLICE_COLUMNS = 768, MOST_STRIDE = 1 << 30 };

/* How a matrix is handed over. */
typedef enum access { AS_IT_LIES, TRANSPOSED, COPIED } access;

typedef struct plan {
    const th_openblas_functions *openblas;
    const th_kernels *kernels;
    th_product item;
    th_dtype dtype;
    int64_t size;                 /* bytes of an element */
    int64_t rows, columns, steps; /* of a slice */
    access a, b, c;
    size_t a_bytes, b_bytes, c_bytes, worker_bytes;
    int64_t column_slices;
    char *workers; /* (threads, worker_bytes) */
} plan;

/* Whether a (rows, columns) slice with columns contiguous and these strides is one that BLAS takes. */
static bool fits(int64_t row, int64_t column, int64_t columns)
{
    return column == 1 && row >= columns && row <= MOST_STRIDE;
}

static access choose_access(int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    if (fits(row, column, columns))
        return AS_IT_LIES;
    return fits(column, row, rows) ? TRANSPOSED : COPIED;
}

static plan make_plan(th_dtype dtype, const th_machine *machine, const th_product *item)
{
    plan p = {.openblas = th_openblas(),
              .kernels = th_kernels_for(machine, dtype),
              .item = *item,
              .dtype = dtype,
              .size = th_item_size(dtype)};
    p.rows = th_item_min(item->m, SLICE_ROWS);
    p.columns = th_item_min(item->n, SLICE_COLUMNS);
    p.column_slices = th_item_parts(item->n, p.columns);
    p.a = choose_access(item->m, item->k, item->a_row, item->a_col);
    p.b = choose_access(item->k, item->n, item->b_row, item->b_col);
    p.c = fits(item->c_row, item->c_col, item->n) ? AS_IT_LIES : COPIED;
    p.steps = th_item_min(item->k, TH_PRODUCT_BLOCK); /* a product cut there has the same bits, as with our own tiles */
    p.a_bytes = p.a == COPIED ? (size_t)(p.rows * p.steps * p.size) : 0;
    p.b_bytes = p.b == COPIED ? (size_t)(p.steps * p.columns * p.size) : 0;
    p.c_bytes = p.c == COPIED ? (size_t)(p.rows * p.columns * p.size) : 0;
    p.worker_bytes = th_item_aligned(p.a_bytes) + th_item_aligned(p.b_bytes) + th_item_aligned(p.c_bytes);
    return p;
}

size_t th_product_openblas_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    return (size_t)threads * make_plan(dtype, machine, item).worker_bytes;
}

/* One matrix of a call. */
typedef struct operand {
    const char *data;
    int64_t row, column; /* strides, one of them 1 */
} operand;

static operand take(const plan *p, access how, const void *base, int64_t rows, int64_t columns, int64_t row,
                    int64_t column, void *copy)
{
    if (how != COPIED)
        return (operand){base, row, column};
    p->kernels->product_copy(rows, columns, base, row, column, copy, columns, 1);
    return (operand){copy, columns, 1};
}

/* C (m, n), rows c_row apart, = A B or C + A B. */
static void call(const plan *p, int64_t m, int64_t n, int64_t k, operand a, operand b, bool add, char *c, int64_t c_row)
{
    const int a_how = p->a == TRANSPOSED ? TH_BLAS_TRANSPOSE : TH_BLAS_NO_TRANSPOSE;
    const int b_how = p->b == TRANSPOSED ? TH_BLAS_TRANSPOSE : TH_BLAS_NO_TRANSPOSE;
    const int a_stride = (int)(p->a == TRANSPOSED ? a.column : a.row);
    const int b_stride = (int)(p->b == TRANSPOSED ? b.column : b.row);
    if (p->dtype == TH_FLOAT64)
        p->openblas->dgemm(TH_BLAS_ROW_MAJOR, a_how, b_how, (int)m, (int)n, (int)k, 1,
                           (const double *)(const void *)a.data, a_stride, (const double *)(const void *)b.data,
                           b_stride, add, (double *)(void *)c, (int)c_row);
    else
        p->openblas->sgemm(TH_BLAS_ROW_MAJOR, a_how, b_how, (int)m, (int)n, (int)k, 1,
                           (const float *)(const void *)a.data, a_stride, (const float *)(const void *)b.data, b_stride,
                           add, (float *)(void *)c, (int)c_row);
}

static void multiply_slice(void *shared, int64_t index, int worker)
{
    const plan *p = shared;
    const th_product *item = &p->item;
    char *a_copy = p->workers + (size_t)worker * p->worker_bytes;
    char *b_copy = a_copy + th_item_aligned(p->a_bytes), *c_copy = b_copy + th_item_aligned(p->b_bytes);
    const int64_t row = index / p->column_slices * p->rows, column = index % p->column_slices * p->columns;
    const int64_t m = th_item_min(item->m - row, p->rows), n = th_item_min(item->n - column, p->columns);
    char *c = (char *)item->c + (row * item->c_row + column * item->c_col) * p->size;
    char *to = p->c == COPIED ? c_copy : c;
    const int64_t to_row = p->c == COPIED ? n : item->c_row;
    if (item->bias)
        p->kernels->product_copy(m, n, (const char *)item->bias + column * p->size, 0, 1, to, to_row, 1);
    else if (item->add && p->c == COPIED)
        p->kernels->product_copy(m, n, c, item->c_row, item->c_col, to, to_row, 1);
    for (int64_t step = 0; step < item->k; step += p->steps) {
        const int64_t k = th_item_min(item->k - step, p->steps);
        const operand a = take(p, p->a, (const char *)item->a + (row * item->a_row + step * item->a_col) * p->size, m,
                               k, item->a_row, item->a_col, a_copy);
        const operand b = take(p, p->b, (const char *)item->b + (step * item->b_row + column * item->b_col) * p->size,
                               k, n, item->b_row, item->b_col, b_copy);
        call(p, m, n, k, a, b, step > 0 || item->add || item->bias, to, to_row);
    }
    if (p->c == COPIED)
        p->kernels->product_copy(m, n, to, to_row, 1, c, item->c_row, item->c_col);
}

void th_product_openblas_run(const th_machine *machine, th_dtype dtype, const th_product *item, int threads,
                             void *workspace)
{
    plan p = make_plan(dtype, machine, item);
    p.workers = workspace;
    const int team = th_item_work(item) < TH_ITEM_SERIAL ? 1 : threads;
    th_parallel(team, th_item_parts(item->m, p.rows) * p.column_slices, multiply_slice, &p);
}
