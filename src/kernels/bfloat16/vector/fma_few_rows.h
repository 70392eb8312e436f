/* Multiplies few rows by B in place, in one bfloat16 part, with fused multiply-adds (for fma.c). The time to read B
 * limits the speed, so B is read once. A square of B has as many steps and columns as a register has lanes. It is
 * rounded and transposed in registers and used at once. The sums are those of fma.c: an even and an odd one for each
 * group of steps. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_FMA_FEW_ROWS_H
#define TH_KERNELS_BFLOAT16_VECTOR_FMA_FEW_ROWS_H

#include "kernels/bfloat16/vector/fma_panels.h"
#include "kernels/products/vector/product.h"
#ifdef __aarch64__
#include "kernels/bfloat16/vector/fma_underflow.h"
#endif

/* A square of B: some columns over TH_REGISTER_LANES steps, which are adjacent in memory. */
typedef struct few_square {
    const float *at;
    int64_t column;         /* stride */
    int64_t columns, steps; /* that exist; at least one column */
} few_square;

/* Rounds x to the nearest bfloat16 number, ties to even. Adding 2^16 times the power of two in x leaves 8 binary digits
 * of x. Denormal numbers count as 0. x must be so small that its square is finite. (A 0 may lose its sign, but this
 * does not change any sum, because every sum begins with +0.) */
TH_INLINE vec round_usual(vec x)
{
    const vec_bits exponent = (vec_bits)x & 0xff800000;
    const vec large = (vec)(exponent + (16 << 23));
    return (x + large) - large;
}

/* Loads the steps of column i, or of the last column if column i does not exist. whole: no column and no step is
 * missing. */
TH_INLINE vec load_column(bool whole, const few_square *s, int64_t i)
{
    const float *from = s->at + (whole || i < s->columns ? i : s->columns - 1) * s->column;
    if (whole || s->steps >= TH_REGISTER_LANES)
        return vec_load(from);
    return s->steps > 0 ? vec_load_part(from, s->steps, 0) : (vec){0};
}

/* Loads the parts of a square that has a number outside the range of round_usual. */
static __attribute__((noinline)) void load_unusual(const few_square *s, vec square[TH_REGISTER_LANES])
{
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        square[i] = vec_first_part(load_column(false, s, i));
}

/* square[i] = the parts of step i of all columns. Prefetches the columns after them into the second-level cache. */
TH_INLINE void load_square(bool whole, const few_square *s, vec square[TH_REGISTER_LANES])
{
    vec size[2] = {{0}, {0}};
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
        const vec x = load_column(whole, s, i);
        __builtin_prefetch(s->at + (TH_REGISTER_LANES + i) * s->column, 0, 2);
        size[i % 2] = vec_mul_add(x, x, size[i % 2]);
        square[i] = round_usual(x);
    }
    if (__builtin_expect(vec_any(~(size[0] + size[1] < vec_broadcast(INFINITY))), 0))
        load_unusual(s, square);
    transpose_registers(square);
}

/* The sum of a row, and its even and odd sums over one group of steps. */
typedef struct few_sums {
    vec c, even, odd;
} few_sums;

/* Returns a row of packed A, from the group that begins with `step` on. */
TH_INLINE const float *row_of_a(const th_product_block *block, int64_t row, int64_t step)
{
    return (const float *)block->a + row / TILE_ROWS * block->a_panel + row % TILE_ROWS + step * TILE_ROWS;
}

/* Adds the products of the square at step `first` of a group. a: the row's group. */
TH_INLINE void add_square(int first, const float *a, const vec square[TH_REGISTER_LANES], vec *even, vec *odd)
{
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
        vec *sum = i % 2 ? odd : even;
        *sum += vec_broadcast(a[(i % 2 * HALF_GROUP + (first + i) / 2) * TILE_ROWS]) * square[i];
    }
}

/* Adds one group of steps of a register of columns, beginning with `step`. */
TH_INLINE void add_few(int64_t rows, bool whole, const th_product_block *block, int64_t step, const few_square *group,
                       few_sums *sums)
{
    for (int64_t i = 0; i < rows; i++)
        sums[i].even = sums[i].odd = (vec){0};
    UNROLLED_FOR (int first = 0; first < TH_PART_GROUP; first += TH_REGISTER_LANES) {
        const few_square s = {group->at + first, group->column, group->columns, group->steps - first};
        vec square[TH_REGISTER_LANES];
        load_square(whole, &s, square);
        for (int64_t i = 0; i < rows; i++)
            add_square(first, row_of_a(block, i, step), square, &sums[i].even, &sums[i].odd);
    }
    for (int64_t i = 0; i < rows; i++)
        sums[i].c = sums[i].c + (sums[i].even + sums[i].odd);
}

#ifdef __aarch64__
/* Computes the sums of few_columns again, because some pass through tiny numbers (fma_underflow.h). */
static __attribute__((noinline)) void add_tiny_columns(const th_product_block *block, int64_t j, int64_t columns,
                                                       few_sums *sums)
{
    for (int64_t i = 0; i < block->m; i++)
        sums[i].c =
            block->init ? vec_load_part((const float *)block->init + i * block->init_row + j, columns, 0) : (vec){0};
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        for (int64_t i = 0; i < block->m; i++)
            sums[i].even = sums[i].odd = (vec){0};
        for (int first = 0; first < TH_PART_GROUP; first += TH_REGISTER_LANES) {
            const few_square s = {(const float *)block->b + j * block->b_panel + step + first, block->b_panel, columns,
                                  block->k - step - first};
            vec square[TH_REGISTER_LANES];
            load_unusual(&s, square);
            transpose_registers(square);
            for (int64_t i = 0; i < block->m; i++)
                for (int l = 0; l < TH_REGISTER_LANES; l++) {
                    const float a = row_of_a(block, i, step)[(l % 2 * HALF_GROUP + (first + l) / 2) * TILE_ROWS];
                    vec *sum = l % 2 ? &sums[i].odd : &sums[i].even;
                    *sum = flushing_mul_add(vec_broadcast(a), square[l], *sum);
                }
        }
        for (int64_t i = 0; i < block->m; i++)
            sums[i].c = flushing_add_sums(sums[i].c, sums[i].even, sums[i].odd);
    }
}
#endif

/* Computes a register of columns from j, or fewer at the end. */
TH_INLINE void few_columns(int64_t rows, const th_product_block *block, int64_t j)
{
    few_square group = {.at = (const float *)block->b + j * block->b_panel,
                        .column = block->b_panel,
                        .columns = th_smaller(block->n - j, TH_REGISTER_LANES)};
    few_sums sums[TH_FEW_PART_ROWS];
    for (int64_t i = 0; i < rows; i++)
        sums[i].c = block->init ? vec_load_part((const float *)block->init + i * block->init_row + j, group.columns, 0)
                                : (vec){0};
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP, group.at += TH_PART_GROUP) {
        group.steps = block->k - step;
        if (group.columns == TH_REGISTER_LANES && group.steps >= TH_PART_GROUP)
            add_few(rows, true, block, step, &group, sums);
        else
            add_few(rows, false, block, step, &group, sums);
    }
#ifdef __aarch64__
    if (th_float_underflowed(sums)) {
        th_float_state_set(TH_FLOAT_USUAL);
        add_tiny_columns(block, j, group.columns, sums);
        th_float_state_set(TH_FLOAT_FLUSH);
    }
#endif
    for (int64_t i = 0; i < rows; i++)
        vec_store_part((float *)block->c + i * block->c_row + j, group.columns, sums[i].c);
}

/* th_product_kernels.few_rows for one part. */
static __attribute__((noinline)) void few_rows_fma(const th_product_block *block)
{
    for (int64_t j = 0; j < block->n; j += TH_REGISTER_LANES)
        if (block->m == 1)
            few_columns(1, block, j);
        else
            few_columns(block->m, block, j);
}

#endif
