/* Arithmetic on one register (`vec`), for both element types.
 *
 * Compilers contract a * b + c to a fused multiply-add if the processor has it. In a * b + c * d they may choose which
 * product to fuse. So in vector/ folders at most one operand of an addition is a product. No function reads or writes
 * outside the memory that it is given. */
#ifndef TH_KERNELS_VECTOR_REGISTERS_H
#define TH_KERNELS_VECTOR_REGISTERS_H

#include <math.h>

#include "kernels/vector/vector.h"

/* Returns x. The compiler cannot know that x is a product, and so contracts nothing. If several sums use one product,
 * compilers differ in which they contract, and so do loops of one function. */
TH_INLINE vec vec_rounded(vec x)
{
#if !TH_FUSED
    /* nothing is contracted */
#elif defined __aarch64__
    __asm__("" : "+w"(x));
#elif defined __powerpc64__
    __asm__("" : "+wa"(x));
#elif defined __riscv
    for (int i = 0; i < TH_REGISTER_LANES; i++) {
        real element = x[i];
        __asm__("" : "+f"(element));
        x[i] = element;
    }
#else
    __asm__("" : "+v"(x));
#endif
    return x;
}

/* (s - 0 is s, which compilers know; s + 0 is not s for -0) */
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

/* 32-bit words in the low halves of 64-bit lanes, so that a lane can hold the product of two. The high halves are
 * arbitrary. */
typedef uint64_t vec_word __attribute__((vector_size(TH_VECTOR_BYTES), aligned(8), may_alias));

/* mask ? a : b. Each element of mask has all bits set or none, like the result of a comparison. */
TH_INLINE vec vec_select(vec_int mask, vec a, vec b)
{
    return (vec)((mask & (vec_int)a) | (~mask & (vec_int)b));
}

typedef real vec_8 __attribute__((vector_size(TH_REAL_BITS)));
typedef real vec_4 __attribute__((vector_size(TH_REAL_BITS / 2)));

/* The sum of 4 or 8 elements: element i += element i + 4, then + 2, + 1. */
TH_INLINE real sum_4(vec_4 x)
{
    return (x[0] + x[2]) + (x[1] + x[3]);
}

/* The lower (0) or the upper half (1) of x. */
TH_INLINE vec_4 half_of_8(vec_8 x, int which)
{
    vec_4 half;
    memcpy(&half, (const char *)&x + which * (int)sizeof half, sizeof half);
    return half;
}

TH_INLINE real sum_8(vec_8 x)
{
    return sum_4(half_of_8(x, 0) + half_of_8(x, 1));
}

typedef real_int vec_int_8 __attribute__((vector_size(TH_REAL_BITS)));
typedef real_int vec_int_4 __attribute__((vector_size(TH_REAL_BITS / 2)));

/* The larger; NaN when one of them is NaN. */
TH_INLINE real real_maximum(real a, real b)
{
    return a > b || a != a ? a : b;
}

TH_INLINE vec_8 maximum_8(vec_8 a, vec_8 b)
{
    const vec_int_8 mask = (a > b) | (a != a);
    return (vec_8)((mask & (vec_int_8)a) | (~mask & (vec_int_8)b));
}

TH_INLINE vec_4 maximum_4(vec_4 a, vec_4 b)
{
    const vec_int_4 mask = (a > b) | (a != a);
    return (vec_4)((mask & (vec_int_4)a) | (~mask & (vec_int_4)b));
}

/* The largest of 4 or 8 elements; NaN wins. */
TH_INLINE real largest_4(vec_4 x)
{
    return real_maximum(real_maximum(x[0], x[2]), real_maximum(x[1], x[3]));
}

TH_INLINE real largest_8(vec_8 x)
{
    return largest_4(maximum_4(half_of_8(x, 0), half_of_8(x, 1)));
}

/* Functions that each width of registers implements with its own instructions: vec_load_part, vec_mul_add, vec_max,
 * vec_min, vec_sqrt, vec_sum, vec_largest, words_multiply. */
#if TH_VECTOR_BYTES == 64
#include "kernels/vector/registers_64.h"
#elif TH_VECTOR_BYTES == 32
#include "kernels/vector/registers_32.h"
#else
#include "kernels/vector/registers_16.h"
#endif

/* Stores the first n elements; 0 <= n <= TH_REGISTER_LANES. Stores pieces, because a store under a mask takes a dozen
 * nanoseconds on some processors. */
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

/* mask ? a : 0 */
TH_INLINE vec vec_keep(vec_int mask, vec a)
{
    return (vec)(mask & (vec_int)a);
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
#ifdef __wasm__ /* has an instruction. For the other form in float64, clang 14 selects instructions for minutes. */
    return __builtin_elementwise_abs(x);
#else
    return (vec)((vec_int)x & ~vec_sign_bit());
#endif
}

/* magnitude, which must not be negative, with the sign of x. */
TH_INLINE vec vec_with_sign(vec magnitude, vec x)
{
    return (vec)((vec_int)magnitude | ((vec_int)x & vec_sign_bit()));
}

TH_INLINE bool vec_any(vec_int mask)
{
    uint64_t words[TH_VECTOR_BYTES / 8], any = 0;
    memcpy(words, &mask, sizeof words);
    for (int i = 0; i < TH_VECTOR_BYTES / 8; i++)
        any |= words[i];
    return any != 0;
}

/* 1 / sqrt(x), with two roundings. */
TH_INLINE vec vec_rsqrt(vec x)
{
    return (real)1 / vec_sqrt(x);
}

#endif
