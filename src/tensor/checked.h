/* Arithmetic that detects overflow, for numbers computed from shapes and counts of the user. On overflow each
 * function returns false and does not change its result. */
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

/* Computes the number of elements of a shape without negative sizes. The product of all sizes except 0 must fit into
 * int64_t, and 8 times this product into ptrdiff_t. Then the strides cannot overflow either. With 32-bit pointers the
 * bytes of every tensor, also of an expanded one, fit into size_t. */
static inline bool th_checked_numel(int ndim, const int64_t *size, int64_t *numel)
{
    int64_t product = 1;
    bool zero = false;
    for (int i = 0; i < ndim; i++) {
        zero |= size[i] == 0;
        if (size[i] != 0 && !th_checked_multiply(product, size[i], &product))
            return false;
    }
    if (product > PTRDIFF_MAX / 8)
        return false;
    *numel = zero ? 0 : product;
    return true;
}

/* Computes the bytes of numel elements, rounded up to whole cache lines. */
static inline bool th_checked_bytes(int64_t numel, size_t element, size_t *bytes)
{
    int64_t product;
    if (!th_checked_multiply(numel, (int64_t)element, &product) || !th_checked_add(product, 63, &product) ||
        (uint64_t)product > SIZE_MAX)
        return false;
    *bytes = (size_t)product / 64 * 64;
    return true;
}

#endif
