/* Rounding to bfloat16, the upper half of a float32. */
#ifndef TH_KERNELS_VECTOR_BFLOAT16_H
#define TH_KERNELS_VECTOR_BFLOAT16_H

#include "kernels/vector/vector.h"

/* The bits of a float32, rounded: to the nearest, ties to even (the carry of a mantissa runs into the exponent, up to
 * infinity); NaN stays NaN; below the smallest normal number 0. Without branches, for loops over many. */
TH_INLINE uint32_t round_to_bfloat16(uint32_t bits)
{
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    const uint32_t quiet = (bits | 0x00400000) & 0xffff0000;
    return magnitude > 0x7f800000 ? quiet : magnitude < 0x00800000 ? bits & 0x80000000 : nearest;
}

#endif
