/* Products of 64-bit integers with 128 bits, also for compilers and processors that have no such integers. */
#ifndef TH_KERNELS_WIDE_H
#define TH_KERNELS_WIDE_H

#include <stdint.h>

/* floor(a b / 2^64) */
static inline uint64_t th_high_product(uint64_t a, uint64_t b)
{
    const uint64_t low_a = (uint32_t)a, high_a = a >> 32, low_b = (uint32_t)b, high_b = b >> 32;
    const uint64_t middle = high_a * low_b + (low_a * low_b >> 32), other = low_a * high_b + (uint32_t)middle;
    return high_a * high_b + (middle >> 32) + (other >> 32);
}

#endif
