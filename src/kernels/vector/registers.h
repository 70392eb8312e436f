/* Arithmetic on one register (`vec`), for both element types.
 *
 * Compilers contract a * b + c to a fused multiply-add where there is one, and in a * b + c * d they may choose: so in
 * this folder at most one operand of an addition is a product. No function reads or writes memory outside what it was
 * given. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_H
#define TH_KERNELS_VECTOR_REGISTERS_H

#include <math.h>
#if TH_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

#include "kernels/vector/vector.h"

/* (+ would stay an addition: s + 0 is not s for -0) */
TH_INLINE vec vec_broadcast(real s)
{
    return s - (vec){0};
}

TH_INLINE vec_int vec_int_broadcast(real_int s)
{
    return s - (vec_int){0};
}

TH_INLINE vec vec_load(const real *p)
{
    return *(const vec *)p;
}

TH_INLINE void vec_store(real *p, vec x)
{
    *(vec *)p = x;
}

/* mask ? a : b, where each element of mask has all bits set or none (the result of a comparison). */
TH_INLINE vec vec_select(vec_int mask, vec a, vec b)
{
    return (vec)((mask & (vec_int)a) | (~mask & (vec_int)b));
}

/* The first n elements of p, then `fill`; 0 <= n <= TH_REGISTER_LANES. */
TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    vec x = vec_broadcast(fill);
#if TH_VECTOR_BYTES == 64 && TH_REAL_BITS == 32
    return (vec)_mm512_mask_loadu_ps((__m512)x, (__mmask16)((1u << n) - 1), p);
#elif TH_VECTOR_BYTES == 64
    return (vec)_mm512_mask_loadu_pd((__m512d)x, (__mmask8)((1u << n) - 1), p);
#elif TH_VECTOR_BYTES == 32 && TH_REAL_BITS == 32
    const vec_int mask = vec_int_broadcast((real_int)n) > (vec_int){0, 1, 2, 3, 4, 5, 6, 7};
    return vec_select(mask, (vec)_mm256_maskload_ps(p, (__m256i)mask), x);
#elif TH_VECTOR_BYTES == 32
    const vec_int mask = vec_int_broadcast((real_int)n) > (vec_int){0, 1, 2, 3};
    return vec_select(mask, (vec)_mm256_maskload_pd(p, (__m256i)mask), x);
#else
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        if (i < n)
            x[i] = p[i];
    return x;
#endif
}

/* Stores the first n elements; 0 <= n <= TH_REGISTER_LANES. (In pieces: stores under a mask take a dozen nanoseconds on
 * some processors.) */
TH_INLINE void vec_store_part(real *p, int64_t n, vec x)
{
    real element[TH_REGISTER_LANES];
    memcpy(element, &x, sizeof element);
    int64_t i = 0;
    for (int piece = TH_REGISTER_LANES; piece > 0; piece /= 2)
        if (n & piece) {
            memcpy(p + i, element + i, (size_t)piece * sizeof(real));
            i += piece;
        }
}

/* a * b + c, fused where there is an instruction for it, whatever stands around it: a compiler contracts an expression
 * only while it stays within one branch. */
TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
#if TH_VECTOR_BYTES == 64 && TH_REAL_BITS == 32
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif TH_VECTOR_BYTES == 64
    return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif TH_VECTOR_BYTES == 32 && TH_REAL_BITS == 32
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif TH_VECTOR_BYTES == 32
    return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* mask ? a : 0 */
TH_INLINE vec vec_keep(vec_int mask, vec a)
{
    return (vec)(mask & (vec_int)a);
}

/* The larger; b when one of them is NaN. */
TH_INLINE vec vec_max(vec a, vec b)
{
#if TH_VECTOR_BYTES == 64 && TH_REAL_BITS == 32
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif TH_VECTOR_BYTES == 64
    return (vec)_mm512_max_pd((__m512d)a, (__m512d)b);
#elif TH_VECTOR_BYTES == 32 && TH_REAL_BITS == 32
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif TH_VECTOR_BYTES == 32
    return (vec)_mm256_max_pd((__m256d)a, (__m256d)b);
#else
    return vec_select(a > b, a, b);
#endif
}

/* The smaller; b when one of them is NaN. */
TH_INLINE vec vec_min(vec a, vec b)
{
#if TH_VECTOR_BYTES == 64 && TH_REAL_BITS == 32
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
#elif TH_VECTOR_BYTES == 64
    return (vec)_mm512_min_pd((__m512d)a, (__m512d)b);
#elif TH_VECTOR_BYTES == 32 && TH_REAL_BITS == 32
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif TH_VECTOR_BYTES == 32
    return (vec)_mm256_min_pd((__m256d)a, (__m256d)b);
#else
    return vec_select(a < b, a, b);
#endif
}

/* The larger; NaN when one of them is NaN. */
TH_INLINE vec vec_maximum(vec a, vec b)
{
    return vec_select((a > b) | (a != a), a, b);
}

TH_INLINE vec vec_minimum(vec a, vec b)
{
    return vec_select((a < b) | (a != a), a, b);
}

/* x limited to [low, high]; NaN stays NaN. */
TH_INLINE vec vec_clamp(vec x, real low, real high)
{
    return vec_min(vec_broadcast(high), vec_max(vec_broadcast(low), x));
}

TH_INLINE vec_int vec_sign_bit(void)
{
    return vec_int_broadcast((real_int)((uint64_t)1 << (TH_REAL_BITS - 1)));
}

TH_INLINE vec vec_abs(vec x)
{
    return (vec)((vec_int)x & ~vec_sign_bit());
}

/* magnitude, which is not negative, with the sign of x. */
TH_INLINE vec vec_with_sign(vec magnitude, vec x)
{
    return (vec)((vec_int)magnitude | ((vec_int)x & vec_sign_bit()));
}

/* All bits set where x is neither infinite nor NaN. */
TH_INLINE vec_int vec_is_finite(vec x)
{
    return vec_abs(x) < vec_broadcast((real)INFINITY);
}

TH_INLINE bool vec_any(vec_int mask)
{
    uint64_t words[TH_VECTOR_BYTES / 8], any = 0;
    memcpy(words, &mask, sizeof words);
    for (int i = 0; i < TH_VECTOR_BYTES / 8; i++)
        any |= words[i];
    return any != 0;
}

/* Correctly rounded. */
TH_INLINE vec vec_sqrt(vec x)
{
    vec y;
    for (int i = 0; i < TH_REGISTER_LANES; i++)
#if TH_REAL_BITS == 32
        y[i] = __builtin_sqrtf(x[i]);
#else
        y[i] = __builtin_sqrt(x[i]);
#endif
    return y;
}

/* 1 / sqrt(x), rounded twice. */
TH_INLINE vec vec_rsqrt(vec x)
{
    return (real)1 / vec_sqrt(x);
}

#endif
