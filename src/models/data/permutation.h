/* A pseudo-random permutation of 0 .. count - 1 that is computed, one place at a time, and never stored. */
#ifndef TH_MODELS_DATA_PERMUTATION_H
#define TH_MODELS_DATA_PERMUTATION_H

#include <stdint.h>

typedef struct th_permutation {
    uint32_t key[2];
    uint64_t count; /* at least 1 */
    int half_bits;
} th_permutation;

/* The permutation of this seed and number among all of `count`. */
th_permutation th_permutation_make(uint64_t seed, uint64_t number, uint64_t count);
/* What stands at `index`, which is below count. */
uint64_t th_permutation_at(const th_permutation *p, uint64_t index);
/* A number below `bound`, at least 1, that belongs to the permutation as its order does. */
uint64_t th_permutation_draw(const th_permutation *p, uint64_t bound);

#endif
