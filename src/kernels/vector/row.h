/* What the kernels of rows share: walking one contiguous row of n elements, 16 lanes at a time. The last lanes of a row are filled up with a
 * number that changes nothing and run through the same code. */
#ifndef TH_KERNELS_VECTOR_ROW_H
#define TH_KERNELS_VECTOR_ROW_H

#include "kernels/vector/vector_math.h"

/* Elements i .. i + 15 of a row of n, those past its end `fill`. */
TH_INLINE lanes row_load(const real *x, int64_t i, int64_t n, real fill)
{
    return n - i >= TH_LANES ? lanes_load(x + i) : lanes_load_part(x + i, n - i, fill);
}

TH_INLINE void row_store(real *x, int64_t i, int64_t n, lanes value)
{
    if (n - i >= TH_LANES)
        lanes_store(x + i, value);
    else
        lanes_store_part(x + i, n - i, value);
}

/* x = value, or x + value */
TH_INLINE void row_put(real *x, int64_t i, int64_t n, lanes value, bool add)
{
    row_store(x, i, n, add ? lanes_add(row_load(x, i, n, 0), value) : value);
}

/* The largest element that is not NaN; -inf when there is none. */
TH_INLINE real row_largest(const real *x, int64_t n)
{
    lanes largest = lanes_broadcast((real)-INFINITY);
    for (int64_t i = 0; i < n; i += TH_LANES)
        largest = lanes_max(row_load(x, i, n, (real)-INFINITY), largest);
    return lanes_largest(largest);
}

/* sum exp(x - shift); the terms go to y unless that is NULL. */
TH_INLINE real row_exp_sum(const real *x, int64_t n, real shift, real *y)
{
    const lanes shifts = lanes_broadcast(shift);
    lanes sum = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES) {
        const lanes e = lanes_exp(lanes_sub(row_load(x, i, n, (real)-INFINITY), shifts));
        sum = lanes_add(sum, e);
        if (y)
            row_store(y, i, n, e);
    }
    return lanes_sum(sum);
}

TH_INLINE real row_sum(const real *x, int64_t n)
{
    lanes sum = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES)
        sum = lanes_add(sum, row_load(x, i, n, 0));
    return lanes_sum(sum);
}

/* sum (x - mean)² factor. The factor goes in before the sum: numbers of 1e17 have squares of 1e34, and some thousands of those overflow. */
TH_INLINE real row_square_sum(const real *x, int64_t n, real mean, real factor)
{
    const lanes means = lanes_broadcast(mean), factors = lanes_broadcast(factor);
    lanes sum = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES) {
        const lanes d = lanes_sub(row_load(x, i, n, mean), means);
        sum = lanes_mul_add(d, lanes_mul(d, factors), sum);
    }
    return lanes_sum(sum);
}

TH_INLINE void row_fill(real *x, int64_t n, real value)
{
    for (int64_t i = 0; i < n; i += TH_LANES)
        row_store(x, i, n, lanes_broadcast(value));
}

TH_INLINE void row_scale(real *x, int64_t n, real factor)
{
    for (int64_t i = 0; i < n; i += TH_LANES)
        row_store(x, i, n, lanes_mul(row_load(x, i, n, 0), lanes_broadcast(factor)));
}

TH_INLINE real real_log(real x)
{
    return vec_log(vec_broadcast(x))[0];
}

#endif
