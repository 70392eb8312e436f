/* Registers of 64 bytes (AVX-512). Included by registers.h. registers_16.h describes the functions, in plain C. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_64_H
#define TH_KERNELS_VECTOR_REGISTERS_64_H

#include <immintrin.h>

#if TH_REAL_BITS == 32
#define NATIVE(name) _mm512_##name##_ps
typedef __m512 native;
typedef __mmask16 native_mask;

/* The lower (0) or the upper half (1) of x. */
TH_INLINE vec_8 half_of_16(vec x, int which)
{
    vec_8 half;
    memcpy(&half, (const char *)&x + which * (int)sizeof half, sizeof half);
    return half;
}

TH_INLINE real vec_sum(vec x)
{
    return sum_8(half_of_16(x, 0) + half_of_16(x, 1));
}

TH_INLINE real vec_largest(vec x)
{
    return largest_8(maximum_8(half_of_16(x, 0), half_of_16(x, 1)));
}
#else
#define NATIVE(name) _mm512_##name##_pd
typedef __m512d native;
typedef __mmask8 native_mask;
#define vec_sum sum_8
#define vec_largest largest_8
#endif

TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    return (vec)NATIVE(mask_loadu)((native)vec_broadcast(fill), (native_mask)((1u << n) - 1), p);
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
    return (vec_word)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}

#endif
