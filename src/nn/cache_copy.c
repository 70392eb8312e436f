/* Copies keys and values from one sequence of a cache to another, as beam search needs it. */
#include <string.h>

#include "kernels/machine/parallel.h"
#include "kernels/sizes.h"
#include "nn/cache.h"

enum { CHUNK = 16 }; /* positions copied at a time, of all sequences */

typedef struct copy_work {
    const th_cache_impl *cache;
    const int64_t *source, *first, *end;
    size_t bytes; /* of scratch memory for each worker: (batch, CHUNK, D) */
} copy_work;

/* Copies positions begin .. begin + CHUNK - 1 of head h, for all sequences with another sequence as their source. The
 * first pass copies all sources to the scratch memory. The second pass copies them to their sequences. Two passes are
 * necessary because a sequence may be a source too. */
static void copy_chunk(const copy_work *work, const th_tensor_impl *t, int64_t h, int64_t begin, char *scratch)
{
    const int64_t element = (int64_t)th_dtype_size(t->dtype), row = t->stride[2] * element;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t b = 0; b < work->cache->batch; b++) {
            const int64_t first = th_larger(begin, work->first[b]), end = th_smaller(begin + CHUNK, work->end[b]);
            if (work->source[b] == b || first >= end)
                continue;
            const int64_t sequence = pass == 0 ? work->source[b] : b;
            char *cached = (char *)th_tensor_data(t) +
                           (sequence * t->stride[0] + h * t->stride[1] + first * t->stride[2]) * element;
            char *copy = scratch + (b * CHUNK + first - begin) * row;
            memcpy(pass == 0 ? copy : cached, pass == 0 ? cached : copy, (size_t)((end - first) * row));
        }
}

/* One task: the keys (even index) or the values (odd index) of a layer. */
static void copy_task(void *shared, int64_t index, int worker)
{
    const copy_work *work = shared;
    const th_cache_impl *cache = work->cache;
    const th_cached_layer *layer = &cache->layer[index / 2];
    const th_tensor_impl *t = index % 2 ? layer->values : layer->keys;
    if (t == NULL || layer->holds_memory)
        return;
    int64_t begin = cache->capacity, end = 0;
    for (int64_t b = 0; b < cache->batch; b++)
        if (work->source[b] != b) {
            begin = th_smaller(begin, work->first[b]);
            end = th_larger(end, work->end[b]);
        }
    for (int64_t h = 0; h < t->size[1]; h++)
        for (int64_t first = begin; first < end; first += CHUNK)
            copy_chunk(work, t, h, first, (char *)cache->scratch + (size_t)worker * work->bytes);
}

/* Returns the bytes of scratch memory that a worker needs for the widest rows. */
static size_t worker_bytes(const th_cache_impl *cache)
{
    size_t widest = 0;
    for (int64_t i = 0; i < 2 * cache->layers; i++) {
        const th_tensor_impl *t = i % 2 ? cache->layer[i / 2].values : cache->layer[i / 2].keys;
        const size_t row = t ? (size_t)t->stride[2] * th_dtype_size(t->dtype) : 0;
        widest = row > widest ? row : widest;
    }
    return th_aligned(widest * (size_t)cache->batch * CHUNK);
}

th_status th_cache_copy_sequences(th_cache *handle, const int64_t *source, const int64_t *first, const int64_t *end)
{
    th_cache_impl *cache = th_cache_of(handle, "cache");
    if (cache == NULL)
        return th_pending_status(NULL);
    th_context *ctx = cache->ctx;
    const copy_work work = {.cache = cache, .source = source, .first = first, .end = end, .bytes = worker_bytes(cache)};
    const size_t bytes = work.bytes * (size_t)ctx->threads;
    if (bytes > cache->scratch_bytes) {
        if (cache->scratch_bytes)
            th_release_numbers(ctx, cache->scratch, cache->scratch_bytes);
        cache->scratch_bytes = 0;
        if (th_allocate_numbers(ctx, bytes, &cache->scratch, "cache") != TH_OK)
            return ctx->error;
        cache->scratch_bytes = bytes;
    }
    if (cache->scratch)
        th_parallel(ctx->threads, 2 * cache->layers, copy_task, (void *)&work);
    return TH_OK;
}
