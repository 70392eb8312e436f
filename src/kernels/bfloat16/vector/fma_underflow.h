/* Sums of products of bfloat16 parts that pass through tiny numbers, on AArch64 (for fma.c).
 *
 * In the state TH_FLOAT_FLUSH a tiny result becomes 0. x86 decides after rounding to 24 digits whether a result is
 * tiny, and product.h defines this. AArch64 decides before. So the two differ for a sum that is below the smallest
 * normal number by so little that it is rounded to it. AArch64 sets a flag whenever a result becomes 0 in this way. If
 * the flag is not set, the sums are those of x86. Otherwise they are computed again by the functions here, which need
 * the state TH_FLOAT_USUAL. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_FMA_UNDERFLOW_H
#define TH_KERNELS_BFLOAT16_VECTOR_FMA_UNDERFLOW_H

#include "kernels/vector/float_state.h"
#include "kernels/vector/registers.h"

#define SMALLEST_NORMAL 0x1p-126f

/* x, or 0 with its sign if it is denormal. */
TH_INLINE vec flushed(vec x)
{
    return vec_select(vec_abs(x) < SMALLEST_NORMAL, (vec)((vec_int)x & vec_sign_bit()), x);
}

/* a b + c as x86 computes it with TH_FLOAT_FLUSH; a and b are bfloat16 numbers. If the result is the smallest normal
 * number, the scaled sum is normal and shows whether 24 digits of the exact sum are below. (Larger operands, whose
 * scaled sum would overflow, have no sum that is so small and rounded.) */
TH_INLINE vec flushing_mul_add(vec a, vec b, vec c)
{
    const float scale = 0x1p64f;
    const vec sum = vec_mul_add(a, b, c), scaled = vec_mul_add(a * scale, b, c * scale);
    const vec_int rounded_up = (vec_abs(sum) == SMALLEST_NORMAL) & (vec_abs(scaled) < SMALLEST_NORMAL * scale);
    return vec_select((vec_abs(sum) < SMALLEST_NORMAL) | rounded_up, (vec)((vec_int)sum & vec_sign_bit()), sum);
}

/* c + (even + odd); sums of two numbers that are tiny are exact. */
TH_INLINE vec flushing_add_sums(vec c, vec even, vec odd)
{
    return flushed(flushed(c) + flushed(even + odd));
}

#endif
