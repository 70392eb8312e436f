/* Keyed hashes for tables in memory. The key is random, so the author of a file cannot choose tokens that collide.
 * No result depends on it: tables are looked up and never listed. */
#ifndef TH_MODELS_TEXT_HASH_H
#define TH_MODELS_TEXT_HASH_H

#include <stdbool.h>
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

/* Returns at most 8 bytes as a number, different for different bytes. Two reads of 4 bytes may overlap: this is faster
 * than a copy of any length. */
static inline uint64_t th_hash_end(const char *bytes, size_t count)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    uint32_t first = 0, last = 0;
    if (count >= 4) {
        memcpy(&first, bytes, 4);
        memcpy(&last, bytes + count - 4, 4);
        return (uint64_t)first << 32 | last;
    }
    return count == 0 ? 0 : (uint64_t)byte[0] << 16 | (uint64_t)byte[count / 2] << 8 | byte[count - 1];
}

/* Returns the hash of bytes. */
static inline uint64_t th_hash_bytes(th_hash_key key, const char *bytes, size_t count)
{
    uint64_t hash = key.start ^ count, word;
    for (; count > 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        hash = th_hash_mix(hash ^ word, key.factor);
    }
    return th_hash_mix(hash ^ th_hash_end(bytes, count), key.factor);
}

/* Whether two arrays of bytes are equal. Words are short: a call of memcmp would take longer. */
static inline bool th_same_bytes(const char *left, const char *right, size_t count)
{
    uint64_t a, b;
    for (; count > 8; left += 8, right += 8, count -= 8) {
        memcpy(&a, left, 8);
        memcpy(&b, right, 8);
        if (a != b)
            return false;
    }
    return th_hash_end(left, count) == th_hash_end(right, count);
}

#endif
