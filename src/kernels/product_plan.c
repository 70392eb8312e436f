/* The choices of product_plan.h: sizes of blocks against sizes of caches, tasks against the team. */
#include "kernels/product_plan.h"

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

static int64_t round_up(int64_t value, int64_t multiple)
{
    return th_item_parts(value, multiple) * multiple;
}

/* How many tasks the work is for the team; none of them too small. */
static int64_t tasks_wanted(const th_product *item, int threads)
{
    const int64_t most = threads > 1 ? (int64_t)TASKS_PER_THREAD * threads : 1;
    const double work = th_item_work(item);
    return work < (double)TH_ITEM_TASK * (double)most ? (int64_t)(work / TH_ITEM_TASK) + 1 : most;
}

/* A block of B that stays in an L2 cache. */
static bool b_is_small(const product_plan *p)
{
    return th_item_min(p->item.k, TH_PRODUCT_BLOCK) * p->item.n * p->size <= IN_PLACE_BYTES;
}

/* Blocks of rows of about the same size; short ones where there would be too few for the team, and B is near. */
static void plan_rows(product_plan *p, int64_t tasks)
{
    const int64_t long_blocks = th_item_parts(p->item.m, ROW_BLOCK);
    const int64_t short_blocks = b_is_small(p) ? th_item_min(tasks, th_item_parts(p->item.m, SHORT_ROW_BLOCK)) : 1;
    p->row_block =
        round_up(th_item_parts(p->item.m, short_blocks > long_blocks ? short_blocks : long_blocks), ROW_UNIT);
}

/* B: in place, by each task, or in slabs. */
static void plan_b(product_plan *p)
{
    const th_product *item = &p->item;
    const int64_t steps = th_item_min(item->k, TH_PRODUCT_BLOCK);
    p->panel_bytes = (size_t)(product_plan_steps(p, steps) * p->tile_columns * p->size) + PANEL_PAD_BYTES;
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
static void plan_columns(product_plan *p, int64_t tasks)
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

static bool packing_a_pays(const product_plan *p)
{
    const int64_t panels = th_item_parts(p->column_block, p->tile_columns);
    return p->item.a_col == 1 ? panels > PACK_ROWS_PANELS : p->item.a_row == 1 ? panels > PACK_COLUMNS_PANELS : true;
}

/* A packed by the team, together with B, where more tasks than one would pack the same of it. */
static void plan_a(product_plan *p)
{
    const int64_t steps = th_item_min(p->item.k, TH_PRODUCT_BLOCK);
    p->pack_a = p->rounded || (p->item.m > 1 && packing_a_pays(p));
    p->a_bytes =
        p->pack_a ? th_item_aligned((size_t)(p->row_block * product_plan_steps(p, steps) * p->size) + PANEL_PAD_BYTES)
                  : 0;
    const int64_t a_block = product_plan_row_blocks(p) * (int64_t)p->a_bytes;
    p->a_slab = p->pack_a && p->b_slab && p->column_block < p->slab_columns && a_block <= SLAB_BYTES;
    p->a_slab_bytes = 0;
    if (p->a_slab) {
        p->slab_depth = th_item_min(p->slab_depth, SLAB_BYTES / a_block * TH_PRODUCT_BLOCK);
        p->a_slab_bytes = (size_t)(th_item_parts(p->slab_depth, TH_PRODUCT_BLOCK) * a_block);
    }
}

product_plan th_product_plan(const th_machine *machine, th_dtype dtype, const th_product *item, int threads)
{
    product_plan p = {.kernels = th_kernels_for(machine, dtype), .item = *item, .size = th_item_size(dtype)};
    p.rounded = th_item_is_rounded(machine, dtype, item);
    p.multiply = choose_kernels(machine, dtype, p.rounded);
    p.vector_bytes = th_vector_bytes(machine);
    p.tile_columns = TH_TILE_COLUMNS(p.vector_bytes, p.size);
    p.own_columns = OWN_PANELS * p.tile_columns;
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
