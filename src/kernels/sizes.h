/* Arithmetic on sizes and strides, with which kernel drivers divide their work. Sizes are not negative. */
#ifndef TH_KERNELS_SIZES_H
#define TH_KERNELS_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "tapehead/base.h" /* th_dtype */

/* -- indices -- */

/* Sets index (dims numbers, at least one) to the element with this row-major number. The element must exist. */
static inline void th_index_at(int dims, const int64_t *size, int64_t number, int64_t *index)
{
    for (int d = dims - 1; d > 0; d--) {
        index[d] = number % size[d];
        number /= size[d];
    }
    index[0] = number;
}

/* Elements from the first one to the one at this index. */
static inline int64_t th_offset_of(int dims, const int64_t *index, const int64_t *stride)
{
    int64_t offset = 0;
    for (int d = 0; d < dims; d++)
        offset += index[d] * stride[d];
    return offset;
}

/* -- division of work -- */

enum { TH_ALIGNMENT = 64 }; /* bytes of a cache line: each part of a workspace is aligned to it */

/* Bytes of an element of a floating type. */
static inline int64_t th_element_size(th_dtype dtype)
{
    return dtype == TH_FLOAT64 ? (int64_t)sizeof(double) : (int64_t)sizeof(float);
}

static inline int64_t th_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t th_larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up. */
static inline int64_t th_ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

static inline size_t th_aligned(size_t bytes)
{
    return (bytes + TH_ALIGNMENT - 1) / TH_ALIGNMENT * TH_ALIGNMENT;
}

#endif
