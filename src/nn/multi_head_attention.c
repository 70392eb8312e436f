/* Multi-head attention as a layer: projections, heads split and merged as views, th_scaled_dot_product_attention in the
 * middle. What attention computes and hides, fused or composed, is that operation's matter. */
#include "nn/attention_layer.h"
#include "nn/cache.h"
#include "tapehead/layers.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

typedef struct attention_layer {
    th_module base;
    th_module *out_proj;
    th_tensor *in_proj_weight;                                /* (3 E, E), or NULL and the next three */
    th_tensor *q_proj_weight, *k_proj_weight, *v_proj_weight; /* (rows[i], input[i]) */
    th_tensor *in_proj_bias;                                  /* (rows[0] + rows[1] + rows[2]) or NULL */
    int64_t heads, kv_heads;
    int64_t input[3], rows[3]; /* of query, key, value: width that comes in, rows of the projection */
    double dropout, scale;
} attention_layer;

static const char *const operand_name[3] = {"query", "key", "value"};

/* There is no forward from one tensor to one; this also tells the layer from other modules. */
static th_tensor *no_forward(th_module *m, th_tensor *x)
{
    (void)x;
    th_fail(m->ctx, TH_ERROR_ARGUMENT, m->type, "takes query, key and value: call th_attend");
    return NULL;
}

bool th_is_attention(const th_module *m)
{
    return m->forward == no_forward;
}

/* -- construction -- */

static th_status check_options(th_context *ctx, int64_t width, int64_t heads, const th_multi_head_attention_options *o)
{
    const int64_t sizes[] = {width,        heads,          o->query_input,  o->key_input, o->value_input,
                             o->key_width, o->value_width, o->output_width, o->kv_heads};
    if (th_check_widths(ctx, "multi_head_attention", 9, sizes) != TH_OK)
        return ctx->error;
    const int64_t key_width = o->key_width ? o->key_width : width,
                  value_width = o->value_width ? o->value_width : width;
    const int64_t kv_heads = o->kv_heads ? o->kv_heads : heads;
    if (key_width % heads || value_width % heads)
        return th_fail(ctx, TH_ERROR_SHAPE, "multi_head_attention",
                       "%lld heads must divide the key width %lld and the value width %lld", (long long)heads,
                       (long long)key_width, (long long)value_width);
    if (kv_heads > heads || heads % kv_heads)
        return th_fail(ctx, TH_ERROR_SHAPE, "multi_head_attention", "kv_heads = %lld must divide the %lld heads",
                       (long long)kv_heads, (long long)heads);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "multi_head_attention", "dropout must be in [0, 1), it is %g",
                       o->dropout);
    return TH_OK;
}

static th_tensor *xavier_parameter(attention_layer *l, const char *name, int64_t rows, int64_t columns)
{
    th_tensor *weight = (th_module_add_parameter)(&l->base, name, TH_SHAPE(rows, columns));
    return weight && (th_fill_xavier_uniform)(weight, 1) == TH_OK ? weight : NULL;
}

static void add_members(attention_layer *l, int64_t width, bool packed, bool no_bias, int64_t value_width,
                        int64_t output_width)
{
    th_context *ctx = l->base.ctx;
    if (packed) {
        l->in_proj_weight = xavier_parameter(l, "in_proj_weight", 3 * width, width);
    } else {
        l->q_proj_weight = xavier_parameter(l, "q_proj_weight", l->rows[0], l->input[0]);
        l->k_proj_weight = xavier_parameter(l, "k_proj_weight", l->rows[1], l->input[1]);
        l->v_proj_weight = xavier_parameter(l, "v_proj_weight", l->rows[2], l->input[2]);
    }
    if (!no_bias)
        l->in_proj_bias =
            (th_module_add_parameter)(&l->base, "in_proj_bias", TH_SHAPE(l->rows[0] + l->rows[1] + l->rows[2]));
    th_module *out = (th_dense_new)(ctx, value_width, output_width, &(th_dense_layer_options){.no_bias = no_bias});
    l->out_proj = (th_module_add)(&l->base, "out_proj", out);
    th_tensor *out_bias = th_module_find_parameter(out, "bias");
    if (out_bias && (th_fill)(out_bias, 0) != TH_OK)
        return;
}

th_module *(th_multi_head_attention_new)(th_context *ctx, int64_t width, int64_t heads,
                                         const th_multi_head_attention_options *options)
{
    const th_multi_head_attention_options given = options ? *options : (th_multi_head_attention_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, width, heads, &given) != TH_OK)
        return NULL;
    attention_layer *l = (th_module_new)(ctx, sizeof *l, "multi_head_attention", no_forward);
    if (l == NULL)
        return NULL;
    const int64_t key_width = given.key_width ? given.key_width : width,
                  value_width = given.value_width ? given.value_width : width;
    const int64_t inputs[3] = {given.query_input, given.key_input, given.value_input};
    l->heads = heads;
    l->kv_heads = given.kv_heads ? given.kv_heads : heads;
    l->dropout = given.dropout;
    l->scale = given.scale;
    l->rows[0] = key_width;
    l->rows[1] = key_width / heads * l->kv_heads;
    l->rows[2] = value_width / heads * l->kv_heads;
    bool packed = true;
    for (int i = 0; i < 3; i++) {
        l->input[i] = inputs[i] ? inputs[i] : width;
        packed &= l->input[i] == width && l->rows[i] == width;
    }
    add_members(l, width, packed, given.no_bias, value_width, given.output_width ? given.output_width : width);
    return th_module_finish(&l->base);
}

/* -- forward -- */

/* x projected by the weights and biases of operands first .. last (0 query, 1 key, 2 value) in one product:
 * (N, rows). */
static th_tensor *project(const attention_layer *l, th_tensor *x, int first, int last)
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
                                                  : (th_slice)(l->in_proj_weight, 0, begin, end, 1);
    th_tensor *bias = l->in_proj_bias == NULL || all ? l->in_proj_bias : (th_slice)(l->in_proj_bias, 0, begin, end, 1);
    return (th_dense)(x, weight, &(th_dense_options){.bias = bias});
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
    th_tensor *split = (th_swap_axes)((th_reshape)(x, shape), -2, -3);
    return split && shape.ndim == 4 ? (th_set_axes)(split, axes) : split;
}

/* (N, H, T, D) -> (N, T, H D): a view, because attention's output lies in memory as (N, T, H, D). */
static th_tensor *merge_heads(th_tensor *x)
{
    th_tensor *swapped = (th_swap_axes)(x, -2, -3);
    if (swapped == NULL)
        return NULL;
    th_shape shape = th_shape_of(swapped);
    shape.size[shape.ndim - 2] *= shape.size[shape.ndim - 1];
    shape.ndim--;
    return (th_reshape)(swapped, shape);
}

/* Projected query, key and value into p: as few products as sharing tensors and a packed weight allow. */
static void project_all(const attention_layer *l, th_tensor *const *x, th_tensor **p)
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
        p[i] = (th_slice)(product, -1, column, column + l->rows[i], 1);
        column += l->rows[i];
    }
}

static th_status check_operands(const attention_layer *l, th_tensor *const *x)
{
    th_context *ctx = l->base.ctx;
    for (int i = 0; i < 3; i++) {
        const th_body *operand = th_usable(x[i], ctx, l->base.type, operand_name[i]);
        if (operand == NULL)
            return ctx->error;
        const th_array a = th_tensor_array(operand);
        if (a.ndim < 2 || a.ndim >= TH_MAX_DIMS || a.size[a.ndim - 1] != l->input[i]) {
            return th_fail(ctx, TH_ERROR_SHAPE, l->base.type, "the %s is %s, the layer takes (..., length, %lld)",
                           operand_name[i], TH_TEXT(&a), (long long)l->input[i]);
        }
    }
    return TH_OK;
}

/* Queries, keys and values by heads, (B, H, T, D) and (B, Hkv, S, D) twice, from what is given or, with a cache, from
 * there. False with an error pending. */
static bool heads_of(const attention_layer *l, th_tensor *const *x, const th_attend_options *given, th_tensor **h)
{
    th_tensor *p[3] = {NULL};
    th_cache *cache = given->cache;
    const bool self = x[0] == x[1];
    if (cache && !th_cache_usable(cache, l->base.ctx, l->base.type))
        return false;
    if (cache && !self && th_cache_find_memory(cache, &l->base, &h[1], &h[2])) {
        h[0] = split_heads(project(l, x[0], 0, 0), l->heads, "BHTD");
        return h[0] != NULL;
    }
    project_all(l, x, p);
    h[0] = split_heads(p[0], l->heads, "BHTD");
    h[1] = split_heads(p[1], l->kv_heads, "BHSD");
    h[2] = split_heads(p[2], l->kv_heads, "BHSD");
    if (cache && h[2])
        return (self ? th_cache_store(cache, &l->base, given->positions, &h[1], &h[2])
                     : th_cache_store_memory(cache, &l->base, &h[1], &h[2])) == TH_OK;
    return h[2] != NULL;
}

th_tensor *(th_attend_with)(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value,
                            const th_attend_options *options)
{
    const th_attend_options given = options ? *options : (th_attend_options){0};
    th_tensor *const x[3] = {query, key, value};
    if (!th_module_begin_as(attention, no_forward, "attend", "multi_head_attention"))
        return NULL;
    const attention_layer *l = (const attention_layer *)attention;
    th_tensor *h[3] = {NULL}, *weights = NULL;
    if (check_operands(l, x) != TH_OK || !heads_of(l, x, &given, h))
        return th_module_end(attention, NULL);
    th_tensor *heads = (th_scaled_dot_product_attention)(h[0], h[1], h[2],
                                                         &(th_attention_options){
                                                             .mask = given.mask,
                                                             .scale = l->scale,
                                                             .dropout = l->dropout,
                                                             .weights = given.weights ? &weights : NULL,
                                                         });
    th_tensor *merged = merge_heads(heads);
    th_tensor *output = given.residual ? (th_dense_residual)(l->out_proj, merged, given.residual)
                                       : (th_module_forward)(l->out_proj, merged);
    if (output && th_ndim(output) == 3)
        (th_set_axes)(output, "BTE");
    th_module_end_all(attention, (th_tensor *const[]){output, weights}, 2);
    if (given.weights)
        *given.weights = th_failed(attention->ctx) ? NULL : weights;
    return th_failed(attention->ctx) ? NULL : output;
}

th_tensor *(th_attend)(th_module *attention, th_tensor *query, th_tensor *key, th_tensor *value, const th_mask *mask)
{
    return (th_attend_with)(attention, query, key, value, &(th_attend_options){.mask = mask});
}
