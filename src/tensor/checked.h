/* Arithmetic on sizes that says when it overflows. For what follows from shapes and counts
 * that a user gives. Each function returns false, and leaves *result alone, when the true result does not fit. */
#ifndef TH_TENSOR_CHECKED_H
#define TH_TENSOR_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tapehead/base.h"

static inline bool th_checked_add(int64_t a, int64_t b, int64_t *result)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return false;
    *result = sum;
    return true;
}

static inline bool th_checked_multiply(int64_t a, int64_t b, int64_t *result)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *result = product;
    return true;
}

/* Number of elements; sizes are not negative. Beside a size of 0 the others must fit all the same, and so must bytes of
 * 8 for each: no stride and no part of a shape overflows then. */
static inline bool th_checked_numel(int ndim, const int64_t *size, int64_t *numel)
{
    int64_t product = 1;
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        zero |= size[i] == 0;
        if (size[i] != 0 && !th_checked_multiply(product, size[i], &product))
            return false;
    }
    if (product > INT64_MAX / 8)
        return false;
    *numel = zero ? 0 : product;
    return true;
}

/* Bytes of that many elements, rounded up to whole cache lines. */
static inline bool th_checked_bytes(int64_t numel, size_t element, size_t *bytes)
{
    int64_t product;
    if (!th_checked_multiply(numel, (int64_t)element, &product) || !th_checked_add(product, 63, &product))
        return false;
    *bytes = (size_t)product / 64 * 64;
    return true;
}

#endif
