/* A pseudo-random permutation of 0 .. count - 1. Its entries are computed one at a time and never stored. */
#ifndef TH_MODELS_DATA_PERMUTATION_H
#define TH_MODELS_DATA_PERMUTATION_H

#include <stdint.h>

typedef struct th_permutation {
    uint32_t key[2];
    uint64_t count; /* at least 1 */
    int half_bits;
} th_permutation;

/* Returns the permutation of 0 .. count - 1 with this seed and number. */
th_permutation th_permutation_make(uint64_t seed, uint64_t number, uint64_t count);
/* Returns the entry at `index`, which is below count. */
uint64_t th_permutation_at(const th_permutation *p, uint64_t index);
/* Returns a pseudo-random number below `bound`, which is at least 1. It is a function of (seed, number), too. */
uint64_t th_permutation_draw(const th_permutation *p, uint64_t bound);

#endif
