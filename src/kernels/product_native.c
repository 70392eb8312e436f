/* Products by our own micro-kernel: how one is cut into blocks of C, which operands are packed, by whom, and where they
 * lie then (the plan), and running that. No choice of the plan can change a bit of the result: every element is the
 * same sequence of operations in all of them.
 *
 * As in GotoBLAS (Goto & van de Geijn 2008) packed operands lie in panels as wide as a tile of the micro-kernel. A task
 * computes one block of C over all of k, or over the steps of one pass. It packs its own rows of A, or finds them
 * packed by the team where several tasks share them. B is taken
 *  - in place, where its rows are contiguous and it is small enough to stay in a cache;
 *  - in place, transposed in registers, where C has very few rows;
 *  - by the task, a few panels at a time, where only one block of rows needs them;
 *  - otherwise from a block that the team has packed together before, one for each pass over C. */
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/product_backends.h"
#include "kernels/product_block.h"

/* -- the plan -- */

enum {
    ROW_BLOCK = 96, /* most rows of a task: with TH_PRODUCT_BLOCK steps of A they take a fifth of a 1 MB L2 cache */
    SHORT_ROW_BLOCK = 24,
    ROW_UNIT = 12,              /* whole tiles in every instruction set */
    SHARED_BYTES = 6 << 20,     /* of what the team packs for a pass: stays in an L3 cache */
    IN_PLACE_BYTES = 512 << 10, /* of B: stays in an L2 cache */
    IN_PLACE_ROWS = 12,         /* of C, up to which B is read once anyway */
    OWN_PANELS = 4,             /* of B, packed by a task at a time */
    PACK_ROWS_PANELS = 6,       /* panels of B up to which contiguous rows of A are better left where they are, */
    PACK_COLUMNS_PANELS = 2,    /* and contiguous columns */
    PANEL_PAD_BYTES = 64, /* keeps panels from lying a power of two apart, and takes what packing writes too far */
    BUFFER_COLUMNS = 512, /* most columns of a task that writes C through a buffer */
    TASKS_PER_THREAD = 4  /* each packs its rows of A, so that cutting columns costs */
};

typedef struct product_plan {
    const th_kernels *kernels;
    th_product_kernels multiply;
    th_product product;
    int64_t size; /* bytes of an element */
    int vector_bytes;
    int64_t tile_columns;
    bool rounded; /* to bfloat16, in packing: nothing is taken in place */
    bool pack_a, a_shared, b_in_place, b_few_rows, b_shared, c_buffer; /* shared: packed by the team for all tasks */
    int64_t row_block, column_block;                                   /* of a task */
    int64_t own_columns;                                               /* of B, packed by a task at a time */
    int64_t pass_columns, pass_steps;                                  /* of C, and of k, that one pass works on */
    size_t panel_bytes;                    /* from one packed panel of B to the next, for TH_PRODUCT_BLOCK steps of k */
    size_t b_shared_bytes, a_shared_bytes; /* of what the team packs for a pass */
    size_t a_bytes, b_bytes, c_bytes;      /* of a task: one block of A (shared or its own), panels of B, buffered C */
    size_t worker_bytes;
} product_plan;

/* Elements that `steps` steps of k take in a packed panel, for each row of A or column of B. */
static int64_t elements_of(const product_plan *p, int64_t steps)
{
    return th_parts(steps, p->multiply.steps);
}

static int64_t row_blocks(const product_plan *p)
{
    return th_parts(p->product.m, p->row_block);
}

static int64_t round_up(int64_t value, int64_t multiple)
{
    return th_parts(value, multiple) * multiple;
}

/* How many tasks the work is for the team; none of them too small. */
static int64_t tasks_wanted(const th_product *product, int threads)
{
    const int64_t most = threads > 1 ? (int64_t)TASKS_PER_THREAD * threads : 1;
    const double work = th_product_work(product);
    return work < (double)TH_PRODUCT_TASK * (double)most ? (int64_t)(work / TH_PRODUCT_TASK) + 1 : most;
}

/* A block of B that stays in an L2 cache. */
static bool b_is_small(const product_plan *p)
{
    return th_smaller(p->product.k, TH_PRODUCT_BLOCK) * p->product.n * p->size <= IN_PLACE_BYTES;
}

/* Blocks of rows of about the same size; short ones where there would be too few for the team, and B is near. */
static void plan_rows(product_plan *p, int64_t tasks)
{
    const int64_t long_blocks = th_parts(p->product.m, ROW_BLOCK);
    const int64_t short_blocks = b_is_small(p) ? th_smaller(tasks, th_parts(p->product.m, SHORT_ROW_BLOCK)) : 1;
    p->row_block = round_up(th_parts(p->product.m, th_larger(short_blocks, long_blocks)), ROW_UNIT);
}

/* B: in place, packed by each task, or by the team. */
static void plan_b(product_plan *p)
{
    const th_product *product = &p->product;
    const int64_t steps = th_smaller(product->k, TH_PRODUCT_BLOCK);
    p->panel_bytes = (size_t)(elements_of(p, steps) * p->tile_columns * p->size) + PANEL_PAD_BYTES;
    p->b_in_place = !p->rounded && product->b_col == 1 && (product->m <= IN_PLACE_ROWS || b_is_small(p));
    p->b_few_rows = !p->rounded && !p->b_in_place && product->b_row == 1 && product->m <= TH_FEW_ROWS;
    p->b_shared = !p->b_in_place && product->m > p->row_block;
    p->pass_columns = product->n;
    p->pass_steps = product->k;
    p->b_shared_bytes = 0;
    p->b_bytes = p->b_few_rows ? 0 : (p->b_in_place ? 1 : OWN_PANELS) * p->panel_bytes;
    if (p->b_shared) {
        const int64_t panels =
            th_smaller(th_parts(product->n, p->tile_columns), SHARED_BYTES / (int64_t)p->panel_bytes);
        const int64_t blocks = SHARED_BYTES / (int64_t)p->panel_bytes / panels;
        p->pass_columns = th_smaller(product->n, panels * p->tile_columns);
        p->pass_steps = th_smaller(product->k, blocks * TH_PRODUCT_BLOCK);
        p->b_shared_bytes = (size_t)(panels * th_parts(p->pass_steps, TH_PRODUCT_BLOCK)) * p->panel_bytes;
        p->b_bytes = 0;
    }
}

/* Blocks of columns, where those of rows are too few for the team: each packs A again. */
static void plan_columns(product_plan *p, int64_t tasks)
{
    const int64_t columns = th_parts(tasks, th_parts(p->product.m, p->row_block));
    p->column_block =
        columns == 1 ? p->pass_columns : round_up(th_parts(p->pass_columns, columns), 2 * p->tile_columns);
    if (p->c_buffer)
        p->column_block = th_smaller(p->column_block, BUFFER_COLUMNS);
}

/* How products of this type are multiplied. */
static th_product_kernels choose_kernels(const th_machine *machine, th_dtype dtype, bool rounded)
{
    const th_kernels *kernels = th_kernels_for(machine, dtype);
    return rounded ? *machine->bfloat16
                   : (th_product_kernels){1, kernels->product_pack_a, kernels->product_pack_b, kernels->product_block};
}

static bool packing_a_pays(const product_plan *p)
{
    const int64_t panels = th_parts(p->column_block, p->tile_columns);
    return p->product.a_col == 1   ? panels > PACK_ROWS_PANELS
           : p->product.a_row == 1 ? panels > PACK_COLUMNS_PANELS
                                   : true;
}

/* A packed by the team, together with B, where more tasks than one would pack the same of it. */
static void plan_a(product_plan *p)
{
    const int64_t steps = th_smaller(p->product.k, TH_PRODUCT_BLOCK);
    p->pack_a = p->rounded || (p->product.m > 1 && packing_a_pays(p));
    p->a_bytes = p->pack_a ? th_aligned((size_t)(p->row_block * elements_of(p, steps) * p->size) + PANEL_PAD_BYTES) : 0;
    const int64_t a_block = row_blocks(p) * (int64_t)p->a_bytes;
    p->a_shared = p->pack_a && p->b_shared && p->column_block < p->pass_columns && a_block <= SHARED_BYTES;
    p->a_shared_bytes = 0;
    if (p->a_shared) {
        p->pass_steps = th_smaller(p->pass_steps, SHARED_BYTES / a_block * TH_PRODUCT_BLOCK);
        p->a_shared_bytes = (size_t)(th_parts(p->pass_steps, TH_PRODUCT_BLOCK) * a_block);
    }
}

static product_plan make_plan(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    product_plan p = {.kernels = th_kernels_for(machine, dtype), .product = *product, .size = th_element_size(dtype)};
    p.rounded = th_product_is_rounded(machine, dtype, product);
    p.multiply = choose_kernels(machine, dtype, p.rounded);
    p.vector_bytes = th_vector_bytes(machine);
    p.tile_columns = TH_TILE_COLUMNS(p.vector_bytes, p.size);
    p.own_columns = OWN_PANELS * p.tile_columns;
    p.c_buffer = product->c_col != 1;
    const int64_t tasks = tasks_wanted(product, threads);
    plan_rows(&p, tasks);
    plan_b(&p);
    plan_columns(&p, tasks);
    plan_a(&p);
    p.c_bytes = p.c_buffer ? (size_t)(p.row_block * p.column_block * p.size) : 0;
    p.worker_bytes = (p.a_shared ? 0 : p.a_bytes) + th_aligned(p.b_bytes) + th_aligned(p.c_bytes);
    return p;
}

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    const product_plan p = make_plan(machine, dtype, product, threads);
    return th_aligned(p.b_shared_bytes) + p.a_shared_bytes + (size_t)threads * p.worker_bytes;
}

/* -- packing -- */

/* One pass: all of C's rows against a block of B, some of its columns and of k. */
typedef struct product_pass {
    const product_plan *plan;
    int64_t column, columns; /* of C */
    int64_t step, steps;     /* of k */
    int64_t column_blocks;
    char *packed_b; /* [TH_PRODUCT_BLOCK steps][panel] */
    char *packed_a; /* [TH_PRODUCT_BLOCK steps][block of rows] */
    char *workers;  /* (threads, worker_bytes) */
} product_pass;

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
    return (char *)p->product.c + (row * p->product.c_row + column * p->product.c_col) * p->size;
}

/* Where the packed A has one block of rows over one block of k. */
static char *packed_a_at(const product_pass *pass, int64_t row_block, int64_t block)
{
    return pass->packed_a + (block * row_blocks(pass->plan) + row_block) * (int64_t)pass->plan->a_bytes;
}

static void pack_a_task(const product_pass *pass, int64_t index)
{
    const product_plan *p = pass->plan;
    const th_product *product = &p->product;
    const int64_t blocks = row_blocks(p), block = index / blocks;
    const int64_t row = index % blocks * p->row_block, step = block * TH_PRODUCT_BLOCK;
    p->multiply.pack_a(th_smaller(product->m - row, p->row_block), th_smaller(pass->steps - step, TH_PRODUCT_BLOCK),
                       element(p, product->a, row * product->a_row + (pass->step + step) * product->a_col),
                       product->a_row, product->a_col, packed_a_at(pass, index % blocks, block));
}

/* A few panels of one block of k. */
static void pack_b_task(const product_pass *pass, int64_t index)
{
    const product_plan *p = pass->plan;
    const int64_t group = p->own_columns, groups = th_parts(pass->columns, group);
    const int64_t block = index / groups, column = index % groups * group;
    const int64_t step = block * TH_PRODUCT_BLOCK, panels = th_parts(pass->columns, p->tile_columns);
    const int64_t panel = block * panels + column / p->tile_columns;
    p->multiply.pack_b(
        th_smaller(pass->steps - step, TH_PRODUCT_BLOCK), th_smaller(pass->columns - column, group),
        element(p, p->product.b, (pass->step + step) * p->product.b_row + (pass->column + column) * p->product.b_col),
        p->product.b_row, p->product.b_col, pass->packed_b + panel * (int64_t)p->panel_bytes,
        (int64_t)p->panel_bytes / p->size);
}

static int64_t b_tasks(const product_pass *pass)
{
    return th_parts(pass->columns, pass->plan->own_columns) * th_parts(pass->steps, TH_PRODUCT_BLOCK);
}

static int64_t a_tasks(const product_pass *pass)
{
    return pass->plan->a_shared ? row_blocks(pass->plan) * th_parts(pass->steps, TH_PRODUCT_BLOCK) : 0;
}

static void pack_task(void *shared, int64_t index, int worker)
{
    (void)worker;
    const product_pass *pass = shared;
    const int64_t a = a_tasks(pass);
    if (index < a)
        pack_a_task(pass, index);
    else
        pack_b_task(pass, index - a);
}

/* -- multiplying -- */

/* A of one block: packed, or where it is. */
static void take_a(const product_pass *pass, const task *t, int64_t step, th_product_block *block)
{
    const product_plan *p = pass->plan;
    const th_product *product = &p->product;
    const int64_t tile_rows = TH_TILE_ROWS(p->vector_bytes);
    block->a = element(p, product->a, t->row * product->a_row + step * product->a_col);
    block->a_row = product->a_row;
    block->a_col = product->a_col;
    block->a_panel = tile_rows * product->a_row;
    if (!p->pack_a)
        return;
    if (p->a_shared) {
        block->a = packed_a_at(pass, t->row / p->row_block, (step - pass->step) / TH_PRODUCT_BLOCK);
    } else {
        p->multiply.pack_a(block->m, block->k, block->a, product->a_row, product->a_col, t->a);
        block->a = t->a;
    }
    block->a_row = 1;
    block->a_col = tile_rows;
    block->a_panel = tile_rows * elements_of(p, block->k);
}

/* What the first pass adds to: C, the bias, or nothing; later ones always add to C. */
static void take_init(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    if (step > 0 || p->product.add || p->product.residual) {
        block->init = t->c;
        block->init_row = t->c_row;
    } else if (p->product.bias) {
        block->init = element(p, p->product.bias, t->column);
        block->init_row = 0;
    }
}

/* From panels that the team has packed. */
static void multiply_shared(const product_pass *pass, const task *t, int64_t step, th_product_block *block)
{
    const product_plan *p = pass->plan;
    const int64_t panels = th_parts(pass->columns, p->tile_columns);
    const int64_t panel =
        (step - pass->step) / TH_PRODUCT_BLOCK * panels + (t->column - pass->column) / p->tile_columns;
    block->b = pass->packed_b + panel * (int64_t)p->panel_bytes;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->tile_columns;
    p->multiply.block(block);
}

/* From B where it is. Columns that do not fill registers are packed, because beyond them there may be no memory. */
static void multiply_in_place(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *product = &p->product;
    const int64_t rest = block->n % p->tile_columns, full = block->n - rest;
    block->b = element(p, product->b, step * product->b_row + t->column);
    block->b_panel = p->tile_columns;
    block->b_row = product->b_row;
    if (rest != 0 && rest != p->tile_columns / 2) {
        p->multiply.pack_b(block->k, rest, element(p, block->b, full), product->b_row, 1, t->b, 0);
        block->b_rest = t->b;
    }
    p->multiply.block(block);
}

/* A few rows, from B where it is, transposed. */
static void multiply_few_rows(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *product = &p->product;
    block->b = element(p, product->b, step + t->column * product->b_col);
    block->b_panel = product->b_col;
    p->kernels->product_few_rows(block);
}

/* From panels that this task packs, a few at a time. */
static void multiply_own(const product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *product = &p->product;
    const int64_t group = p->own_columns, columns = block->n;
    const char *init = block->init;
    block->b = t->b;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->tile_columns;
    for (int64_t column = 0; column < columns; column += group) {
        block->n = th_smaller(columns - column, group);
        block->c = t->c + column * p->size;
        block->init = init ? init + column * p->size : NULL;
        p->multiply.pack_b(block->k, block->n,
                           element(p, product->b, step * product->b_row + (t->column + column) * product->b_col),
                           product->b_row, product->b_col, t->b, block->b_panel);
        p->multiply.block(block);
    }
}

static void multiply_block(const product_pass *pass, const task *t)
{
    const product_plan *p = pass->plan;
    for (int64_t step = pass->step; step < pass->step + pass->steps; step += TH_PRODUCT_BLOCK) {
        th_product_block block = {.m = t->rows,
                                  .n = t->columns,
                                  .k = th_smaller(pass->step + pass->steps - step, TH_PRODUCT_BLOCK),
                                  .c = t->c,
                                  .c_row = t->c_row};
        take_a(pass, t, step, &block);
        take_init(p, t, step, &block);
        if (p->b_shared)
            multiply_shared(pass, t, step, &block);
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
    const product_pass *pass = shared;
    const product_plan *p = pass->plan;
    const th_product *product = &p->product;
    char *scratch = pass->workers + (size_t)worker * p->worker_bytes;
    const int64_t row = index / pass->column_blocks * p->row_block,
                  column = index % pass->column_blocks * p->column_block;
    task t = {.row = row,
              .rows = th_smaller(product->m - row, p->row_block),
              .column = pass->column + column,
              .columns = th_smaller(pass->columns - column, p->column_block),
              .c = scratch,
              .a = scratch + th_aligned(p->c_bytes) + th_aligned(p->b_bytes),
              .b = scratch + th_aligned(p->c_bytes)};
    char *c = c_element(p, t.row, t.column);
    if (product->residual && pass->step == 0)
        th_product_residual(p->kernels, p->size, product, t.row, t.rows, t.column, t.columns);
    if (!p->c_buffer) {
        t.c = c;
        t.c_row = product->c_row;
        multiply_block(pass, &t);
        return;
    }
    t.c_row = t.columns;
    if (pass->step > 0 || product->add)
        p->kernels->product_copy(t.rows, t.columns, c, product->c_row, product->c_col, t.c, t.c_row, 1);
    multiply_block(pass, &t);
    p->kernels->product_copy(t.rows, t.columns, t.c, t.c_row, 1, c, product->c_row, product->c_col);
}

void th_product_native_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads,
                           void *workspace)
{
    const product_plan p = make_plan(machine, dtype, product, threads);
    const int team = th_product_work(product) < TH_PRODUCT_SERIAL ? 1 : threads;
    product_pass pass = {.plan = &p, .packed_b = workspace};
    pass.packed_a = pass.packed_b + th_aligned(p.b_shared_bytes);
    pass.workers = pass.packed_a + p.a_shared_bytes;
    for (pass.column = 0; pass.column < product->n; pass.column += p.pass_columns) {
        pass.columns = th_smaller(product->n - pass.column, p.pass_columns);
        pass.column_blocks = th_parts(pass.columns, p.column_block);
        for (pass.step = 0; pass.step < product->k; pass.step += p.pass_steps) {
            pass.steps = th_smaller(product->k - pass.step, p.pass_steps);
            if (p.b_shared)
                th_parallel(team, a_tasks(&pass) + b_tasks(&pass), pack_task, &pass);
            th_parallel(team, row_blocks(&p) * pass.column_blocks, block_task, &pass);
        }
    }
}
