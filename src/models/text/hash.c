/* Keys of hashes: see hash.h. */
#include "models/text/hash.h"

#include "models/core/files.h"

th_hash_key th_hash_key_new(void)
{
    th_hash_key key;
    if (getentropy(&key, sizeof key) != 0) { /* without getentropy the key still differs between processes */
        struct timespec now = {0};
        clock_gettime(CLOCK_MONOTONIC, &now);
        key.start = (uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)&key;
        key.factor = th_hash_mix(key.start, UINT64_C(0x9e3779b97f4a7c15));
    }
    key.factor |= 1;
    return key;
}
