/* Philox for one counter at a time. (vector/philox.h computes many at once. Tests compare both with Random123.) */
#include "kernels/random/philox.h"

void th_philox_block(const th_philox *random, uint32_t c0, uint32_t c1, uint32_t words[4])
{
    uint32_t x0 = c0, x1 = c1, x2 = random->call, x3 = random->step;
    uint32_t key0 = random->key[0], key1 = random->key[1];
    for (int round = 0; round < TH_PHILOX_ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)x0 * TH_PHILOX_MULTIPLIER_0, p1 = (uint64_t)x2 * TH_PHILOX_MULTIPLIER_1;
        x0 = (uint32_t)(p1 >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)p1;
        x2 = (uint32_t)(p0 >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)p0;
        key0 += TH_PHILOX_KEY_STEP_0;
        key1 += TH_PHILOX_KEY_STEP_1;
    }
    words[0] = x0;
    words[1] = x1;
    words[2] = x2;
    words[3] = x3;
}
