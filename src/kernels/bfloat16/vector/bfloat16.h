/* Splits float32 numbers into bfloat16 parts as product.h defines them, one number or one register at a time, with
 * integer arithmetic and without branches. A bfloat16 number is stored as the float32 number of the same value: the
 * upper half of its bits. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_BFLOAT16_H
#define TH_KERNELS_BFLOAT16_VECTOR_BFLOAT16_H

#include "kernels/vector/float16.h"
#include "kernels/vector/registers.h"

/* The first part of a number: rounded to nearest, ties to even (the carry of the mantissa runs into the exponent).
 * Truncated if it would become infinite; 0 if it is below the smallest normal number. */
TH_INLINE uint32_t round_to_bfloat16(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t large = magnitude > 0x7f800000 ? bits | 0x00400000 : bits;
    return (magnitude < 0x00800000 ? bits & 0x80000000 : magnitude < 0x7f7f8000 ? nearest : large) & 0xffff0000;
}

/* The second part: the first part of the remainder, which is exact; 0 for infinity and NaN. Needs the state
 * TH_FLOAT_USUAL (float_state.h). */
TH_INLINE uint32_t second_part(uint32_t bits, uint32_t first)
{
    const uint32_t rest = round_to_bfloat16(bits_of_float(float_of_bits(bits) - float_of_bits(first)));
    return (bits & 0x7fffffff) < 0x7f800000 ? rest : 0;
}

typedef uint32_t vec_bits __attribute__((vector_size(TH_VECTOR_BYTES), aligned(4), may_alias));

/* The same for a register. */
TH_INLINE vec vec_first_part(vec x)
{
    const vec_bits bits = (vec_bits)x;
    const vec_int magnitude = (vec_int)(bits & 0x7fffffff);
    const vec_bits nearest = bits + 0x7fff + (bits >> 16 & 1);
    const vec_bits large = bits | ((vec_bits)(magnitude > 0x7f800000) & 0x00400000);
    const vec_bits kept = ((vec_bits)(magnitude > 0x007fffff) | 0x80000000) & 0xffff0000;
    return (vec)((vec_bits)vec_select(magnitude < 0x7f7f8000, (vec)nearest, (vec)large) & kept);
}

TH_INLINE vec vec_second_part(vec x, vec first)
{
    const vec_int magnitude = (vec_int)x & 0x7fffffff;
    return vec_keep(magnitude < 0x7f800000, vec_first_part(x - first));
}

#endif
