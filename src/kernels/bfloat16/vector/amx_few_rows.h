/* Multiplies few rows by B in place, in one bfloat16 part, with tiles (for amx.c). B is float32, or stored as bfloat16.
 * The time to read B limits the speed, so B is read once and not transposed: tiles compute the transpose of C. A row of
 * the first operand is a column of B, whose steps are contiguous. A stored B is loaded into tiles from its place. The
 * second operand is A, packed like a panel of B. The two numbers of a product change places, which changes no bit. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_AMX_FEW_ROWS_H
#define TH_KERNELS_BFLOAT16_VECTOR_AMX_FEW_ROWS_H

#include "kernels/bfloat16/vector/amx_tiles.h"

_Static_assert((int)TH_FEW_PART_ROWS <= (int)TILE_LINES, "few rows are one tile of A");

enum { NEAR_BYTES = 256 };

/* The transposes of two tiles of C, and two tiles of B. */
typedef struct few_buffer {
    _Alignas(TILE_ROW_BYTES) float c[2][TILE_LINES][TILE_LINES];
    _Alignas(TILE_ROW_BYTES) char b[2][TILE_BYTES];
} few_buffer;

/* A tile in memory. */
typedef struct few_tile {
    const char *at;
    int64_t row_bytes;
} few_tile;

/* Packs 16 columns of B over one group of steps, from `column` and `step` on. Missing columns repeat the last one. */
TH_INLINE void pack_columns(bool stored, const th_product_block *block, int64_t column, int64_t step, char *tile)
{
    const int64_t last = block->n - column - 1, steps = block->k - step, line = block->b_panel;
    if (stored) {
        const uint16_t *from = (const uint16_t *)block->b + column * line + step;
        const __mmask32 given = (__mmask32)(steps >= TH_PART_GROUP ? 0xffffffff : (1U << steps) - 1);
        UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
            _mm512_store_si512(tile + i * TILE_ROW_BYTES,
                               _mm512_maskz_loadu_epi16(given, from + (i < last ? i : last) * line));
    } else {
        const part_operand group = {.lines = last + 1,
                                    .k = steps,
                                    .at = (const float *)block->b + column * line + step,
                                    .line = line,
                                    .step = 1,
                                    .panels = tile};
        pack_tile(1, true, STEPS_DENSE, &group, 0, 0);
    }
    finish_stores();
}

/* Returns 16 columns of B over one group of steps: in place if it is stored and nothing is missing, otherwise packed. */
TH_INLINE few_tile columns_of_b(bool stored, const th_product_block *block, int64_t column, int64_t step, char *tile)
{
    if (stored && block->n - column >= TILE_LINES && block->k - step >= TH_PART_GROUP)
        return (few_tile){(const char *)((const uint16_t *)block->b + column * block->b_panel + step),
                          block->b_panel * (int64_t)sizeof(uint16_t)};
    pack_columns(stored, block, column, step, tile);
    return (few_tile){tile, TILE_ROW_BYTES};
}

/* Prefetches the lines of 16 columns that are NEAR_BYTES behind this group of steps, or in the next panel. */
TH_INLINE void prefetch_columns(bool stored, const th_product_block *block, int64_t column, int64_t step)
{
    const int64_t size = stored ? sizeof(uint16_t) : sizeof(float), line_bytes = block->b_panel * size;
    const int64_t near = step * size + NEAR_BYTES, row_bytes = block->k * size;
    const char *at = (const char *)block->b + column * line_bytes + near;
    if (near >= row_bytes)
        at += PANEL_LINES * line_bytes - row_bytes;
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        UNROLLED_FOR (int64_t byte = 0; byte < TH_PART_GROUP * size; byte += TILE_ROW_BYTES)
            _mm_prefetch(at + i * line_bytes + byte, _MM_HINT_T0);
}

/* Adds the products of a panel of columns. two: it has a second tile. */
TH_INLINE void add_few(bool stored, bool two, const th_product_block *block, int64_t column, few_buffer *buffer)
{
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        prefetch_columns(stored, block, column, step);
        const few_tile first = columns_of_b(stored, block, column, step, buffer->b[0]);
        _tile_loadd(B0, (const char *)block->a + step / TH_PART_GROUP * PANEL_PART_BYTES, TILE_ROW_BYTES);
        _tile_loadd(A0, first.at, first.row_bytes);
        _tile_dpbf16ps(C00, A0, B0);
        if (two) {
            prefetch_columns(stored, block, column + TILE_LINES, step);
            const few_tile second = columns_of_b(stored, block, column + TILE_LINES, step, buffer->b[1]);
            _tile_loadd(A1, second.at, second.row_bytes);
            _tile_dpbf16ps(C10, A1, B0);
        }
    }
}

/* Loads init of 16 columns, transposed. */
TH_INLINE void load_init(const th_product_block *block, int64_t column, float c[TILE_LINES][TILE_LINES])
{
    __m512 row[TILE_LINES];
    const __mmask16 given = first_lanes(block->n - column);
    const float *init = (const float *)block->init + column;
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        row[i] = i < block->m ? _mm512_maskz_loadu_ps(given, init + i * block->init_row) : _mm512_setzero_ps();
    transpose_registers((vec *)row);
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        _mm512_store_ps(c[i], row[i]);
    finish_stores();
}

/* Stores 16 columns of C. */
TH_INLINE void store_columns(const th_product_block *block, int64_t column, float c[TILE_LINES][TILE_LINES])
{
    __m512 row[TILE_LINES];
    const __mmask16 given = first_lanes(block->n - column);
    float *to = (float *)block->c + column;
    finish_stores();
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        row[i] = _mm512_load_ps(c[i]);
    transpose_registers((vec *)row);
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
        if (i < block->m)
            _mm512_mask_storeu_ps(to + i * block->c_row, given, row[i]);
}

/* Computes a panel of columns from `column`. */
TH_INLINE void few_columns(bool stored, bool two, const th_product_block *block, int64_t column)
{
    few_buffer buffer;
    _tile_zero(C00);
    _tile_zero(C10);
    if (block->init) {
        load_init(block, column, buffer.c[0]);
        _tile_loadd(C00, buffer.c[0], TILE_ROW_BYTES);
        if (two) {
            load_init(block, column + TILE_LINES, buffer.c[1]);
            _tile_loadd(C10, buffer.c[1], TILE_ROW_BYTES);
        }
    }
    add_few(stored, two, block, column, &buffer);
    _tile_stored(C00, buffer.c[0], TILE_ROW_BYTES);
    store_columns(block, column, buffer.c[0]);
    if (two) {
        _tile_stored(C10, buffer.c[1], TILE_ROW_BYTES);
        store_columns(block, column + TILE_LINES, buffer.c[1]);
    }
}

TH_INLINE void few_rows_by(bool stored, const th_product_block *block)
{
    _tile_loadconfig(&whole_tiles);
    for (int64_t column = 0; column < block->n; column += PANEL_LINES)
        if (block->n - column > TILE_LINES)
            few_columns(stored, true, block, column);
        else
            few_columns(stored, false, block, column);
    _tile_release();
}

/* th_product_kernels.few_rows for one part. */
static __attribute__((noinline)) void few_rows_amx(const th_product_block *block)
{
    few_rows_by(false, block);
}

/* th_product_kernels.few_rows_stored */
static __attribute__((noinline)) void few_rows_stored_amx(const th_product_block *block)
{
    few_rows_by(true, block);
}

#endif
