/* Registers of 32 bytes (AVX2 with fused multiply-add). Included by registers.h. registers_16.h describes the
 * functions, in plain C. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_32_H
#define TH_KERNELS_VECTOR_REGISTERS_32_H

#include <immintrin.h>

#if TH_REAL_BITS == 32
#define NATIVE(name) _mm256_##name##_ps
typedef __m256 native;
#define EACH_LANE 0, 1, 2, 3, 4, 5, 6, 7
#define vec_sum sum_8
#define vec_largest largest_8
#else
#define NATIVE(name) _mm256_##name##_pd
typedef __m256d native;
#define EACH_LANE 0, 1, 2, 3
#define vec_sum sum_4
#define vec_largest largest_4
#endif

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    const vec_int mask = vec_int_broadcast((real_int)n) > (vec_int){EACH_LANE};
    return vec_select(mask, (vec)NATIVE(maskload)(p, (__m256i)mask), vec_broadcast(fill));
}

TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
    return (vec)NATIVE(fmadd)((native)a, (native)b, (native)c);
}

TH_INLINE vec vec_max(vec a, vec b)
{
    return (vec)NATIVE(max)((native)a, (native)b);
}

TH_INLINE vec vec_min(vec a, vec b)
{
    return (vec)NATIVE(min)((native)a, (native)b);
}

TH_INLINE vec vec_sqrt(vec x)
{
    return (vec)NATIVE(sqrt)((native)x);
}

TH_INLINE vec_word words_multiply(vec_word a, vec_word b)
{
    return (vec_word)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}

#endif
