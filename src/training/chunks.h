/* Adjacent numbers in chunks of equal size, one for each task of th_parallel. The size does not depend on the number of
 * threads. */
#ifndef TH_TRAINING_CHUNKS_H
#define TH_TRAINING_CHUNKS_H

#include <stddef.h>
#include <stdint.h>

enum { TH_CHUNK = 1 << 14 }; /* numbers of a chunk; the last one may have fewer */

typedef struct th_chunk {
    int64_t count; /* of numbers */
    size_t at;     /* the first byte */
} th_chunk;

static inline int64_t th_chunk_count(int64_t numel)
{
    return (numel + TH_CHUNK - 1) / TH_CHUNK;
}

/* Returns chunk `index` of numel numbers, each of `element` bytes. */
static inline th_chunk th_chunk_at(int64_t numel, size_t element, int64_t index)
{
    const int64_t first = index * TH_CHUNK, rest = numel - first;
    return (th_chunk){.count = rest < TH_CHUNK ? rest : TH_CHUNK, .at = (size_t)first * element};
}

#endif
