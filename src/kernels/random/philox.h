/* Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror & Shaw 2011). Every number is a function of a key
 * and a counter, and the generator is stateless. The counter is (c0, c1, call, step); each use defines c0 and c1. */
#ifndef TH_KERNELS_RANDOM_PHILOX_H
#define TH_KERNELS_RANDOM_PHILOX_H

#include <stdint.h>

#include "private_api.h"

/* Each round multiplies two words of the counter and advances the key by a step. */
enum { TH_PHILOX_ROUNDS = 10 };
#define TH_PHILOX_MULTIPLIER_0 UINT32_C(0xd2511f53)
#define TH_PHILOX_MULTIPLIER_1 UINT32_C(0xcd9e8d57)
#define TH_PHILOX_KEY_STEP_0 UINT32_C(0x9e3779b9)
#define TH_PHILOX_KEY_STEP_1 UINT32_C(0xbb67ae85)

/* The key, and the half of the counter that is constant within a call. */
typedef struct th_philox {
    uint32_t key[2];
    uint32_t call, step;
} th_philox;

/* Computes the four words of one counter. */
TH_PRIVATE_API void th_philox_block(const th_philox *random, uint32_t c0, uint32_t c1, uint32_t words[4]);

/* Dropout. Element (row, column) uses word column % 4 of the counter (column / 4, row). If the word is below the
 * threshold, the element becomes 0; otherwise it is multiplied by scale = 1 / (1 - p). Rows count modulo 2^32. */
typedef struct th_dropout_mask {
    th_philox random;
    uint32_t threshold; /* p 2^32 */
    double scale;
} th_dropout_mask;

/* Returns the mask of probability p, 0 <= p < 1. */
static inline th_dropout_mask th_dropout_mask_make(th_philox random, double p)
{
    const double threshold = p * 4294967296.0 + 0.5;
    return (th_dropout_mask){.random = random,
                             .threshold = threshold >= 4294967295.0 ? UINT32_MAX : (uint32_t)threshold,
                             .scale = 1 / (1 - p)};
}

#endif
