/* Registers of 16 bytes: SSE2, NEON and WebAssembly, and plain C where compilers find the instruction. Included by
 * registers.h. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_16_H
#define TH_KERNELS_VECTOR_REGISTERS_16_H

#ifdef __aarch64__
#include <arm_neon.h>
#elif defined __x86_64__ || defined __i386__
#include <emmintrin.h>
#endif

/* Products of the low halves. */
TH_INLINE vec_word words_multiply(vec_word a, vec_word b)
{
#ifdef __aarch64__
    return (vec_word)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
#elif defined __x86_64__ || defined __i386__
    return (vec_word)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

/* The first n elements of p, then `fill`; 0 <= n <= TH_REGISTER_LANES. */
TH_INLINE vec vec_load_part(const real *p, int64_t n, real fill)
{
    vec x = vec_broadcast(fill);
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        if (i < n)
            x[i] = p[i];
    return x;
}

#if TH_REAL_BITS == 32
#define real_mul_add __builtin_fmaf
#else
#define real_mul_add __builtin_fma
#endif

/* a * b + c, fused if TH_FUSED. (In an expression a compiler fuses it only if both operations are in the same
 * branch.) */
TH_INLINE vec vec_mul_add(vec a, vec b, vec c)
{
#if !TH_FUSED
    return a * b + c;
#elif !defined __aarch64__
    for (int i = 0; i < TH_REGISTER_LANES; i++)
        c[i] = real_mul_add(a[i], b[i], c[i]);
    return c;
#elif TH_REAL_BITS == 32
    return (vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return (vec)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#endif
}

/* The larger; b if one of them is NaN. */
TH_INLINE vec vec_max(vec a, vec b)
{
    return vec_select(a > b, a, b);
}

/* The smaller; b if one of them is NaN. */
TH_INLINE vec vec_min(vec a, vec b)
{
    return vec_select(a < b, a, b);
}

/* Correctly rounded. */
TH_INLINE vec vec_sqrt(vec x)
{
#if defined __aarch64__ && TH_REAL_BITS == 32
    return (vec)vsqrtq_f32((float32x4_t)x);
#elif defined __aarch64__
    return (vec)vsqrtq_f64((float64x2_t)x);
#elif (defined __x86_64__ || defined __i386__) && TH_REAL_BITS == 32
    return (vec)_mm_sqrt_ps((__m128)x);
#elif defined __x86_64__ || defined __i386__
    return (vec)_mm_sqrt_pd((__m128d)x);
#else
    for (int i = 0; i < TH_REGISTER_LANES; i++)
#if TH_REAL_BITS == 32
        x[i] = __builtin_sqrtf(x[i]);
#else
        x[i] = __builtin_sqrt(x[i]);
#endif
    return x;
#endif
}

/* The sum of a register's elements: element i += element i + half of them, and so on. */
TH_INLINE real vec_sum(vec x)
{
#if TH_REAL_BITS == 32
    return sum_4(x);
#else
    return x[0] + x[1];
#endif
}

/* The largest of them; NaN wins. */
TH_INLINE real vec_largest(vec x)
{
#if TH_REAL_BITS == 32
    return largest_4(x);
#else
    return real_maximum(x[0], x[1]);
#endif
}

#endif
