/* Random numbers, determined by a seed, for examples that make their own data. Independent of Tapehead. */
#ifndef EXAMPLES_RNG_H
#define EXAMPLES_RNG_H

#include <stdint.h>

typedef struct {
    uint64_t state; /* any seed */
} rng;

/* Returns an integer from 0 to n - 1: splitmix64 (Steele, Lea & Flood 2014). */
static inline int rng_below(rng *r, int n)
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int)((z ^ z >> 31) % (uint64_t)n);
}

#endif
