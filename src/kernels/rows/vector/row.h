/* Functions of row kernels: loading, storing and reducing a contiguous row of n elements, 16 lanes at a time.
 *
 * The last lanes of a row are padded with a number that does not change the result, and use the same code. A product
 * that is added to something is fused explicitly (lanes_mul_add), because compilers differ in what they contract in
 * loops with branches. Kernels first copy their th_rows_block: a compiler must assume that a store changes the
 * original, and would read it again for every row. */
#ifndef TH_KERNELS_ROWS_VECTOR_ROW_H
#define TH_KERNELS_ROWS_VECTOR_ROW_H

#include "kernels/rows/rows.h"
#include "kernels/vector/vector_math.h"

/* Returns row r of an operand. */
TH_INLINE real *row_at(const th_rows_block *rows, int operand, int64_t r)
{
    return (real *)rows->operand[operand] + r * rows->stride[operand];
}

/* Loads elements i .. i + 15 of a row of n; those past its end are `fill`. */
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

/* x = value; add: x += value. */
TH_INLINE void row_store_or_add(real *x, int64_t i, int64_t n, lanes value, bool add)
{
    row_store(x, i, n, add ? lanes_add(row_load(x, i, n, 0), value) : value);
}

/* x = a * b; add: x += a * b. */
TH_INLINE void row_store_or_add_product(real *x, int64_t i, int64_t n, lanes a, lanes b, bool add)
{
    row_store(x, i, n, add ? lanes_mul_add(a, b, row_load(x, i, n, 0)) : lanes_mul(a, b));
}

/* Returns the largest element that is not NaN, or -inf without one. */
TH_INLINE real row_largest(const real *x, int64_t n)
{
    lanes largest = lanes_broadcast((real)-INFINITY);
    for (int64_t i = 0; i < n; i += TH_LANES)
        largest = lanes_max(row_load(x, i, n, (real)-INFINITY), largest);
    return lanes_largest(largest);
}

/* Returns sum exp(x - shift). */
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

/* Returns sum (x - mean)² factor. The factor multiplies each term: numbers of 1e17 have squares of 1e34, and a sum of
 * some thousands of such squares overflows. */
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
