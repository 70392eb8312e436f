/* Products of float32 matrices whose operands are rounded to bfloat16 while they are packed, with the processor's own
 * conversion and dot product (AVX-512 with BF16, the only instance of this file); sums are float32. An element of a
 * panel is a pair of numbers, those of two neighbouring steps of k. product.h says how they are rounded and added;
 * nothing here reads operands in place. */
#include <immintrin.h>

#include "kernels/vector/bfloat16.h"
#include "kernels/vector/product.h"
#include "kernels/vector/transpose.h"

typedef uint32_t pair; /* of bfloat16 numbers: the even step of k in the low half, the odd one in the high half */
typedef pair pairs __attribute__((vector_size(TH_VECTOR_BYTES), aligned(4), may_alias));

/* -- rounding and packing -- */

TH_INLINE pair rounded(float x)
{
    pair bits;
    memcpy(&bits, &x, sizeof bits);
    return round_to_bfloat16(bits);
}

/* A matrix as packing sees it: `lines` rows of A or columns of B, of k steps each. */
typedef struct pack_source {
    int64_t lines, k;
    const float *at;
    int64_t line, step; /* strides */
} pack_source;

/* Panels of `width` lines, `stride` pairs apart: pair p of line i of a panel goes to panel[p * width + i]. Lines that
 * are not there, and the partner of a last even step, are 0. */
static void pack_any(int width, const pack_source *s, pair *panels, int64_t stride)
{
    for (int64_t first = 0; first < s->lines; first += width) {
        pair *panel = panels + first / width * stride;
        for (int64_t step = 0; step < s->k; step += 2)
            for (int64_t i = 0; i < width; i++) {
                const float *from = s->at + (first + i) * s->line + step * s->step;
                pair value = 0;
                if (first + i < s->lines)
                    value = rounded(from[0]) >> 16 | (step + 1 < s->k ? rounded(from[s->step]) : 0);
                panel[step / 2 * width + i] = value;
            }
    }
}

typedef uint16_t halves __attribute__((vector_size(TH_VECTOR_BYTES)));

enum { AHEAD = 8 }; /* pairs of steps that the next lines are asked for in advance */

/* The first `count` of the lanes. */
TH_INLINE __mmask16 first_lanes(int64_t count)
{
    return (__mmask16)(count >= TH_REGISTER_LANES ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* Lane i: a pair of low[i] and high[i]. */
TH_INLINE pairs pair_up(__m512 low, __m512 high)
{
    const halves all = (halves)_mm512_cvtne2ps_pbh(high, low);
    return (pairs)__builtin_shufflevector(all, all, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9,
                                          25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}

/* Where lines are neighbours in memory: two steps at a time, in the order of memory. */
TH_INLINE void pack_neighbours(int width, const pack_source *s, pair *panels, int64_t stride)
{
    for (int64_t step = 0; step < s->k; step += 2)
        for (int64_t first = 0; first < s->lines; first += width)
            UNROLLED_FOR (int i = 0; i < width; i += TH_REGISTER_LANES) {
                const float *low = s->at + step * s->step + first + i, *high = low + s->step;
                const __mmask16 given = first_lanes(s->lines - first - i);
                __builtin_prefetch(low + 2 * AHEAD * s->step);
                __builtin_prefetch(high + 2 * AHEAD * s->step);
                _mm512_mask_storeu_epi32(
                    panels + first / width * stride + step / 2 * width + i, first_lanes(width - i),
                    (__m512i)pair_up(_mm512_maskz_loadu_ps(given, low),
                                     _mm512_maskz_loadu_ps(step + 1 < s->k ? given : first_lanes(0), high)));
            }
}

/* Where the steps of a line are neighbours in memory: a register of pairs from each line, then transposed. */
TH_INLINE void pack_lines(int width, const pack_source *s, pair *panels, int64_t stride)
{
    for (int64_t first = 0; first < s->lines; first += width)
        for (int i = 0; i < width && first + i < s->lines; i += TH_REGISTER_LANES) {
            const int64_t last = s->lines - first - i - 1;
            pair *panel = panels + first / width * stride + i;
            for (int64_t step = 0; step < s->k; step += 2 * TH_REGISTER_LANES) {
                const __mmask16 low = first_lanes(s->k - step), high = first_lanes(s->k - step - TH_REGISTER_LANES);
                vec row[TH_REGISTER_LANES];
                UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++) {
                    const float *from = s->at + (first + i + (j < last ? j : last)) * s->line + step;
                    row[j] = (vec)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, from + TH_REGISTER_LANES),
                                                      _mm512_maskz_loadu_ps(low, from));
                }
                transpose_registers(row);
                const int64_t left = (s->k - step + 1) / 2;
                UNROLLED_FOR (int j = 0; j < TH_REGISTER_LANES; j++)
                    if (j < left)
                        _mm512_mask_storeu_ps(panel + (step / 2 + j) * width, first_lanes(width - i), (__m512)row[j]);
            }
        }
}

TH_INLINE void pack(int width, const pack_source *s, pair *panels, int64_t stride)
{
    if (s->line == 1)
        pack_neighbours(width, s, panels, stride);
    else if (s->step == 1)
        pack_lines(width, s, panels, stride);
    else
        pack_any(width, s, panels, stride);
}

static void pack_a(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    const pack_source source = {m, k, a, row, column};
    pack(TILE_ROWS, &source, panels, (k + 1) / 2 * TILE_ROWS);
}

static void pack_b(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride)
{
    const pack_source source = {n, k, b, column, row};
    pack(TILE_COLUMNS, &source, panels, stride);
}

/* -- tiles -- */

enum { REGISTERS = 2 };

/* sum += the product of the odd numbers, then of the even ones. */
TH_INLINE vec add_products(vec sum, pairs a, pairs b)
{
    return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
}

typedef void tile_function(const tile_operands *operands);

/* C = init + A B for one tile of packed panels; k counts pairs here. */
TH_INLINE void tile(int rows, const tile_operands *t)
{
    const pair *a = t->a, *b = t->b;
    vec sum[TILE_ROWS][4];
    UNROLLED_FOR (int i = 0; i < rows; i++) {
        __builtin_prefetch(t->c + i * t->c_row, 1);
        __builtin_prefetch(t->c + i * t->c_row + TH_REGISTER_LANES, 1);
        sum[i][0] = sum[i][1] = (vec){0};
    }
    for (int64_t step = 0; step < t->k; step++) {
        const pairs left = *(const pairs *)b, right = *(const pairs *)(b + TH_REGISTER_LANES);
        UNROLLED_FOR (int i = 0; i < rows; i++) {
            const pairs broadcast = a[i] - (pairs){0};
            sum[i][0] = add_products(sum[i][0], broadcast, left);
            sum[i][1] = add_products(sum[i][1], broadcast, right);
        }
        a += TILE_ROWS;
        b += TILE_COLUMNS;
    }
    store(rows, REGISTERS, sum, t);
}

/* Defines tile_<rows>: the number must be a constant for the loops to disappear. */
#define TILE(rows)                                                                                                     \
    static void tile_##rows(const tile_operands *t)                                                                    \
    {                                                                                                                  \
        tile(rows, t);                                                                                                 \
    }                                                                                                                  \
    static tile_function tile_##rows

TILE(1);
TILE(2);
TILE(3);
TILE(4);
TILE(5);
TILE(6);
TILE(7);
TILE(8);
TILE(9);
TILE(10);
TILE(11);
TILE(12);

/* [rows - 1] */
static tile_function *const tiles[TILE_ROWS] = {
    tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8, tile_9, tile_10, tile_11, tile_12,
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void multiply_block(const th_product_block *block)
{
    tile_operands t = {.k = (block->k + 1) / 2, .c_row = block->c_row, .init_row = block->init_row};
    for (int64_t j = 0; j < block->n; j += TILE_COLUMNS) {
        t.b = (const pair *)block->b + j / TILE_COLUMNS * block->b_panel;
        t.columns = smaller(block->n - j, TILE_COLUMNS);
        for (int64_t i = 0; i < block->m; i += TILE_ROWS) {
            t.a = (const pair *)block->a + i / TILE_ROWS * block->a_panel;
            t.c = (real *)block->c + i * block->c_row + j;
            t.init = block->init ? (const real *)block->init + i * block->init_row + j : NULL;
            tiles[smaller(block->m - i, TILE_ROWS) - 1](&t);
        }
    }
}

extern const th_product_kernels TH_KERNEL(bfloat16_kernels);

const th_product_kernels TH_KERNEL(bfloat16_kernels) = {2, pack_a, pack_b, multiply_block};
