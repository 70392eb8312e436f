/* Multiplies few rows by B in place, in one bfloat16 part, with tiles (for amx.c). B is float32, or stored as bfloat16.
 * The time to read B limits the speed, so B is read once and not transposed: tiles compute the transpose of C. A row of
 * the first operand is a column of B, whose steps are contiguous. A stored B is loaded into tiles from its place. The
 * second operand is A, packed like a panel of B. The two numbers of a product change places, which changes no bit. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_AMX_FEW_ROWS_H
#define TH_KERNELS_BFLOAT16_VECTOR_AMX_FEW_ROWS_H

#include "kernels/bfloat16/vector/amx_tiles.h"

_Static_assert((int)TH_FEW_PART_ROWS <= (int)TILE_LINES, "few rows are one tile of A");

enum { NEAR_BYTES = 256 /* from a loaded line to the line of the same column that is prefetched meanwhile */ };

/* At most 32 columns of B. */
typedef struct few_columns {
    const char *b; /* the first step of the first column */
    int64_t count;
    int64_t column_bytes; /* from one of these columns to the next */
} few_columns;

/* The transposes of two tiles of C, and two tiles of B. */
typedef struct few_buffer {
    _Alignas(TILE_ROW_BYTES) float c[2][TILE_LINES][TILE_LINES];
    _Alignas(TILE_ROW_BYTES) char b[2][TILE_BYTES];
} few_buffer;

/* A tile in memory. */
typedef struct few_tile {
    const char *data;
    int64_t row_bytes;
} few_tile;

/* Packs 16 columns from column `first` on, from b on, over `steps` steps. Missing columns repeat the last one. */
TH_INLINE void pack_columns(bool stored, const few_columns *columns, int64_t first, const void *b, int64_t steps,
                            char *tile)
{
    const int64_t last = columns->count - first - 1;
    if (stored) {
        const char *from = b;
        const __mmask32 given = (__mmask32)(steps >= TH_PART_GROUP ? 0xffffffff : (1U << steps) - 1);
        UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
            _mm512_store_si512(tile + i * TILE_ROW_BYTES,
                               _mm512_maskz_loadu_epi16(given, from + (i < last ? i : last) * columns->column_bytes));
    } else {
        const part_operand group = {.lines = last + 1,
                                    .k = steps,
                                    .data = b,
                                    .line_stride = columns->column_bytes / (int64_t)sizeof(float),
                                    .step_stride = 1,
                                    .panels = tile};
        pack_tile(1, true, STEPS_DENSE, &group, 0, 0);
    }
    order_stores();
}

/* Returns 16 columns of B from column `first` on, over the next group of `steps` steps: in place if B is stored and
 * nothing is missing, otherwise packed. Prefetches the same columns. */
TH_INLINE few_tile columns_of_b(bool stored, const few_columns *columns, int64_t first, int64_t step, int64_t steps,
                                char *tile)
{
    const int64_t size = stored ? sizeof(uint16_t) : sizeof(float);
    const char *b = columns->b + first * columns->column_bytes + step * size;
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        UNROLLED_FOR (int64_t byte = 0; byte < TH_PART_GROUP * size; byte += TILE_ROW_BYTES)
            _mm_prefetch(b + i * columns->column_bytes + NEAR_BYTES + byte, _MM_HINT_T0);
    if (stored && columns->count - first >= TILE_LINES && steps >= TH_PART_GROUP)
        return (few_tile){b, columns->column_bytes};
    pack_columns(stored, columns, first, b, steps, tile);
    return (few_tile){tile, TILE_ROW_BYTES};
}

/* Adds the products of these columns. two: they need two tiles. */
TH_INLINE void add_few_products(bool stored, bool two, const th_product_block *block, const few_columns *columns,
                                few_buffer *buffer)
{
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        const few_tile first = columns_of_b(stored, columns, 0, step, block->k - step, buffer->b[0]);
        _tile_loadd(B0, (const char *)block->a + step / TH_PART_GROUP * PANEL_PART_BYTES, TILE_ROW_BYTES);
        _tile_loadd(A0, first.data, first.row_bytes);
        _tile_dpbf16ps(C00, A0, B0);
        if (two) {
            const few_tile second = columns_of_b(stored, columns, TILE_LINES, step, block->k - step, buffer->b[1]);
            _tile_loadd(A1, second.data, second.row_bytes);
            _tile_dpbf16ps(C10, A1, B0);
        }
    }
}

/* Computes C for `count` columns of B: column j and the others at this distance. */
TH_INLINE void multiply_few_columns(bool stored, bool two, const th_product_block *block, int64_t j, int64_t count,
                                    int64_t apart)
{
    const int64_t line_bytes = block->b_panel * (int64_t)(stored ? sizeof(uint16_t) : sizeof(float));
    const few_columns columns = {(const char *)block->b + j * line_bytes, count, apart * line_bytes};
    few_buffer buffer;
    float(*c)[TILE_LINES] = buffer.c[0]; /* [column][row] */
    _tile_zero(C00);
    _tile_zero(C10);
    if (block->init) {
        memset(buffer.c, 0, sizeof buffer.c);
        for (int64_t x = 0; x < count; x++)
            for (int64_t i = 0; i < block->m; i++)
                c[x][i] = ((const float *)block->init)[i * block->init_row + j + x * apart];
        order_stores();
        _tile_loadd(C00, buffer.c[0], TILE_ROW_BYTES);
        _tile_loadd(C10, buffer.c[1], TILE_ROW_BYTES);
    }
    add_few_products(stored, two, block, &columns, &buffer);
    _tile_stored(C00, buffer.c[0], TILE_ROW_BYTES);
    _tile_stored(C10, buffer.c[1], TILE_ROW_BYTES);
    order_stores();
    for (int64_t i = 0; i < block->m; i++)
        for (int64_t x = 0; x < count; x++)
            ((float *)block->c)[i * block->c_row + j + x * apart] = c[x][i];
}

TH_INLINE void multiply_few_rows(bool stored, const th_product_block *block)
{
    const int64_t apart = th_columns_apart(block->n, PANEL_LINES);
    _tile_loadconfig(&full_tiles);
    for (int64_t j = 0; j < apart; j++)
        multiply_few_columns(stored, true, block, j, PANEL_LINES, apart);
    for (int64_t j = apart * PANEL_LINES; j < block->n; j += PANEL_LINES)
        if (block->n - j > TILE_LINES)
            multiply_few_columns(stored, true, block, j, th_smaller(block->n - j, PANEL_LINES), 1);
        else
            multiply_few_columns(stored, false, block, j, block->n - j, 1);
    _tile_release();
}

/* th_product_kernels.few_rows for one part. */
static __attribute__((noinline)) void few_rows_amx(const th_product_block *block)
{
    multiply_few_rows(false, block);
}

/* th_product_kernels.few_rows_stored */
static __attribute__((noinline)) void few_rows_stored_amx(const th_product_block *block)
{
    multiply_few_rows(true, block);
}

#endif
