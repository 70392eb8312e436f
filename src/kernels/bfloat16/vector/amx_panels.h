/* Packs matrices of float32 numbers with any strides into panels of AMX tiles of bfloat16 parts.
 *
 * A panel has 32 lines, which are rows of A or columns of B. Its layout is [group of 32 steps of k][part][first or last
 * 16 lines], and each of these is a tile of 16 rows of 64 bytes. A row of a tile of A is one line with its 32 steps. A
 * row of a tile of B is a pair of steps of every line, the even step first. Missing steps are 0. Missing lines are
 * arbitrary. Tiles that have only missing lines are not written. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_AMX_PANELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_AMX_PANELS_H

#include "kernels/bfloat16/vector/bfloat16_registers.h"
#include "kernels/vector/transpose.h"

enum {
    TILE_LINES = 16,
    TILE_ROW_BYTES = 64,
    TILE_BYTES = TILE_LINES * TILE_ROW_BYTES,
    PANEL_LINES = 2 * TILE_LINES,
    PANEL_PART_BYTES = 2 * TILE_BYTES, /* of one part over one group of steps */
    AHEAD_BYTES = 256                  /* to prefetch ahead of reading */
};

/* Packs the tiles of 16 lines and one group of steps, number by number. For any strides, and for numbers that the
 * processor's conversion would make infinite or NaN. */
static __attribute__((noinline)) void pack_tile_by_numbers(int parts, bool of_a, const part_operand *s, int64_t line,
                                                           int64_t step, char *to)
{
    const int64_t last = s->lines - line - 1, steps = s->k - step;
    for (int64_t i = 0; i < TILE_LINES; i++) {
        const float *from = s->data + (line + (i < last ? i : last)) * s->line_stride + step * s->step_stride;
        for (int64_t j = 0; j < TH_PART_GROUP; j++) {
            const uint32_t bits = j < steps ? bits_of_float(from[j * s->step_stride]) : 0,
                           first = round_to_bfloat16(bits);
            const uint16_t part[MAX_PARTS] = {(uint16_t)(first >> 16), (uint16_t)(second_part(bits, first) >> 16)};
            const int64_t offset = of_a ? i * TH_PART_GROUP + j : (j / 2 * TILE_LINES + i) * 2 + j % 2;
            for (int t = 0; t < parts; t++)
                memcpy(to + t * PANEL_PART_BYTES + offset * (int64_t)sizeof *part, &part[t], sizeof *part);
        }
    }
}

TH_INLINE __m512 load_masked(__mmask16 given, const float *from)
{
    _mm_prefetch((const char *)from + AHEAD_BYTES, _MM_HINT_T0);
    return _mm512_maskz_loadu_ps(given, from);
}

/* row[t][i]: part t of line i, its 32 steps in order. Missing lines repeat the last line. Returns whether the
 * conversion differs from product.h for some number. */
TH_INLINE bool load_lines(int parts, const part_operand *s, int64_t line, int64_t step,
                          __m512i row[MAX_PARTS][TILE_LINES])
{
    const float *from = s->data + line * s->line_stride + step;
    const int64_t last = s->lines - line - 1;
    const __mmask16 low_given = first_lanes(s->k - step), high_given = first_lanes(s->k - step - TILE_LINES);
    __mmask32 unusual = 0;
    UNROLLED_FOR (int i = 0; i < TILE_LINES; i++) {
        const float *numbers = from + (i < last ? i : last) * s->line_stride;
        const __m512 low = load_masked(low_given, numbers), high = load_masked(high_given, numbers + TILE_LINES);
        row[0][i] = first_parts(low, high);
        unusual |= unusual_mask(row[0][i]);
        if (parts == 2)
            row[1][i] = second_parts(low, high, row[0][i]);
    }
    return unusual != 0;
}

/* row[t][p]: part t of pair p of steps, of 16 lines that are adjacent in memory. whole: all 32 steps exist. */
TH_INLINE bool load_pairs(int parts, bool whole, const part_operand *s, int64_t line, int64_t step,
                          __m512i row[MAX_PARTS][TILE_LINES])
{
    const float *from = s->data + line + step * s->step_stride;
    const int64_t last = s->k - step - 1;
    const __mmask16 given = first_lanes(s->lines - line);
    __mmask32 unusual = 0;
    UNROLLED_FOR (int p = 0; p < TILE_LINES; p++) {
        const int64_t even = 2 * p, odd = 2 * p + 1;
        const __m512 low =
            whole || even <= last ? load_masked(given, from + even * s->step_stride) : _mm512_setzero_ps();
        const __m512 high =
            whole || odd <= last ? load_masked(given, from + odd * s->step_stride) : _mm512_setzero_ps();
        row[0][p] = pair_up(first_parts(low, high));
        unusual |= unusual_mask(row[0][p]);
        if (parts == 2)
            row[1][p] = second_parts_of_pairs(low, high, row[0][p]);
    }
    return unusual != 0;
}

typedef enum source_layout { STEPS_DENSE, LINES_DENSE, NOTHING_DENSE } source_layout;

/* Packs the tiles of 16 lines and one group of steps. Tiles of B are tiles of A, transposed in pairs. */
TH_INLINE void pack_tile(int parts, bool of_a, source_layout layout, const part_operand *s, int64_t line, int64_t step)
{
    char *panel = (char *)((float *)s->panels + line / PANEL_LINES * s->panel_stride);
    char *to = panel + step / TH_PART_GROUP * parts * PANEL_PART_BYTES + line % PANEL_LINES * TILE_ROW_BYTES;
    __m512i row[MAX_PARTS][TILE_LINES];
    const bool unusual = layout == NOTHING_DENSE        ? true
                         : layout == STEPS_DENSE        ? load_lines(parts, s, line, step, row)
                         : s->k - step >= TH_PART_GROUP ? load_pairs(parts, true, s, line, step, row)
                                                        : load_pairs(parts, false, s, line, step, row);
    if (__builtin_expect(unusual, layout == NOTHING_DENSE)) {
        pack_tile_by_numbers(parts, of_a, s, line, step, to);
        return;
    }
    UNROLLED_FOR (int t = 0; t < parts; t++) {
        if (of_a == (layout == LINES_DENSE))
            transpose_registers((vec *)row[t]);
        UNROLLED_FOR (int i = 0; i < TILE_LINES; i++)
            _mm512_store_si512(to + t * PANEL_PART_BYTES + i * TILE_ROW_BYTES, row[t][i]);
    }
}

/* Packs the whole operand in the direction in which it is contiguous: at most 32 pages are read at a time. */
TH_INLINE void pack_layout(int parts, bool of_a, source_layout layout, const part_operand *s)
{
    if (layout == LINES_DENSE) {
        for (int64_t step = 0; step < s->k; step += TH_PART_GROUP)
            for (int64_t line = 0; line < s->lines; line += TILE_LINES)
                pack_tile(parts, of_a, layout, s, line, step);
    } else {
        for (int64_t line = 0; line < s->lines; line += TILE_LINES)
            for (int64_t step = 0; step < s->k; step += TH_PART_GROUP)
                pack_tile(parts, of_a, layout, s, line, step);
    }
}

TH_INLINE void pack_amx(int parts, bool of_a, const part_operand *s)
{
    if (s->step_stride == 1)
        pack_layout(parts, of_a, STEPS_DENSE, s);
    else if (s->line_stride == 1)
        pack_layout(parts, of_a, LINES_DENSE, s);
    else
        pack_layout(parts, of_a, NOTHING_DENSE, s);
}

#endif
