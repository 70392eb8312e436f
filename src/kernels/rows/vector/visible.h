/* Visibility of keys (kernels/rows/visible.h), for one key and for 16 at a time. */
#ifndef TH_KERNELS_ROWS_VECTOR_VISIBLE_H
#define TH_KERNELS_ROWS_VECTOR_VISIBLE_H

#include "kernels/rows/vector/row.h"
#include "kernels/rows/visible.h"

TH_INLINE bool is_visible(const th_visible_row *row, int64_t key)
{
    const real *additive = row->additive;
    return key >= row->keys.first && key < row->keys.past && (!row->keep || row->keep[key * row->keep_stride]) &&
           (!additive || additive[key * row->additive_stride] != (real)-INFINITY);
}

/* Lanes of the mask have all bits set or none. */
typedef struct lane_mask {
    vec_int vecs[TH_REGISTERS];
} lane_mask;

TH_INLINE lane_mask range_mask(th_key_range keys, int64_t x)
{
    lane_mask mask;
    for (int r = 0; r < TH_REGISTERS; r++) {
        vec_int lane = {0};
        for (int i = 0; i < TH_REGISTER_LANES; i++)
            lane[i] = r * TH_REGISTER_LANES + i;
        mask.vecs[r] = (lane >= vec_int_broadcast((real_int)(keys.first - x))) &
                       (lane < vec_int_broadcast((real_int)(keys.past - x)));
    }
    return mask;
}

/* These two functions load 16 elements of a mask's row one by one; elements from `past` on are 0. They are not inlined,
 * because they would be most of their callers' code. */
static __attribute__((noinline, unused)) lanes gather_additive(const real *row, int64_t stride, int64_t x, int64_t past)
{
    real part[TH_LANES];
    for (int i = 0; i < TH_LANES; i++)
        part[i] = x + i < past ? row[(x + i) * stride] : 0;
    return lanes_load(part);
}

static __attribute__((noinline, unused)) void gather_keep(const bool *row, int64_t stride, int64_t x, int64_t past,
                                                          bool part[TH_LANES])
{
    for (int i = 0; i < TH_LANES; i++)
        part[i] = x + i < past && row[(x + i) * stride];
}

/* Loads 16 numbers of a row of the additive mask, from key x on. edge: these keys may reach beyond `past`, where
 * nothing is read. */
TH_INLINE lanes additive_at(const real *row, int64_t stride, int64_t x, int64_t past, bool edge)
{
    if (stride == 0)
        return lanes_broadcast(*row);
    if (stride == 1 && !edge)
        return lanes_load(row + x);
    return gather_additive(row, stride, x, past);
}

/* The same for the bool mask. */
TH_INLINE lane_mask keep_at(const bool *row, int64_t stride, int64_t x, int64_t past, bool edge)
{
    typedef int8_t bytes __attribute__((vector_size(TH_REGISTER_LANES), aligned(1), may_alias));
    bool part[TH_LANES];
    const bool *from = part;
    if (stride == 1 && !edge)
        from = row + x;
    else
        gather_keep(row, stride, x, past, part);
    lane_mask mask;
    for (int r = 0; r < TH_REGISTERS; r++)
        mask.vecs[r] = __builtin_convertvector(*(const bytes *)(from + r * TH_REGISTER_LANES), vec_int) != 0;
    return mask;
}

/* Returns whether an end of the row's range is among the keys x .. x + 15. */
TH_INLINE bool is_at_edge(const th_visible_row *row, int64_t x)
{
    return x < row->keys.first || x + TH_LANES > row->keys.past;
}

/* Returns which of the keys x .. x + 15 are visible. Stores their additive masks, or 0 without an additive mask. edge:
 * is_at_edge(row, x), or true. masked: keep or additive may be given. */
TH_INLINE lane_mask visible_lanes(const th_visible_row *row, int64_t x, bool edge, bool masked, lanes *additive)
{
    lane_mask visible;
    for (int r = 0; r < TH_REGISTERS; r++)
        visible.vecs[r] = vec_int_broadcast(-1);
    if (edge)
        visible = range_mask(row->keys, x);
    *additive = lanes_broadcast(0);
    if (masked && row->keep) {
        const lane_mask keep = keep_at(row->keep, row->keep_stride, x, row->keys.past, edge);
        for (int r = 0; r < TH_REGISTERS; r++)
            visible.vecs[r] &= keep.vecs[r];
    }
    if (masked && row->additive) {
        *additive = additive_at(row->additive, row->additive_stride, x, row->keys.past, edge);
        for (int r = 0; r < TH_REGISTERS; r++)
            visible.vecs[r] &= additive->vecs[r] != (real)-INFINITY;
    }
    return visible;
}

/* Returns |x + i - position| in lane i. */
TH_INLINE lanes lanes_distance(int64_t x, int64_t position)
{
    lanes distance;
    for (int r = 0; r < TH_REGISTERS; r++) {
        vec lane = {0};
        for (int i = 0; i < TH_REGISTER_LANES; i++)
            lane[i] = (real)(r * TH_REGISTER_LANES + i);
        const vec difference = lane + vec_broadcast((real)(x - position));
        distance.vecs[r] = vec_max(difference, -difference);
    }
    return distance;
}

/* visible ? x : otherwise */
TH_INLINE lanes where_visible(lane_mask visible, lanes x, real otherwise)
{
    for (int r = 0; r < TH_REGISTERS; r++)
        x.vecs[r] = vec_select(visible.vecs[r], x.vecs[r], vec_broadcast(otherwise));
    return x;
}

#endif
