/* A Feistel network (Luby & Rackoff 1988) permutes the numbers of 2 h bits: (left, right) becomes (right, left ^
 * f(right)), a bijection for any f. f is Philox. The smallest such set that contains 0 .. count - 1 has less than 4
 * count numbers. A result outside 0 .. count - 1 is permuted again until it is inside. This gives a permutation of 0
 * .. count - 1 (cycle walking, Black & Rogaway 2002). */
#include "models/data/permutation.h"

#include "models/core/kernels.h"

enum { ROUNDS = 8, DRAW = 0xffff }; /* DRAW: a round number that the network does not use */

th_permutation th_permutation_make(uint64_t seed, uint64_t number, uint64_t count)
{
    const uint64_t key = th_mix64(th_splitmix64_start(seed) + number * th_golden);
    th_permutation p = {.key = {(uint32_t)key, (uint32_t)(key >> 32)}, .count = count, .half_bits = 1};
    while (p.half_bits < 32 && (count - 1) >> (2 * p.half_bits) != 0)
        p.half_bits++;
    return p;
}

static uint64_t round_function(const th_permutation *p, uint32_t half, uint32_t round)
{
    const th_philox random = {.key = {p->key[0], p->key[1]}, .call = round};
    uint32_t words[4];
    th_philox_block(&random, half, 0, words);
    return words[0] | (uint64_t)words[1] << 32;
}

static uint64_t permute(const th_permutation *p, uint64_t x)
{
    const uint64_t mask = ((uint64_t)1 << p->half_bits) - 1;
    uint64_t left = x >> p->half_bits, right = x & mask;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint64_t next = (left ^ round_function(p, (uint32_t)right, round)) & mask;
        left = right;
        right = next;
    }
    return left << p->half_bits | right;
}

uint64_t th_permutation_at(const th_permutation *p, uint64_t index)
{
    uint64_t x = permute(p, index);
    while (x >= p->count)
        x = permute(p, x);
    return x;
}

uint64_t th_permutation_draw(const th_permutation *p, uint64_t bound)
{
    return round_function(p, 0, DRAW) % bound; /* (2^64 is so large that no remainder is noticeably likelier) */
}
