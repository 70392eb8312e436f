/* Splitting float32 numbers into bfloat16 terms (product.h says how), as bits and without branches, for loops over
 * many. A bfloat16 number is written as the float32 number that it is: the upper half of its bits. */
#ifndef TH_KERNELS_VECTOR_BFLOAT16_H
#define TH_KERNELS_VECTOR_BFLOAT16_H

#include "kernels/vector/vector.h"

/* The first term of a number: to the nearest, ties to even (the carry of a mantissa runs into the exponent); truncated
 * where that would be infinite; below the smallest normal number 0. */
TH_INLINE uint32_t round_to_bfloat16(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t large = magnitude > 0x7f800000 ? bits | 0x00400000 : bits;
    return (magnitude < 0x00800000 ? bits & 0x80000000 : magnitude < 0x7f7f8000 ? nearest : large) & 0xffff0000;
}

TH_INLINE float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

TH_INLINE uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The second term: of what the first one leaves, which is exact; 0 of infinity and NaN. */
TH_INLINE uint32_t second_term(uint32_t bits, uint32_t first)
{
    const uint32_t rest = round_to_bfloat16(bits_of_float(float_of_bits(bits) - float_of_bits(first)));
    return (bits & 0x7fffffff) < 0x7f800000 ? rest : 0;
}

#endif
