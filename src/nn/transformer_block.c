/* The transformer block: residual branches of self-attention, cross attention and MLP, composed with the public API.
 * attend.c contains attention. */
#include "nn/transformer_block.h"

#include <math.h>

#include "nn/attention_layer.h"
#include "nn/first_block.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

enum { BRANCHES = 3 };

typedef struct transformer_block {
    th_module base;
    th_module *self_attn;
    th_module *multihead_attn;     /* cross attention; NULL in an encoder block */
    th_module *linear1, *linear2;  /* of the MLP; NULL without one */
    th_module *gate;               /* of a gated MLP; otherwise NULL */
    th_module *norm[BRANCHES];     /* in the order of the branches; NULL without input norms */
    th_module *norm_out[BRANCHES]; /* NULL without output norms */
    th_tensor *embedding_skip;     /* (2): the factors of x and of the first block's input; or NULL */
    int64_t width;
    th_activation activation;
    bool post_norm, parallel, shared_norm, recompute;
    double branch_scale; /* 1: none */
    double dropout, mlp_dropout;
} transformer_block;

/* -- forward -- */

/* A branch: x (.., T, E) -> residual + f(norm(x)). norm and residual may be NULL. */
typedef th_tensor *branch_function(const transformer_block *b, th_module *norm, th_tensor *x, th_tensor *residual,
                                   const th_transform_options *given);

static th_tensor *normalize(th_module *norm, th_tensor *x)
{
    return norm ? th_module_forward(norm, x) : x;
}

static th_tensor *self_attention(const transformer_block *b, th_module *norm, th_tensor *x, th_tensor *residual,
                                 const th_transform_options *given)
{
    th_tensor *h = normalize(norm, x);
    return th_attend(b->self_attn, h, h, h,
                     &(th_attend_options){.mask = given->mask,
                                          .positions = given->positions,
                                          .cache = given->cache,
                                          .first_values = given->first_values,
                                          .residual = residual,
                                          .weights = given->weights});
}

static th_tensor *cross_attention(const transformer_block *b, th_module *norm, th_tensor *x, th_tensor *residual,
                                  const th_transform_options *given)
{
    return th_attend(
        b->multihead_attn, normalize(norm, x), given->memory, given->memory,
        &(th_attend_options){
            .mask = given->memory_mask, .cache = given->cache, .residual = residual, .weights = given->memory_weights});
}

th_tensor *th_activate(th_tensor *x, th_activation activation)
{
    switch (activation) {
    case TH_GELU_TANH:
        return th_gelu_tanh(x);
    case TH_GELU:
        return th_gelu(x);
    case TH_RELU:
        return th_relu(x);
    case TH_SILU:
        return th_silu(x);
    case TH_RELU_SQUARED:
        return th_relu_squared(x);
    case TH_TANH:
        break;
    }
    return th_tanh(x);
}

/* Returns linear1(norm(x)), (.., T, mlp_width), and sets *gate to gate(norm(x)), or NULL. The scope releases the norm's
 * output before the activation needs memory. */
static th_tensor *widen(const transformer_block *b, th_module *norm, th_tensor *x, th_tensor **gate)
{
    th_context *ctx = b->base.ctx;
    th_scope_begin(ctx, NULL);
    th_tensor *h = normalize(norm, x);
    *gate = b->gate ? th_module_forward(b->gate, h) : NULL;
    h = th_module_forward(b->linear1, h);
    th_scope_end_all(ctx, (th_tensor *const[]){h, *gate}, 2);
    return h;
}

static th_tensor *narrow(const transformer_block *b, th_tensor *h, th_tensor *residual)
{
    h = th_dropout(h, b->mlp_dropout);
    return residual ? th_dense_residual(b->linear2, h, residual) : th_module_forward(b->linear2, h);
}

static th_tensor *mlp(const transformer_block *b, th_module *norm, th_tensor *x, th_tensor *residual,
                      const th_transform_options *given)
{
    (void)given;
    th_tensor *gate, *h = widen(b, norm, x, &gate);
    if (b->gate == NULL)
        return narrow(b, th_activate(h, b->activation), residual);
    th_scope_begin_recomputed(b->base.ctx, NULL); /* saves only both factors of the product */
    return th_scope_end(b->base.ctx, narrow(b, th_mul(th_activate(gate, b->activation), h), residual));
}

/* Returns residual + branch_scale dropout(norm_out(branch(x))). With fusion there is no separate addition. Without
 * dropout, norm and scale, the last product of the branch adds the residual. Otherwise the dropout operation adds it. */
static th_tensor *with_residual(const transformer_block *b, branch_function *branch, int i, th_tensor *x,
                                th_tensor *residual, const th_transform_options *given)
{
    th_context *ctx = b->base.ctx;
    th_module *norm = b->post_norm ? NULL : b->norm[b->shared_norm ? 0 : i], *norm_out = b->norm_out[i];
    const bool drops = b->dropout != 0 && th_module_is_training(&b->base);
    if (th_has_fusion(ctx) && norm_out == NULL && b->branch_scale == 1 && !drops)
        return branch(b, norm, x, residual, given);
    th_tensor *y = normalize(norm_out, branch(b, norm, x, NULL, given));
    if (b->branch_scale != 1)
        y = th_scale(y, b->branch_scale);
    return th_has_fusion(ctx) ? th_dropout_residual(y, b->dropout, residual)
                              : th_dropout_residual(th_dropout(y, b->dropout), 0, residual); /* th_add */
}

static th_tensor *result_or_null(th_tensor *const *result)
{
    return result ? *result : NULL;
}

/* Ends a scope. x, the attention weights so far and the first block's values outlive it. */
static th_tensor *end_scope(const transformer_block *b, th_tensor *x, const th_transform_options *given)
{
    th_tensor *const results[] = {x, result_or_null(given->weights), result_or_null(given->memory_weights),
                                  result_or_null(given->first_values)};
    th_scope_end_all(b->base.ctx, results, 4);
    return x;
}

/* Runs branch i on x with its norms, and adds the residual, in a scope that releases its values before the next branch.
 */
static th_tensor *run_branch(const transformer_block *b, branch_function *branch, int i, th_tensor *x,
                             th_tensor *residual, const th_transform_options *given)
{
    th_context *ctx = b->base.ctx;
    th_scope_begin(ctx, NULL);
    th_tensor *y = with_residual(b, branch, i, x, residual, given);
    y = normalize(b->post_norm ? b->norm[i] : NULL, y);
    return end_scope(b, y, given);
}

/* Runs all branches. With .parallel each branch reads x, otherwise each branch reads the sum so far. */
static th_tensor *run_branches(const transformer_block *b, th_tensor *x, const th_transform_options *given)
{
    branch_function *const branch[BRANCHES + 1] = {self_attention, b->multihead_attn ? cross_attention : mlp, mlp};
    const int branches = 1 + (b->multihead_attn != NULL) + (b->linear1 != NULL);
    if (b->embedding_skip)
        x = th_mix(&b->base, b->embedding_skip, x, given->first_input, "first_input");
    th_tensor *sum = x;
    for (int i = 0; i < branches; i++)
        sum = run_branch(b, branch[i], i, b->parallel ? x : sum, sum, given);
    return sum;
}

static th_status check_operands(const transformer_block *b, th_tensor *handle, const th_transform_options *given)
{
    th_context *ctx = b->base.ctx;
    const th_tensor_impl *x = th_usable_tensor(handle, ctx, b->base.type, "x");
    if (x == NULL)
        return ctx->error;
    const th_array a = th_tensor_array(x);
    if (a.ndim < 2 || a.ndim >= TH_MAX_DIMS || a.size[a.ndim - 1] != b->width)
        return th_fail(ctx, TH_ERROR_SHAPE, b->base.type, "x is %s, but the block takes (..., length, %lld)",
                       TH_TEXT(&a), (long long)b->width);
    if (b->multihead_attn && given->memory == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, b->base.type, "cross attention needs a memory: .memory is NULL");
    if (b->multihead_attn == NULL && (given->memory || given->memory_mask || given->memory_weights))
        return th_fail(ctx, TH_ERROR_ARGUMENT, b->base.type,
                       "the block was made without cross_attention: it takes no memory and no memory_mask, and has no "
                       "memory_weights");
    return TH_OK;
}

th_tensor *th_block_transform(const th_module *block, th_tensor *x, const th_transform_options *given)
{
    const transformer_block *b = (const transformer_block *)block;
    if (given->weights)
        *given->weights = NULL;
    if (given->memory_weights)
        *given->memory_weights = NULL;
    if (check_operands(b, x, given) != TH_OK)
        return NULL;
    const bool recompute = b->recompute || b->base.ctx->recompute_blocks;
    if (recompute)
        th_scope_begin_recomputed(b->base.ctx, NULL);
    x = run_branches(b, x, given);
    if (recompute)
        end_scope(b, x, given);
    if (x && th_ndim(x) == 3)
        th_set_axes(x, "BTE");
    return x;
}

static th_tensor *block_forward(th_module *m, th_tensor *x)
{
    const th_transform_options none = {0};
    return th_module_forward_runs_transform(m) ? m->transform(m, x, &none) : th_block_transform(m, x, &none);
}

static const th_module_option block_options[] = {
    TH_MODULE_CHOICE(transformer_block, activation), TH_MODULE_FLAG(transformer_block, post_norm),
    TH_MODULE_FLAG(transformer_block, parallel),     TH_MODULE_FLAG(transformer_block, shared_norm),
    TH_MODULE_REAL(transformer_block, branch_scale), TH_MODULE_REAL(transformer_block, dropout),
    TH_MODULE_REAL(transformer_block, mlp_dropout),  {.name = NULL}};
const th_module_type th_block_type = {.name = "transformer_block",
                                      .bytes = sizeof(transformer_block),
                                      .forward = block_forward,
                                      .transforms = true,
                                      .options = block_options};

/* -- construction -- */

th_status th_check_rate(th_context *ctx, const char *model, const char *name, double rate)
{
    return rate >= 0 && rate < 1 ? TH_OK
                                 : th_fail(ctx, TH_ERROR_ARGUMENT, model, "%s must be in [0, 1); it is %g", name, rate);
}

static th_status check_options(th_context *ctx, int64_t width, int64_t heads, const th_transformer_block_options *o)
{
    static const char *const type = "transformer_block";
    const int64_t sizes[] = {width, heads, o->mlp_width, o->kv_heads, o->head_width};
    if (th_check_widths(ctx, type, 5, sizes) != TH_OK)
        return ctx->error;
    if (o->head_width > INT64_MAX / 4 / heads)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "%lld heads of width %lld are too wide", (long long)heads,
                       (long long)o->head_width);
    if ((unsigned)o->activation > TH_TANH)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "unknown activation: %d", (int)o->activation);
    if ((unsigned)o->norm > TH_RMS_NORM)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "unknown norm: %d", (int)o->norm);
    if (o->no_mlp && o->gated)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "a block without an MLP (no_mlp) cannot be gated");
    if (o->post_norm && (o->output_norm || o->no_input_norm || o->parallel))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "post_norm normalizes the sum after each branch: it cannot be combined with %s",
                       o->output_norm     ? "output_norm"
                       : o->no_input_norm ? "no_input_norm"
                                          : "parallel");
    if (o->no_input_norm && !o->output_norm)
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "no_input_norm needs output_norm: the branches have no other norm");
    if (o->no_first_norm && (o->post_norm || o->shared_norm))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type,
                       "no_first_norm leaves out norm1: it cannot be combined with %s, which needs it",
                       o->post_norm ? "post_norm" : "shared_norm");
    if (o->shared_norm && (!o->parallel || o->no_input_norm))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "shared_norm %s",
                       o->parallel ? "is a norm before the branches: it cannot be combined with no_input_norm"
                                   : "needs parallel: otherwise the branches read different numbers");
    if (!(o->scale >= 0) || !isfinite(o->scale))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "scale = %g must be a positive number, or 0 for the usual one",
                       o->scale);
    if (!(o->branch_scale >= 0) || !isfinite(o->branch_scale))
        return th_fail(ctx, TH_ERROR_ARGUMENT, type, "branch_scale = %g must be a positive number, or 0 for none",
                       o->branch_scale);
    if (th_check_rate(ctx, type, "dropout", o->dropout) != TH_OK)
        return ctx->error;
    return th_check_rate(ctx, type, "attention_dropout", o->attention_dropout);
}

void th_block_fill_defaults(th_transformer_block_options *block, int64_t width, int64_t heads)
{
    if (block->mlp_width == 0)
        block->mlp_width = 4 * width;
    if (block->kv_heads == 0)
        block->kv_heads = heads;
    if (block->head_width == 0 && width % heads == 0) /* otherwise attention says what is wrong */
        block->head_width = width / heads;
    if (block->eps == 0)
        block->eps = 1e-5;
}

th_module *th_block_norm_new(th_context *ctx, int64_t width, const th_transformer_block_options *block)
{
    const th_norm_layer_options norm = {
        .eps = block->eps, .no_bias = block->no_bias, .unit_offset = block->unit_offset};
    return block->norm == TH_RMS_NORM ? th_rms_norm_new(ctx, width, &norm) : th_layer_norm_new(ctx, width, &norm);
}

static void add_norms(transformer_block *b, int branches, const th_transformer_block_options *o)
{
    static const char *const name[BRANCHES] = {"norm1", "norm2", "norm3"}, *const name_out[BRANCHES] = {
                                                                               "norm1_out", "norm2_out", "norm3_out"};
    th_context *ctx = b->base.ctx;
    for (int i = 0; i < branches; i++) {
        if (!o->no_input_norm && (i == 0 ? !o->no_first_norm : !o->shared_norm))
            b->norm[i] = th_module_add(&b->base, name[i], th_block_norm_new(ctx, b->width, o));
        if (o->output_norm)
            b->norm_out[i] = th_module_add(&b->base, name_out[i], th_block_norm_new(ctx, b->width, o));
    }
}

static void add_members(transformer_block *b, int64_t heads, const th_transformer_block_options *o)
{
    th_context *ctx = b->base.ctx;
    const int64_t heads_width = o->head_width ? heads * o->head_width : b->width; /* of all heads */
    const th_multi_head_attention_options cross = {.dropout = o->attention_dropout,
                                                   .no_bias = o->no_bias || o->no_attention_bias,
                                                   .no_output_bias = o->no_output_bias,
                                                   .scale = o->scale,
                                                   .kv_heads = o->kv_heads,
                                                   .key_width = heads_width,
                                                   .value_width = heads_width};
    th_multi_head_attention_options self = cross;
    self.scores = o->scores;
    self.scores.qk_norm_unit_offset |= o->unit_offset && !o->scores.qk_norm_no_weight;
    const th_dense_layer_options dense = {.no_bias = o->no_bias || o->no_mlp_bias};
    const int64_t mlp_width = o->mlp_width ? o->mlp_width : 4 * b->width;

    self.value_residual = o->value_residual;
    if (o->embedding_skip)
        b->embedding_skip = th_mix_parameter_new(&b->base, "embedding_skip", 1, 0);
    b->self_attn = th_module_add(&b->base, "self_attn", th_multi_head_attention_new(ctx, b->width, heads, &self));
    if (o->cross_attention)
        b->multihead_attn =
            th_module_add(&b->base, "multihead_attn", th_multi_head_attention_new(ctx, b->width, heads, &cross));
    if (!o->no_mlp) {
        b->linear1 = th_module_add(&b->base, "linear1", th_dense_new(ctx, b->width, mlp_width, &dense));
        b->linear2 = th_module_add(&b->base, "linear2", th_dense_new(ctx, mlp_width, b->width, &dense));
    }
    if (o->gated)
        b->gate = th_module_add(&b->base, "gate", th_dense_new(ctx, b->width, mlp_width, &dense));
    add_norms(b, 1 + o->cross_attention + !o->no_mlp, o);
}

/* -- initialization -- */

th_status th_draw_weight(th_tensor *weight, th_weight_draw draw)
{
    const double bound = 1 / sqrt((double)th_size(weight, 1));
    switch (draw.kind) {
    case TH_DRAW_NORMAL:
        return th_fill_normal(weight, 0, draw.deviation);
    case TH_DRAW_UNIFORM:
        return th_fill_uniform(weight, -bound, bound);
    case TH_DRAW_ZERO:
        break;
    }
    return th_fill(weight, 0);
}

/* Draws the weight of a dense layer, and sets its bias to 0. NULL: does nothing. */
static th_status initialize_dense(const th_module *dense, th_weight_draw draw)
{
    th_tensor *weight = th_module_find_parameter(dense, "weight"), *bias = th_module_find_parameter(dense, "bias");
    if (weight && th_draw_weight(weight, draw) != TH_OK)
        return dense->ctx->error;
    return bias ? th_fill(bias, 0) : TH_OK;
}

static th_status initialize_attention(const th_module *attention, th_weight_draw inner, th_weight_draw last)
{
    for (const th_parameter *p = attention->parameters; p; p = p->next)
        if (th_ndim(p->tensor) == 2 && th_draw_weight(p->tensor, inner) != TH_OK) /* in_proj_bias is 0 */
            return attention->ctx->error;
    return initialize_dense(((const th_attention_layer *)attention)->out_proj, last);
}

th_status th_block_initialize(const th_module *block, th_weight_draw inner, th_weight_draw last)
{
    const transformer_block *b = (const transformer_block *)block;
    if (initialize_attention(b->self_attn, inner, last) != TH_OK ||
        (b->multihead_attn && initialize_attention(b->multihead_attn, inner, last) != TH_OK) ||
        initialize_dense(b->linear1, inner) != TH_OK || initialize_dense(b->linear2, last) != TH_OK)
        return block->ctx->error;
    return initialize_dense(b->gate, inner);
}

th_module *th_transformer_block_new(th_context *ctx, int64_t width, int64_t heads,
                                    const th_transformer_block_options *options)
{
    const th_transformer_block_options given = options ? *options : (th_transformer_block_options){0};
    if (ctx == NULL || th_failed(ctx) || check_options(ctx, width, heads, &given) != TH_OK)
        return NULL;
    transformer_block *b = th_module_new_of_type(ctx, &th_block_type);
    if (b == NULL)
        return NULL;
    b->width = width;
    b->activation = given.activation;
    b->post_norm = given.post_norm;
    b->parallel = given.parallel;
    b->shared_norm = given.shared_norm;
    b->branch_scale = given.branch_scale != 0 ? given.branch_scale : 1;
    b->recompute = given.recompute;
    b->dropout = given.dropout;
    b->mlp_dropout = given.no_mlp_dropout ? 0 : given.dropout;
    add_members(b, heads, &given);
    return th_module_finish(&b->base);
}
