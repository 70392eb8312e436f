/* Multiplies few rows by B in place, in one bfloat16 part, with fused multiply-adds (for fma.c). B is float32, or
 * stored as bfloat16. The time to read B limits the speed, so B is read once. A square of B has as many columns and as
 * many units of 32 bits as a register has lanes. A unit is a float32 number or a pair of bfloat16 numbers. Float32
 * numbers are rounded. The square is transposed in registers and used at once. The sums are those of fma.c: an even and
 * an odd one for each group of steps. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_FMA_FEW_ROWS_H
#define TH_KERNELS_BFLOAT16_VECTOR_FMA_FEW_ROWS_H

#include "kernels/bfloat16/vector/fma_panels.h"
#include "kernels/products/vector/product.h"
#ifdef __aarch64__
#include "kernels/bfloat16/vector/fma_underflow.h"
#endif

/* A square of B: some columns over square_steps steps, which are adjacent in memory. */
typedef struct few_square {
    const char *data;
    int64_t column_bytes;   /* from one column to the next */
    int64_t columns, steps; /* that exist; at least one column */
} few_square;

TH_INLINE int64_t number_bytes(bool stored)
{
    return stored ? sizeof(uint16_t) : sizeof(float);
}

TH_INLINE int square_steps(bool stored)
{
    return stored ? 2 * TH_REGISTER_LANES : TH_REGISTER_LANES;
}

/* WebAssembly, riscv64 and ppc64le cannot count denormal operands as 0. There the functions that load B set them to 0. */
static const bool sums_keep_denormals = TH_FLOAT_FLUSH == TH_FLOAT_USUAL;

/* Rounds x to the nearest bfloat16 number, ties to even. Adding 2^16 times the power of two in x leaves 8 binary digits
 * of x. Denormal numbers count as 0. x must be so small that its square is finite. (A 0 may lose its sign, but this
 * does not change any sum, because every sum begins with +0.) */
TH_INLINE vec round_usual(vec x)
{
    if (sums_keep_denormals)
        return vec_first_part(x);
    const vec_bits exponent = (vec_bits)x & 0xff800000;
    const vec large = (vec)(exponent + (16 << 23));
    return (x + large) - large;
}

/* Loads some bytes; the other ones are 0. */
static __attribute__((noinline)) vec load_stored_bytes(const char *from, int64_t bytes)
{
    vec x = {0};
    if (bytes > 0)
        memcpy(&x, from, (size_t)bytes);
    return x;
}

/* Loads the steps of column i, or of the last column if column i does not exist. whole: no column and no step is
 * missing. */
TH_INLINE vec load_column(bool stored, bool whole, const few_square *s, int64_t i)
{
    const char *from = s->data + (whole || i < s->columns ? i : s->columns - 1) * s->column_bytes;
    if (whole || s->steps >= square_steps(stored))
        return vec_load((const float *)from);
    return load_stored_bytes(from, s->steps * number_bytes(stored));
}

/* Loads the parts of a float32 square that has a number outside the range of round_usual. */
static __attribute__((noinline)) void load_unusual(const few_square *s, vec square[TH_REGISTER_LANES])
{
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        square[i] = vec_first_part(load_column(false, false, s, i));
}

/* square[i] = unit i of all columns; float32 numbers are rounded to parts. Prefetches the float32 columns after them
 * into the second-level cache. (This made stored columns slower.) */
TH_INLINE void load_square(bool stored, bool whole, const few_square *s, vec square[TH_REGISTER_LANES])
{
    vec size[2] = {{0}, {0}};
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
        square[i] = load_column(stored, whole, s, i);
        if (!stored) {
            __builtin_prefetch(s->data + (TH_REGISTER_LANES + i) * s->column_bytes, 0, 2);
            size[i % 2] = vec_mul_add(square[i], square[i], size[i % 2]);
            square[i] = round_usual(square[i]);
        }
    }
    if (!stored && __builtin_expect(vec_any(~(size[0] + size[1] < vec_broadcast(INFINITY))), 0))
        load_unusual(s, square);
    transpose_registers(square);
}

/* Returns step i of a square. */
TH_INLINE vec step_of(bool stored, const vec square[TH_REGISTER_LANES], int i)
{
    if (!stored)
        return square[i];
    const vec_bits pairs = (vec_bits)square[i / 2];
    const vec x = i % 2 ? (vec)(pairs & 0xffff0000) : (vec)(pairs << 16);
    return sums_keep_denormals ? vec_first_part(x) : x;
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
TH_INLINE void add_square(bool stored, int first, const float *a, const vec square[TH_REGISTER_LANES], vec *even,
                          vec *odd)
{
    UNROLLED_FOR (int i = 0; i < square_steps(stored); i++) {
        vec *sum = i % 2 ? odd : even;
        *sum += vec_broadcast(a[(i % 2 * HALF_GROUP + (first + i) / 2) * TILE_ROWS]) * step_of(stored, square, i);
    }
}

/* Adds one group of steps of a register of columns, beginning with `step`. */
TH_INLINE void add_few_products(bool stored, int64_t rows, bool whole, const th_product_block *block, int64_t step,
                                const few_square *group, few_sums *sums)
{
    for (int64_t i = 0; i < rows; i++)
        sums[i].even = sums[i].odd = (vec){0};
    LONG_UNROLLED_FOR (int first = 0; first < TH_PART_GROUP; first += square_steps(stored)) {
        const few_square s = {group->data + first * number_bytes(stored), group->column_bytes, group->columns,
                              group->steps - first};
        vec square[TH_REGISTER_LANES];
        load_square(stored, whole, &s, square);
        for (int64_t i = 0; i < rows; i++)
            add_square(stored, first, row_of_a(block, i, step), square, &sums[i].even, &sums[i].odd);
    }
    for (int64_t i = 0; i < rows; i++)
        sums[i].c = sums[i].c + (sums[i].even + sums[i].odd);
}

/* Returns a register of columns from j, or fewer at the end, from `step` on. */
TH_INLINE few_square columns_of_b(bool stored, const th_product_block *block, int64_t j, int64_t step)
{
    const int64_t bytes = number_bytes(stored);
    return (few_square){.data = (const char *)block->b + (j * block->b_panel + step) * bytes,
                        .column_bytes = block->b_panel * bytes,
                        .columns = th_smaller(block->n - j, TH_REGISTER_LANES),
                        .steps = block->k - step};
}

#ifdef __aarch64__
/* Computes the sums of multiply_few_columns again, because some pass through tiny numbers (fma_underflow.h). */
TH_INLINE void add_tiny_columns(bool stored, const th_product_block *block, int64_t j, few_sums *sums)
{
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        for (int64_t i = 0; i < block->m; i++)
            sums[i].even = sums[i].odd = (vec){0};
        for (int first = 0; first < TH_PART_GROUP; first += square_steps(stored)) {
            const few_square s = columns_of_b(stored, block, j, step + first);
            vec square[TH_REGISTER_LANES];
            for (int l = 0; l < TH_REGISTER_LANES; l++)
                square[l] = load_column(stored, false, &s, l);
            transpose_registers(square);
            for (int64_t i = 0; i < block->m; i++)
                for (int l = 0; l < square_steps(stored); l++) {
                    const float a = row_of_a(block, i, step)[(l % 2 * HALF_GROUP + (first + l) / 2) * TILE_ROWS];
                    vec *sum = l % 2 ? &sums[i].odd : &sums[i].even;
                    *sum = flushing_mul_add(vec_broadcast(a), vec_first_part(step_of(stored, square, l)), *sum);
                }
        }
        for (int64_t i = 0; i < block->m; i++)
            sums[i].c = flushing_add_sums(sums[i].c, sums[i].even, sums[i].odd);
    }
}

static __attribute__((noinline)) void add_tiny_plain(const th_product_block *block, int64_t j, few_sums *sums)
{
    add_tiny_columns(false, block, j, sums);
}

static __attribute__((noinline)) void add_tiny_stored(const th_product_block *block, int64_t j, few_sums *sums)
{
    add_tiny_columns(true, block, j, sums);
}
#endif

/* Sets the beginning of the sums: C, the bias, or 0. */
TH_INLINE void begin_sums(int64_t rows, const th_product_block *block, int64_t j, int64_t columns, few_sums *sums)
{
    for (int64_t i = 0; i < rows; i++)
        sums[i].c =
            block->init ? vec_load_part((const float *)block->init + i * block->init_row + j, columns, 0) : (vec){0};
}

/* Computes a register of columns from j, or fewer at the end. */
TH_INLINE void multiply_few_columns(bool stored, int64_t rows, const th_product_block *block, int64_t j)
{
    const int64_t columns = th_smaller(block->n - j, TH_REGISTER_LANES);
    few_sums sums[TH_FEW_PART_ROWS];
    begin_sums(rows, block, j, columns, sums);
    for (int64_t step = 0; step < block->k; step += TH_PART_GROUP) {
        const few_square group = columns_of_b(stored, block, j, step);
        if (columns == TH_REGISTER_LANES && group.steps >= TH_PART_GROUP)
            add_few_products(stored, rows, true, block, step, &group, sums);
        else
            add_few_products(stored, rows, false, block, step, &group, sums);
    }
#ifdef __aarch64__
    if (th_float_underflowed(sums)) {
        th_float_state_set(TH_FLOAT_USUAL);
        begin_sums(rows, block, j, columns, sums);
        (stored ? add_tiny_stored : add_tiny_plain)(block, j, sums);
        th_float_state_set(TH_FLOAT_FLUSH);
    }
#endif
    for (int64_t i = 0; i < rows; i++)
        vec_store_part((float *)block->c + i * block->c_row + j, columns, sums[i].c);
}

TH_INLINE void multiply_few_rows(bool stored, const th_product_block *block)
{
    for (int64_t j = 0; j < block->n; j += TH_REGISTER_LANES)
        if (!stored && block->m == 1)
            multiply_few_columns(stored, 1, block, j);
        else
            multiply_few_columns(stored, block->m, block, j);
}

/* th_product_kernels.few_rows for one part. */
static __attribute__((noinline)) void few_rows_fma(const th_product_block *block)
{
    multiply_few_rows(false, block);
}

/* th_product_kernels.few_rows_stored */
static __attribute__((noinline)) void few_rows_stored_fma(const th_product_block *block)
{
    multiply_few_rows(true, block);
}

#endif
