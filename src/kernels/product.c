/* Matrix products: from any strided batch to single items in a form that the backends take, and who runs which item.
 * The tiles are in product_native.c, slices for OpenBLAS in product_openblas.c. */
#include "kernels/product.h"

#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/product_item.h"

/* Lets the innermost batch dimension disappear in the rows of A and C when B is the same for all, or in the columns of
 * B and C when A is. Returns false when neither is possible. */
static bool fold_dimension(th_product *p)
{
    const bool biased = p->bias || p->biased;
    const int d = p->batch_dims - 1;
    const int64_t size = p->batch[d], a = p->a_batch[d], b = p->b_batch[d], c = p->c_batch[d];
    if (size == 1) {
        /* nothing to walk */
    } else if (b == 0 && p->m == 1) {
        p->m = size;
        p->a_row = a;
        p->c_row = c;
    } else if (b == 0 && a == p->m * p->a_row && c == p->m * p->c_row) {
        p->m *= size;
    } else if (a == 0 && !biased && p->n == 1) {
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

/* The transposed product: fma(a, b, c) = fma(b, a, c), so its bits are the same. The bias is not carried over. */
static void transpose(th_product *p)
{
    const th_product was = *p;
    p->m = was.n, p->n = was.m;
    p->a = was.b, p->a_row = was.b_col, p->a_col = was.b_row;
    p->b = was.a, p->b_row = was.a_col, p->b_col = was.a_row;
    p->c_row = was.c_col, p->c_col = was.c_row;
    for (int d = 0; d < p->batch_dims; d++) {
        p->a_batch[d] = was.b_batch[d];
        p->b_batch[d] = was.a_batch[d];
    }
}

/* One vector of results lies along the columns, and so does what is contiguous in C. */
static bool wants_transposing(const th_product *p)
{
    return p->m > 1 && p->residual_row == 0 && (p->n == 1 || (p->c_col != 1 && p->c_row == 1));
}

/* What is run instead of `given`: fewer batch dimensions, C's columns contiguous if possible. *fill: a bias has to be
 * written to C first, because it now goes along the rows. */
static th_product simplify(const th_product *given, bool *fill)
{
    th_product p = *given;
    for (int d = p.batch_dims - 1; d >= 0; d--)
        if (p.batch[d] == 1)
            drop_dimension(&p, d);
    while (p.batch_dims > 0 && fold_dimension(&p))
        continue;
    *fill = false;
    if (wants_transposing(&p)) {
        *fill = p.bias != NULL;
        transpose(&p);
        p.add = p.add || p.bias;
        p.bias = NULL;
    }
    if (p.n == 1)
        p.c_col = p.b_col = 1;
    return p;
}

static int64_t count_items(const th_product *p)
{
    int64_t items = p->m > 0 && p->n > 0;
    for (int d = 0; d < p->batch_dims; d++)
        items *= p->batch[d];
    return items;
}

static th_product item_at(const th_product *p, int64_t size, int64_t index)
{
    th_product item = *p;
    int64_t a = 0, b = 0, c = 0;
    for (int d = p->batch_dims - 1; d >= 0; d--) {
        const int64_t at = index % p->batch[d];
        index /= p->batch[d];
        a += at * p->a_batch[d];
        b += at * p->b_batch[d];
        c += at * p->c_batch[d];
    }
    item.a = (const char *)p->a + a * size;
    item.b = (const char *)p->b + b * size;
    item.c = (char *)p->c + c * size;
    item.batch_dims = 0;
    return item;
}

/* Whether whole items are the tasks of a team; otherwise each item is cut up, one after the other. */
static bool team_over_items(const th_product *item, int64_t items, int threads)
{
    const double work = th_item_work(item);
    return threads > 1 && items > 1 && work * (double)items >= TH_ITEM_SERIAL &&
           (work < 8.0 * TH_ITEM_SERIAL || items >= 4 * (int64_t)threads);
}

static bool is_for_openblas(const th_machine *machine, th_dtype dtype, const th_product *item)
{
    return machine->gemm == TH_GEMM_OPENBLAS && !th_item_is_rounded(machine, dtype, item);
}

static size_t item_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    return is_for_openblas(machine, dtype, item) ? th_product_openblas_workspace(machine, dtype, item, threads)
                                                 : th_product_native_workspace(machine, dtype, item, threads);
}

static void run_item(const th_machine *machine, th_dtype dtype, const th_product *item, int threads, void *workspace)
{
    if (is_for_openblas(machine, dtype, item))
        th_product_openblas_run(machine, dtype, item, threads, workspace);
    else
        th_product_native_run(machine, dtype, item, threads, workspace);
}

size_t th_product_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    bool fill;
    const th_product p = simplify(product, &fill);
    const int64_t items = count_items(&p);
    if (items == 0 || p.k == 0)
        return 0;
    threads = threads < 1 ? 1 : threads;
    if (team_over_items(&p, items, threads))
        return (size_t)threads * item_workspace(machine, dtype, &p, 1);
    return item_workspace(machine, dtype, &p, threads);
}

typedef struct item_team {
    const th_machine *machine;
    th_dtype dtype;
    const th_product *product;
    int64_t items, group; /* a task is a group of items */
    char *workspace;      /* (threads, worker) bytes */
    size_t worker;
} item_team;

static void run_group(void *shared, int64_t index, int worker)
{
    const item_team *team = shared;
    const int64_t end = th_item_min((index + 1) * team->group, team->items);
    for (int64_t i = index * team->group; i < end; i++) {
        const th_product item = item_at(team->product, th_item_size(team->dtype), i);
        run_item(team->machine, team->dtype, &item, 1, team->workspace + (size_t)worker * team->worker);
    }
}

void th_product_residual(const th_kernels *kernels, int64_t size, const th_product *p, int64_t row, int64_t rows,
                         int64_t column, int64_t columns)
{
    const char *bias = p->bias ? (const char *)p->bias + column * size : NULL;
    for (int64_t i = row; i < row + rows; i++) {
        void *c = (char *)p->c + (i * p->c_row + column) * size;
        void *residual = (char *)p->residual + (i * p->residual_row + column) * size;
        if (bias)
            kernels->add(columns, (void *[]){c, residual, (void *)bias}, NULL);
        else
            kernels->copy(columns, (void *[]){c, residual}, NULL);
    }
}

/* C of every item = its bias, or 0. */
static void fill_items(const th_machine *machine, th_dtype dtype, const th_product *p)
{
    const void *from = p->bias ? p->bias : th_zero(th_item_size(dtype));
    const int64_t items = count_items(p);
    for (int64_t i = 0; i < items; i++) {
        const th_product item = item_at(p, th_item_size(dtype), i);
        th_kernels_for(machine, dtype)->product_copy(p->m, p->n, from, 0, p->bias ? 1 : 0, item.c, p->c_row, p->c_col);
    }
}

/* C = residual + bias, to which the product is then added. */
static th_product begin_with_residual(const th_machine *machine, th_dtype dtype, const th_product *given)
{
    th_product_residual(th_kernels_for(machine, dtype), th_item_size(dtype), given, 0, given->m, 0, given->n);
    th_product rest = *given;
    rest.add = true;
    rest.bias = rest.residual = NULL;
    return rest;
}

void th_product_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads, void *workspace)
{
    bool fill;
    th_product p = simplify(product, &fill);
    const int64_t items = count_items(&p);
    if (items == 0)
        return;
    if (p.residual && (p.k == 0 || is_for_openblas(machine, dtype, &p))) {
        p = begin_with_residual(machine, dtype, &p);
        if (p.k == 0)
            return;
    }
    if (fill || (p.k == 0 && !product->add))
        fill_items(machine, dtype, product);
    if (p.k == 0)
        return;
    threads = threads < 1 ? 1 : threads;
    if (team_over_items(&p, items, threads)) {
        item_team team = {.machine = machine,
                          .dtype = dtype,
                          .product = &p,
                          .items = items,
                          .group = 1 + (int64_t)(TH_ITEM_TASK / (th_item_work(&p) + 1)),
                          .workspace = workspace,
                          .worker = item_workspace(machine, dtype, &p, 1)};
        th_parallel(threads, th_item_parts(items, team.group), run_group, &team);
        return;
    }
    for (int64_t i = 0; i < items; i++) {
        const th_product item = item_at(&p, th_item_size(dtype), i);
        run_item(machine, dtype, &item, threads, workspace);
    }
}
