/* The forward of multi-head attention: project query, key and value, split them into heads, attend, merge the heads,
 * project the result.
 *
 * th_scaled_dot_product_attention computes the attention itself, with masks, fused or composed. The cache holds keys
 * and values of earlier tokens (nn/cache.h).
 *
 * B batch, T query length, S key length, E width, H heads, Hkv heads of key and value, D width of a head; N: any
 * leading dimensions. */
#include "kernels/elementwise/scalar.h"
#include "nn/attention_projections.h"
#include "nn/cache.h"
#include "nn/first_block.h"
#include "nn/score_options.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

/* -- heads -- */

/* (N, T, H D) -> (N, H, T, D), a view. axes: letters for the axes if there is one leading dimension. */
static th_tensor *split_heads(th_tensor *x, int64_t heads, const char *axes)
{
    if (x == NULL)
        return NULL;
    th_shape shape = th_shape_of(x);
    const int last = shape.ndim - 1;
    const int64_t width = shape.size[last];
    shape.ndim++;
    shape.size[last] = heads;
    shape.size[last + 1] = width / heads;
    th_tensor *split = th_swap_axes(th_reshape(x, shape), -2, -3);
    return split && shape.ndim == 4 ? th_set_axes(split, axes) : split;
}

/* (N, H, T, D) -> (N, T, H D). A view, because the output of attention is (N, T, H, D) in memory. */
static th_tensor *merge_heads(th_tensor *x)
{
    th_tensor *swapped = th_swap_axes(x, -2, -3);
    if (swapped == NULL)
        return NULL;
    th_shape shape = th_shape_of(swapped);
    shape.size[shape.ndim - 2] *= shape.size[shape.ndim - 1];
    shape.ndim--;
    return th_reshape(swapped, shape);
}

/* Splits queries or keys (N, T, H D) into heads (N, H, T, D). Unless norm is NULL, normalizes all heads together before
 * the split, or each head after it. Then rotates the heads if the scores are rotary. positions: (T) or (B, T); NULL: 0
 * .. T - 1. */
static th_tensor *score_heads(const th_attention_layer *l, th_tensor *x, int64_t count, const char *axes,
                              th_module *norm, th_tensor *positions)
{
    const th_score_options *scores = &l->scores;
    if (norm && scores->qk_norm_whole)
        x = th_module_forward(norm, x);
    th_tensor *heads = split_heads(x, count, axes);
    if (norm && !scores->qk_norm_whole)
        heads = th_module_forward(norm, heads);
    if (!scores->rotary)
        return heads;
    th_rotary_scaling scaling = scores->rotary_scaling;
    if (!th_score_factors_copy_to_tape(l->base.ctx, &scaling, l->base.type))
        return NULL;
    return th_rotary(heads, &(th_rotary_options){.base = scores->rotary_base,
                                                 .pairing = scores->rotary_pairing,
                                                 .width = scores->rotary_width,
                                                 .scaling = scaling,
                                                 .positions = positions});
}

/* (N, T, H D) -> (N, H, T, D) */
static th_tensor *query_heads(const th_attention_layer *l, th_tensor *query, th_tensor *positions)
{
    return score_heads(l, query, l->heads, "BHTD", l->q_norm, positions);
}

/* (N, S, Hkv D) -> (N, Hkv, S, D) */
static th_tensor *key_heads(const th_attention_layer *l, th_tensor *key, th_tensor *positions)
{
    return score_heads(l, key, l->kv_heads, "BHSD", l->k_norm, positions);
}

/* Returns the values that self-attention uses: value, mixed with the first layer's values with value_residual. Another
 * layer may be the first layer, so it sets *first_values if nobody has. */
static th_tensor *mix_values(const th_attention_layer *l, th_tensor *value, th_tensor **first_values)
{
    if (l->value_residual)
        return th_mix(&l->base, l->value_residual, value, first_values ? *first_values : NULL, "first_values");
    if (first_values && *first_values == NULL)
        *first_values = value;
    return value;
}

/* Sets *heads to queries (B, H, T, D), keys (B, Hkv, S, D) and values (B, Hkv, S, D). With a cache, these are all keys
 * and values in the cache. Self-attention first adds the new keys and values. Cross attention adds the keys and values
 * of the memory in the first forward only. Returns false with an error pending. */
static bool make_heads(const th_attention_layer *l, th_tensor *query, th_tensor *key, th_tensor *value,
                       const th_attend_options *given, th_attention_operands *heads)
{
    const bool self = query == key;
    const th_dtype weight_type = th_dtype_of(l->in_proj_weight ? l->in_proj_weight : l->query.weight);
    const th_dtype dtype = th_is_storage_type(weight_type) ? th_dtype_of(query) : weight_type;
    /* If the cache cannot be used, an error is pending, and no operation below computes anything. */
    th_cache_impl *cache = given->cache ? th_cache_for_forward(given->cache, &l->base, dtype) : NULL;
    if (cache && !self && th_cache_find_memory(cache, &l->base, &heads->key, &heads->value)) {
        heads->query = query_heads(l, th_attention_project(l, &l->query, query), given->positions);
        return heads->query != NULL;
    }
    const th_attention_operands projected = th_attention_project_all(l, query, key, value);
    heads->query = query_heads(l, projected.query, given->positions);
    heads->key = key_heads(l, projected.key, self ? given->positions : NULL);
    heads->value = split_heads(mix_values(l, projected.value, given->first_values), l->kv_heads, "BHSD");
    if (heads->key == NULL || heads->value == NULL)
        return false;
    if (cache && self)
        return th_cache_store(cache, &l->base, given->positions, &heads->key, &heads->value) == TH_OK;
    if (cache)
        return th_cache_store_memory(cache, &l->base, &heads->key, &heads->value) == TH_OK;
    return true;
}

/* -- scores -- */

/* The slopes of ALiBi (Press et al. 2022), (H): 2^(-8 (h + 1) / H) if H is a power of two. Otherwise the slopes for the
 * next smaller power of two, then every other slope for the next larger one. */
static th_tensor *alibi_slopes(const th_attention_layer *l, th_dtype dtype)
{
    int64_t power = 1;
    while (2 * power <= l->heads)
        power *= 2;
    th_tensor_impl *slopes = th_tensor_new(l->base.ctx, dtype, 1, &l->heads, false, l->base.type);
    char *slope = slopes ? th_tensor_data(slopes) : NULL; /* NULL in a shapes-only context */
    for (int64_t h = 0; slope && h < l->heads; h++, slope += th_dtype_size(dtype)) {
        const double step = h < power ? (double)(h + 1) : (double)(h - power) + 0.5;
        th_number_write(dtype, slope, th_scalar_pow(2, -8 * step / (double)power));
    }
    return th_handle_of(slopes);
}

/* -- masks -- */

bool th_mask_hides_nothing(const th_mask *mask)
{
    return mask == NULL || (mask->causal == TH_CAUSAL_NONE && !mask->window.given && mask->valid_lengths == NULL &&
                            mask->documents == NULL && mask->keep == NULL && mask->additive == NULL);
}

/* Returns the smaller number of visible keys on one side. Negative: unlimited. */
static int64_t narrower(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Sets *mask to the given mask, or to *limited, a copy of it that is limited to the layer's window. */
static void limit_to_window(const th_attention_layer *l, const th_mask *given, th_mask *limited, const th_mask **mask)
{
    *mask = given;
    if (l->scores.window == 0)
        return;
    *limited = given ? *given : (th_mask){.causal = TH_CAUSAL_NONE};
    *mask = limited;
    const int64_t most = l->scores.window - 1, right = limited->causal == TH_CAUSAL_NONE ? most : -1;
    const th_window_range window = limited->window.given ? limited->window : TH_WINDOW(-1, -1);
    limited->window = TH_WINDOW(narrower(window.left, most), narrower(window.right, right));
}

/* -- the forward of the layer -- */

/* Ends the layer's forward or a user's. Its results are y, the attention weights and the first layer's values. */
static th_tensor *end_attend(th_module *m, th_tensor *y, th_tensor *weights, const th_attend_options *given)
{
    th_module_end_all(m, (th_tensor *const[]){y, weights, given->first_values ? *given->first_values : NULL}, 3);
    const bool failed = th_failed(m->ctx);
    if (given->weights)
        *given->weights = failed ? NULL : weights;
    return failed ? NULL : y;
}

static bool check_operand(const th_attention_layer *l, th_tensor *handle, const char *name,
                          const th_input_projection *p)
{
    const th_tensor_impl *t = th_usable_tensor(handle, l->base.ctx, l->base.type, name);
    if (t == NULL)
        return false;
    const th_array a = th_tensor_array(t);
    if (a.ndim >= 2 && a.ndim < TH_MAX_DIMS && a.size[a.ndim - 1] == p->input)
        return true;
    th_fail(l->base.ctx, TH_ERROR_SHAPE, l->base.type, "the %s is %s, but the layer takes (..., length, %lld)", name,
            TH_TEXT(&a), (long long)p->input);
    return false;
}

/* Runs the layer's own forward, which has begun, and ends it. */
static th_tensor *run_layer(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value,
                            const th_attend_options *given)
{
    const th_attention_layer *l = (const th_attention_layer *)attention;
    const th_mask *mask = NULL;
    th_mask limited;
    th_attention_operands heads = {NULL, NULL, NULL};
    th_tensor *weights = NULL;
    if (!check_operand(l, query, "query", &l->query) || !check_operand(l, key, "key", &l->key) ||
        !check_operand(l, value, "value", &l->value) || !make_heads(l, query, key, value, given, &heads))
        return th_module_end(attention, NULL);
    limit_to_window(l, given->mask, &limited, &mask);

    const th_attention_options scores = {.mask = mask,
                                         .scale = l->scale,
                                         .soft_cap = l->scores.soft_cap,
                                         .alibi = l->scores.alibi ? alibi_slopes(l, th_dtype_of(heads.query)) : NULL,
                                         .dropout = l->dropout,
                                         .weights = given->weights ? &weights : NULL};
    th_tensor *merged = merge_heads(th_scaled_dot_product_attention(heads.query, heads.key, heads.value, &scores));
    th_tensor *output = given->residual ? th_dense_residual(l->out_proj, merged, given->residual)
                                        : th_module_forward(l->out_proj, merged);
    if (output && th_ndim(output) == 3)
        th_set_axes(output, "BTE");

    return end_attend(attention, output, weights, given);
}

/* -- a forward or an attend of the user -- */

/* Returns y + residual, which must have the same shape, or y if residual is NULL. */
static th_tensor *add_residual(th_tensor *y, th_tensor *residual)
{
    return residual ? th_dropout_residual(y, 0, residual) : y;
}

/* Runs the replaced forward of a layer. TH_ERROR_ARGUMENT if it would not get an argument. */
static th_tensor *run_replaced_forward(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                                       const th_attend_options *given)
{
    const char *unusable = query != key || key != value ? "it takes only x and would not get the key and the value"
                           : !th_mask_hides_nothing(given->mask) ? "it takes only x and would not get the mask"
                           : given->positions                    ? "it takes only x and would not get the positions"
                           : given->cache                        ? "it takes only x and would not get the cache"
                           : given->first_values                 ? "it takes only x and would not get the first values"
                           : given->weights                      ? "it returns only y and no attention weights"
                                                                 : NULL;
    if (unusable && !th_module_check_not_replaced(m, "attend", unusable))
        return NULL;
    return add_residual(th_module_forward(m, query), given->residual);
}

/* Runs the user's function of a module. */
static th_tensor *run_user_attend(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                                  const th_attend_options *given)
{
    if (!th_module_begin(m))
        return NULL;
    th_tensor *weights = NULL;
    th_attend_options forwarded = *given;
    forwarded.residual = NULL;
    forwarded.weights = given->weights ? &weights : NULL;
    th_tensor *y = add_residual(m->attend(m, query, key, value, &forwarded), given->residual);
    return end_attend(m, y, weights, given);
}

/* -- th_attend -- */

th_tensor *th_attend(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value,
                     const th_attend_options *options)
{
    const th_attend_options given = options ? *options : (th_attend_options){0};
    const bool usable = th_module_usable(attention, "attend");
    if (usable && th_module_runs_user_attend(attention))
        return run_user_attend(attention, query, key, value, &given);
    if (usable && th_module_is(attention, &th_attention_type) && th_module_is_replaced(attention))
        return run_replaced_forward(attention, query, key, value, &given);
    if (!th_module_begin_as(attention, &th_attention_type, "attend", "multi_head_attention"))
        return NULL;
    return run_layer(attention, query, key, value, &given);
}
