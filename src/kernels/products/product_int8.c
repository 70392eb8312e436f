/* Products in the precision int8. Each task rounds its rows of A, and multiplies them by some columns of the stored B,
 * which it reads in place. A worker rounds the same rows only once for consecutive tasks. */
#include "kernels/products/product_int8.h"

#include "kernels/machine/parallel.h"
#include "kernels/products/product_backends.h"
#include "kernels/sizes.h"

enum {
    TASKS_PER_THREAD = 4,
    COLUMN_UNIT = 32 /* whole panels in every instruction set */
};

typedef struct int8_plan {
    const th_kernels *kernels;
    const th_product *product;
    int64_t row_block, column_block; /* of a task */
    int64_t column_blocks;
    bool wide;           /* blocks of 256 numbers */
    size_t worker_bytes; /* an int8_rows and the rounded rows */
    char *workspace;
} int8_plan;

/* Which rows the memory of a worker has. */
typedef struct int8_rows {
    _Alignas(64) int64_t row; /* the first; -1: none */
} int8_rows;

static int8_plan plan_int8(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    const int64_t row_block = th_smaller(product->m, TH_INT8_MOST_ROWS),
                  row_blocks = th_ceil_div(product->m, row_block);
    const double work = th_product_work(product) / (double)TH_PRODUCT_TASK;
    const int64_t max = threads > 1 ? (int64_t)TASKS_PER_THREAD * threads : 1;
    const int64_t tasks = work < (double)max ? (int64_t)work + 1 : max;
    const int64_t column_blocks = th_smaller(th_ceil_div(tasks, row_blocks), product->n);
    const int64_t column_block = th_ceil_div(th_ceil_div(product->n, column_blocks), COLUMN_UNIT) * COLUMN_UNIT;
    const bool wide = th_dtype_numbers(product->b_storage) == TH_INT8_WIDE;
    const size_t row_bytes = wide ? (size_t)(product->k / TH_INT8_WIDE) * sizeof(th_int8_wide)
                                  : (size_t)(product->k / TH_BLOCK_NUMBERS) * sizeof(th_int8_block);
    return (int8_plan){.kernels = th_kernels_for(machine, dtype),
                       .product = product,
                       .row_block = row_block,
                       .column_block = column_block,
                       .column_blocks = th_ceil_div(product->n, column_block),
                       .wide = wide,
                       .worker_bytes = sizeof(int8_rows) + th_aligned((size_t)row_block * row_bytes)};
}

size_t th_product_int8_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    return (size_t)threads * plan_int8(machine, dtype, product, threads).worker_bytes;
}

static int8_rows *int8_rows_of(const int8_plan *plan, int worker)
{
    return (int8_rows *)(void *)(plan->workspace + (size_t)worker * plan->worker_bytes);
}

static void int8_task(void *shared, int64_t index, int worker)
{
    const int8_plan *plan = shared;
    const th_product *p = plan->product;
    const int64_t row = index / plan->column_blocks * plan->row_block;
    const int64_t column = index % plan->column_blocks * plan->column_block;
    const int64_t rows = th_smaller(p->m - row, plan->row_block);
    const int64_t columns = th_smaller(p->n - column, plan->column_block);
    const float *from = (const float *)p->a + row * p->a_row;
    int8_rows *rounded = int8_rows_of(plan, worker);
    void *a = rounded + 1;
    if (rounded->row != row && plan->wide)
        plan->kernels->product_int8_round_wide(rows, p->k, from, p->a_row, p->a_col, a);
    else if (rounded->row != row)
        plan->kernels->product_int8_round(rows, p->k, from, p->a_row, p->a_col, a);
    rounded->row = row;
    const int64_t b_bytes = p->b_col / th_dtype_numbers(p->b_storage) * (int64_t)th_dtype_size(p->b_storage);
    th_int8_product block = {.m = rows,
                             .n = columns,
                             .k = p->k,
                             .a = a,
                             .b = (const char *)p->b + column * b_bytes,
                             .b_bytes = b_bytes,
                             .c = (float *)p->c + row * p->c_row + column * p->c_col,
                             .c_row = p->c_row,
                             .c_col = p->c_col};
    if (p->residual)
        th_product_residual(plan->kernels, (int64_t)sizeof(float), p, row, rows, column, columns);
    if (p->add || p->residual) {
        block.init = block.c;
        block.init_row = p->c_row;
        block.init_col = p->c_col;
    } else if (p->bias) {
        block.init = (const float *)p->bias + column;
        block.init_col = 1;
    }
    if (plan->wide)
        plan->kernels->product_int8_wide((int)p->b_storage, &block);
    else
        plan->kernels->product_int8((int)p->b_storage, &block);
}

void th_product_int8_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                         void *workspace)
{
    int8_plan plan = plan_int8(machine, dtype, product, threads);
    plan.workspace = workspace;
    for (int worker = 0; worker < threads; worker++)
        int8_rows_of(&plan, worker)->row = -1;
    const int team = th_product_work(product) < (double)TH_PRODUCT_SERIAL ? 1 : threads;
    th_parallel(team, th_ceil_div(product->m, plan.row_block) * plan.column_blocks, int8_task, &plan);
}
