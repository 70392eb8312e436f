/* Multi-head attention as a layer: its forward. Projections, heads split and merged as views,
 * th_scaled_dot_product_attention in the middle. What attention computes and hides, fused or composed, is that
 * operation's matter; where keys of earlier tokens are, the cache's. */
#include "kernels/elementwise/scalar.h"
#include "nn/attention_layer.h"
#include "nn/cache.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

/* -- projections -- */

/* x projected by the weights and biases of operands first .. last (0 query, 1 key, 2 value) in one product:
 * (N, rows). */
static th_tensor *project(const th_attention_layer *l, th_tensor *x, int first, int last)
{
    int64_t begin = 0, end = 0;
    for (int i = 0; i <= last; i++) {
        begin += i < first ? l->rows[i] : 0;
        end += l->rows[i];
    }
    const bool all = first == 0 && last == 2;
    th_tensor *const unpacked[3] = {l->q_proj_weight, l->k_proj_weight, l->v_proj_weight};
    th_tensor *weight = l->in_proj_weight == NULL ? unpacked[first]
                        : all                     ? l->in_proj_weight
                                                  : th_slice(l->in_proj_weight, 0, begin, end, 1);
    th_tensor *bias = l->in_proj_bias == NULL || all ? l->in_proj_bias : th_slice(l->in_proj_bias, 0, begin, end, 1);
    return th_dense(x, weight, &(th_dense_options){.bias = bias});
}

/* (N, T, heads D) -> (N, heads, T, D), a view. axes: letters when there is one leading dimension. */
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

/* (N, H, T, D) -> (N, T, H D): a view, because attention's output lies in memory as (N, T, H, D). */
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

/* Projected query, key and value into p: as few products as sharing tensors and a packed weight allow. */
static void project_all(const th_attention_layer *l, th_tensor *const *x, th_tensor **p)
{
    const bool packed = l->in_proj_weight != NULL;
    const int together = packed && x[1] == x[2] ? (x[0] == x[1] ? 3 : 2) : 1; /* operands of the last product */
    for (int i = 0; i < 3 - together; i++)
        p[i] = project(l, x[i], i, i);
    if (together == 1) {
        p[2] = project(l, x[2], 2, 2);
        return;
    }
    th_tensor *product = project(l, x[2], 3 - together, 2);
    int64_t column = 0;
    for (int i = 3 - together; i < 3; i++) {
        p[i] = th_slice(product, -1, column, column + l->rows[i], 1);
        column += l->rows[i];
    }
}

static const char *const operand_name[3] = {"query", "key", "value"};

static th_status check_operands(const th_attention_layer *l, th_tensor *const *x)
{
    th_context *ctx = l->base.ctx;
    for (int i = 0; i < 3; i++) {
        const th_tensor_impl *operand = th_usable(x[i], ctx, l->base.type, operand_name[i]);
        if (operand == NULL)
            return ctx->error;
        const th_array a = th_tensor_array(operand);
        if (a.ndim < 2 || a.ndim >= TH_MAX_DIMS || a.size[a.ndim - 1] != l->input[i]) {
            return th_fail(ctx, TH_ERROR_SHAPE, l->base.type, "the %s is %s, but the layer takes (..., length, %lld)",
                           operand_name[i], TH_TEXT(&a), (long long)l->input[i]);
        }
    }
    return TH_OK;
}

/* -- scores -- */

/* Heads of queries or keys (B, H, T, D), normalized and turned as the scores want them. positions: (T), (B, T), or
 * NULL. */
static th_tensor *prepare(const th_attention_layer *l, th_tensor *heads, th_module *norm, th_tensor *positions)
{
    const th_score_options *scores = &l->scores;
    if (norm)
        heads = th_module_forward(norm, heads);
    if (!scores->rotary)
        return heads;
    return th_rotary(heads, &(th_rotary_options){.base = scores->rotary_base,
                                                 .pairing = scores->rotary_pairing,
                                                 .width = scores->rotary_width,
                                                 .scaling = scores->rotary_scaling,
                                                 .positions = positions});
}

/* The slopes of ALiBi, (H). Those of a power of two heads are 2^(-8 (h + 1) / heads); of any other number, those of the
 * power of two below it, and every other one of the power of two above. */
static th_tensor *alibi_slopes(const th_attention_layer *l, th_dtype dtype)
{
    int64_t whole = 1;
    while (2 * whole <= l->heads)
        whole *= 2;
    th_tensor_impl *slopes = th_tensor_new(l->base.ctx, dtype, 1, &l->heads, false, l->base.type);
    char *at = slopes ? th_tensor_data(slopes) : NULL; /* none in a run of shapes only */
    for (int64_t h = 0; at && h < l->heads; h++, at += th_dtype_size(dtype)) {
        const double step = h < whole ? (double)(h + 1) : (double)(h - whole) + 0.5;
        th_number_store(dtype, at, th_scalar_pow(2, -8 * step / (double)whole));
    }
    return th_handle_of(slopes);
}

/* The mask with the layer's window in it; NULL: none. False with an error pending. */
static bool mask_of(const th_attention_layer *l, const th_mask *given, th_mask *own, const th_mask **mask)
{
    *mask = given;
    if (l->scores.window == 0)
        return true;
    if (given == NULL || given->causal == TH_CAUSAL_NONE) {
        th_fail(l->base.ctx, TH_ERROR_ARGUMENT, l->base.type, "a window of %lld keys needs a causal mask",
                (long long)l->scores.window);
        return false;
    }
    *own = *given;
    *mask = own;
    const th_window_range *window = &given->window;
    const int64_t left = l->scores.window - 1;
    const bool narrower = window->given && window->left >= 0 && window->left < left;
    own->window = (th_window_range){true, narrower ? window->left : left, window->given ? window->right : -1};
    return true;
}

/* -- forward -- */

/* Queries, keys and values by heads, (B, H, T, D) and (B, Hkv, S, D) twice, from what is given or, with a cache, from
 * there. False with an error pending. */
static bool heads_of(const th_attention_layer *l, th_tensor *const *x, const th_attend_options *given, th_tensor **h)
{
    th_tensor *p[3] = {NULL};
    const bool self = x[0] == x[1];
    const th_dtype dtype = th_dtype_of(l->in_proj_weight ? l->in_proj_weight : l->q_proj_weight);
    th_cache_impl *cache = given->cache ? th_cache_usable(given->cache, &l->base, dtype) : NULL;
    if (given->cache && cache == NULL)
        return false;
    const bool found = cache && !self && th_cache_find_memory(cache, &l->base, &h[1], &h[2]);
    if (found)
        p[0] = project(l, x[0], 0, 0);
    else
        project_all(l, x, p);
    h[0] = prepare(l, split_heads(p[0], l->heads, "BHTD"), l->q_norm, given->positions);
    if (found)
        return h[0] != NULL;
    h[1] = prepare(l, split_heads(p[1], l->kv_heads, "BHSD"), l->k_norm, self ? given->positions : NULL);
    h[2] = split_heads(p[2], l->kv_heads, "BHSD");
    if (cache && h[1] && h[2])
        return (self ? th_cache_store(cache, &l->base, given->positions, &h[1], &h[2])
                     : th_cache_store_memory(cache, &l->base, &h[1], &h[2])) == TH_OK;
    return h[1] && h[2];
}

th_tensor *th_attend(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value,
                     const th_attend_options *options)
{
    const th_attend_options given = options ? *options : (th_attend_options){0};
    th_tensor *const x[3] = {query, key, value};
    if (!th_module_begin_as(attention, th_attention_no_forward, "attend", "multi_head_attention"))
        return NULL;
    const th_attention_layer *l = (const th_attention_layer *)attention;
    const th_mask *mask = NULL;
    th_mask own;
    th_tensor *h[3] = {NULL}, *weights = NULL;
    if (check_operands(l, x) != TH_OK || !mask_of(l, given.mask, &own, &mask) || !heads_of(l, x, &given, h))
        return th_module_end(attention, NULL);
    const th_attention_options scores = {.mask = mask,
                                         .scale = l->scale,
                                         .soft_cap = l->scores.soft_cap,
                                         .alibi = l->scores.alibi ? alibi_slopes(l, th_dtype_of(h[0])) : NULL,
                                         .dropout = l->dropout,
                                         .weights = given.weights ? &weights : NULL};
    th_tensor *merged = merge_heads(th_scaled_dot_product_attention(h[0], h[1], h[2], &scores));
    th_tensor *output = given.residual ? th_dense_residual(l->out_proj, merged, given.residual)
                                       : th_module_forward(l->out_proj, merged);
    if (output && th_ndim(output) == 3)
        th_set_axes(output, "BTE");
    th_module_end_all(attention, (th_tensor *const[]){output, weights}, 2);
    if (given.weights)
        *given.weights = th_failed(attention->ctx) ? NULL : weights;
    return th_failed(attention->ctx) ? NULL : output;
}
