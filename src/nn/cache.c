/* Creates and frees the cache of keys and values. The cache belongs to the context. The caller gets a handle, which
 * detects that the cache or its context was freed. cache_store.c stores keys and values. */
#include "nn/cache.h"

#include "nn/attention_layer.h"
#include "tensor/parameter_observer.h"

/* -- creating and freeing -- */

static void release_cache(th_context *ctx, void *object)
{
    th_cache_impl *cache = object;
    for (int64_t i = 0; cache->layer && i < cache->layers; i++) {
        th_tensor_free(th_handle_of(cache->layer[i].keys));
        th_tensor_free(th_handle_of(cache->layer[i].values));
    }
    th_release(ctx, cache->layer, (size_t)cache->layers * sizeof *cache->layer);
    if (cache->scratch_bytes)
        th_release_numbers(ctx, cache->scratch, cache->scratch_bytes);
    th_release(ctx, cache, sizeof *cache);
}

/* A new layer may get the address of the freed one. */
static void forget_freed_layer(th_context *ctx, void *object, const void *module)
{
    (void)ctx;
    const th_cache_impl *cache = object;
    for (int64_t i = 0; i < cache->layers; i++)
        if (cache->layer[i].module == module)
            cache->layer[i].module = NULL;
}

static const th_parameter_observer observer = {.forget_module = forget_freed_layer};

/* Counts the cached modules of a tree, and lists them in `layer` unless it is NULL. */
static int64_t list_cached_modules(const th_module *m, th_cached_layer *layer)
{
    int64_t count = m->state->cached;
    if (count && layer)
        *layer = (th_cached_layer){.module = m};
    for (const th_module *child = m->first; child; child = child->next)
        count += list_cached_modules(child, layer ? layer + count : NULL);
    return count;
}

th_cache *th_cache_new(th_module *model, int64_t batch, int64_t capacity)
{
    if (!th_module_usable(model, "cache_new"))
        return NULL;
    th_context *ctx = model->ctx;
    if (batch <= 0 || capacity <= 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "cache_new", "batch and capacity must be positive; they are %lld and %lld",
                (long long)batch, (long long)capacity);
        return NULL;
    }
    const int64_t layers = list_cached_modules(model, NULL);
    if (layers == 0) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "cache_new", "%s has no attention, so it has no keys and values", model->type);
        return NULL;
    }
    const size_t bytes = (size_t)layers * sizeof(th_cached_layer);
    th_cache_impl *cache = th_allocate(ctx, sizeof *cache);
    if (cache == NULL) {
        th_fail_memory(ctx, "cache_new", sizeof *cache);
        return NULL;
    }
    *cache = (th_cache_impl){.ctx = ctx, .batch = batch, .capacity = capacity, .layers = layers};
    cache->layer = th_allocate(ctx, bytes);
    list_cached_modules(model, cache->layer);
    if (cache->layer == NULL || !th_attach_object(ctx, cache, release_cache)) {
        release_cache(ctx, cache);
        th_fail_memory(ctx, "cache_new", bytes);
        return NULL;
    }
    th_observe_parameters(ctx, cache, &observer);
    return th_object_handle(ctx, cache);
}

void th_cache_free(th_cache *handle)
{
    th_context *ctx = th_object_context(handle);
    th_cache_impl *cache = th_object_of(handle, release_cache);
    if (ctx == NULL)
        return;
    if (cache == NULL) {
        th_fail(ctx, TH_ERROR_STATE, "cache_free", "the cache has already been freed");
        return;
    }
    th_detach_object(ctx, cache);
    release_cache(ctx, cache);
}

/* -- using -- */

/* Returns the cache of a handle, even if an error is pending; NULL with the error pending. */
static th_cache_impl *find_cache(const th_cache *handle, const char *operation)
{
    th_cache_impl *cache = th_object_of(handle, release_cache);
    th_context *ctx = th_object_context(handle);
    if (ctx)
        th_use_context(ctx);
    if (handle == NULL)
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the cache is NULL");
    else if (ctx == NULL)
        th_fail_last(TH_ERROR_STATE, operation, "the context of the cache has been freed");
    else if (cache == NULL)
        th_fail(ctx, TH_ERROR_STATE, operation, "the cache has been freed");
    return cache;
}

th_cache_impl *th_cache_of(const th_cache *handle, const char *operation)
{
    th_cache_impl *cache = find_cache(handle, operation);
    return cache && !th_failed(cache->ctx) ? cache : NULL;
}

th_status th_cache_reset(th_cache *handle)
{
    const th_cache_impl *cache = th_cache_of(handle, "cache_reset");
    if (cache == NULL) {
        const th_context *ctx = th_object_context(handle);
        return ctx ? ctx->error : handle ? TH_ERROR_STATE : th_pending_status(NULL);
    }
    for (int64_t i = 0; i < cache->layers; i++) {
        cache->layer[i].memory_stored = false;
        cache->layer[i].type_may_change = true;
    }
    return TH_OK;
}

size_t th_cache_bytes(const th_cache *handle)
{
    const th_cache_impl *cache = handle ? find_cache(handle, "cache_bytes") : NULL;
    size_t bytes = 0;
    for (int64_t i = 0; cache && i < cache->layers; i++) {
        bytes += cache->layer[i].keys ? cache->layer[i].keys->storage->bytes : 0;
        bytes += cache->layer[i].values ? cache->layer[i].values->storage->bytes : 0;
    }
    return bytes;
}
