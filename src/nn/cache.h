/* Internal functions of the cache of keys and values: attention stores and finds them here. */
#ifndef TH_NN_CACHE_H
#define TH_NN_CACHE_H

#include "nn/module.h"
#include "private_api.h"
#include "tapehead/cache.h"
#include "tensor/tensor.h"

/* The keys and values of one attention layer. A language model with bigrams stores its tokens, as keys (B, 1, S, 1). */
typedef struct th_cached_layer {
    const th_module *module; /* NULL after it was freed */
    /* Owned tensors; NULL before the first forward. S: the capacity, or the length of the memory. */
    th_tensor_impl *keys;   /* (B, H, S, D) */
    th_tensor_impl *values; /* (B, H, S, Dv); NULL for tokens */
    bool holds_memory;      /* the layer is cross attention, and caches its memory */
    bool memory_stored;     /* cross attention: the memory was stored since the last reset */
    bool type_may_change;   /* nothing was stored since the last reset */
} th_cached_layer;

/* The object behind a th_cache, which is a handle (tensor/attachment.h). */
typedef struct th_cache_impl {
    th_context *ctx;
    int64_t batch, capacity;
    th_cached_layer *layer; /* [layers] */
    int64_t layers;
    void *scratch; /* of th_cache_copy_sequences, allocated when first used */
    size_t scratch_bytes;
} th_cache_impl;

/* Returns the cache of a handle. NULL, with the error pending, if the handle is NULL, the cache was freed, or an error
 * is pending. */
th_cache_impl *th_cache_of(const th_cache *cache, const char *operation);
/* Returns the cache for a forward of `attention`, which computes in dtype. NULL, with the error pending, if that
 * forward cannot use it. */
th_cache_impl *th_cache_for_forward(const th_cache *cache, const th_module *attention, th_dtype dtype);
/* Self-attention: stores *k (B, H, T, D) and *v (B, H, T, Dv) at positions (T) or (B, T) (NULL: 0 .. T - 1). Then sets
 * *k and *v to all keys and values in the cache, (B, H, capacity, D) and (B, H, capacity, Dv), which the cache owns. v
 * is NULL for tokens. */
th_status th_cache_store(th_cache_impl *cache, const th_module *attention, th_tensor *positions, th_tensor **k,
                         th_tensor **v);
/* Cross attention: stores the keys and values of the whole memory, and sets *k and *v to the stored tensors. */
th_status th_cache_store_memory(th_cache_impl *cache, const th_module *attention, th_tensor **k, th_tensor **v);
/* Sets *k and *v to the stored keys and values of the memory. Returns false if none were stored since the last
 * reset. */
bool th_cache_find_memory(const th_cache_impl *cache, const th_module *attention, th_tensor **k, th_tensor **v);
/* Copies keys and values of self-attention: sequence b gets the keys and values of sequence source[b] at positions
 * first[b] .. end[b] - 1. */
TH_PRIVATE_API th_status th_cache_copy_sequences(th_cache *cache, const int64_t *source, const int64_t *first,
                                                 const int64_t *end);

#endif
