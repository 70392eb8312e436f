/* Multiplies one to three rows by a matrix whose columns are contiguous and may be stored (a dense layer while it
 * generates one token, y = x Wᵀ). Reading B from memory takes the time. So a panel of columns is read over all steps of
 * k before the next one, and prefetched in the order in which the processor reads fastest (docs/internals/products.md).
 * Each element of C is the same sums as in the other kernels: one for each TH_PRODUCT_BLOCK steps. */
#include "kernels/products/vector/columns.h"

/* Returns how far before its use a column is prefetched. The scales of a block of steps are read first, so they must be
 * there before. */
TH_INLINE int64_t near_bytes(int storage)
{
    return storage == TH_Q8_0 || storage == TH_Q4_0 ? steps_bytes(storage, TH_PRODUCT_BLOCK) + 64 : 256;
}

/* Adds the products of one block of steps. */
TH_INLINE void add_block(int storage, bool usual, int64_t steps, column_use *use)
{
    const int64_t chunk = chunk_steps(storage);
    int64_t step = 0;
    use->near = near_bytes(storage);
    for (; step + chunk <= steps; step += chunk) {
        use_chunk(storage, usual, use, step);
        use->near += steps_bytes(storage, chunk);
    }
    for (; step < steps; step++)
        use_step(storage, use, step);
}

/* Computes `rows` rows and `columns` columns of C, at most a panel: column j and the others at this distance. */
TH_INLINE void stream_panel(int rows, int storage, const th_product_block *block, int64_t b_bytes, int64_t j,
                            int64_t columns, int64_t apart)
{
    column_set set[GROUPS];
    vec sum[GROUPS][TILE_ROWS];
    column_use use = {.groups = GROUPS, .set = set, .rows = rows, .a_row = block->a_row, .a_col = 1, .sum = sum};
    const char *b = (const char *)block->b + j * b_bytes;
    const int64_t line_bytes = apart * b_bytes;
    for (int64_t step = 0; step < block->k; step += TH_PRODUCT_BLOCK) {
        const int64_t steps = block->k - step < TH_PRODUCT_BLOCK ? block->k - step : TH_PRODUCT_BLOCK;
        const char *first = b + steps_bytes(storage, step);
        bool usual = true;
        UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
            const int64_t before = g * TH_REGISTER_LANES < columns ? g * TH_REGISTER_LANES : columns - 1;
            usual &=
                prepare_columns(storage, &set[g], first + before * line_bytes, line_bytes, columns - before, steps);
            UNROLLED_FOR (int i = 0; i < rows; i++)
                sum[g][i] = (vec){0};
        }
        use.a = (const real *)block->a + step;
        if (usual)
            add_block(storage, true, steps, &use);
        else
            add_block(storage, false, steps, &use);
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            real *c = (real *)block->c + i * block->c_row + j;
            const real *init = step > 0 ? c : block->init ? (const real *)block->init + i * block->init_row + j : NULL;
            real total[TILE_COLUMNS];
            UNROLLED_FOR (int g = 0; g < GROUPS; g++)
                *(vec *)&total[g * TH_REGISTER_LANES] = sum[g][i];
            for (int64_t x = 0; x < columns; x++)
                c[x * apart] = init ? init[x * apart] + total[x] : total[x];
        }
    }
}

TH_INLINE void stream_rows(int rows, int storage, const th_product_block *block, int64_t b_bytes)
{
    const int64_t apart = th_columns_apart(block->n, TILE_COLUMNS);
    for (int64_t j = 0; j < apart; j++)
        stream_panel(rows, storage, block, b_bytes, j, TILE_COLUMNS, apart);
    for (int64_t j = apart * TILE_COLUMNS; j < block->n; j += TILE_COLUMNS)
        stream_panel(rows, storage, block, b_bytes, j, block->n - j < TILE_COLUMNS ? block->n - j : TILE_COLUMNS, 1);
}

#define STREAM(type, storage)                                                                                          \
    static void stream_##type(const th_product_block *block, int64_t b_bytes)                                          \
    {                                                                                                                  \
        if (block->m == 1)                                                                                             \
            stream_rows(1, storage, block, b_bytes);                                                                   \
        else if (block->m == 2)                                                                                        \
            stream_rows(2, storage, block, b_bytes);                                                                   \
        else                                                                                                           \
            stream_rows(3, storage, block, b_bytes);                                                                   \
    }

STREAM(plain, PLAIN)
#if TH_REAL_BITS == 32
STREAM(bfloat16, TH_BFLOAT16)
STREAM(float16, TH_FLOAT16)
STREAM(q8_0, TH_Q8_0)
STREAM(q4_0, TH_Q4_0)
#endif

/* Like product_block, over all steps of k, for 1 to TH_STREAM_ROWS rows. A's columns and B's rows are contiguous.
 * Column j of B begins j * b_bytes bytes after the first one. b_storage: a storage type (float32 only), or 0. */
void TH_KERNEL(product_stream)(const th_product_block *block, int b_storage, int64_t b_bytes)
{
#if TH_REAL_BITS == 32
    switch (b_storage) {
    case TH_BFLOAT16:
        stream_bfloat16(block, b_bytes);
        return;
    case TH_FLOAT16:
        stream_float16(block, b_bytes);
        return;
    case TH_Q8_0:
        stream_q8_0(block, b_bytes);
        return;
    case TH_Q4_0:
        stream_q4_0(block, b_bytes);
        return;
    default:
        break;
    }
#endif
    (void)b_storage;
    stream_plain(block, b_bytes);
}

#if TH_REAL_BITS == 32

/* Packs one panel of columns. */
TH_INLINE void pack_columns(int storage, int64_t k, int64_t columns, const char *b, int64_t b_bytes, real *panel)
{
    column_set set[GROUPS];
    const column_use use = {.groups = GROUPS, .set = set, .panel = panel};
    bool usual = true;
    UNROLLED_FOR (int g = 0; g < GROUPS; g++) {
        const int64_t before = g * TH_REGISTER_LANES < columns ? g * TH_REGISTER_LANES : columns - 1;
        usual &= prepare_columns(storage, &set[g], b + before * b_bytes, b_bytes, columns - before, k);
    }
    int64_t step = 0;
    for (; step + CHUNK_STEPS <= k && usual; step += CHUNK_STEPS)
        use_chunk(storage, true, &use, step);
    for (; step + CHUNK_STEPS <= k; step += CHUNK_STEPS)
        use_chunk(storage, false, &use, step);
    for (; step < k; step++)
        use_step(storage, &use, step);
}

#endif

/* Like product_pack_b, for a stored B with contiguous columns, over at most TH_PRODUCT_BLOCK steps from a multiple of
 * them on. Float32 only. */
void TH_KERNEL(product_pack_stored)(int64_t k, int64_t n, const void *b, int b_storage, int64_t b_bytes, void *panels,
                                    int64_t stride)
{
#if TH_REAL_BITS == 32
    for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
        const int64_t columns = n - j < TILE_COLUMNS ? n - j : TILE_COLUMNS;
        const char *first = (const char *)b + j * b_bytes;
        real *panel = (real *)panels + j / TILE_COLUMNS * stride;
        switch (b_storage) {
        case TH_BFLOAT16:
            pack_columns(TH_BFLOAT16, k, columns, first, b_bytes, panel);
            break;
        case TH_FLOAT16:
            pack_columns(TH_FLOAT16, k, columns, first, b_bytes, panel);
            break;
        case TH_Q8_0:
            pack_columns(TH_Q8_0, k, columns, first, b_bytes, panel);
            break;
        default:
            pack_columns(TH_Q4_0, k, columns, first, b_bytes, panel);
            break;
        }
    }
#else
    (void)k, (void)n, (void)b, (void)b_storage, (void)b_bytes, (void)panels, (void)stride;
#endif
}
