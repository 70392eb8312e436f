/* Registers of 64 bytes (AVX-512); registers.h includes this. What the functions mean is said in
 * registers_16.h, where they are plain C. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_64_H
#define TH_KERNELS_VECTOR_REGISTERS_64_H

#include <immintrin.h>

TH_INLINE vec_word words_multiply(vec_word a, vec_word b)
{
    return (vec_word)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

#if TH_REAL_BITS == 32

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    return (vec)_mm512_mask_loadu_ps((__m512)vec_broadcast(fill), (__mmask16)((1u << n) - 1), p);
}

TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    return (vec)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

TH_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
}

TH_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm512_min_ps((__m512)a, (__m512)b);
}

TH_INLINE real vec_sum(vec x)
{
    return sum_8(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
}

TH_INLINE real vec_largest(vec x)
{
    return largest_8(maximum_8(__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7),
                               __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)));
}

#else

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    return (vec)_mm512_mask_loadu_pd((__m512d)vec_broadcast(fill), (__mmask8)((1u << n) - 1), p);
}

TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    return (vec)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

TH_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm512_max_pd((__m512d)a, (__m512d)b);
}

TH_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm512_min_pd((__m512d)a, (__m512d)b);
}

TH_INLINE real vec_sum(vec x)
{
    return sum_8(x);
}

TH_INLINE real vec_largest(vec x)
{
    return largest_8(x);
}

#endif

#endif
