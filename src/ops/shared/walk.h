/* Counting through the index space of a few strided operands, last dimension fastest: for loops over whole rows,
 * products or tiles. Loops over single elements belong into kernels. */
#ifndef TH_OPS_SHARED_WALK_H
#define TH_OPS_SHARED_WALK_H

#include "tapehead/op.h"

enum { TH_WALK_DIMS = 2 * TH_MAX_DIMS, TH_WALK_OPERANDS = 4 };

typedef struct th_walk {
    int ndim;
    int64_t size[TH_WALK_DIMS];
    int64_t index[TH_WALK_DIMS];
    int64_t stride[TH_WALK_OPERANDS][TH_WALK_DIMS]; /* elements */
    int64_t offset[TH_WALK_OPERANDS];               /* of the present index, elements */
} th_walk;

/* Number of indices; the sizes' product was checked when their tensors were made. */
static inline int64_t th_walk_count(const th_walk *walk)
{
    int64_t count = 1;
    for (int i = 0; i < walk->ndim; i++)
        count *= walk->size[i];
    return count;
}

/* To the index with this row-major number; there must be one. */
static inline void th_walk_seek(th_walk *walk, int64_t number)
{
    for (int o = 0; o < TH_WALK_OPERANDS; o++)
        walk->offset[o] = 0;
    for (int i = walk->ndim - 1; i >= 0; i--) {
        walk->index[i] = number % walk->size[i];
        number /= walk->size[i];
        for (int o = 0; o < TH_WALK_OPERANDS; o++)
            walk->offset[o] += walk->index[i] * walk->stride[o][i];
    }
}

/* To the next index; from the last one to the first. */
static inline void th_walk_next(th_walk *walk)
{
    for (int i = walk->ndim - 1; i >= 0; i--) {
        const bool carry = ++walk->index[i] == walk->size[i];
        const int64_t steps = carry ? 1 - walk->size[i] : 1;
        for (int o = 0; o < TH_WALK_OPERANDS; o++)
            walk->offset[o] += steps * walk->stride[o][i];
        if (!carry)
            return;
        walk->index[i] = 0;
    }
}

#endif
