/* SplitMix64 (Steele, Lea & Flood 2014): 64 bits from 64 bits. For what is no stream of the context: keys of streams,
 * priorities in a tree, what the checks of gradients draw. */
#ifndef TH_TENSOR_SPLITMIX_H
#define TH_TENSOR_SPLITMIX_H

#include <stdint.h>

static const uint64_t th_golden = 0x9e3779b97f4a7c15; /* 2^64 divided by the golden ratio */

/* Its finalizer: a bijection that spreads every bit over all. */
static inline uint64_t th_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* The next number of the sequence with this state. */
static inline uint64_t th_splitmix64(uint64_t *state)
{
    return th_mix64(*state += th_golden);
}

#endif
