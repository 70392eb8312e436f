/* Numbers of 16 bits: bfloat16 and float16. */
#ifndef TH_TENSOR_HALF_H
#define TH_TENSOR_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A format of 16 bits: 1 sign, then the exponent, then the fraction. */
typedef struct th_half_format {
    int fraction; /* bits */
    int bias;
} th_half_format;

static const th_half_format th_bfloat16_format = {7, 127}, th_float16_format = {10, 15};

/* Rounds to nearest, ties to even. Rounding directly from float64 never rounds twice. */
static inline uint16_t th_half_round(th_half_format f, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t sign = bits >> 63 << 15, infinity = (uint64_t)(2 * f.bias + 1) << f.fraction;
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (isnan(value)) /* quiet, with the upper bits of the payload */
        return (uint16_t)(sign | infinity | UINT64_C(1) << (f.fraction - 1) | fraction >> (52 - f.fraction));
    if (exponent > f.bias)
        return (uint16_t)(sign | infinity);
    const int least = 1 - f.bias, below = exponent < least ? least - exponent : 0;
    const int shift = 52 - f.fraction + below;
    if (shift > 53) /* less than half of the smallest number */
        return (uint16_t)sign;
    const uint64_t significand = fraction | UINT64_C(1) << 52, half = UINT64_C(1) << (shift - 1);
    const uint64_t rest = significand & (2 * half - 1);
    uint64_t result = significand >> shift;
    result += rest > half || (rest == half && (result & 1));
    if (below == 0) /* result contains the leading 1, which counts 1 in the exponent. A carry gives infinity */
        result += (uint64_t)(exponent + f.bias - 1) << f.fraction;
    return (uint16_t)(sign | result);
}

/* Returns the value, exactly. */
static inline double th_half_value(th_half_format f, uint16_t bits)
{
    const int magnitude = bits & 0x7fff, exponent = magnitude >> f.fraction,
              fraction = magnitude & ((1 << f.fraction) - 1);
    double value;
    if (exponent == 2 * f.bias + 1)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, 1 - f.bias - f.fraction);
    else
        value = ldexp(fraction + (1 << f.fraction), exponent - f.bias - f.fraction);
    return bits & 0x8000 ? -value : value;
}

#endif
