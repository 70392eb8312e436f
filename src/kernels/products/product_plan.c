/* Plans one product by our own micro-kernel: the blocks of C, and which operands are packed by the task or by the team.
 * No choice here changes a bit of the result: every element is the same sequence of operations in all plans.
 *
 * Packed operands are panels as wide as a tile of the micro-kernel (Goto & van de Geijn 2008). A task computes one
 * block of C, over all steps of k or over those of one pass. It packs its own rows of A, unless several tasks share
 * them and the team packs them. B is read
 *
 *     in place, if its rows are contiguous and it fits into the L2 cache;
 *     in place, if C has few rows: its numbers are broadcast, or split into bfloat16 parts a group of steps at a time (a
 *         B stored as bfloat16 is one part already);
 *     in place, if C has one to three rows: a stream of panels over all steps;
 *     from a few loaded columns at a time, if it is stored (product_storage.h), C has few rows and no kernel packs it;
 *     from a few panels at a time that the task packs, if only one block of rows needs them;
 *     otherwise from a block that the team has packed, one for each pass over C. */
#include "kernels/products/product_plan.h"

#include "kernels/products/product_backends.h"
#include "kernels/products/product_storage.h"

enum {
    ROW_BLOCK = 96, /* max rows of a task: with TH_PRODUCT_BLOCK steps of A they take a fifth of a 1 MB L2 cache */
    /* or this many panels, if they have more rows: AMX has the largest panels, and its processors a 2 MB L2 cache */
    ROW_PANELS = 8,
    SHORT_ROW_BLOCK = 24,
    STORED_ROW_BLOCK = 192,     /* max rows of a task that packs a stored B itself: two fifths of a 1 MB L2 cache */
    STORED_PANELS = 8,          /* of B for each thread, so that the tasks end at about the same time */
    ROW_UNIT = 12,              /* whole tiles in every instruction set */
    TEAM_FEW_ROWS = 24,         /* more few rows are one block only if each thread has some of its columns, */
    MORE_FEW_STEPS = 128,       /* and if there are so many steps: packing short columns takes little time */
    SHARED_BYTES = 6 << 20,     /* max bytes that the team packs for a pass: stays in an L3 cache */
    IN_PLACE_BYTES = 512 << 10, /* max bytes of B in place: stays in an L2 cache */
    IN_PLACE_ROWS = 12,         /* rows of C; up to this, B is read only once in any case */
    TASK_PACK_PANELS = 4,       /* panels of B that a task packs at a time, or more if a stored block has more */
    PACK_ROWS_PANELS = 6,       /* contiguous rows of A are packed only for more panels of B than this, */
    PACK_COLUMNS_PANELS = 2,    /* and contiguous columns of A only for more than this */
    LITTLE_A = 4096,            /* up to this many elements, a task packs A itself rather than waiting for the team */
    PANEL_PAD_BYTES = 64,       /* keeps panels from being a power of two apart, and is space for whole registers that
                             packing writes */
    BUFFER_COLUMNS = 512,       /* max columns of a task that writes C through a buffer */
    TASKS_PER_THREAD = 4        /* few, because each packs its rows of A if columns are divided */
};

static int64_t round_up(int64_t value, int64_t multiple)
{
    return th_ceil_div(value, multiple) * multiple;
}

/* Returns whether parts of the rows of a stored B are loaded before they are packed. */
static bool loads_rows(const th_product_plan *p)
{
    return p->product.b_storage && p->product.b_col == 1 && !th_product_packs_stored(p);
}

/* Returns the columns of a block of a stored row, whole panels. */
static int64_t block_columns(const th_product_plan *p)
{
    return round_up(th_larger(TH_BLOCK_NUMBERS, th_dtype_numbers(p->product.b_storage)), p->multiply.columns);
}

/* Returns the columns of B that a task packs at a time. They are at least the columns of a loaded block, so that its
 * scales are read once. */
static int64_t columns_packed_together(const th_product_plan *p)
{
    const int64_t few = TASK_PACK_PANELS * p->multiply.columns;
    return loads_rows(p) ? th_larger(few, block_columns(p)) : few;
}

/* Returns the number of tasks for the team. Each has at least about TH_PRODUCT_TASK multiply-adds. */
static int64_t tasks_wanted(const th_product *product, int threads)
{
    const int64_t max = threads > 1 ? (int64_t)TASKS_PER_THREAD * threads : 1;
    const double work = th_product_work(product);
    return work < (double)TH_PRODUCT_TASK * (double)max ? (int64_t)(work / (double)TH_PRODUCT_TASK) + 1 : max;
}

/* Returns whether a block of B stays in an L2 cache. */
static bool b_is_small(const th_product_plan *p)
{
    return th_smaller(p->product.k, TH_PRODUCT_BLOCK) * p->product.n * p->size <= IN_PLACE_BYTES;
}

/* Returns the divisor of all blocks of rows. */
static int64_t row_unit(const th_product_plan *p)
{
    return p->has_parts ? p->multiply.rows : ROW_UNIT;
}

/* Returns whether each task computes all rows of its columns and packs its own panels of a stored B. The panels then
 * stay in the cache of one processor. A block that the team packs does not, and it takes more memory. */
static bool takes_all_rows(const th_product_plan *p, int threads)
{
    return th_product_packs_stored(p) && p->product.m <= STORED_ROW_BLOCK &&
           p->product.n >= (int64_t)STORED_PANELS * threads * p->multiply.columns;
}

/* Divides rows into blocks of about the same size. The blocks are short if long ones would be too few for the team and
 * B is in a cache. */
static void plan_rows(th_product_plan *p, int64_t tasks, int threads)
{
    if (takes_all_rows(p, threads)) {
        p->row_block = round_up(p->product.m, row_unit(p));
        return;
    }
    const int64_t long_blocks = th_ceil_div(p->product.m, th_larger(ROW_BLOCK, ROW_PANELS * p->multiply.rows));
    const int64_t short_blocks = b_is_small(p) ? th_smaller(tasks, th_ceil_div(p->product.m, SHORT_ROW_BLOCK)) : 1;
    p->row_block = round_up(th_ceil_div(p->product.m, th_larger(short_blocks, long_blocks)), row_unit(p));
}

/* Returns the columns that product_few.c stores together. */
static int64_t few_column_unit(const th_product_plan *p)
{
    return th_larger(24, 3 * p->multiply.columns / 2);
}

/* Returns whether C has few rows, so that B is read in place if its columns are contiguous. */
static bool has_few_rows(const th_product_plan *p, int threads)
{
    const int64_t m = p->product.m;
    if (p->has_parts)
        return m <= TH_FEW_PART_ROWS;
    return m <= TEAM_FEW_ROWS ||
           (m <= TH_FEW_ROWS && p->product.k >= MORE_FEW_STEPS && p->product.n >= threads * few_column_unit(p));
}

/* Decides how B is read. */
static th_b_source choose_b_source(const th_product_plan *p, int threads)
{
    const th_product *product = &p->product;
    const bool in_float = !p->has_parts, packs_stored = th_product_packs_stored(p);
    const bool lines = product->b_row == 1 && (!product->b_storage || product->b_col != 1); /* columns are contiguous */
    if (in_float && !product->b_storage && product->b_col == 1 && (product->m <= IN_PLACE_ROWS || b_is_small(p)))
        return TH_B_IN_PLACE;
    if (in_float && lines && product->m <= TH_STREAM_ROWS && product->a_col == 1 &&
        (!product->b_storage || packs_stored))
        return TH_B_STREAM;
    if (p->multiply.few_rows && lines && !packs_stored && has_few_rows(p, threads))
        return TH_B_FEW_ROWS;
    return product->m > p->row_block ? TH_B_TEAM_PANELS : TH_B_TASK_PANELS;
}

/* Plans how B is read, and the passes over C. */
static void plan_b(th_product_plan *p, int threads)
{
    const th_product *product = &p->product;
    const int64_t steps = th_smaller(product->k, TH_PRODUCT_BLOCK);
    p->panel_bytes = (size_t)(th_panel_elements(&p->multiply, steps) * p->multiply.columns * p->size) + PANEL_PAD_BYTES;
    p->b_source = choose_b_source(p, threads);
    if (p->b_source == TH_B_FEW_ROWS)
        p->multiply.pack_a = p->multiply.pack_few;
    if (p->b_source == TH_B_FEW_ROWS && !p->has_parts)
        p->row_block = round_up(product->m, ROW_UNIT); /* one block, so that B is read once */
    p->pass_columns = product->n;
    p->pass_steps = product->k;
    p->b_shared_bytes = 0;
    p->b_bytes = p->b_source == TH_B_TASK_PANELS ? (size_t)(p->task_pack_columns / p->multiply.columns) * p->panel_bytes
                 : p->b_source == TH_B_IN_PLACE  ? p->panel_bytes
                                                 : 0;
    if (p->b_source == TH_B_TEAM_PANELS) {
        const int64_t all = th_ceil_div(product->n, p->multiply.columns);
        const int64_t passes = th_ceil_div(all, SHARED_BYTES / (int64_t)p->panel_bytes); /* of about the same size */
        const int64_t panels = th_ceil_div(all, passes);
        const int64_t blocks = SHARED_BYTES / (int64_t)p->panel_bytes / panels;
        p->pass_columns = th_smaller(product->n, panels * p->multiply.columns);
        p->pass_steps = th_smaller(product->k, blocks * TH_PRODUCT_BLOCK);
        p->b_shared_bytes = (size_t)(panels * th_ceil_div(p->pass_steps, TH_PRODUCT_BLOCK)) * p->panel_bytes;
    }
    p->load_columns = 0;
    p->load_bytes = 0;
    /* All steps at once are in the order of memory. (A sum of one part has no blocks.) */
    const bool few_stored =
        p->b_source == TH_B_FEW_ROWS && product->b_storage == TH_BFLOAT16 && p->multiply.few_rows_stored;
    p->block_steps = few_stored ? th_larger(product->k, TH_PRODUCT_BLOCK)
                     : p->b_source == TH_B_FEW_ROWS && !p->has_parts && !product->b_storage ? TH_FEW_STEPS
                                                                                            : TH_PRODUCT_BLOCK;
    if (product->b_storage && !few_stored &&
        !th_product_packs_stored(p)) { /* about a block of numbers, so that few blocks are loaded twice */
        p->load_columns = loads_rows(p) ? block_columns(p) : round_up(TH_BLOCK_NUMBERS, p->multiply.columns);
        p->load_bytes = th_product_load_bytes(p->size, steps, p->load_columns);
    }
}

/* Divides columns into blocks if there are too few blocks of rows for the team. Each block of columns packs A again. */
static void plan_columns(th_product_plan *p, int64_t tasks)
{
    const int64_t columns = th_ceil_div(tasks, th_ceil_div(p->product.m, p->row_block));
    const int64_t unit = p->b_source == TH_B_FEW_ROWS && !p->has_parts ? few_column_unit(p) : 2 * p->multiply.columns;
    p->column_block = columns == 1 ? p->pass_columns : round_up(th_ceil_div(p->pass_columns, columns), unit);
    if (p->buffers_c)
        p->column_block = th_smaller(p->column_block, BUFFER_COLUMNS);
}

/* Shortens the blocks of rows if many threads would wait for the last tasks: for example, if 64 threads have 72 tasks.
 * Time is counted in rows. A shorter block must save a third of it, because it reads B more often. That is impossible
 * with more than two tasks for each thread. */
static void balance_rows(th_product_plan *p, int threads)
{
    const int64_t m = p->product.m, columns = th_ceil_div(p->pass_columns, p->column_block);
    const double most = th_product_work(&p->product) / (double)TH_PRODUCT_TASK; /* tasks */
    const int64_t tasks = th_ceil_div(m, p->row_block) * columns;
    if (tasks > 2 * (int64_t)threads || (p->b_source != TH_B_TEAM_PANELS && p->b_source != TH_B_IN_PLACE))
        return;
    const int64_t before = th_ceil_div(tasks, threads) * p->row_block;
    int64_t least = before;
    for (int64_t rows = p->row_block - row_unit(p); rows >= SHORT_ROW_BLOCK; rows -= row_unit(p)) {
        const int64_t more = th_ceil_div(m, rows) * columns, time = th_ceil_div(more, threads) * rows;
        if (time < least && 3 * time <= 2 * before && (double)more <= most) {
            least = time;
            p->row_block = rows;
        }
    }
}

th_product_kernels th_product_kernels_of(const th_machine *machine, th_dtype dtype, th_precision precision)
{
    if (precision != TH_PRECISION_FLOAT32)
        return machine->products[precision == TH_PRECISION_BFLOAT16X3];
    const th_kernels *kernels = th_kernels_for(machine, dtype);
    const int size = (int)th_element_size(dtype);
    return (th_product_kernels){.rows = TH_TILE_ROWS(machine->isa->registers),
                                .columns = TH_TILE_COLUMNS(machine->isa->vector_bytes, size),
                                .group = 1,
                                .group_elements = 1,
                                .pack_a = kernels->product_pack_a,
                                .pack_b = kernels->product_pack_b,
                                .block = kernels->product_block,
                                .pack_few = kernels->product_pack_few,
                                .few_rows = kernels->product_few_rows};
}

static bool packing_a_pays(const th_product_plan *p)
{
    const int64_t panels = th_ceil_div(p->column_block, p->multiply.columns);
    return p->product.a_col == 1   ? panels > PACK_ROWS_PANELS
           : p->product.a_row == 1 ? panels > PACK_COLUMNS_PANELS
                                   : true;
}

/* Decides whether A is packed, and whether the team packs it: if several tasks would pack the same rows. The team packs
 * A and B together. If it packs nothing of B, it must wait once until A is packed. That pays only for many bfloat16
 * parts, which are slower to pack. */
static void plan_a(th_product_plan *p)
{
    const int64_t steps = th_smaller(p->product.k, p->block_steps);
    const bool few = p->b_source == TH_B_FEW_ROWS;
    p->packs_a = p->has_parts || few || (p->product.m > 1 && p->b_source != TH_B_STREAM && packing_a_pays(p));
    const int64_t rows = few && !p->has_parts ? round_up(p->row_block, p->multiply.columns) : p->row_block;
    p->a_bytes = p->packs_a
                     ? th_aligned((size_t)(rows * th_panel_elements(&p->multiply, steps) * p->size) + PANEL_PAD_BYTES)
                     : 0;
    const int64_t a_block = th_product_row_blocks(p) * (int64_t)p->a_bytes;
    const bool pays = p->b_source == TH_B_TEAM_PANELS || (p->has_parts && p->product.m * steps > LITTLE_A);
    p->a_shared = p->packs_a && pays && p->column_block < p->pass_columns && a_block <= SHARED_BYTES &&
                  p->block_steps == TH_PRODUCT_BLOCK;
    p->a_shared_bytes = 0;
    if (p->a_shared) {
        p->pass_steps = th_smaller(p->pass_steps, SHARED_BYTES / a_block * TH_PRODUCT_BLOCK);
        p->a_shared_bytes = (size_t)(th_ceil_div(p->pass_steps, TH_PRODUCT_BLOCK) * a_block);
    }
}

/* Returns the number of columns of B that a task packs for the team: few if the team has more threads than panels. */
static int64_t columns_packed_for_team(const th_product_plan *p, int threads)
{
    const int64_t panels =
        th_ceil_div(p->pass_columns, p->multiply.columns) * th_ceil_div(p->pass_steps, TH_PRODUCT_BLOCK);
    const int64_t of_task = th_smaller(panels / threads, p->task_pack_columns / p->multiply.columns);
    return th_larger(of_task, 1) * p->multiply.columns;
}

th_product_plan th_product_plan_of(const th_machine *machine, th_dtype dtype, const th_product *product, int threads)
{
    th_product_plan p = {
        .kernels = th_kernels_for(machine, dtype), .product = *product, .size = th_element_size(dtype)};
    const th_precision precision = th_product_precision(machine, dtype, product);
    p.has_parts = precision != TH_PRECISION_FLOAT32;
    p.multiply = th_product_kernels_of(machine, dtype, precision);
    p.task_pack_columns = columns_packed_together(&p);
    p.buffers_c = product->c_col != 1;
    const int64_t tasks = tasks_wanted(product, threads);
    plan_rows(&p, tasks, threads);
    plan_b(&p, threads);
    plan_columns(&p, tasks);
    balance_rows(&p, threads);
    plan_a(&p);
    p.team_pack_columns = columns_packed_for_team(&p, threads);
    p.c_bytes = p.buffers_c ? (size_t)(p.row_block * p.column_block * p.size) : 0;
    const size_t own_a = p.packs_a && !p.a_shared ? p.a_bytes + TH_PACKED_ROWS_BYTES : 0;
    p.worker_bytes = own_a + th_aligned(p.b_bytes) + th_aligned(p.c_bytes) + p.load_bytes;
    return p;
}
