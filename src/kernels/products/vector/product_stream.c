/* Multiplies one to three rows by a matrix B, for example in a dense layer that generates one token, y = x Wᵀ. The
 * columns of B are contiguous, and may have a storage type. Most of the time is the time to read B from memory. So the
 * kernel streams B: it reads a panel of columns over all steps of k before the next panel. It prefetches in the order
 * in which the processor reads fastest (docs/internals/products.md). Each element of C has the same sums as in the
 * other kernels, one for each TH_PRODUCT_BLOCK steps. */
#include "kernels/products/vector/load_parts.h"

enum {
    PANELS = 2, /* most panels that several rows multiply at a time */
    SUMS = PANELS * GROUPS
};

/* Returns how many bytes before its use a column is prefetched. The scales of a block of steps are read first, so the
 * whole block must be in the cache before. */
TH_INLINE int64_t near_bytes(int storage)
{
    return storage >= TH_Q8_0 ? steps_bytes(storage, TH_PRODUCT_BLOCK) + 64 : 256;
}

/* -- products without a packed panel. These loops are unrolled and take long to compile. They exist for the types and
 * numbers of rows that are slower with a packed panel. Each loop is a function, because it needs all registers -- */

/* Computes the products of `rows` rows and `steps` steps of a panel, total[group][row]. */
TH_INLINE void multiply_directly(int rows, int storage, const column_set *set, const real *a, int64_t a_row,
                                 int64_t steps, vec (*total)[TILE_ROWS])
{
    const int64_t chunk = chunk_steps(storage);
    vec sum[GROUPS][TILE_ROWS];
    column_use use = {.groups = GROUPS,
                      .set = set,
                      .rows = rows,
                      .a = a,
                      .a_row = a_row,
                      .a_col = 1,
                      .sum = sum,
                      .near = near_bytes(storage)};
    UNROLLED_FOR (int g = 0; g < GROUPS; g++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[g][i] = (vec){0};
    int64_t step = 0;
    for (; step + chunk <= steps; step += chunk) {
        use_chunk(storage, TH_FUSED, &use, step);
        use.near += steps_bytes(storage, chunk);
    }
    for (; step < steps; step++)
        use_step(storage, &use, step);
    UNROLLED_FOR (int g = 0; g < GROUPS; g++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            total[g][i] = sum[g][i];
}

typedef void direct_function(const column_set *set, const real *a, int64_t a_row, int64_t steps, vec (*sum)[TILE_ROWS]);

#define DIRECT(type, storage, rows)                                                                                    \
    static void multiply_##type##_##rows(const column_set *set, const real *a, int64_t a_row, int64_t steps,           \
                                         vec(*sum)[TILE_ROWS])                                                         \
    {                                                                                                                  \
        multiply_directly(rows, storage, set, a, a_row, steps, sum);                                                   \
    }

DIRECT(plain, PLAIN, 1)
DIRECT(plain, PLAIN, 2)
DIRECT(plain, PLAIN, 3)
#if TH_STORED
DIRECT(bfloat16, TH_BFLOAT16, 1)
DIRECT(bfloat16, TH_BFLOAT16, 2)
DIRECT(float16, TH_FLOAT16, 1)
DIRECT(q8_0, TH_Q8_0, 1)
DIRECT(q4_0, TH_Q4_0, 1)
#endif

/* Returns the function for this number of rows, or NULL if a packed panel is as fast. */
static direct_function *find_direct_loop(int storage, int64_t rows)
{
    static direct_function *const plain[TH_STREAM_ROWS] = {multiply_plain_1, multiply_plain_2, multiply_plain_3};
    switch (storage) {
#if TH_STORED
    case TH_BFLOAT16:
        return rows == 1 ? multiply_bfloat16_1 : rows == 2 ? multiply_bfloat16_2 : NULL;
    case TH_FLOAT16:
        return rows == 1 ? multiply_float16_1 : NULL;
    case TH_Q8_0:
        return rows == 1 ? multiply_q8_0_1 : NULL;
    case TH_Q4_0:
        return rows == 1 ? multiply_q4_0_1 : NULL;
#endif
    default:
        return storage == PLAIN ? plain[rows - 1] : NULL;
    }
}

#if TH_STORED

#define PACK(name, storage, usual)                                                                                     \
    static __attribute__((noinline)) void pack_chunk_##name(const column_use *use, int64_t step)                       \
    {                                                                                                                  \
        const column_use packing = {                                                                                   \
            .groups = GROUPS, .set = use->set, .panel = use->panel, .panel_step = use->panel_step, .near = use->near}; \
        use_chunk(storage, usual, &packing, step);                                                                     \
    }

PACK(bfloat16, TH_BFLOAT16, true)
PACK(float16, TH_FLOAT16, true)
#if TH_FUSED
PACK(usual_q8_0, TH_Q8_0, true)
#endif
PACK(q8_0, TH_Q8_0, false)
PACK(q4_0, TH_Q4_0, true)

static __attribute__((noinline)) void pack_part(int storage, const column_use *use, int64_t step)
{
    const column_use packing = {
        .groups = GROUPS, .set = use->set, .panel = use->panel, .panel_step = use->panel_step, .near = use->near};
    use_part(storage, &packing, step);
}

/* Writes a chunk of steps to use->panel. usual: the result of prepare_panel. */
static void pack_chunk(int storage, bool usual, const column_use *use, int64_t step)
{
    switch (storage) {
    case TH_BFLOAT16:
        pack_chunk_bfloat16(use, step);
        break;
    case TH_FLOAT16:
        pack_chunk_float16(use, step);
        break;
    case TH_Q8_0:
#if TH_FUSED
        if (usual) {
            pack_chunk_usual_q8_0(use, step);
            break;
        }
#endif
        pack_chunk_q8_0(use, step);
        break;
    case TH_Q4_0:
        pack_chunk_q4_0(use, step);
        break;
    default:
        pack_part(storage, use, step);
        break;
    }
    (void)usual;
}

/* Writes one step to use->panel. */
static void pack_step(int storage, const column_use *use, int64_t step)
{
    const column_use packing = {.groups = GROUPS, .set = use->set, .panel = use->panel, .panel_step = use->panel_step};
    use_step(storage, &packing, step);
}

/* -- several rows, and B has a storage type. A chunk of one or two panels is packed in the first-level cache, and then
 * multiplied by all rows. The additions of one sum wait for each other, so two panels take hardly longer than one -- */

/* A chunk of steps of one or two panels, as plain numbers. */
typedef struct packed_chunk {
    int panels;
    _Alignas(64) real number[PANELS][CHUNK_STEPS * TILE_COLUMNS];
} packed_chunk;

/* Adds the products of `steps` steps to the sums of `rows` rows. a: row 0 at the first of these steps. */
TH_INLINE void add_rows(int rows, int panels, const packed_chunk *chunk, int64_t steps, const real *a, int64_t a_row,
                        vec (*total)[TILE_ROWS])
{
    vec sum[SUMS][TILE_ROWS];
    UNROLLED_FOR (int s = 0; s < panels * GROUPS; s++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            sum[s][i] = total[s][i];
    for (int64_t step = 0; step < steps; step++)
        UNROLLED_FOR (int s = 0; s < panels * GROUPS; s++) {
            const real *numbers = chunk->number[s / GROUPS] + s % GROUPS * TH_REGISTER_LANES;
            const vec column = *(const vec *)(numbers + step * TILE_COLUMNS);
            UNROLLED_FOR (int i = 0; i < rows; i++)
                sum[s][i] += (a[i * a_row + step] - (vec){0}) * column;
        }
    UNROLLED_FOR (int s = 0; s < panels * GROUPS; s++)
        UNROLLED_FOR (int i = 0; i < rows; i++)
            total[s][i] = sum[s][i];
}

static void add_chunk(int rows, const packed_chunk *chunk, int64_t steps, const real *a, int64_t a_row,
                      vec (*sum)[TILE_ROWS])
{
    if (rows == 1 && chunk->panels == 1)
        add_rows(1, 1, chunk, steps, a, a_row, sum);
    else if (rows == 1)
        add_rows(1, 2, chunk, steps, a, a_row, sum);
    else if (rows == 2 && chunk->panels == 1)
        add_rows(2, 1, chunk, steps, a, a_row, sum);
    else if (rows == 2)
        add_rows(2, 2, chunk, steps, a, a_row, sum);
    else if (chunk->panels == 1)
        add_rows(3, 1, chunk, steps, a, a_row, sum);
    else
        add_rows(3, 2, chunk, steps, a, a_row, sum);
}

/* Computes the sums of one block of steps, sum[panel * GROUPS + group][row]. */
static void multiply_packed(int storage, const bool *usual, int panels, const column_set *set, int rows, const real *a,
                            int64_t a_row, int64_t steps, vec (*sum)[TILE_ROWS])
{
    packed_chunk chunk;
    chunk.panels = panels;
    for (int s = 0; s < panels * GROUPS; s++)
        for (int i = 0; i < rows; i++)
            sum[s][i] = (vec){0};
    for (int64_t first = 0; first < steps; first += CHUNK_STEPS) {
        const int64_t count = steps - first < CHUNK_STEPS ? steps - first : CHUNK_STEPS;
        for (int p = 0; p < panels; p++) {
            const column_use use = {.set = set + p * GROUPS,
                                    .panel = chunk.number[p],
                                    .panel_step = first,
                                    .near = near_bytes(storage) + steps_bytes(storage, first)};
            if (count == CHUNK_STEPS)
                pack_chunk(storage, usual[p], &use, first);
            else
                for (int64_t step = first; step < steps; step++)
                    pack_step(storage, &use, step);
        }
        add_chunk(rows, &chunk, count, a + first, a_row, sum);
    }
}

#endif

/* -- panels of columns -- */

/* Prepares a panel of `columns` columns for `steps` steps. Returns whether all its scales are positive and finite. */
static bool prepare_panel(int storage, column_set *set, const char *first, int64_t line_bytes, int64_t columns,
                          int64_t steps)
{
    bool usual = true;
    for (int64_t g = 0; g < GROUPS; g++) {
        const int64_t before = g * TH_REGISTER_LANES < columns ? g * TH_REGISTER_LANES : columns - 1;
        usual &= prepare_columns(storage, &set[g], first + before * line_bytes, line_bytes, columns - before, steps);
#if TH_STORED
        if (has_parts(storage))
            read_part_scales(storage, &set[g], steps / PART);
#endif
    }
    return usual;
}

TH_INLINE void write_row(real *c, const real *init, int64_t columns, int64_t apart, const real *total)
{
    for (int64_t x = 0; x < columns; x++)
        c[x * apart] = init ? init[x * apart] + total[x] : total[x];
}

/* c = init + sum for the rows and columns of a panel. */
static void write_sums(const th_product_block *block, bool first, int64_t j, int64_t columns, int64_t apart,
                       vec (*sum)[TILE_ROWS])
{
    for (int64_t i = 0; i < block->m; i++) {
        real *c = (real *)block->c + i * block->c_row + j;
        const real *init = !first ? c : block->init ? (const real *)block->init + i * block->init_row + j : NULL;
        real total[TILE_COLUMNS];
        for (int g = 0; g < GROUPS; g++)
            *(vec *)&total[g * TH_REGISTER_LANES] = sum[g][i];
        if (columns == TILE_COLUMNS)
            write_row(c, init, TILE_COLUMNS, apart, total);
        else
            write_row(c, init, columns, apart, total);
    }
}

/* Computes `columns` columns of C in each panel. The first panel has column j, the second column j + 1, and the next
 * column of a panel is `apart` columns later. */
static void stream_panels(int storage, const th_product_block *block, int64_t b_bytes, int panels, int64_t j,
                          int64_t columns, int64_t apart)
{
    column_set set[SUMS];
    vec sum[SUMS][TILE_ROWS];
    bool usual[PANELS];
    direct_function *const direct_loop = find_direct_loop(storage, block->m);
    for (int64_t step = 0; step < block->k; step += TH_PRODUCT_BLOCK) {
        const int64_t steps = block->k - step < TH_PRODUCT_BLOCK ? block->k - step : TH_PRODUCT_BLOCK;
        const char *b = (const char *)block->b + j * b_bytes + steps_bytes(storage, step);
        const real *a = (const real *)block->a + step;
        for (int p = 0; p < panels; p++)
            usual[p] = prepare_panel(storage, set + p * GROUPS, b + p * b_bytes, apart * b_bytes, columns, steps);
#if TH_STORED
        if (!direct_loop || (TH_FUSED && !usual[0]))
            multiply_packed(storage, usual, panels, set, (int)block->m, a, block->a_row, steps, sum);
        else
#endif
            direct_loop(set, a, block->a_row, steps, sum);
        (void)usual;
        for (int p = 0; p < panels; p++)
            write_sums(block, step == 0, j + p, columns, apart, sum + p * GROUPS);
    }
}

/* Like product_block, over all steps of k, for 1 to TH_STREAM_ROWS rows. A's columns and B's rows are contiguous.
 * Column j of B begins j * b_bytes bytes after the first one. b_storage: a storage type (float32 only), or 0. */
void TH_KERNEL(product_stream)(const th_product_block *block, int b_storage, int64_t b_bytes)
{
    const int storage = b_storage ? b_storage : PLAIN;
    const int64_t apart = th_columns_apart(block->n, TILE_COLUMNS);
    const int together = find_direct_loop(storage, block->m) ? 1 : PANELS;
    for (int64_t j = 0; j < apart; j += together)
        stream_panels(storage, block, b_bytes, apart - j < together ? 1 : together, j, TILE_COLUMNS, apart);
    for (int64_t j = apart * TILE_COLUMNS; j < block->n; j += TILE_COLUMNS)
        stream_panels(storage, block, b_bytes, 1, j, block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS, 1);
}

/* Like product_pack_b, for a B with a storage type and contiguous columns. There are at most TH_PRODUCT_BLOCK steps,
 * and the first is a multiple of that number. Float32 only. */
void TH_KERNEL(product_pack_stored)(int64_t k, int64_t n, const void *b, int b_storage, int64_t b_bytes, void *panels,
                                    int64_t stride)
{
#if TH_STORED
    for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
        const int64_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
        column_set set[GROUPS];
        const column_use use = {.groups = GROUPS, .set = set, .panel = (real *)panels + j / TILE_COLUMNS * stride};
        const bool usual = prepare_panel(b_storage, set, (const char *)b + j * b_bytes, b_bytes, columns, k);
        int64_t step = 0;
        for (; step + CHUNK_STEPS <= k; step += CHUNK_STEPS)
            pack_chunk(b_storage, usual, &use, step);
        for (; step < k; step++)
            pack_step(b_storage, &use, step);
    }
#else
    (void)k, (void)n, (void)b, (void)b_storage, (void)b_bytes, (void)panels, (void)stride;
#endif
}
