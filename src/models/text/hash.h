/* Keyed hashes for tables in memory. The key is random, so the author of a file cannot choose tokens that collide.
 * No result depends on it: tables are looked up and never listed. */
#ifndef TH_MODELS_TEXT_HASH_H
#define TH_MODELS_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct th_hash_key {
    uint64_t start, factor; /* factor is odd */
} th_hash_key;

/* Returns a new random key. */
th_hash_key th_hash_key_new(void);

/* Combines both halves of the 128-bit product. For an unknown factor, two values rarely get the same result. */
static inline uint64_t th_hash_mix(uint64_t value, uint64_t factor)
{
    __extension__ const unsigned __int128 product = (unsigned __int128)value * factor;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns the hash of a number. */
static inline uint64_t th_hash_number(th_hash_key key, uint64_t number)
{
    return th_hash_mix(number ^ key.start, key.factor);
}

/* Returns the hash of bytes. */
static inline uint64_t th_hash_bytes(th_hash_key key, const char *bytes, size_t count)
{
    uint64_t hash = key.start ^ count, word;
    for (; count >= 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        hash = th_hash_mix(hash ^ word, key.factor);
    }
    word = 0;
    memcpy(&word, bytes, count);
    return th_hash_mix(hash ^ word, key.factor);
}

#endif
