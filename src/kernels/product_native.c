/* The drivers of our own matrix products: how C is cut into tasks, which operands are packed and where the packed ones
 * lie. None of these choices can change a bit of the result: every element is the same sequence of operations in all of
 * them.
 *
 * A task computes one block of C over all of k, or over one slab of it. It packs its own rows of A, or finds them
 * packed by the team where several tasks share them. B is taken
 *  - in place, where its rows are contiguous and it is small enough to stay in a cache;
 *  - in place, transposed in registers, where C has very few rows;
 *  - by the task, a few panels at a time, where only one block of rows needs them;
 *  - otherwise from a slab that the team has packed together before. */
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/product_block.h"
#include "kernels/product_item.h"

enum {
    ROW_BLOCK = 96, /* most rows of a task: with TH_PRODUCT_BLOCK steps of A they take a fifth of a 1 MB L2 cache */
    SHORT_ROW_BLOCK = 24,
    ROW_UNIT = 12,              /* whole tiles in every instruction set */
    SLAB_BYTES = 6 << 20,       /* of packed B: stays in an L3 cache */
    IN_PLACE_BYTES = 512 << 10, /* of B: stays in an L2 cache */
    IN_PLACE_ROWS = 12,         /* of C, up to which B is read once anyway */
    OWN_PANELS = 4,             /* of B, packed by a task at a time */
    PACK_ROWS_PANELS = 6,       /* panels of B up to which contiguous rows of A are better left where they are, */
    PACK_COLUMNS_PANELS = 2,    /* and contiguous columns */
    PANEL_PAD_BYTES = 64, /* keeps panels from lying a power of two apart, and takes what packing writes too far */
    BUFFER_COLUMNS = 512, /* most columns of a task that writes C through a buffer */
    TASKS_PER_THREAD = 4  /* each packs its rows of A, so that cutting columns costs */
};

typedef struct plan {
    const th_kernels *kernels;
    th_product_kernels multiply;
    th_product item;
    int64_t size; /* bytes of an element */
    int vector_bytes;
    int64_t tile_columns;
    bool rounded; /* to bfloat16, in packing: nothing is taken in place */
    bool pack_a, a_slab, b_in_place, b_few_rows, b_slab, c_buffer;
    int64_t row_block, column_block;
    int64_t slab_columns, slab_depth; /* what of C's columns and of k is worked on between two packings */
    size_t panel_bytes;               /* from one packed panel of B to the next, for TH_PRODUCT_BLOCK steps of k */
    size_t slab_bytes, a_slab_bytes;
    size_t a_bytes, b_bytes, c_bytes; /* of a task: one block of A (in the slab or its own), panels of B, buffered C */
    size_t worker_bytes;
} plan;

static int64_t round_up(int64_t value, int64_t multiple)
{
    return th_item_parts(value, multiple) * multiple;
}

/* Elements that `steps` steps of k take in a packed panel, for each row of A or column of B. */
static int64_t packed_steps(const plan *p, int64_t steps)
{
    return th_item_parts(steps, p->multiply.steps);
}

/* How many tasks the work is for the team; none of them too small. */
static int64_t tasks_wanted(const th_product *item, int threads)
{
    const int64_t most = threads > 1 ? (int64_t)TASKS_PER_THREAD * threads : 1;
    const double work = th_item_work(item);
    return work < (double)TH_ITEM_TASK * (double)most ? (int64_t)(work / TH_ITEM_TASK) + 1 : most;
}

/* A block of B that stays in an L2 cache. */
static bool b_is_small(const plan *p)
{
    return th_item_min(p->item.k, TH_PRODUCT_BLOCK) * p->item.n * p->size <= IN_PLACE_BYTES;
}

/* Blocks of rows of about the same size; short ones where there would be too few for the team, and B is near. */
static void plan_rows(plan *p, int64_t tasks)
{
    const int64_t long_blocks = th_item_parts(p->item.m, ROW_BLOCK);
    const int64_t short_blocks = b_is_small(p) ? th_item_min(tasks, th_item_parts(p->item.m, SHORT_ROW_BLOCK)) : 1;
    p->row_block =
        round_up(th_item_parts(p->item.m, short_blocks > long_blocks ? short_blocks : long_blocks), ROW_UNIT);
}

/* B: in place, by each task, or in slabs. */
static void plan_b(plan *p)
{
    const th_product *item = &p->item;
    const int64_t steps = th_item_min(item->k, TH_PRODUCT_BLOCK);
    p->panel_bytes = (size_t)(packed_steps(p, steps) * p->tile_columns * p->size) + PANEL_PAD_BYTES;
    p->b_in_place = !p->rounded && item->b_col == 1 && (item->m <= IN_PLACE_ROWS || b_is_small(p));
    p->b_few_rows = !p->rounded && !p->b_in_place && item->b_row == 1 && item->m <= TH_FEW_ROWS;
    p->b_slab = !p->b_in_place && item->m > p->row_block;
    p->slab_columns = item->n;
    p->slab_depth = item->k;
    p->slab_bytes = 0;
    p->b_bytes = p->b_few_rows ? 0 : (p->b_in_place ? 1 : OWN_PANELS) * p->panel_bytes;
    if (p->b_slab) {
        const int64_t panels =
            th_item_min(th_item_parts(item->n, p->tile_columns), SLAB_BYTES / (int64_t)p->panel_bytes);
        const int64_t blocks = SLAB_BYTES / (int64_t)p->panel_bytes / panels;
        p->slab_columns = th_item_min(item->n, panels * p->tile_columns);
        p->slab_depth = th_item_min(item->k, blocks * TH_PRODUCT_BLOCK);
        p->slab_bytes = (size_t)(panels * th_item_parts(p->slab_depth, TH_PRODUCT_BLOCK)) * p->panel_bytes;
        p->b_bytes = 0;
    }
}

/* Blocks of columns, where those of rows are too few for the team: each packs A again. */
static void plan_columns(plan *p, int64_t tasks)
{
    const int64_t columns = th_item_parts(tasks, th_item_parts(p->item.m, p->row_block));
    p->column_block =
        columns == 1 ? p->slab_columns : round_up(th_item_parts(p->slab_columns, columns), 2 * p->tile_columns);
    if (p->c_buffer)
        p->column_block = th_item_min(p->column_block, BUFFER_COLUMNS);
}

/* How products of this type are multiplied. */
static th_product_kernels choose_kernels(const th_machine *machine, th_dtype dtype, bool rounded)
{
    const th_kernels *kernels = th_kernels_for(machine, dtype);
    return rounded ? *machine->bfloat16
                   : (th_product_kernels){1, kernels->product_pack_a, kernels->product_pack_b, kernels->product_block};
}

static bool packing_a_pays(const plan *p)
{
    const int64_t panels = th_item_parts(p->column_block, p->tile_columns);
    return p->item.a_col == 1 ? panels > PACK_ROWS_PANELS : p->item.a_row == 1 ? panels > PACK_COLUMNS_PANELS : true;
}

static int64_t row_blocks(const plan *p)
{
    return th_item_parts(p->item.m, p->row_block);
}

/* A packed by the team, together with B, where more tasks than one would pack the same of it. */
static void plan_a(plan *p)
{
    const int64_t steps = th_item_min(p->item.k, TH_PRODUCT_BLOCK);
    p->pack_a = p->rounded || (p->item.m > 1 && packing_a_pays(p));
    p->a_bytes =
        p->pack_a ? th_item_aligned((size_t)(p->row_block * packed_steps(p, steps) * p->size) + PANEL_PAD_BYTES) : 0;
    const int64_t a_block = row_blocks(p) * (int64_t)p->a_bytes;
    p->a_slab = p->pack_a && p->b_slab && p->column_block < p->slab_columns && a_block <= SLAB_BYTES;
    p->a_slab_bytes = 0;
    if (p->a_slab) {
        p->slab_depth = th_item_min(p->slab_depth, SLAB_BYTES / a_block * TH_PRODUCT_BLOCK);
        p->a_slab_bytes = (size_t)(th_item_parts(p->slab_depth, TH_PRODUCT_BLOCK) * a_block);
    }
}

static plan make_plan(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    plan p = {.kernels = th_kernels_for(machine, dtype), .item = *item, .size = th_item_size(dtype)};
    p.rounded = th_item_is_rounded(machine, dtype, item);
    p.multiply = choose_kernels(machine, dtype, p.rounded);
    p.vector_bytes = 16 << machine->isa;
    p.tile_columns = TH_TILE_COLUMNS(p.vector_bytes, p.size);
    p.c_buffer = item->c_col != 1;
    const int64_t tasks = tasks_wanted(item, threads);
    plan_rows(&p, tasks);
    plan_b(&p);
    plan_columns(&p, tasks);
    plan_a(&p);
    p.c_bytes = p.c_buffer ? (size_t)(p.row_block * p.column_block * p.size) : 0;
    p.worker_bytes = (p.a_slab ? 0 : p.a_bytes) + th_item_aligned(p.b_bytes) + th_item_aligned(p.c_bytes);
    return p;
}

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    const plan p = make_plan(machine, dtype, item, threads);
    return th_item_aligned(p.slab_bytes) + p.a_slab_bytes + (size_t)threads * p.worker_bytes;
}

/* One visit: all of C's rows, some of its columns, some of k. */
typedef struct visit {
    const plan *plan;
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

static const char *element(const plan *p, const void *base, int64_t offset)
{
    return (const char *)base + offset * p->size;
}

static char *c_element(const plan *p, int64_t row, int64_t column)
{
    return (char *)p->item.c + (row * p->item.c_row + column * p->item.c_col) * p->size;
}

/* Where the slab of A has one block of rows over one block of k. */
static char *a_slab_at(const visit *v, int64_t row_block, int64_t block)
{
    return v->a_slab + (block * row_blocks(v->plan) + row_block) * (int64_t)v->plan->a_bytes;
}

static void pack_a_task(const visit *v, int64_t index)
{
    const plan *p = v->plan;
    const th_product *item = &p->item;
    const int64_t blocks = row_blocks(p), block = index / blocks;
    const int64_t row = index % blocks * p->row_block, step = block * TH_PRODUCT_BLOCK;
    p->multiply.pack_a(th_item_min(item->m - row, p->row_block), th_item_min(v->steps - step, TH_PRODUCT_BLOCK),
                       element(p, item->a, row * item->a_row + (v->step + step) * item->a_col), item->a_row,
                       item->a_col, a_slab_at(v, index % blocks, block));
}

/* A few panels of one block of k. */
static void pack_b_task(const visit *v, int64_t index)
{
    const plan *p = v->plan;
    const int64_t group = OWN_PANELS * p->tile_columns, groups = th_item_parts(v->columns, group);
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
    return th_item_parts(v->columns, OWN_PANELS * v->plan->tile_columns) * th_item_parts(v->steps, TH_PRODUCT_BLOCK);
}

static int64_t a_tasks(const visit *v)
{
    return v->plan->a_slab ? row_blocks(v->plan) * th_item_parts(v->steps, TH_PRODUCT_BLOCK) : 0;
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
    const plan *p = v->plan;
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
    block->a_panel = tile_rows * packed_steps(p, block->k);
}

/* What the first visit adds to: C, the bias, or nothing; later ones always add to C. */
static void take_init(const plan *p, const task *t, int64_t step, th_product_block *block)
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
    const plan *p = v->plan;
    const int64_t panels = th_item_parts(v->columns, p->tile_columns);
    const int64_t panel = (step - v->step) / TH_PRODUCT_BLOCK * panels + (t->column - v->column) / p->tile_columns;
    block->b = v->slab + panel * (int64_t)p->panel_bytes;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->tile_columns;
    p->multiply.block(block);
}

/* From B where it is. Columns that do not fill registers are packed, because beyond them there may be no memory. */
static void multiply_in_place(const plan *p, const task *t, int64_t step, th_product_block *block)
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
static void multiply_few_rows(const plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *item = &p->item;
    block->b = element(p, item->b, step + t->column * item->b_col);
    block->b_panel = item->b_col;
    p->kernels->product_few_rows(block);
}

/* From panels that this task packs, a few at a time. */
static void multiply_own(const plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *item = &p->item;
    const int64_t group = OWN_PANELS * p->tile_columns, columns = block->n;
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
    const plan *p = v->plan;
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
    const plan *p = v->plan;
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
    const plan p = make_plan(machine, dtype, item, threads);
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
            th_parallel(team, row_blocks(&p) * v.column_blocks, block_task, &v);
        }
    }
}
