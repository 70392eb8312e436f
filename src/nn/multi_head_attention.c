/* Creates multi-head attention layers. attend.c runs them. */
#include <math.h>

#include "nn/attention_layer.h"
#include "nn/first_block.h"
#include "nn/score_options.h"
#include "ops/shared/rotary_scaling.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

#define ROTARY_OPTION(kind, member) TH_MODULE_##kind(th_attention_layer, scores.member)
/* (The norms of queries and keys are modules.) */
static const th_module_option attention_options[] = {
    TH_MODULE_INTEGER(th_attention_layer, heads),         TH_MODULE_INTEGER(th_attention_layer, kv_heads),
    TH_MODULE_REAL(th_attention_layer, dropout),          TH_MODULE_REAL(th_attention_layer, scale),
    TH_MODULE_FLAG(th_attention_layer, scores.rotary),    TH_ROTARY_OPTIONS(ROTARY_OPTION),
    TH_MODULE_FLAG(th_attention_layer, scores.alibi),     TH_MODULE_REAL(th_attention_layer, scores.soft_cap),
    TH_MODULE_INTEGER(th_attention_layer, scores.window), {.name = NULL},
};
const th_module_type th_attention_type = {.name = "multi_head_attention",
                                          .bytes = sizeof(th_attention_layer),
                                          .options = attention_options,
                                          .attends = true,
                                          .no_forward = "takes query, key and value: call th_attend"};

/* width: of one head of queries and keys. */
static th_status check_scores(th_context *ctx, const th_score_options *scores, int64_t width)
{
    const char *const layer = "multi_head_attention";
    const int64_t rotated = scores->rotary_width ? scores->rotary_width : width;
    if (!(scores->soft_cap >= 0) || !isfinite(scores->soft_cap))
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "soft_cap = %g must be a positive number, or 0 for none",
                       scores->soft_cap);
    if (scores->window < 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "window = %lld must be a number of keys, or 0 for all",
                       (long long)scores->window);
    if (!(scores->qk_norm_eps >= 0) || !isfinite(scores->qk_norm_eps))
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "qk_norm_eps is %g, but it must be a positive number",
                       scores->qk_norm_eps);
    if (scores->qk_norm && scores->qk_norm_whole)
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer,
                       "qk_norm normalizes each head, qk_norm_whole all heads together: only one can be given");
    if (scores->qk_norm_no_weight && scores->qk_norm_unit_offset)
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer,
                       "qk_norm_unit_offset adds 1 to the weights, but qk_norm_no_weight leaves them out");
    if (!scores->rotary)
        return TH_OK;
    if (!(scores->rotary_base >= 0) || !isfinite(scores->rotary_base))
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "rotary_base = %g must be a positive number",
                       scores->rotary_base);
    if (scores->rotary_pairing != TH_ROTARY_HALVES && scores->rotary_pairing != TH_ROTARY_NEIGHBORS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "rotary_pairing is %d, which is not a th_rotary_pairing",
                       (int)scores->rotary_pairing);
    if (rotated < 0 || rotated > width || rotated % 2)
        return th_fail(ctx, TH_ERROR_SHAPE, layer,
                       "rotary positions rotate pairs: %lld must be even and at most the %lld elements of a head",
                       (long long)rotated, (long long)width);
    char reason[TH_ROTARY_REASON];
    const double base = scores->rotary_base > 0 ? scores->rotary_base : 10000;
    if (!th_rotary_scaling_usable(&scores->rotary_scaling, base, rotated, reason))
        return th_fail(ctx, TH_ERROR_ARGUMENT, layer, "rotary_scaling: %s", reason);
    return TH_OK;
}

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
        return th_fail(ctx, TH_ERROR_ARGUMENT, "multi_head_attention", "dropout must be in [0, 1); it is %g",
                       o->dropout);
    if (!isfinite(o->scale))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "multi_head_attention", "scale must be finite; it is %g", o->scale);
    return check_scores(ctx, &o->scores, key_width / heads);
}

static void release_options(th_module *m)
{
    th_score_options_release(m->ctx, &((th_attention_layer *)m)->scores);
}

static bool is_square(const th_input_projection *p, int64_t width)
{
    return p->input == width && p->rows == width;
}

static th_tensor *add_xavier_parameter(th_attention_layer *l, const char *name, int64_t rows, int64_t columns)
{
    th_tensor *weight = th_module_add_parameter(&l->base, name, TH_SHAPE(rows, columns));
    return weight && th_fill_xavier_uniform(weight, 1) == TH_OK ? weight : NULL;
}

/* rows: of the projection of all heads. */
static th_module *qk_norm_new(const th_attention_layer *l, int64_t rows, int64_t heads)
{
    const th_norm_layer_options norm = {.eps = l->scores.qk_norm_eps,
                                        .unit_offset = l->scores.qk_norm_unit_offset,
                                        .no_weight = l->scores.qk_norm_no_weight};
    return th_rms_norm_new(l->base.ctx, l->scores.qk_norm_whole ? rows : rows / heads, &norm);
}

static void add_members(th_attention_layer *l, int64_t width, const th_multi_head_attention_options *o)
{
    th_context *ctx = l->base.ctx;
    const bool packed = is_square(&l->query, width) && is_square(&l->key, width) && is_square(&l->value, width);
    if (packed) {
        l->in_proj_weight = add_xavier_parameter(l, "in_proj_weight", 3 * width, width);
    } else {
        l->query.weight = add_xavier_parameter(l, "q_proj_weight", l->query.rows, l->query.input);
        l->key.weight = add_xavier_parameter(l, "k_proj_weight", l->key.rows, l->key.input);
        l->value.weight = add_xavier_parameter(l, "v_proj_weight", l->value.rows, l->value.input);
    }
    if (!o->no_bias)
        l->in_proj_bias = th_module_add_parameter(&l->base, "in_proj_bias", TH_SHAPE(l->value.begin + l->value.rows));
    if (l->scores.qk_norm || l->scores.qk_norm_whole) {
        l->q_norm = th_module_add(&l->base, "q_norm", qk_norm_new(l, l->query.rows, l->heads));
        l->k_norm = th_module_add(&l->base, "k_norm", qk_norm_new(l, l->key.rows, l->kv_heads));
    }
    if (o->value_residual)
        l->value_residual = th_mix_parameter_new(&l->base, "value_residual", 0.5, 0.5);
    const th_dense_layer_options dense = {.no_bias = o->no_bias || o->no_output_bias};
    th_module *out =
        th_dense_new(ctx, o->value_width ? o->value_width : width, o->output_width ? o->output_width : width, &dense);
    l->out_proj = th_module_add(&l->base, "out_proj", out);
    th_tensor *out_bias = th_module_find_parameter(out, "bias");
    if (out_bias && th_fill(out_bias, 0) != TH_OK)
        return;
}

th_module *th_multi_head_attention_new(th_context *ctx, int64_t width, int64_t heads,
                                       const th_multi_head_attention_options *options)
{
    const th_multi_head_attention_options given = options ? *options : (th_multi_head_attention_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, width, heads, &given) != TH_OK)
        return NULL;
    th_attention_layer *l = th_module_new_of_type(ctx, &th_attention_type);
    if (l == NULL)
        return NULL;
    const int64_t key_width = given.key_width ? given.key_width : width,
                  value_width = given.value_width ? given.value_width : width;
    l->base.state->cached = true;
    l->heads = heads;
    l->kv_heads = given.kv_heads ? given.kv_heads : heads;
    l->dropout = given.dropout;
    l->scale = given.scale;
    l->scores = given.scores;
    l->base.destroy = release_options;
    if (th_score_options_own_arrays(ctx, &l->scores, l->base.type) != TH_OK)
        return th_module_finish(&l->base); /* releases l */
    l->query.input = given.query_input ? given.query_input : width;
    l->key.input = given.key_input ? given.key_input : width;
    l->value.input = given.value_input ? given.value_input : width;
    l->query.rows = key_width;
    l->key.rows = key_width / heads * l->kv_heads;
    l->value.rows = value_width / heads * l->kv_heads;
    l->key.begin = l->query.rows;
    l->value.begin = l->query.rows + l->key.rows;
    add_members(l, width, &given);
    return th_module_finish(&l->base);
}
