/* Bits of float32 numbers, and the values of float16 numbers. */
#ifndef TH_KERNELS_VECTOR_FLOAT16_H
#define TH_KERNELS_VECTOR_FLOAT16_H

#include "kernels/vector/vector.h"

TH_INLINE float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

TH_INLINE uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Integer arithmetic, so that all instruction sets give the same bits. A signaling NaN becomes quiet. The three cases
 * are selected by masks: with branches the compiler would not vectorize the loops. */
TH_INLINE float float16_value(uint16_t number)
{
    const uint32_t sign = (uint32_t)(number & 0x8000) << 16, rest = number & 0x7fff;
    const uint32_t normal = (rest << 13) + (112u << 23);
    const uint32_t quiet = -(uint32_t)(rest > 0x7c00) & 0x400000;
    const uint32_t special = rest << 13 | 0x7f800000 | quiet;
    const uint32_t denormal = bits_of_float((float)(int32_t)rest * 0x1p-24F);
    const uint32_t is_denormal = -(uint32_t)(rest < 0x400), is_special = -(uint32_t)(rest >= 0x7c00);
    return float_of_bits(sign | (denormal & is_denormal) | (special & is_special) |
                         (normal & ~(is_denormal | is_special)));
}

#endif
