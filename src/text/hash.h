/* Hashes for tables that live in memory only. */
#ifndef TH_TEXT_HASH_H
#define TH_TEXT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t th_hash_number(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93u;
    return key ^ key >> 32;
}

static inline uint64_t th_hash_bytes(const char *bytes, size_t count)
{
    uint64_t hash = count, word;
    for (; count >= 8; bytes += 8, count -= 8) {
        memcpy(&word, bytes, 8);
        hash = th_hash_number(hash ^ word);
    }
    word = 0;
    memcpy(&word, bytes, count);
    return th_hash_number(hash ^ word);
}

#endif
