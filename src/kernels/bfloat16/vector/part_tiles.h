/* Iterates over the tiles of C that fma.c and dpbf16.c compute; loads and stores them, and recomputes NaN
 * (product.h). */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_PART_TILES_H
#define TH_KERNELS_BFLOAT16_VECTOR_PART_TILES_H

#include "kernels/bfloat16/vector/part_kernels.h"
#include "kernels/products/vector/product.h"
#include "kernels/vector/registers.h"

/* The sums of a row of a tile, between two groups of steps. */
typedef float sum_row[TILE_COLUMNS] __attribute__((aligned(TH_VECTOR_BYTES)));

/* sum += the products of a tile with this many rows. Operands have `parts` parts. both: multiply both parts, otherwise
 * only the first. */
typedef void add_tile_function(int parts, bool both, int64_t rows, const tile_operands *t, sum_row *sum);

TH_INLINE void load_sums(int64_t rows, const tile_operands *t, sum_row *sum)
{
    for (int64_t i = 0; i < rows; i++) {
        if (t->init == NULL || t->columns < TILE_COLUMNS)
            memset(sum[i], 0, sizeof sum[i]);
        else
            memcpy(sum[i], t->init + i * t->init_row, sizeof sum[i]);
        if (t->init && t->columns < TILE_COLUMNS)
            memcpy(sum[i], t->init + i * t->init_row, (size_t)t->columns * sizeof(float));
    }
}

TH_INLINE void store_sums(int64_t rows, const tile_operands *t, sum_row *sum)
{
    for (int64_t i = 0; i < rows; i++) {
        float *to = t->c + i * t->c_row;
        if (t->columns == TILE_COLUMNS)
            memcpy(to, sum[i], sizeof sum[i]);
        else
            memcpy(to, sum[i], (size_t)t->columns * sizeof(float));
    }
}

/* Returns whether any sum is NaN. Lanes after the last column are arbitrary and do not count. */
TH_INLINE bool any_nan(int64_t rows, int64_t columns, sum_row *sum)
{
    vec_int any = {0};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += TH_REGISTER_LANES) {
            const float *at = &sum[i][j];
            const vec x = columns - j < TH_REGISTER_LANES ? vec_load_part(at, columns - j, 0) : vec_load(at);
            any |= x != x;
        }
    return vec_any(any);
}

/* Recomputes the sums that are NaN from the first parts alone. */
static __attribute__((noinline)) void recompute_nan(add_tile_function *add_tile, int64_t rows, const tile_operands *t,
                                                    sum_row *sum)
{
    sum_row first[TILE_ROWS];
    load_sums(rows, t, first);
    add_tile(MAX_PARTS, false, rows, t, first);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < t->columns; j++)
            if (sum[i][j] != sum[i][j])
                sum[i][j] = first[i][j];
}

/* Computes a block of C in tiles of up to `height` rows. a_row: elements from one row to the next in a packed group. */
TH_INLINE void multiply_tiles(int parts, int height, int a_row, add_tile_function *add_tile,
                              const th_product_block *block)
{
    sum_row sum[TILE_ROWS];
    tile_operands t = {.k = block->k, .c_row = block->c_row, .init_row = block->init_row};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const float *)block->b + j / TILE_COLUMNS * block->b_panel;
        t.columns = th_smaller(block->n - j, TILE_COLUMNS);
        for (int64_t i = 0; i < block->m; i += height) {
            const int64_t rows = th_smaller(block->m - i, height);
            t.a = (const float *)block->a + i / TILE_ROWS * block->a_panel + i % TILE_ROWS * a_row;
            t.c = (float *)block->c + i * block->c_row + j;
            t.init = block->init ? (const float *)block->init + i * block->init_row + j : NULL;
            load_sums(rows, &t, sum);
            add_tile(parts, parts > 1, rows, &t, sum);
            if (parts > 1 && any_nan(rows, t.columns, sum))
                recompute_nan(add_tile, rows, &t, sum);
            store_sums(rows, &t, sum);
        }
    }
}

#endif
