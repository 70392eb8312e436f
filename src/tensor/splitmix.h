/* SplitMix64 (Steele, Lea & Flood 2014), a random generator with 64 bits of state. It makes the keys of the context's
 * streams, the priorities in a tree, and the choices of the gradient checker. The streams themselves use Philox. */
#ifndef TH_TENSOR_SPLITMIX_H
#define TH_TENSOR_SPLITMIX_H

#include <stdint.h>

static const uint64_t th_golden = 0x9e3779b97f4a7c15; /* 2^64 divided by the golden ratio */

/* The finalizer of SplitMix64: a bijection in which every input bit influences every output bit. */
static inline uint64_t th_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Returns the state in which a seed's sequence starts. The sequence adds th_golden in each step, so the seed is hashed:
 * the multiples of th_golden would be states of one sequence. */
static inline uint64_t th_splitmix64_start(uint64_t seed)
{
    return th_mix64(seed + th_golden);
}

/* Returns the next number and advances the state. */
static inline uint64_t th_splitmix64(uint64_t *state)
{
    return th_mix64(*state += th_golden);
}

#endif
