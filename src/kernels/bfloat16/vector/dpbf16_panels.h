/* Packs operands into panels of bfloat16 parts for dpbf16.c, as pairs of steps of k, one group of steps after the
 * other. Each 4 steps from 4q on make two pairs (upper half, lower half): (4q, 4q + 2) for the even sum, (4q + 1, 4q +
 * 3) for the odd sum.
 *
 *     A    [group][part][row][pair], because a tile reads one pair of A at a time
 *     B    [group][part][pair][column]
 *
 * Missing steps are 0. Missing columns are 0 or repeat another column, and missing rows are arbitrary: products with
 * these are not stored. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_DPBF16_PANELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_DPBF16_PANELS_H

#include "kernels/bfloat16/vector/bfloat16_registers.h"
#include "kernels/products/vector/product.h"
#include "kernels/vector/transpose.h"

typedef uint32_t pair; /* of bfloat16 numbers */

enum {
    GROUP_PAIRS = TH_PART_GROUP / 2,
    GROUP_OF_A = TILE_ROWS * GROUP_PAIRS, /* pairs of one part */
    GROUP_OF_B = TILE_COLUMNS * GROUP_PAIRS,
    AHEAD = 4 /* squares to prefetch ahead */
};

/* Up to 16 lines of one group: one register of pairs for each line, or one register of lines for each pair. */
typedef vec square[MAX_PARTS][PART_LANES];

/* Turns 32 steps in order into pairs. */
TH_INLINE __m512i quads_to_pairs(__m512i steps)
{
    const __m128i order = _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
    return _mm512_shuffle_epi8(steps, _mm512_broadcast_i32x4(order));
}

/* For lines whose steps are adjacent in memory: one register for each of `max` lines. */
TH_INLINE void load_lines(int parts, int max, const float *from, int64_t line, int64_t lines, int64_t steps, square to)
{
    const __mmask16 low = first_lanes(steps), high = first_lanes(steps - PART_LANES);
    UNROLLED_FOR (int i = 0; i < max; i++) {
        const float *at = from + (i < lines ? i : lines - 1) * line;
        __m512i part[MAX_PARTS];
        split_in_order(parts, _mm512_maskz_loadu_ps(low, at), _mm512_maskz_loadu_ps(high, at + PART_LANES), part);
        UNROLLED_FOR (int t = 0; t < parts; t++)
            to[t][i] = (vec)quads_to_pairs(part[t]);
    }
}

/* For adjacent lines: one register for each pair. */
TH_INLINE void load_steps(int parts, const float *from, int64_t step, int64_t lines, int64_t steps, square to)
{
    const __mmask16 given = first_lanes(lines);
    UNROLLED_FOR (int i = 0; i < GROUP_PAIRS; i++) {
        const int first = i / 2 * 4 + i % 2; /* of the pair */
        const __m512 high = _mm512_maskz_loadu_ps(first < steps ? given : 0, from + first * step);
        const __m512 low = _mm512_maskz_loadu_ps(first + 2 < steps ? given : 0, from + (first + 2) * step);
        __m512i part[MAX_PARTS];
        split_in_pairs(parts, low, high, part);
        UNROLLED_FOR (int t = 0; t < parts; t++)
            to[t][i] = (vec)part[t];
    }
}

static __attribute__((noinline)) void gather_lines(const float *from, int64_t line, int64_t step, int64_t lines,
                                                   int64_t steps, float to[PART_LANES][TH_PART_GROUP])
{
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < steps; j++)
            to[i][j] = from[i * line + j * step];
}

/* Loads up to `max` lines from line `first` on, of the group that begins with step `group`. The result has one register
 * for each line or, by_pair, for each pair. */
TH_INLINE void load_square(int parts, bool by_pair, int max, const part_operand *s, int64_t first, int64_t group,
                           square to)
{
    const int64_t lines = s->lines - first < max ? s->lines - first : max;
    const int64_t steps = s->k - group < TH_PART_GROUP ? s->k - group : TH_PART_GROUP;
    const float *from = s->data + first * s->line_stride + group * s->step_stride;
    const bool adjacent = s->line_stride == 1 && s->step_stride != 1;
    if (adjacent) {
        load_steps(parts, from, s->step_stride, lines, steps, to);
    } else if (s->step_stride == 1) {
        load_lines(parts, max, from, s->line_stride, lines, steps, to);
    } else {
        float gathered[PART_LANES][TH_PART_GROUP];
        gather_lines(from, s->line_stride, s->step_stride, lines, steps, gathered);
        load_lines(parts, max, gathered[0], TH_PART_GROUP, lines, steps, to);
    }
    if (adjacent != by_pair)
        UNROLLED_FOR (int t = 0; t < parts; t++)
            transpose_registers(to[t]);
}

typedef struct square_position {
    int64_t first; /* line */
    int64_t group; /* of steps */
} square_position;

/* Square `number` in the order of memory: along the lines if their steps are adjacent. */
TH_INLINE square_position position_of_square(const part_operand *s, int max, int64_t i)
{
    const int64_t squares = (s->lines + max - 1) / max, groups = (s->k + TH_PART_GROUP - 1) / TH_PART_GROUP;
    if (s->step_stride == 1)
        return (square_position){i / groups * max, i % groups};
    return (square_position){i % squares * max, i / squares};
}

/* Prefetches a square, which is on as many pages as it has lines (or steps, if lines are adjacent). */
TH_INLINE void prefetch_square(const part_operand *s, int max, square_position at)
{
    const float *from = s->data + at.first * s->line_stride + at.group * TH_PART_GROUP * s->step_stride;
    if (s->step_stride == 1)
        UNROLLED_FOR (int i = 0; i < max; i++) {
            __builtin_prefetch(from + i * s->line_stride);
            __builtin_prefetch(from + i * s->line_stride + PART_LANES);
        }
    else
        UNROLLED_FOR (int i = 0; i < TH_PART_GROUP; i++)
            __builtin_prefetch(from + i * s->step_stride);
}

TH_INLINE void pack_dpbf16(int parts, bool of_a, const part_operand *s)
{
    const bool by_pair = !of_a;
    const int width = by_pair ? TILE_COLUMNS : TILE_ROWS, max = by_pair ? PART_LANES : TILE_ROWS;
    const int64_t count = (s->lines + max - 1) / max * ((s->k + TH_PART_GROUP - 1) / TH_PART_GROUP);
    for (int64_t i = 0; i < count; i++) {
        const square_position at = position_of_square(s, max, i);
        square loaded;
        prefetch_square(s, max, position_of_square(s, max, i + AHEAD < count ? i + AHEAD : i));
        load_square(parts, by_pair, max, s, at.first, at.group * TH_PART_GROUP, loaded);
        pair *to = (pair *)s->panels + at.first / width * s->panel_stride + at.group * parts * width * GROUP_PAIRS +
                   at.first % width * (by_pair ? 1 : GROUP_PAIRS);
        for (int t = 0; t < parts; t++, to += width * GROUP_PAIRS)
            if (by_pair)
                UNROLLED_FOR (int j = 0; j < GROUP_PAIRS; j++)
                    *(vec *)(to + j * TILE_COLUMNS) = loaded[t][j];
            else
                UNROLLED_FOR (int j = 0; j < TILE_ROWS; j++)
                    *(vec *)(to + j * GROUP_PAIRS) = loaded[t][j];
    }
}

#endif
