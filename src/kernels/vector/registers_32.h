/* Registers of 32 bytes (AVX2 with fused multiply-add); registers.h includes this. What the functions mean is said in
 * registers_16.h, where they are plain C. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_32_H
#define TH_KERNELS_VECTOR_REGISTERS_32_H

#include <immintrin.h>

TH_INLINE vec_word words_multiply(vec_word a, vec_word b)
{
    return (vec_word)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#if TH_REAL_BITS == 32

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    const vec_int mask = vec_int_broadcast((real_int)n) > (vec_int){0, 1, 2, 3, 4, 5, 6, 7};
    return vec_select(mask, (vec)_mm256_maskload_ps(p, (__m256i)mask), vec_broadcast(fill));
}

TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    return (vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

TH_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
}

TH_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
}

TH_INLINE real vec_sum(vec x)
{
    return sum_8(x);
}

TH_INLINE real vec_largest(vec x)
{
    return largest_8(x);
}

#else

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    const vec_int mask = vec_int_broadcast((real_int)n) > (vec_int){0, 1, 2, 3};
    return vec_select(mask, (vec)_mm256_maskload_pd(p, (__m256i)mask), vec_broadcast(fill));
}

TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    return (vec)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

TH_INLINE vec vec_max(vec a, vec b)
{
    return (vec)_mm256_max_pd((__m256d)a, (__m256d)b);
}

TH_INLINE vec vec_min(vec a, vec b)
{
    return (vec)_mm256_min_pd((__m256d)a, (__m256d)b);
}

TH_INLINE real vec_sum(vec x)
{
    return sum_4(x);
}

TH_INLINE real vec_largest(vec x)
{
    return largest_4(x);
}

#endif

#endif
