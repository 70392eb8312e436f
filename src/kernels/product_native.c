/* Runs products of our own as product_plan.h has planned them. */
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/product_plan.h"

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    const product_plan p = th_product_plan(machine, dtype, item, threads);
    return th_item_aligned(p.slab_bytes) + p.a_slab_bytes + (size_t)threads * p.worker_bytes;
}

/* One visit: all of C's rows, some of its columns, some of k. */
typedef struct visit {
    const product_plan *plan;
    int64_t column, columns; /* of C */
    int64_t step, steps;     /* of k */
    int64_t column_blocks;
    char *slab;    /* packed B: [TH_PRODUCT_BLOCK steps][panel] */
    char *a_slab;  /* packed A: [TH_PRODUCT_BLOCK steps][row block] */
    char *workers; /* (threads, worker_bytes) */
} visit;

/* What a task keeps while it works on its block of C. */
typedef struct task {
    int64_t row, rows, column, columns; /* of C */
    void *a, *b;                        /* scratch for packed operands */
    char *c;                            /* (rows, columns): C itself or its buffer */
    int64_t c_row;
} task;

static const char *element(const product_plan *p, const void *base, int64_t offset)
{
    return (const char *)base + offset * p->size;
}

static char *c_element(const product_plan *p, int64_t row, int64_t column)
{
    return (char *)p->item.c + (row * p->item.c_row + column * p->item.c_col) * p->size;
}

/* Where the slab of A has one block of rows over one block of k. */
static char *a_slab_at(const visit *v, int64_t row_block, int64_t block)
{
    return v->a_slab + (block * product_plan_row_blocks(v->plan) + row_block) * (int64_t)v->plan->a_bytes;
}

static void pack_a_task(const visit *v, int64_t index)
{
    const product_plan *p = v->plan;
    const th_product *item = &p->item;
    const int64_t blocks = product_plan_row_blocks(p), block = index / blocks;
    const int64_t row = index % blocks * p->row_block, step = block * TH_PRODUCT_BLOCK;
    p->multiply.pack_a(th_item_min(item->m - row, p->row_block), th_item_min(v->steps - step, TH_PRODUCT_BLOCK),
                       element(p, item->a, row * item->a_row + (v->step + step) * item->a_col), item->a_row,
                       item->a_col, a_slab_at(v, index % blocks, block));
}

/* A few panels of one block of k. */
static void pack_b_task(const visit *v, int64_t index)
{
    const product_plan *p = v->plan;
    const int64_t group = p->own_columns, groups = th_item_parts(v->columns, group);
    const int64_t block = index / groups, column = index % groups * group;
    const int64_t step = block * TH_PRODUCT_BLOCK, panels = th_item_parts(v->columns, p->tile_columns);
    const int64_t panel = block * panels + column / p->tile_columns;
    p->multiply.pack_b(th_item_min(v->steps - step, TH_PRODUCT_BLOCK), th_item_min(v->columns - column, group),
                       element(p, p->item.b, (v->step + step) * p->item.b_row + (v->column + column) * p->item.b_col),
                       p->item.b_row, p->item.b_col, v->slab + panel * (int64_t)p->panel_bytes,
                       (int64_t)p->panel_bytes / p->size);
}

static int64_t b_tasks(const visit *v)
{
    return th_item_parts(v->columns, v->plan->own_columns) * th_item_parts(v->steps, TH_PRODUCT_BLOCK);
}

static int64_t a_tasks(const visit *v)
{
    return v->plan->a_slab ? product_plan_row_blocks(v->plan) * th_item_parts(v->steps, TH_PRODUCT_BLOCK) : 0;
}

static void pack_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const visit *v = shared;
    const int64_t a = a_tasks(v);
    if (index < a)
        pack_a_task(v, index);
    else
        pack_b_task(v, index - a);
}

/* A of one block: packed, or where it is. */
static void take_a(const visit *v, const task *t, int64_t step, th_product_block *block)
{
    const product_plan *p = v->plan;
    const th_product *item = &p->item;
    const int64_t tile_rows = TH_TILE_ROWS(p->vector_bytes);
    block->a = element(p, item->a, t->row * item->a_row + step * item->a_col);
    block->a_row = item->a_row;
    block->a_col = item->a_col;
    block->a_panel = tile_rows * item->a_row;
    if (!p->pack_a)
        return;
    if (p->a_slab) {
        block->a = a_slab_at(v, t->row / p->row_block, (step - v->step) / TH_PRODUCT_BLOCK);
    } else {
        p->multiply.pack_a(block->m, block->k, block->a, item->a_row, item->a_col, t->a);
        block->a = t->a;
    }
    block->a_row = 1;
    block->a_col = tile_rows;
    block->a_panel = tile_rows * product_plan_steps(p, block->k);
}

/* What the first visit adds to: C, the bias, or nothing; later ones always add to C. */
static void take_init(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    if (step > 0 || p->item.add || p->item.residual) {
        block->init = t->c;
        block->init_row = t->c_row;
    } else if (p->item.bias) {
        block->init = element(p, p->item.bias, t->column);
        block->init_row = 0;
    }
}

/* The same block, from panels of the slab. */
static void multiply_slab(const visit *v, const task *t, int64_t step, th_product_block *block)
{
    const product_plan *p = v->plan;
    const int64_t panels = th_item_parts(v->columns, p->tile_columns);
    const int64_t panel = (step - v->step) / TH_PRODUCT_BLOCK * panels + (t->column - v->column) / p->tile_columns;
    block->b = v->slab + panel * (int64_t)p->panel_bytes;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->tile_columns;
    p->multiply.block(block);
}

/* From B where it is. Columns that do not fill registers are packed, because beyond them there may be no memory. */
static void multiply_in_place(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *item = &p->item;
    const int64_t rest = block->n % p->tile_columns, full = block->n - rest;
    block->b = element(p, item->b, step * item->b_row + t->column);
    block->b_panel = p->tile_columns;
    block->b_row = item->b_row;
    if (rest != 0 && rest != p->tile_columns / 2) {
        p->multiply.pack_b(block->k, rest, element(p, block->b, full), item->b_row, 1, t->b, 0);
        block->b_rest = t->b;
    }
    p->multiply.block(block);
}

/* A few rows, from B where it is, transposed. */
static void multiply_few_rows(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *item = &p->item;
    block->b = element(p, item->b, step + t->column * item->b_col);
    block->b_panel = item->b_col;
    p->kernels->product_few_rows(block);
}

/* From panels that this task packs, a few at a time. */
static void multiply_own(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *item = &p->item;
    const int64_t group = p->own_columns, columns = block->n;
    const char *init = block->init;
    block->b = t->b;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->tile_columns;
    for (int64_t column = 0; column < columns; column += group) {
        block->n = th_item_min(columns - column, group);
        block->c = t->c + column * p->size;
        block->init = init ? init + column * p->size : NULL;
        p->multiply.pack_b(block->k, block->n,
                           element(p, item->b, step * item->b_row + (t->column + column) * item->b_col), item->b_row,
                           item->b_col, t->b, block->b_panel);
        p->multiply.block(block);
    }
}

static void multiply_block(const visit *v, const task *t)
{
    const product_plan *p = v->plan;
    for (int64_t step = v->step; step < v->step + v->steps; step += TH_PRODUCT_BLOCK) {
        th_product_block block = {.m = t->rows,
                                  .n = t->columns,
                                  .k = th_item_min(v->step + v->steps - step, TH_PRODUCT_BLOCK),
                                  .c = t->c,
                                  .c_row = t->c_row};
        take_a(v, t, step, &block);
        take_init(p, t, step, &block);
        if (p->b_slab)
            multiply_slab(v, t, step, &block);
        else if (p->b_few_rows)
            multiply_few_rows(p, t, step, &block);
        else if (p->b_in_place)
            multiply_in_place(p, t, step, &block);
        else
            multiply_own(p, t, step, &block);
    }
}

static void block_task(void *shared, int64_t index, int worker)
{
    const visit *v = shared;
    const product_plan *p = v->plan;
    const th_product *item = &p->item;
    char *scratch = v->workers + (size_t)worker * p->worker_bytes;
    const int64_t row = index / v->column_blocks * p->row_block, column = index % v->column_blocks * p->column_block;
    task t = {.row = row,
              .rows = th_item_min(item->m - row, p->row_block),
              .column = v->column + column,
              .columns = th_item_min(v->columns - column, p->column_block),
              .c = scratch,
              .a = scratch + th_item_aligned(p->c_bytes) + th_item_aligned(p->b_bytes),
              .b = scratch + th_item_aligned(p->c_bytes)};
    char *c = c_element(p, t.row, t.column);
    if (item->residual && v->step == 0)
        th_product_residual(p->kernels, p->size, item, t.row, t.rows, t.column, t.columns);
    if (!p->c_buffer) {
        t.c = c;
        t.c_row = item->c_row;
        multiply_block(v, &t);
        return;
    }
    t.c_row = t.columns;
    if (v->step > 0 || item->add)
        p->kernels->product_copy(t.rows, t.columns, c, item->c_row, item->c_col, t.c, t.c_row, 1);
    multiply_block(v, &t);
    p->kernels->product_copy(t.rows, t.columns, t.c, t.c_row, 1, c, item->c_row, item->c_col);
}

void th_product_native_run(const th_machine *machine, th_dtype dtype, const th_product *item, int threads,
                           void *workspace)
{
    const product_plan p = th_product_plan(machine, dtype, item, threads);
    const int team = th_item_work(item) < TH_ITEM_SERIAL ? 1 : threads;
    visit v = {.plan = &p, .slab = workspace};
    v.a_slab = v.slab + th_item_aligned(p.slab_bytes);
    v.workers = v.a_slab + p.a_slab_bytes;
    for (v.column = 0; v.column < item->n; v.column += p.slab_columns) {
        v.columns = th_item_min(item->n - v.column, p.slab_columns);
        v.column_blocks = th_item_parts(v.columns, p.column_block);
        for (v.step = 0; v.step < item->k; v.step += p.slab_depth) {
            v.steps = th_item_min(item->k - v.step, p.slab_depth);
            if (p.b_slab)
                th_parallel(team, a_tasks(&v) + b_tasks(&v), pack_task, &v);
            th_parallel(team, product_plan_row_blocks(&p) * v.column_blocks, block_task, &v);
        }
    }
}
