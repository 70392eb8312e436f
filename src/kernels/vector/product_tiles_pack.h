/* Panels of operands in tiles of bfloat16 terms: made from matrices of float32 numbers with any strides.
 *
 * A panel has 32 lines, which are rows of A or columns of B: [group of 32 steps of k][term][first or last 16 lines], and
 * then a tile of 16 rows of 64 bytes. A row of a tile of A is one line with its 32 steps; a row of a tile of B is a pair
 * of steps, the even one first, of every line. What is not there is 0; tiles none of whose lines is there are not
 * written. */
#ifndef TH_KERNELS_VECTOR_PRODUCT_TILES_PACK_H
#define TH_KERNELS_VECTOR_PRODUCT_TILES_PACK_H

#include "kernels/product_block.h"
#include "kernels/sizes.h"
#include "kernels/vector/bfloat16_registers.h"
#include "kernels/vector/transpose.h"

enum {
    TILE_LINES = 16,
    TILE_ROW_BYTES = 64,
    TILE_BYTES = TILE_LINES * TILE_ROW_BYTES,
    PANEL_LINES = 2 * TILE_LINES,
    PANEL_TERM_BYTES = 2 * TILE_BYTES, /* of one term over one group of steps */
    AHEAD_BYTES = 256                  /* what is read next is asked for so far in advance */
};

/* A matrix as packing sees it: `lines` rows of A or columns of B, of k steps each. */
typedef struct tile_source {
    int64_t lines, k;
    const float *at;
    int64_t line, step; /* strides */
    char *panels;
    int64_t panel_bytes; /* from one to the next */
} tile_source;

/* The first `count` of 16 lanes. */
TH_INLINE __mmask16 first_lanes(int64_t count)
{
    return (__mmask16)(count >= TILE_LINES ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* The first `count` of 16 numbers, and zeros. */
TH_INLINE __m512 take(bool dense, const float *from, int64_t stride, int64_t count)
{
    if (dense) {
        _mm_prefetch((const char *)from + AHEAD_BYTES, _MM_HINT_T0);
        return _mm512_maskz_loadu_ps(first_lanes(count), from);
    }
    float numbers[TILE_LINES] = {0};
    for (int64_t i = 0; i < count && i < TILE_LINES; i++)
        numbers[i] = from[i * stride];
    return _mm512_loadu_ps(numbers);
}

/* row[t][i]: the terms of line i, its 32 steps in order. */
TH_INLINE void take_lines(int terms, bool dense, const tile_source *s, int64_t line, int64_t step,
                          __m512i row[MOST_TERMS][TILE_LINES])
{
    const float *from = s->at + line * s->line + step * s->step;
    const int64_t steps = s->k - step, last = s->lines - line - 1;
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++) {
        const int64_t given = i <= last ? steps : 0;
        const float *numbers = from + (i <= last ? i : last) * s->line;
        const __m512 low = take(dense, numbers, s->step, given);
        const __m512 high = given <= TILE_LINES
                                ? _mm512_setzero_ps()
                                : take(dense, numbers + TILE_LINES * s->step, s->step, given - TILE_LINES);
        __m512i term[MOST_TERMS];
        split_in_order(terms, low, high, term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            row[t][i] = term[t];
    }
}

/* row[t][p]: the terms of pair p of steps, of 16 lines. */
TH_INLINE void take_pairs(int terms, const tile_source *s, int64_t line, int64_t step,
                          __m512i row[MOST_TERMS][TILE_LINES])
{
    const float *from = s->at + line + step * s->step;
    const int64_t steps = s->k - step, lines = s->lines - line;
    UNROLLED_FOR (int p = 0; p < TILE_LINES; p++) {
        const int64_t even = 2 * p < steps ? 2 * p : 0, odd = 2 * p + 1 < steps ? 2 * p + 1 : 0;
        const __m512 low = take(true, from + even * s->step, 1, 2 * p < steps ? lines : 0);
        const __m512 high = take(true, from + odd * s->step, 1, 2 * p + 1 < steps ? lines : 0);
        __m512i term[MOST_TERMS];
        split_in_pairs(terms, low, high, term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            row[t][p] = term[t];
    }
}

typedef enum source_layout { STEPS_DENSE, LINES_DENSE, NOTHING_DENSE } source_layout;

/* The tiles of 16 lines and one group of steps. A tile of B has what one of A has, transposed in pairs. */
TH_INLINE void pack_tile(int terms, bool of_a, source_layout layout, const tile_source *s, int64_t line, int64_t step)
{
    __m512i row[MOST_TERMS][TILE_LINES];
    if (layout == LINES_DENSE)
        take_pairs(terms, s, line, step, row);
    else
        take_lines(terms, layout == STEPS_DENSE, s, line, step, row);
    char *to = s->panels + line / PANEL_LINES * s->panel_bytes + step / TH_TERM_GROUP * terms * PANEL_TERM_BYTES +
               line % PANEL_LINES * TILE_ROW_BYTES;
    UNROLLED_FOR (int t = 0; t < terms; t++) {
        if (of_a == (layout == LINES_DENSE))
            transpose_registers((vec *)row[t]);
        UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
            _mm512_store_si512(to + t * PANEL_TERM_BYTES + i * TILE_ROW_BYTES, row[t][i]);
    }
}

/* All of it, along what is dense in memory: at most 32 pages are being read. */
TH_INLINE void pack_tiles(int terms, bool of_a, source_layout layout, const tile_source *s)
{
    if (layout == LINES_DENSE) {
        for (int64_t step = 0; step < s->k; step += TH_TERM_GROUP)
            for (int64_t line = 0; line < s->lines; line += TILE_LINES)
                pack_tile(terms, of_a, layout, s, line, step);
    } else {
        for (int64_t line = 0; line < s->lines; line += TILE_LINES)
            for (int64_t step = 0; step < s->k; step += TH_TERM_GROUP)
                pack_tile(terms, of_a, layout, s, line, step);
    }
}

TH_INLINE void pack_source(int terms, bool of_a, const tile_source *s)
{
    if (s->step == 1)
        pack_tiles(terms, of_a, STEPS_DENSE, s);
    else if (s->line == 1)
        pack_tiles(terms, of_a, LINES_DENSE, s);
    else
        pack_tiles(terms, of_a, NOTHING_DENSE, s);
}

/* Functions of their own, so that no subtraction moves out of the state TERMS_CSR. */
static __attribute__((noinline)) void pack_two_of_a(const tile_source *s)
{
    pack_source(2, true, s);
}

static __attribute__((noinline)) void pack_two_of_b(const tile_source *s)
{
    pack_source(2, false, s);
}

static void pack_a_1(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    const tile_source s = {m, k, a, row, column, panels, th_parts(k, TH_TERM_GROUP) * PANEL_TERM_BYTES};
    pack_source(1, true, &s);
}

static void pack_a_2(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)
{
    const tile_source s = {m, k, a, row, column, panels, th_parts(k, TH_TERM_GROUP) * 2 * PANEL_TERM_BYTES};
    const unsigned int before = _mm_getcsr();
    _mm_setcsr(TERMS_CSR);
    pack_two_of_a(&s);
    _mm_setcsr(before);
}

static void pack_b_1(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride)
{
    const tile_source s = {n, k, b, column, row, panels, stride * (int64_t)sizeof(float)};
    pack_source(1, false, &s);
}

static void pack_b_2(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride)
{
    const tile_source s = {n, k, b, column, row, panels, stride * (int64_t)sizeof(float)};
    const unsigned int before = _mm_getcsr();
    _mm_setcsr(TERMS_CSR);
    pack_two_of_b(&s);
    _mm_setcsr(before);
}

#endif
