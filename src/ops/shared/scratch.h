/* Laying out the scratch memory of a call: the same sequence of takes in .scratch (which asks for the sum) and in
 * forward or backward. */
#ifndef TH_OPS_SHARED_SCRATCH_H
#define TH_OPS_SHARED_SCRATCH_H

#include <stdint.h>

#include "tensor/checked.h"

/* `bytes` with room for that many elements more; SIZE_MAX, which no arena grants, when that overflows. */
static inline size_t th_scratch_add(size_t bytes, int64_t numel, size_t element)
{
    size_t more;
    if (!th_checked_bytes(numel, element, &more) || more > SIZE_MAX - bytes)
        return SIZE_MAX;
    return bytes + more;
}

/* For steps that use the same memory one after the other. */
static inline size_t th_scratch_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Takes room for that many elements from the front of what is left, 64-byte aligned. */
static inline void *th_scratch_take(char **left, int64_t numel, size_t element)
{
    void *taken = *left;
    size_t bytes = 0;
    (void)th_checked_bytes(numel, element, &bytes); /* did not overflow in th_scratch_add */
    if (*left)
        *left += bytes;
    return taken;
}

#endif
