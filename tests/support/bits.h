/* Access to the bits of float32 numbers, for tests that compare results bit by bit. */
#ifndef TESTS_BITS_H
#define TESTS_BITS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Returns whether x and y have the same bits; all NaNs count as equal. */
static inline bool same_bits(float x, float y)
{
    return (isnan(x) && isnan(y)) || bits_of(x) == bits_of(y);
}

#endif
