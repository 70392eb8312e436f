/* Comparison of guarded memory with the byte that fills it. */
#ifndef TH_CHECKER_BYTES_H
#define TH_CHECKER_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returns whether all bytes have this value. */
static inline bool th_bytes_are(const unsigned char *bytes, size_t count, int value)
{
    return count == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

#endif
