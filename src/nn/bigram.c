/* Computes the rows of a bigram embedding: see bigram.h. */
#include "nn/bigram.h"

#include "nn/cache.h"
#include "tapehead/tensor.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

/* Integers (T) or (B, T) in any layout; not given: 0 .. T - 1. */
static int64_t integer_at(const th_array *a, int64_t b, int64_t t)
{
    if (!a->given)
        return t;
    const int last = a->ndim - 1;
    return th_load_index(a->dtype, a->data, t * a->stride[last] + (last > 0 ? b * a->stride[0] : 0));
}

static int64_t row_of_pair(int64_t previous, int64_t token, int64_t vocabulary, int64_t rows)
{
    const uint64_t p = (uint64_t)previous, t = (uint64_t)token, v = (uint64_t)vocabulary;
    if (vocabulary <= (rows - 1) / vocabulary)
        return (int64_t)(p * v + t);
    return (int64_t)((36313 * t ^ 27191 * p) % (uint64_t)(rows - 1));
}

/* Stores the tokens in the cache, and sets *stored to all tokens in it, (B, 1, capacity, 1). */
static bool store_tokens(const th_module *model, th_tensor *tokens, th_tensor *positions, th_cache *handle,
                         th_tensor **stored)
{
    th_cache_impl *cache = th_cache_for_forward(handle, model, TH_INT64);
    const th_shape shape = TH_SHAPE(th_size(tokens, 0), 1, th_size(tokens, 1), 1);
    *stored = cache ? th_reshape(th_cast(tokens, TH_INT64), shape) : NULL;
    return *stored && th_cache_store(cache, model, positions, stored, NULL) == TH_OK;
}

th_tensor *th_bigram_rows(const th_module *model, th_tensor *tokens, th_tensor *positions, th_cache *cache,
                          int64_t vocabulary, int64_t rows)
{
    th_tensor *stored = NULL;
    if (th_failed(model->ctx) || (cache && !store_tokens(model, tokens, positions, cache, &stored)))
        return NULL;
    const th_array token = th_tensor_array(th_tensor_impl_of(tokens));
    const th_array position = positions ? th_tensor_array(th_tensor_impl_of(positions)) : (th_array){.given = false};
    const int64_t capacity = stored ? th_size(stored, 2) : 0, length = token.size[1];
    const int64_t *cached = stored ? th_tensor_data(th_tensor_impl_of(stored)) : NULL;
    th_tensor_impl *result = th_tensor_new(model->ctx, TH_INT64, 2, token.size, false, model->type);
    int64_t *row = result ? th_tensor_data(result) : NULL; /* NULL in a shapes-only context */
    for (int64_t b = 0; row && b < token.size[0]; b++)
        for (int64_t t = 0; t < length; t++, row++) {
            const int64_t at = integer_at(&position, b, t);
            if (at == 0 || (t == 0 && cached == NULL))
                *row = rows - 1;
            else
                *row = row_of_pair(cached ? cached[b * capacity + at - 1] : integer_at(&token, b, t - 1),
                                   integer_at(&token, b, t), vocabulary, rows);
        }
    return th_handle_of(result);
}
