/* The cache of keys and values, made and freed. It is a module, because it lives and dies as modules do, but it has no
 * parameters: nothing of it is saved, stepped or counted. What is stored in it: cache_store.c. */
#include "nn/cache.h"

#include "nn/attention_layer.h"

/* -- making and freeing -- */

static void destroy(th_module *m)
{
    th_cache *cache = (th_cache *)m;
    for (int64_t i = 0; i < cache->layers; i++) {
        th_tensor_free(th_handle_of(cache->layer[i].keys));
        th_tensor_free(th_handle_of(cache->layer[i].values));
    }
    if (cache->layer)
        th_release(m->ctx, cache->layer, (size_t)cache->layers * sizeof *cache->layer);
    if (cache->scratch_bytes)
        th_release_numbers(m->ctx, cache->scratch, cache->scratch_bytes);
}

/* The attention layers of a tree, into `layer` unless that is NULL: how many there are. */
static int64_t find_layers(const th_module *m, th_cached_layer *layer)
{
    int64_t count = th_is_attention(m);
    if (count && layer)
        *layer = (th_cached_layer){.attention = m};
    for (const th_module *child = m->first; child; child = child->next)
        count += find_layers(child, layer ? layer + count : NULL);
    return count;
}

th_cache *(th_cache_new)(th_module *model, int64_t batch, int64_t capacity)
{
    if (!th_module_usable(model, "cache_new"))
        return NULL;
    th_context *ctx = model->ctx;
    if (batch <= 0 || capacity <= 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "cache_new", "batch and capacity must be positive, they are %lld and %lld",
                (long long)batch, (long long)capacity);
        return NULL;
    }
    const int64_t layers = find_layers(model, NULL);
    if (layers == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "cache_new", "%s has no attention, and so no keys and values", model->type);
        return NULL;
    }
    th_cache *cache = (th_module_new)(ctx, sizeof *cache, "cache", NULL);
    if (cache == NULL)
        return NULL;
    cache->batch = batch;
    cache->capacity = capacity;
    cache->layer = th_allocate(ctx, (size_t)layers * sizeof *cache->layer);
    cache->base.destroy = destroy;
    if (cache->layer == NULL) {
        th_fail_memory(ctx, "cache_new", (size_t)layers * sizeof *cache->layer);
        th_module_free(&cache->base);
        return NULL;
    }
    cache->layers = layers;
    find_layers(model, cache->layer);
    return cache;
}

void th_cache_free(th_cache *cache)
{
    th_module_free((th_module *)cache);
}

th_status(th_cache_reset)(th_cache *cache)
{
    if (!th_module_usable((th_module *)cache, "cache_reset"))
        return cache ? cache->base.ctx->error : th_refused(NULL);
    for (int64_t i = 0; i < cache->layers; i++)
        cache->layer[i].stored = false;
    return TH_OK;
}

size_t th_cache_bytes(const th_cache *cache)
{
    size_t bytes = 0;
    for (int64_t i = 0; cache && i < cache->layers; i++) {
        bytes += cache->layer[i].keys ? cache->layer[i].keys->storage->bytes : 0;
        bytes += cache->layer[i].values ? cache->layer[i].values->storage->bytes : 0;
    }
    return bytes;
}
