/* Packing operands into panels of bfloat16 terms for dots.c: as pairs of steps of k, one group of steps after the
 * other. A quad of steps 4q ... makes two pairs, the first of links of the even chain, the second of the odd one: (4q
 * in the upper half, 4q + 2), (4q + 1, 4q + 3). Of A, from which a tile takes one pair at a time, a row's pairs of a
 * group lie together: [group][term][row][pair]; of B the columns': [group][term][pair][column]. Steps that are not
 * there are 0; so are columns that are not there, or they repeat another, and rows that are not there are anything: no
 * product of theirs is ever stored. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_DPBF16_PANELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_DPBF16_PANELS_H

#include "kernels/products/vector/product.h"
#include "kernels/bfloat16/vector/bfloat16_registers.h"
#include "kernels/vector/transpose.h"

typedef uint32_t pair; /* of bfloat16 numbers */

enum {
    GROUP_PAIRS = TH_TERM_GROUP / 2,
    GROUP_OF_A = TILE_ROWS * GROUP_PAIRS, /* pairs of one term */
    GROUP_OF_B = TILE_COLUMNS * GROUP_PAIRS,
    AHEAD = 4 /* squares that are asked for in advance */
};

/* Up to 16 lines of one group: a register of pairs for each line, or a register of lines for each pair. */
typedef vec square[MOST_TERMS][TERM_LANES];

/* 32 steps in order, as pairs. */
TH_INLINE __m512i quads_to_pairs(__m512i steps)
{
    const __m128i order = _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11);
    return _mm512_shuffle_epi8(steps, _mm512_broadcast_i32x4(order));
}

/* Where the steps of a line are neighbours in memory: a register for each of `most` lines. */
TH_INLINE void take_lines(int terms, int most, const float *from, int64_t line, int64_t lines, int64_t steps, square to)
{
    const __mmask16 low = first_lanes(steps), high = first_lanes(steps - TERM_LANES);
    UNROLLED_FOR (int i = 0; i < most; i++) {
        const float *at = from + (i < lines ? i : lines - 1) * line;
        __m512i term[MOST_TERMS];
        split_in_order(terms, _mm512_maskz_loadu_ps(low, at), _mm512_maskz_loadu_ps(high, at + TERM_LANES), term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            to[t][i] = (vec)quads_to_pairs(term[t]);
    }
}

/* Where the lines are: a register for each pair. */
TH_INLINE void take_steps(int terms, const float *from, int64_t step, int64_t lines, int64_t steps, square to)
{
    const __mmask16 given = first_lanes(lines);
    UNROLLED_FOR (int i = 0; i < GROUP_PAIRS; i++) {
        const int first = i / 2 * 4 + i % 2; /* step of the pair */
        const __m512 high = _mm512_maskz_loadu_ps(first < steps ? given : 0, from + first * step);
        const __m512 low = _mm512_maskz_loadu_ps(first + 2 < steps ? given : 0, from + (first + 2) * step);
        __m512i term[MOST_TERMS];
        split_in_pairs(terms, low, high, term);
        UNROLLED_FOR (int t = 0; t < terms; t++)
            to[t][i] = (vec)term[t];
    }
}

static __attribute__((noinline)) void gather_lines(const float *from, int64_t line, int64_t step, int64_t lines,
                                                   int64_t steps, float to[TERM_LANES][TH_TERM_GROUP])
{
    for (int64_t i = 0; i < lines; i++)
        for (int64_t j = 0; j < steps; j++)
            to[i][j] = from[i * line + j * step];
}

/* Lines from `first` on, `most` of them or as many as there are, of the group that begins with step `group`: a register
 * for each of them, or (by_pair) for each pair. */
TH_INLINE void take_square(int terms, bool by_pair, int most, const term_operand *s, int64_t first, int64_t group,
                           square to)
{
    const int64_t lines = s->lines - first < most ? s->lines - first : most;
    const int64_t steps = s->k - group < TH_TERM_GROUP ? s->k - group : TH_TERM_GROUP;
    const float *from = s->at + first * s->line + group * s->step;
    const bool neighbours = s->line == 1 && s->step != 1;
    if (neighbours) {
        take_steps(terms, from, s->step, lines, steps, to);
    } else if (s->step == 1) {
        take_lines(terms, most, from, s->line, lines, steps, to);
    } else {
        float gathered[TERM_LANES][TH_TERM_GROUP];
        gather_lines(from, s->line, s->step, lines, steps, gathered);
        take_lines(terms, most, gathered[0], TH_TERM_GROUP, lines, steps, to);
    }
    if (neighbours != by_pair)
        UNROLLED_FOR (int t = 0; t < terms; t++)
            transpose_registers(to[t]);
}

typedef struct square_place {
    int64_t first; /* line */
    int64_t group; /* of steps */
} square_place;

/* The squares in the order of memory: along the lines where their steps are neighbours. */
TH_INLINE square_place place_of_square(const term_operand *s, int most, int64_t i)
{
    const int64_t squares = (s->lines + most - 1) / most, groups = (s->k + TH_TERM_GROUP - 1) / TH_TERM_GROUP;
    if (s->step == 1)
        return (square_place){i / groups * most, i % groups};
    return (square_place){i % squares * most, i / squares};
}

/* Asks for the memory of a square, which is on as many pages as it has lines (or steps, where lines are neighbours). */
TH_INLINE void ask_for_square(const term_operand *s, int most, square_place place)
{
    const float *from = s->at + place.first * s->line + place.group * TH_TERM_GROUP * s->step;
    if (s->step == 1)
        UNROLLED_FOR (int i = 0; i < most; i++) {
            __builtin_prefetch(from + i * s->line);
            __builtin_prefetch(from + i * s->line + TERM_LANES);
        }
    else
        UNROLLED_FOR (int i = 0; i < TH_TERM_GROUP; i++)
            __builtin_prefetch(from + i * s->step);
}

TH_INLINE void pack_dots(int terms, bool of_a, const term_operand *s)
{
    const bool by_pair = !of_a;
    const int width = by_pair ? TILE_COLUMNS : TILE_ROWS, most = by_pair ? TERM_LANES : TILE_ROWS;
    const int64_t count = (s->lines + most - 1) / most * ((s->k + TH_TERM_GROUP - 1) / TH_TERM_GROUP);
    for (int64_t i = 0; i < count; i++) {
        const square_place place = place_of_square(s, most, i);
        square taken;
        ask_for_square(s, most, place_of_square(s, most, i + AHEAD < count ? i + AHEAD : i));
        take_square(terms, by_pair, most, s, place.first, place.group * TH_TERM_GROUP, taken);
        pair *to = (pair *)s->panels + place.first / width * s->panel + place.group * terms * width * GROUP_PAIRS +
                   place.first % width * (by_pair ? 1 : GROUP_PAIRS);
        for (int t = 0; t < terms; t++, to += width * GROUP_PAIRS)
            if (by_pair)
                UNROLLED_FOR (int j = 0; j < GROUP_PAIRS; j++)
                    *(vec *)(to + j * TILE_COLUMNS) = taken[t][j];
            else
                UNROLLED_FOR (int j = 0; j < TILE_ROWS; j++)
                    *(vec *)(to + j * GROUP_PAIRS) = taken[t][j];
    }
}

#endif
