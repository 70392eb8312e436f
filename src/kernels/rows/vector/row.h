/* What the kernels of rows share: walking one contiguous row of n elements, 16 lanes at a time. The last lanes of a row
 * are filled up with a number that changes nothing and run through the same code. Products that are added to something
 * are fused explicitly (lanes_mul_add): these loops have branches, across which compilers differ in what they contract.
 * Kernels work on a copy of their block: a store may change the block itself, for all that a compiler knows, and it
 * would be read again in every row. */
#ifndef TH_KERNELS_ROWS_VECTOR_ROW_H
#define TH_KERNELS_ROWS_VECTOR_ROW_H

#include "kernels/rows/rows.h"
#include "kernels/vector/vector_math.h"

/* Row r of an operand. */
TH_INLINE real *row_at(const th_rows_block *rows, int operand, int64_t r)
{
    return (real *)rows->operand[operand] + r * rows->stride[operand];
}

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

/* x = a * b, or x + a * b. */
TH_INLINE void row_put_product(real *x, int64_t i, int64_t n, lanes a, lanes b, bool add)
{
    row_store(x, i, n, add ? lanes_mul_add(a, b, row_load(x, i, n, 0)) : lanes_mul(a, b));
}

/* The largest element that is not NaN; -inf when there is none. */
TH_INLINE real row_largest(const real *x, int64_t n)
{
    lanes largest = lanes_broadcast((real)-INFINITY);
    for (int64_t i = 0; i < n; i += TH_LANES)
        largest = lanes_max(row_load(x, i, n, (real)-INFINITY), largest);
    return lanes_largest(largest);
}

/* sum exp(x - shift) */
TH_INLINE real row_exp_sum(const real *x, int64_t n, real shift)
{
    const lanes shifts = lanes_broadcast(shift);
    lanes sum = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES)
        sum = lanes_add(sum, lanes_exp(lanes_sub(row_load(x, i, n, (real)-INFINITY), shifts)));
    return lanes_sum(sum);
}

TH_INLINE real row_sum(const real *x, int64_t n)
{
    lanes sum = lanes_broadcast(0);
    for (int64_t i = 0; i < n; i += TH_LANES)
        sum = lanes_add(sum, row_load(x, i, n, 0));
    return lanes_sum(sum);
}

/* sum (x - mean)² factor. The factor goes in before the sum: numbers of 1e17 have squares of 1e34, and some thousands
 * of those overflow. */
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

TH_INLINE real real_log(real x)
{
    return vec_log(vec_broadcast(x))[0];
}

#endif
