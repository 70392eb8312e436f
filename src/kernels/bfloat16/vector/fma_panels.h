/* Packs operands into panels of bfloat16 parts for fma.c, as float32 numbers, one group of steps of k after the other:
 *
 *     [group][part][even steps, then odd ones][row of A, or column of B]
 *
 * Missing steps are 0. Missing lines are 0 or repeat another line: products with these are not stored. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_FMA_PANELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_FMA_PANELS_H

#include "kernels/bfloat16/vector/bfloat16.h"
#include "kernels/bfloat16/vector/part_kernels.h"
#include "kernels/vector/transpose.h"

enum {
    HALF_GROUP = TH_PART_GROUP / 2, /* even or odd steps of one group */
    PART_PACK_AHEAD = 8             /* steps to prefetch ahead: each step may be on another page */
};

/* Stores the parts of x, one step of `count` lines. `to` points to the first part. */
TH_INLINE void store_parts(int parts, int width, int count, vec x, float *to)
{
    const vec first = vec_first_part(x);
    memcpy(to, &first, (size_t)count * sizeof *to);
    if (parts == 2) {
        const vec second = vec_second_part(x, first);
        memcpy(to + TH_PART_GROUP * width, &second, (size_t)count * sizeof *to);
    }
}

/* Returns the offset of a step in a panel of `width` lines. */
TH_INLINE int64_t offset_of_step(int parts, int width, int64_t step)
{
    const int64_t group = step / TH_PART_GROUP * parts * TH_PART_GROUP;
    return (group + step % 2 * HALF_GROUP + step % TH_PART_GROUP / 2) * width;
}

/* The number of lines of a panel from line i on, at most a register. */
#define PANEL_LANES(width, i) ((width) - (i) < TH_REGISTER_LANES ? (width) - (i) : TH_REGISTER_LANES)

/* Loads one step of up to `filled` lines from `first`. */
TH_INLINE vec load_lines(const part_operand *s, bool adjacent, int64_t first, int filled, int64_t step)
{
    const int64_t given = s->lines - first < filled ? s->lines - first : filled;
    vec x = {0};
    if (step >= s->k || given <= 0)
        return x;
    const float *from = s->data + first * s->line_stride + step * s->step_stride;
    if (adjacent)
        return given == TH_REGISTER_LANES ? vec_load(from) : vec_load_part(from, given, 0);
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        if (i < given)
            x[i] = from[i * s->line_stride];
    return x;
}

/* Packs step by step. If lines are adjacent, this is the order of memory: it reads one page for each step, not one for
 * each step and panel. */
TH_INLINE void pack_steps(int parts, int width, bool adjacent, const part_operand *s)
{
    const int64_t steps = (s->k + TH_PART_GROUP - 1) / TH_PART_GROUP * TH_PART_GROUP;
    for (int64_t step = 0; step < steps; step++) {
        float *to = (float *)s->panels + offset_of_step(parts, width, step);
        for (int64_t first = 0; first < s->lines; first += width, to += s->panel_stride)
            UNROLLED_FOR (int i = 0; i < width; i += TH_REGISTER_LANES) {
                if (adjacent)
                    __builtin_prefetch(s->data + (step + PART_PACK_AHEAD) * s->step_stride + first + i);
                const int filled = PANEL_LANES(width, i);
                store_parts(parts, width, filled, load_lines(s, adjacent, first + i, filled, step), to + i);
            }
    }
}

/* Packs and transposes a square of steps from `step` (`left` of them exist), for lines whose steps are adjacent in
 * memory. */
TH_INLINE void pack_square(int parts, int width, int filled, const part_operand *s, int64_t first, int64_t step,
                           int64_t left, float *panel)
{
    const float *from = s->data + first * s->line_stride + step;
    const int64_t last = s->lines - first - 1;
    vec square[TH_REGISTER_LANES];
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++) {
        const float *line = from + (i < last ? i : last) * s->line_stride;
        square[i] = left == TH_REGISTER_LANES ? vec_load(line) : vec_load_part(line, left, 0);
    }
    transpose_registers(square);
    UNROLLED_FOR (int i = 0; i < TH_REGISTER_LANES; i++)
        store_parts(parts, width, filled, square[i], panel + offset_of_step(parts, width, step + i));
}

/* Packs lines from `first`, as many as a register and the panel hold. */
TH_INLINE void pack_register(int parts, int width, int filled, const part_operand *s, int64_t first, float *panel)
{
    int64_t step = 0;
    for (; s->k - step >= TH_REGISTER_LANES; step += TH_REGISTER_LANES)
        pack_square(parts, width, filled, s, first, step, TH_REGISTER_LANES, panel);
    if (step < s->k) {
        pack_square(parts, width, filled, s, first, step, s->k - step, panel);
        step += TH_REGISTER_LANES;
    }
    for (; step % TH_PART_GROUP != 0; step++)
        store_parts(parts, width, filled, (vec){0}, panel + offset_of_step(parts, width, step));
}

TH_INLINE void pack_lines(int parts, int width, const part_operand *s)
{
    float *panel = s->panels;
    for (int64_t first = 0; first < s->lines; first += width, panel += s->panel_stride)
        UNROLLED_FOR (int i = 0; i < width; i += TH_REGISTER_LANES)
            if (first + i < s->lines)
                pack_register(parts, width, PANEL_LANES(width, i), s, first + i, panel + i);
}

TH_INLINE void pack_parts(int parts, int width, const part_operand *s)
{
    if (s->step_stride == 1)
        pack_lines(parts, width, s);
    else
        pack_steps(parts, width, s->line_stride == 1, s);
}

#endif
