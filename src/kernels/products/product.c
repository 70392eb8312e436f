/* Matrix products: turns any strided batch into single products that the backends (product_native.c,
 * product_openblas.c, product_int8.c) accept, and divides a batch among the team. */
#include "kernels/products/product.h"

#include "kernels/kernels.h"
#include "kernels/machine/parallel.h"
#include "kernels/products/product_backends.h"
#include "kernels/sizes.h"

/* Folds the innermost batch dimension. If B is the same for the whole batch, the dimension becomes part of the rows of
 * A and C. If A is the same, it becomes part of the columns of B and C. Returns false if neither is possible. */
static bool fold_dimension(th_product *p)
{
    const bool biased = p->bias || p->biased;
    const int d = p->batch_dims - 1;
    const int64_t size = p->batch[d], a = p->a_batch[d], b = p->b_batch[d], c = p->c_batch[d];
    if (size == 1) {
        /* nothing to iterate over */
    } else if (b == 0 && p->m == 1) {
        p->m = size;
        p->a_row = a;
        p->c_row = c;
    } else if (b == 0 && a == p->m * p->a_row && c == p->m * p->c_row) {
        p->m *= size;
    } else if (a == 0 && !biased && p->n == 1 && p->b_storage == 0) {
        p->n = size;
        p->b_col = b;
        p->c_col = c;
    } else if (a == 0 && !biased && b == p->n * p->b_col && c == p->n * p->c_col) {
        p->n *= size;
    } else {
        return false;
    }
    p->batch_dims = d;
    return true;
}

static void drop_dimension(th_product *p, int dropped)
{
    p->batch_dims--;
    for (int d = dropped; d < p->batch_dims; d++) {
        p->batch[d] = p->batch[d + 1];
        p->a_batch[d] = p->a_batch[d + 1];
        p->b_batch[d] = p->b_batch[d + 1];
        p->c_batch[d] = p->c_batch[d + 1];
    }
}

/* Transposes the product, without its bias. The bits are the same, because fma(a, b, c) = fma(b, a, c). In bfloat16x3
 * they would differ: there a1 b2 comes before a2 b1. */
static void transpose_product(th_product *p)
{
    const th_product given = *p;
    p->m = given.n, p->n = given.m;
    p->a = given.b, p->a_row = given.b_col, p->a_col = given.b_row;
    p->b = given.a, p->b_row = given.a_col, p->b_col = given.a_row;
    p->a_storage = given.b_storage, p->b_storage = given.a_storage;
    p->c_row = given.c_col, p->c_col = given.c_row;
    for (int d = 0; d < p->batch_dims; d++) {
        p->a_batch[d] = given.b_batch[d];
        p->b_batch[d] = given.a_batch[d];
    }
}

static bool is_for_openblas(const th_machine *machine, th_dtype dtype, const th_product *product)
{
    return machine->gemm == TH_GEMM_OPENBLAS && !th_product_is_int8(machine, dtype, product) &&
           th_product_precision(machine, dtype, product) == TH_PRECISION_FLOAT32;
}

/* Returns whether to transpose: if C is one column, or if its rows, not its columns, are adjacent in memory. Kernels
 * compute a vector of results along the columns. Our own kernels load a stored B, but not a stored A. */
static bool wants_transposing(const th_product *p, th_precision precision, bool native)
{
    if (p->b_storage && native)
        return false;
    return precision != TH_PRECISION_BFLOAT16X3 && p->m > 1 && p->residual_row == 0 &&
           (p->n == 1 || (p->c_col != 1 && p->c_row == 1));
}

/* Returns the product to run instead of `given`: with fewer batch dimensions, and with contiguous columns of C if
 * possible. Sets *fill if the bias must first be written to C, because a transposition has turned it into a column. */
static th_product simplify_product(const th_machine *machine, th_dtype dtype, const th_product *given, bool *fill)
{
    th_product p = *given;
    for (int d = p.batch_dims - 1; d >= 0; d--)
        if (p.batch[d] == 1)
            drop_dimension(&p, d);
    while (p.batch_dims > 0 && fold_dimension(&p))
        continue;
    *fill = false;
    if (wants_transposing(&p, th_product_precision(machine, dtype, given), !is_for_openblas(machine, dtype, given))) {
        *fill = p.bias != NULL;
        transpose_product(&p);
        p.add = p.add || p.bias;
        p.bias = NULL;
    }
    if (p.n == 1) {
        p.c_col = 1;
        p.b_col = p.b_storage ? p.b_col : 1;
    }
    return p;
}

static int64_t batch_count(const th_product *p)
{
    int64_t count = p->m > 0 && p->n > 0;
    for (int d = 0; d < p->batch_dims; d++)
        count *= p->batch[d];
    return count;
}

/* Returns product `number` of a batch. */
static th_product product_at(const th_product *batch, int64_t size, int64_t number)
{
    int64_t index[TH_PRODUCT_BATCH_DIMS];
    th_index_at(batch->batch_dims, batch->batch, number, index);
    th_product one = *batch;
    one.a = (const char *)batch->a + th_offset_of(batch->batch_dims, index, batch->a_batch) * size;
    one.b = (const char *)batch->b + th_offset_of(batch->batch_dims, index, batch->b_batch) * size;
    one.c = (char *)batch->c + th_offset_of(batch->batch_dims, index, batch->c_batch) * size;
    one.batch_dims = 0;
    return one;
}

/* Returns whether each task of the team is a group of whole products. Otherwise the team divides each product, one
 * after the other. */
static bool divides_batch(const th_product *product, int64_t count, int threads)
{
    const double work = th_product_work(product);
    return threads > 1 && count > 1 && work * (double)count >= (double)TH_PRODUCT_SERIAL &&
           (work < 8 * (double)TH_PRODUCT_SERIAL || count >= 4 * (int64_t)threads);
}

static size_t workspace_of(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    return th_product_is_int8(machine, dtype, product) ? th_product_int8_workspace(machine, dtype, product, threads)
           : is_for_openblas(machine, dtype, product)  ? th_product_openblas_workspace(machine, dtype, product, threads)
                                                       : th_product_native_workspace(machine, dtype, product, threads);
}

static void run_product(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                        void *workspace)
{
    if (th_product_is_int8(machine, dtype, product))
        th_product_int8_run(machine, dtype, product, threads, workspace);
    else if (is_for_openblas(machine, dtype, product))
        th_product_openblas_run(machine, dtype, product, threads, workspace);
    else
        th_product_native_run(machine, dtype, product, threads, workspace);
}

size_t th_product_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    bool fill;
    const th_product p = simplify_product(machine, dtype, product, &fill);
    const int64_t count = batch_count(&p);
    if (count == 0 || p.k == 0)
        return 0;
    threads = threads < 1 ? 1 : threads;
    if (divides_batch(&p, count, threads))
        return (size_t)threads * workspace_of(machine, dtype, &p, 1);
    return workspace_of(machine, dtype, &p, threads);
}

typedef struct batch_team {
    const th_machine *machine;
    th_dtype dtype;
    const th_product *batch;
    int64_t count, task_products; /* products in the batch and in a task */
    char *workspace;              /* (threads, worker) bytes */
    size_t worker_bytes;
} batch_team;

static void batch_task(void *shared, int64_t index, int worker)
{
    const batch_team *team = shared;
    const int64_t end = th_smaller((index + 1) * team->task_products, team->count);
    for (int64_t i = index * team->task_products; i < end; i++) {
        const th_product one = product_at(team->batch, th_element_size(team->dtype), i);
        run_product(team->machine, team->dtype, &one, 1,
                    team->workspace ? team->workspace + (size_t)worker * team->worker_bytes : NULL);
    }
}

/* Sets C of every product to its bias, or 0. */
static void fill_batch(const th_machine *machine, th_dtype dtype, const th_product *p)
{
    const void *from = p->bias ? p->bias : th_zero(th_element_size(dtype));
    const int64_t count = batch_count(p);
    for (int64_t i = 0; i < count; i++) {
        const th_product one = product_at(p, th_element_size(dtype), i);
        th_kernels_for(machine, dtype)->product_copy(p->m, p->n, from, 0, p->bias ? 1 : 0, one.c, p->c_row, p->c_col);
    }
}

/* Sets C = residual + bias. The returned product is to be added to it. */
static th_product begin_with_residual(const th_machine *machine, th_dtype dtype, const th_product *given)
{
    th_product_residual(th_kernels_for(machine, dtype), th_element_size(dtype), given, 0, given->m, 0, given->n);
    th_product rest = *given;
    rest.add = true;
    rest.bias = rest.residual = NULL;
    return rest;
}

void th_product_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads, void *workspace)
{
    bool fill;
    th_product p = simplify_product(machine, dtype, product, &fill);
    const int64_t count = batch_count(&p);
    if (count == 0)
        return;
    if (p.residual && (p.k == 0 || is_for_openblas(machine, dtype, &p))) {
        p = begin_with_residual(machine, dtype, &p);
        if (p.k == 0)
            return;
    }
    if (fill || (p.k == 0 && !product->add))
        fill_batch(machine, dtype, product);
    if (p.k == 0)
        return;
    threads = threads < 1 ? 1 : threads;
    if (divides_batch(&p, count, threads)) {
        batch_team team = {.machine = machine,
                           .dtype = dtype,
                           .batch = &p,
                           .count = count,
                           .task_products = 1 + (int64_t)((double)TH_PRODUCT_TASK / (th_product_work(&p) + 1)),
                           .workspace = workspace,
                           .worker_bytes = workspace_of(machine, dtype, &p, 1)};
        th_parallel(threads, th_ceil_div(count, team.task_products), batch_task, &team);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const th_product one = product_at(&p, th_element_size(dtype), i);
        run_product(machine, dtype, &one, threads, workspace);
    }
}
