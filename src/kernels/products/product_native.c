/* Products by our own micro-kernel, according to their plan (product_plan.c). A product is computed in passes over
 * blocks of B. In each pass the team first packs the operands that tasks share. Then it multiplies: each task computes
 * a block of C. */
#include "kernels/machine/parallel.h"
#include "kernels/products/product_backends.h"
#include "kernels/products/product_plan.h"
#include "kernels/products/product_storage.h"

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

size_t th_product_native_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    const th_product_plan p = th_product_plan_of(machine, dtype, product, threads);
    return th_aligned(p.b_shared_bytes) + p.a_shared_bytes + (size_t)threads * p.worker_bytes;
}

/* -- packing -- */

/* One pass: all rows of C, some columns of B and C, some steps of k. */
typedef struct product_pass {
    const th_product_plan *plan;
    int64_t column, columns; /* of C */
    int64_t step, steps;     /* of k */
    int64_t column_blocks;
    char *packed_b; /* [TH_PRODUCT_BLOCK steps][panel] */
    char *packed_a; /* [TH_PRODUCT_BLOCK steps][block of rows] */
    char *workers;  /* (threads, worker_bytes) */
} product_pass;

/* Which block of A a worker has packed. */
typedef struct packed_block {
    int64_t row, step; /* row -1: none */
} packed_block;

/* The state of a task while it computes its block of C. */
typedef struct task {
    int64_t row, rows, column, columns; /* of C */
    void *packed_a, *packed_b;          /* scratch for packed operands */
    packed_block *packed;               /* what packed_a has */
    void *loaded_b;                     /* scratch for columns of a stored B */
    char *c;                            /* (rows, columns): C itself or its buffer */
    int64_t c_row;
} task;

static const char *element_at(const th_product_plan *p, const void *base, int64_t offset)
{
    return (const char *)base + offset * p->size;
}

static char *c_element_at(const th_product_plan *p, int64_t row, int64_t column)
{
    return (char *)p->product.c + (row * p->product.c_row + column * p->product.c_col) * p->size;
}

/* The packed A of one block of rows and one block of k. */
static char *packed_a_at(const product_pass *pass, int64_t row_block, int64_t block)
{
    return pass->packed_a + (block * th_product_row_blocks(pass->plan) + row_block) * (int64_t)pass->plan->a_bytes;
}

static void pack_a_task(const product_pass *pass, int64_t index)
{
    const th_product_plan *p = pass->plan;
    const th_product *product = &p->product;
    const int64_t blocks = th_product_row_blocks(p), block = index / blocks;
    const int64_t row = index % blocks * p->row_block, step = block * TH_PRODUCT_BLOCK;
    p->multiply.pack_a(th_smaller(product->m - row, p->row_block), th_smaller(pass->steps - step, TH_PRODUCT_BLOCK),
                       element_at(p, product->a, row * product->a_row + (pass->step + step) * product->a_col),
                       product->a_row, product->a_col, packed_a_at(pass, index % blocks, block));
}

/* Returns a worker's scratch memory for columns of a stored B. */
static void *load_memory_of(const product_pass *pass, int worker)
{
    const th_product_plan *p = pass->plan;
    return pass->workers + (size_t)(worker + 1) * p->worker_bytes - p->load_bytes;
}

/* Loads columns of a stored B. */
static th_product_matrix load_b(const th_product_plan *p, int64_t step, int64_t steps, int64_t column, int64_t columns,
                                void *loaded)
{
    const th_product_matrix b = {p->product.b, p->product.b_row, p->product.b_col};
    return th_product_load(p->kernels, p->size, p->product.b_storage, b, step, steps, column, columns, loaded);
}

/* Columns of B that are contiguous. */
typedef struct b_columns {
    const char *data;
    int64_t bytes; /* from one column to the next */
} b_columns;

/* Returns the columns from `column`, each from `step` on, which is a multiple of TH_PRODUCT_BLOCK. */
static b_columns b_columns_at(const th_product_plan *p, int64_t step, int64_t column)
{
    const th_product *product = &p->product;
    const int64_t numbers = product->b_storage ? th_dtype_numbers(product->b_storage) : 1;
    const int64_t size = product->b_storage ? (int64_t)th_dtype_size(product->b_storage) : p->size;
    const int64_t bytes = product->b_col / numbers * size;
    return (b_columns){(const char *)product->b + column * bytes + step / numbers * size, bytes};
}

/* Packs columns of a stored B that kernels read directly. */
static void pack_stored(const th_product_plan *p, int64_t step, int64_t steps, int64_t column, int64_t columns,
                        char *panels)
{
    const th_product *product = &p->product;
    const int64_t stride = (int64_t)p->panel_bytes / p->size;
    if (product->b_col == 1) {
        const int64_t bytes =
            product->b_row / th_dtype_numbers(product->b_storage) * (int64_t)th_dtype_size(product->b_storage);
        p->kernels->product_pack_stored_rows(steps, columns, (const char *)product->b + step * bytes,
                                             (int)product->b_storage, bytes, column, panels, stride);
        return;
    }
    const b_columns b = b_columns_at(p, step, column);
    p->kernels->product_pack_stored(steps, columns, b.data, (int)product->b_storage, b.bytes, panels, stride);
}

/* Packs columns of B, over some steps, from a multiple of a panel on. */
static void pack_b(const th_product_plan *p, int64_t step, int64_t steps, int64_t column, int64_t columns, void *loaded,
                   char *panels)
{
    const th_product *product = &p->product;
    const int64_t stride = (int64_t)p->panel_bytes / p->size;
    if (!product->b_storage) {
        p->multiply.pack_b(steps, columns, element_at(p, product->b, step * product->b_row + column * product->b_col),
                           product->b_row, product->b_col, panels, stride);
        return;
    }
    if (th_product_packs_stored(p)) {
        pack_stored(p, step, steps, column, columns, panels);
        return;
    }
    for (int64_t done = 0; done < columns; done += p->load_columns) {
        const int64_t n = th_smaller(columns - done, p->load_columns);
        const th_product_matrix b = load_b(p, step, steps, column + done, n, loaded);
        p->multiply.pack_b(steps, n, b.data, b.row, b.column,
                           panels + done / p->multiply.columns * (int64_t)p->panel_bytes, stride);
    }
}

/* Packs a few panels of one block of k. */
static void pack_b_task(const product_pass *pass, int64_t index, int worker)
{
    const th_product_plan *p = pass->plan;
    const int64_t group = p->team_pack_columns, groups = th_ceil_div(pass->columns, group);
    const int64_t block = index / groups, column = index % groups * group;
    const int64_t step = block * TH_PRODUCT_BLOCK, panels = th_ceil_div(pass->columns, p->multiply.columns);
    const int64_t panel = block * panels + column / p->multiply.columns;
    pack_b(p, pass->step + step, th_smaller(pass->steps - step, TH_PRODUCT_BLOCK), pass->column + column,
           th_smaller(pass->columns - column, group), load_memory_of(pass, worker),
           pass->packed_b + panel * (int64_t)p->panel_bytes);
}

static int64_t b_tasks(const product_pass *pass)
{
    const int64_t blocks = th_ceil_div(pass->steps, TH_PRODUCT_BLOCK);
    return pass->plan->b_source == TH_B_TEAM_PANELS ? th_ceil_div(pass->columns, pass->plan->team_pack_columns) * blocks
                                                    : 0;
}

static int64_t a_tasks(const product_pass *pass)
{
    return pass->plan->a_shared ? th_product_row_blocks(pass->plan) * th_ceil_div(pass->steps, TH_PRODUCT_BLOCK) : 0;
}

static void pack_task(void *shared, int64_t index, int worker)
{
    const product_pass *pass = shared;
    const int64_t a = a_tasks(pass);
    if (index < a)
        pack_a_task(pass, index);
    else
        pack_b_task(pass, index - a, worker);
}

/* -- multiplying -- */

/* Sets A of one block of steps: packed, or in place. */
static void set_a_operand(const product_pass *pass, const task *t, int64_t step, th_product_block *block)
{
    const th_product_plan *p = pass->plan;
    const th_product *product = &p->product;
    const int64_t tile_rows = p->multiply.rows;
    block->a = element_at(p, product->a, t->row * product->a_row + step * product->a_col);
    block->a_row = product->a_row;
    block->a_col = product->a_col;
    block->a_panel = tile_rows * product->a_row;
    if (!p->packs_a)
        return;
    if (p->a_shared) {
        block->a = packed_a_at(pass, t->row / p->row_block, (step - pass->step) / TH_PRODUCT_BLOCK);
    } else {
        if (t->packed->row != t->row || t->packed->step != step)
            p->multiply.pack_a(block->m, block->k, block->a, product->a_row, product->a_col, t->packed_a);
        *t->packed = (packed_block){t->row, step};
        block->a = t->packed_a;
    }
    block->a_row = 1;
    block->a_col = tile_rows;
    block->a_panel = tile_rows * th_panel_elements(&p->multiply, block->k);
}

/* Sets init. The first block of steps adds to the bias, to C if it must be added to or holds the residual, or to
 * nothing. Later blocks of steps add to C. */
static void set_init(const th_product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    if (step > 0 || p->product.add || p->product.residual) {
        block->init = t->c;
        block->init_row = t->c_row;
    } else if (p->product.bias) {
        block->init = element_at(p, p->product.bias, t->column);
        block->init_row = 0;
    }
}

/* Multiplies by panels that the team has packed. */
static void multiply_team_panels(const product_pass *pass, const task *t, int64_t step, th_product_block *block)
{
    const th_product_plan *p = pass->plan;
    const int64_t panels = th_ceil_div(pass->columns, p->multiply.columns);
    const int64_t panel =
        (step - pass->step) / TH_PRODUCT_BLOCK * panels + (t->column - pass->column) / p->multiply.columns;
    block->b = pass->packed_b + panel * (int64_t)p->panel_bytes;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->multiply.columns;
    p->multiply.block(block);
}

/* Multiplies by B in place. Columns that do not fill registers are packed, because the memory after them may not
 * exist. */
static void multiply_in_place(const th_product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const th_product *product = &p->product;
    const int64_t rest = block->n % p->multiply.columns, full = block->n - rest;
    block->b = element_at(p, product->b, step * product->b_row + t->column);
    block->b_panel = p->multiply.columns;
    block->b_row = product->b_row;
    if (rest != 0 && rest != p->multiply.columns / 2) {
        p->multiply.pack_b(block->k, rest, element_at(p, block->b, full), product->b_row, 1, t->packed_b, 0);
        block->b_rest = t->packed_b;
    }
    p->multiply.block(block);
}

/* Multiplies few rows by B in place, with contiguous columns. */
static void multiply_few_rows(const th_product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    block->b = b_columns_at(p, step, t->column).data;
    block->b_panel = p->product.b_col;
    if (p->product.b_storage)
        p->multiply.few_rows_stored(block);
    else
        p->multiply.few_rows(block);
}

/* Multiplies one to three rows by B in place, over all steps. */
static void multiply_stream(const th_product_plan *p, const task *t)
{
    const th_product *product = &p->product;
    th_product_block block = {.m = t->rows,
                              .n = t->columns,
                              .k = product->k,
                              .a = element_at(p, product->a, t->row * product->a_row),
                              .a_row = product->a_row,
                              .a_col = 1,
                              .c = t->c,
                              .c_row = t->c_row};
    const b_columns b = b_columns_at(p, 0, t->column);
    set_init(p, t, 0, &block);
    block.b = b.data;
    p->kernels->product_stream(&block, (int)product->b_storage, b.bytes);
}

/* Multiplies few rows by a stored B that no kernel reads directly. Columns are loaded, a few at a time. */
static void multiply_few_rows_loaded(const th_product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const int64_t columns = block->n;
    const char *init = block->init;
    for (int64_t column = 0; column < columns; column += p->load_columns) {
        block->n = th_smaller(columns - column, p->load_columns);
        block->c = t->c + column * p->size;
        block->init = init ? init + column * p->size : NULL;
        const th_product_matrix b = load_b(p, step, block->k, t->column + column, block->n, t->loaded_b);
        block->b = b.data;
        block->b_panel = b.column;
        p->multiply.few_rows(block);
    }
}

/* Multiplies by panels that this task packs, a few at a time. */
static void multiply_task_panels(const th_product_plan *p, const task *t, int64_t step, th_product_block *block)
{
    const int64_t group = p->task_pack_columns, columns = block->n;
    const char *init = block->init;
    block->b = t->packed_b;
    block->b_panel = (int64_t)p->panel_bytes / p->size;
    block->b_row = p->multiply.columns;
    for (int64_t column = 0; column < columns; column += group) {
        block->n = th_smaller(columns - column, group);
        block->c = t->c + column * p->size;
        block->init = init ? init + column * p->size : NULL;
        pack_b(p, step, block->k, t->column + column, block->n, t->loaded_b, t->packed_b);
        p->multiply.block(block);
    }
}

static void multiply_block(const product_pass *pass, const task *t)
{
    const th_product_plan *p = pass->plan;
    if (p->b_source == TH_B_STREAM) {
        multiply_stream(p, t);
        return;
    }
    for (int64_t step = pass->step; step < pass->step + pass->steps; step += p->block_steps) {
        th_product_block block = {.m = t->rows,
                                  .n = t->columns,
                                  .k = th_smaller(pass->step + pass->steps - step, p->block_steps),
                                  .c = t->c,
                                  .c_row = t->c_row};
        set_a_operand(pass, t, step, &block);
        set_init(p, t, step, &block);
        if (p->b_source == TH_B_TEAM_PANELS)
            multiply_team_panels(pass, t, step, &block);
        else if (p->b_source == TH_B_FEW_ROWS && p->load_columns > 0)
            multiply_few_rows_loaded(p, t, step, &block);
        else if (p->b_source == TH_B_FEW_ROWS)
            multiply_few_rows(p, t, step, &block);
        else if (p->b_source == TH_B_IN_PLACE)
            multiply_in_place(p, t, step, &block);
        else
            multiply_task_panels(p, t, step, &block);
    }
}

/* Returns what a worker has packed, or NULL if tasks do not pack A. It is behind the packed rows. */
static packed_block *packed_block_of(const product_pass *pass, int worker)
{
    const th_product_plan *p = pass->plan;
    if (!p->packs_a || p->a_shared)
        return NULL;
    char *end = pass->workers + (size_t)(worker + 1) * p->worker_bytes - p->load_bytes;
    return (packed_block *)(void *)end - 1;
}

static void block_task(void *shared, int64_t index, int worker)
{
    const product_pass *pass = shared;
    const th_product_plan *p = pass->plan;
    const th_product *product = &p->product;
    char *scratch = pass->workers + (size_t)worker * p->worker_bytes;
    const int64_t row = index / pass->column_blocks * p->row_block,
                  column = index % pass->column_blocks * p->column_block;
    task t = {.row = row,
              .rows = th_smaller(product->m - row, p->row_block),
              .column = pass->column + column,
              .columns = th_smaller(pass->columns - column, p->column_block),
              .c = scratch,
              .packed_a = scratch + th_aligned(p->c_bytes) + th_aligned(p->b_bytes),
              .packed_b = scratch + th_aligned(p->c_bytes),
              .loaded_b = load_memory_of(pass, worker),
              .packed = packed_block_of(pass, worker)};
    char *c = c_element_at(p, t.row, t.column);
    if (product->residual && pass->step == 0)
        th_product_residual(p->kernels, p->size, product, t.row, t.rows, t.column, t.columns);
    if (!p->buffers_c) {
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
    const th_product_plan p = th_product_plan_of(machine, dtype, product, threads);
    const int team = th_product_work(product) < (double)TH_PRODUCT_SERIAL ? 1 : threads;
    char none; /* for a product that needs no workspace: in C even NULL + 0 is undefined */
    product_pass pass = {.plan = &p, .packed_b = workspace ? workspace : &none};
    pass.packed_a = pass.packed_b + th_aligned(p.b_shared_bytes);
    pass.workers = pass.packed_a + p.a_shared_bytes;
    for (pass.column = 0; pass.column < product->n; pass.column += p.pass_columns) {
        pass.columns = th_smaller(product->n - pass.column, p.pass_columns);
        pass.column_blocks = th_ceil_div(pass.columns, p.column_block);
        for (pass.step = 0; pass.step < product->k; pass.step += p.pass_steps) {
            pass.steps = th_smaller(product->k - pass.step, p.pass_steps);
            if (p.a_shared || p.b_source == TH_B_TEAM_PANELS)
                th_parallel(team, a_tasks(&pass) + b_tasks(&pass), pack_task, &pass);
            for (int worker = 0; worker < team && packed_block_of(&pass, worker); worker++)
                packed_block_of(&pass, worker)->row = -1;
            th_parallel(team, th_product_row_blocks(&p) * pass.column_blocks, block_task, &pass);
        }
    }
}
