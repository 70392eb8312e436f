/* Multiplies few rows by B in place, in one bfloat16 part, with dot products (for dpbf16.c). B is float32, or stored as
 * bfloat16. The time to read B limits the speed, so B is read once. A square of B is a register of columns over a group
 * of steps. It is turned into pairs in registers and used at once. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_DPBF16_FEW_ROWS_H
#define TH_KERNELS_BFLOAT16_VECTOR_DPBF16_FEW_ROWS_H

#include "kernels/bfloat16/vector/dpbf16_panels.h"

typedef pair pairs __attribute__((vector_size(TH_VECTOR_BYTES), aligned(4), may_alias));

/* sum += the upper products, then the lower ones. */
TH_INLINE vec add_products(vec sum, pairs a, pairs b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

/* Returns the packed A of row `row`, from this group of steps on. */
TH_INLINE const pair *a_of_rows(const th_product_block *block, int64_t row, int64_t group)
{
    return (const pair *)block->a + row / TILE_ROWS * block->a_panel + row % TILE_ROWS * GROUP_PAIRS +
           group * GROUP_OF_A;
}

/* c += the products of one row of A over a group of steps: add_group in dpbf16.c for one register. */
TH_INLINE vec add_square(const pair *a, const vec pair_of[GROUP_PAIRS], vec c)
{
    vec sum[2] = {{0}, {0}};
    UNROLLED_FOR (int i = 0; i < GROUP_PAIRS; i++)
        sum[i % 2] = add_products(sum[i % 2], a[i] - (pairs){0}, (pairs)pair_of[i]);
    return c + (sum[0] + sum[1]);
}

/* Like load_lines, for numbers that are stored as bfloat16. Dot products count denormal numbers as 0. */
TH_INLINE void load_stored_lines(const uint16_t *from, int64_t line, int64_t lines, int64_t steps, square to)
{
    const __mmask32 given = (__mmask32)(steps >= TH_PART_GROUP ? 0xffffffff : (1U << steps) - 1);
    UNROLLED_FOR (int i = 0; i < PART_LANES; i++)
        to[0][i] = (vec)quads_to_pairs(_mm512_maskz_loadu_epi16(given, from + (i < lines ? i : lines - 1) * line));
}

/* Prefetches the columns after a square into the second-level cache. */
TH_INLINE void prefetch_behind(const float *at, int64_t column)
{
    UNROLLED_FOR (int i = PART_LANES; i < 2 * PART_LANES; i++) {
        __builtin_prefetch(at + i * column, 0, 2);
        __builtin_prefetch(at + i * column + PART_LANES, 0, 2);
    }
}

/* The same for stored columns, in the order of memory. first: the first steps of the columns. */
TH_INLINE void prefetch_stored_behind(const uint16_t *first, int64_t column, int64_t step)
{
    UNROLLED_FOR (int i = 0; i < PART_LANES; i++)
        __builtin_prefetch(first + PART_LANES * (column + step) + i * TH_PART_GROUP, 0, 2);
}

TH_INLINE void load_columns(bool stored, const th_product_block *block, int64_t j, int64_t columns, int64_t step,
                            square pair_of)
{
    const int64_t column = block->b_panel, steps = block->k - step;
    if (stored) {
        const uint16_t *first = (const uint16_t *)block->b + j * column, *at = first + step;
        prefetch_stored_behind(first, column, step);
        if (columns == PART_LANES && steps >= TH_PART_GROUP)
            load_stored_lines(at, column, PART_LANES, TH_PART_GROUP, pair_of);
        else
            load_stored_lines(at, column, columns, steps, pair_of);
    } else {
        const float *at = (const float *)block->b + j * column + step;
        prefetch_behind(at, column);
        if (columns == PART_LANES && steps >= TH_PART_GROUP)
            load_lines(1, PART_LANES, at, column, PART_LANES, TH_PART_GROUP, pair_of);
        else
            load_lines(1, PART_LANES, at, column, columns, steps, pair_of);
    }
}

/* Computes a register of columns from j, or fewer at the end. */
TH_INLINE void multiply_few_columns(bool stored, int64_t rows, const th_product_block *block, int64_t j)
{
    const int64_t columns = th_smaller(block->n - j, PART_LANES);
    vec c[TH_FEW_PART_ROWS];
    for (int64_t i = 0; i < rows; i++)
        c[i] = block->init ? vec_load_part((const float *)block->init + i * block->init_row + j, columns, 0) : (vec){0};
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        square pair_of;
        load_columns(stored, block, j, columns, step, pair_of);
        transpose_registers(pair_of[0]);
        for (int64_t i = 0; i < rows; i++)
            c[i] = add_square(a_of_rows(block, i, step / TH_PART_GROUP), pair_of[0], c[i]);
    }
    for (int64_t i = 0; i < rows; i++)
        vec_store_part((float *)block->c + i * block->c_row + j, columns, c[i]);
}

TH_INLINE void multiply_few_rows(bool stored, const th_product_block *block)
{
    for (int64_t j = 0; j < block->n; j += PART_LANES)
        if (block->m == 1)
            multiply_few_columns(stored, 1, block, j);
        else
            multiply_few_columns(stored, block->m, block, j);
}

/* th_product_kernels.few_rows for one part. */
static __attribute__((noinline)) void few_rows_dpbf16(const th_product_block *block)
{
    multiply_few_rows(false, block);
}

/* th_product_kernels.few_rows_stored */
static __attribute__((noinline)) void few_rows_stored_dpbf16(const th_product_block *block)
{
    multiply_few_rows(true, block);
}

#endif
