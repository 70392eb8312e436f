/* Stores keys and values in the cache, and finds them for attention. */
#include <string.h>

#include "nn/cache.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

static th_cached_layer *find_layer(const th_cache_impl *cache, const th_module *attention)
{
    for (int64_t i = 0; i < cache->layers; i++)
        if (cache->layer[i].module == attention)
            return &cache->layer[i];
    return NULL;
}

th_cache_impl *th_cache_for_forward(const th_cache *handle, const th_module *attention, th_dtype dtype)
{
    th_context *ctx = attention->ctx;
    th_cache_impl *cache = th_cache_of(handle, attention->type);
    if (cache == NULL) {
        th_fail(ctx, TH_ERROR_STATE, attention->type,
                "the context of the cache has been freed"); /* the error is pending in this context too */
        return NULL;
    }
    const th_cached_layer *layer = find_layer(cache, attention);
    if (cache->ctx != ctx)
        th_fail(ctx, TH_ERROR_ARGUMENT, attention->type, "the cache belongs to another context");
    else if (th_is_recording(ctx))
        th_fail(ctx, TH_ERROR_STATE, attention->type,
                "a cache has no gradient: it cannot be used while recording (th_no_grad_begin)");
    else if (layer == NULL)
        th_fail(ctx, TH_ERROR_ARGUMENT, attention->type, "the cache was made for another model");
    else if (layer->keys && layer->keys->dtype != dtype && !layer->type_may_change)
        th_fail(ctx, TH_ERROR_STATE, attention->type,
                "the cache holds %s numbers, but the layer was cast to %s: call th_cache_reset, then run the tokens "
                "again",
                th_dtype_name(layer->keys->dtype), th_dtype_name(dtype));
    return th_failed(ctx) ? NULL : cache;
}

/* Allocates *stored, unless it exists, for `length` keys like x (B, H, T, D), and fills it with zeros. */
static th_status allocate_stored(const th_cache_impl *cache, const th_tensor_impl *x, int64_t length,
                                 th_tensor_impl **stored)
{
    th_tensor_impl *t = *stored;
    const int64_t size[4] = {x->size[0], x->size[1], length, x->size[3]};
    if (t && t->dtype == x->dtype && memcmp(t->size, size, sizeof size) == 0)
        return TH_OK;
    if (t)
        th_tensor_free(th_handle_of(t));
    t = *stored = th_tensor_new(cache->ctx, x->dtype, 4, size, true, "cache");
    if (t == NULL)
        return cache->ctx->error;
    const th_array all = th_tensor_array(t);
    th_fill_array(t->ctx, &all, 0);
    return TH_OK;
}

static th_status check_batch(const th_cache_impl *cache, const th_module *attention, const th_tensor_impl *k)
{
    th_context *ctx = cache->ctx;
    if (k->ndim != 4 || k->size[0] != cache->batch)
        return th_fail(ctx, TH_ERROR_SHAPE, attention->type, "the cache holds %lld sequences: x must be (%lld, T, E)",
                       (long long)cache->batch, (long long)cache->batch);
    return TH_OK;
}

static int64_t position_at(const th_array *positions, int64_t b, int64_t t)
{
    if (!positions->given)
        return t;
    const int last = positions->ndim - 1;
    const int64_t offset = t * positions->stride[last] + (last > 0 ? b * positions->stride[0] : 0);
    return th_load_index(positions->dtype, positions->data, offset);
}

static th_status check_positions(const th_cache_impl *cache, const th_module *attention, const th_array *positions,
                                 int64_t length, int64_t capacity)
{
    th_context *ctx = cache->ctx;
    if (!positions->given) {
        if (length <= capacity)
            return TH_OK;
        return th_fail(ctx, TH_ERROR_INDEX, attention->type, "%lld tokens do not fit a cache of %lld positions",
                       (long long)length, (long long)capacity);
    }
    if (!th_is_index(positions->dtype))
        return th_fail(ctx, TH_ERROR_TYPE, attention->type, "positions must be int32 or int64; they are %s",
                       th_dtype_name(positions->dtype));
    const int last = positions->ndim - 1;
    if (last < 0 || last > 1 || positions->size[last] != length || (last > 0 && positions->size[0] != cache->batch))
        return th_fail(ctx, TH_ERROR_SHAPE, attention->type,
                       "positions must be (T) or (B, T), that is (%lld) or (%lld, %lld); they are %s",
                       (long long)length, (long long)cache->batch, (long long)length, TH_TEXT(positions));
    for (int64_t i = 0; positions->data && i < cache->batch * length; i++) {
        const int64_t position = position_at(positions, i / length, i % length);
        if (position < 0 || position >= capacity)
            return th_fail(ctx, TH_ERROR_INDEX, attention->type,
                           "token %lld of sequence %lld has position %lld, but the cache has %lld positions",
                           (long long)(i % length), (long long)(i / length), (long long)position, (long long)capacity);
    }
    return TH_OK;
}

/* Copies x (B, H, T, D), with any strides, to its positions in t (B, H, capacity, D). */
static void write_at_positions(th_tensor_impl *t, const th_tensor_impl *x, const th_array *positions)
{
    const size_t element = th_dtype_size(x->dtype);
    const int64_t width = x->size[3];
    const char *from = th_tensor_data(x);
    char *to = th_tensor_data(t);
    th_storage_mark_changed(t->storage);
    for (int64_t b = 0; from && b < x->size[0]; b++)
        for (int64_t s = 0; s < x->size[2]; s++) {
            const int64_t position = position_at(positions, b, s);
            for (int64_t h = 0; h < x->size[1]; h++) {
                const char *row = from + (b * x->stride[0] + h * x->stride[1] + s * x->stride[2]) * (int64_t)element;
                char *target = to + (b * t->stride[0] + h * t->stride[1] + position * t->stride[2]) * (int64_t)element;
                if (x->stride[3] == 1)
                    memcpy(target, row, (size_t)width * element);
                else
                    for (int64_t i = 0; i < width; i++)
                        memcpy(target + i * (int64_t)element, row + i * x->stride[3] * (int64_t)element, element);
            }
        }
}

static void return_stored(const th_cached_layer *layer, th_tensor **k, th_tensor **v)
{
    *k = th_handle_of(layer->keys);
    if (v)
        *v = th_handle_of(layer->values);
}

/* Stores *k and *v at these positions, and sets them to all stored keys and values. capacity: the number of positions
 * in the cache; 0: as many as keys. */
static th_cached_layer *store_keys_and_values(th_cache_impl *cache, const th_module *attention,
                                              const th_array *positions, int64_t capacity, th_tensor **k, th_tensor **v)
{
    const th_tensor_impl *keys = th_tensor_impl_of(*k), *values = v ? th_tensor_impl_of(*v) : NULL;
    if (check_batch(cache, attention, keys) != TH_OK)
        return NULL;
    th_cached_layer *layer = find_layer(cache, attention);
    const int64_t length = capacity ? capacity : keys->size[2];
    if (check_positions(cache, attention, positions, keys->size[2], length) != TH_OK ||
        allocate_stored(cache, keys, length, &layer->keys) != TH_OK ||
        (values && allocate_stored(cache, values, length, &layer->values) != TH_OK))
        return NULL;
    write_at_positions(layer->keys, keys, positions);
    if (values)
        write_at_positions(layer->values, values, positions);
    layer->type_may_change = false;
    return_stored(layer, k, v);
    return layer;
}

th_status th_cache_store(th_cache_impl *cache, const th_module *attention, th_tensor *positions, th_tensor **k,
                         th_tensor **v)
{
    const th_tensor_impl *impl =
        positions ? th_usable_tensor(positions, cache->ctx, attention->type, "positions") : NULL;
    if (positions && impl == NULL)
        return cache->ctx->error;
    const th_array position_array = impl ? th_tensor_array(impl) : (th_array){.given = false};
    th_cached_layer *layer = store_keys_and_values(cache, attention, &position_array, cache->capacity, k, v);
    if (layer == NULL)
        return cache->ctx->error;
    layer->holds_memory = false;
    return TH_OK;
}

th_status th_cache_store_memory(th_cache_impl *cache, const th_module *attention, th_tensor **k, th_tensor **v)
{
    th_cached_layer *layer = store_keys_and_values(cache, attention, &(th_array){.given = false}, 0, k, v);
    if (layer == NULL)
        return cache->ctx->error;
    layer->holds_memory = layer->memory_stored = true;
    return TH_OK;
}

bool th_cache_find_memory(const th_cache_impl *cache, const th_module *attention, th_tensor **k, th_tensor **v)
{
    const th_cached_layer *layer = find_layer(cache, attention);
    if (layer == NULL || !layer->memory_stored)
        return false;
    return_stored(layer, k, v);
    return true;
}
