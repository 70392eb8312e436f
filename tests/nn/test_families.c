/* Tests language models with the options of several families: against single operations, gradients, the cache,
 * recomputed blocks, checkpoints, memory, and combinations that are errors. B batch, T length. */
#include <math.h>
#include <string.h>

#include "tapehead/check.h"
#include "tapehead/models.h"

#include "family_options.h"
#include "folder.h"
#include "models.h"

enum { B = 2, T = 6 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static th_tensor *tokens(int64_t factor)
{
    int32_t token[B * T];
    for (int i = 0; i < B * T; i++)
        token[i] = (int32_t)((factor * i + 1 + i / 5) % V);
    return th_from_data(ctx, TH_INT32, TH_SHAPE(B, T), token);
}

static th_module *model_new(const th_language_model_options *options)
{
    th_module *model = th_language_model_new(ctx, options);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, strstr(p.name, "norm") ? 0.5 : 0, 0.3), TH_OK);
    return model;
}

/* -- the model as single operations -- */

/* Returns a parameter of layer i, or of the model if i < 0; NULL if the layer does not have it. */
static th_tensor *parameter(th_module *model, int i, const char *name)
{
    char full[TH_FULL_NAME_SIZE];
    if (i < 0)
        return th_module_find_parameter(model, name);
    snprintf(full, sizeof full, "layers.%d.%s", i, name);
    return th_module_find_parameter(model, full);
}

static th_tensor *dense(th_module *model, int i, const char *layer, th_tensor *x)
{
    char name[TH_NAME_SIZE];
    snprintf(name, sizeof name, "%s.weight", layer);
    th_tensor *weight = parameter(model, i, name);
    snprintf(name, sizeof name, "%s.bias", layer);
    th_tensor *bias = parameter(model, i, name), *y = th_matmul(x, th_swap_axes(weight, -1, -2));
    return bias ? th_add(y, bias) : y;
}

/* x / sqrt(mean(x^2) + eps); eps 0: 1e-5 */
static th_tensor *rms_norm(th_tensor *x, double eps)
{
    const th_reduce_options keep = {.keep_axes = true};
    th_tensor *mean = th_mean(th_mul(x, x), TH_AXES(-1), &keep);
    return th_div(x, th_sqrt(th_add_scalar(mean, eps > 0 ? eps : 1e-5)));
}

/* Returns x itself if the norm does not exist. */
static th_tensor *norm(th_module *model, int i, const char *layer, th_tensor *x, bool rms, bool unit_offset, double eps)
{
    const th_reduce_options keep = {.keep_axes = true};
    char name[TH_NAME_SIZE];
    snprintf(name, sizeof name, "%s.weight", layer);
    th_tensor *weight = parameter(model, i, name);
    snprintf(name, sizeof name, "%s.bias", layer);
    th_tensor *bias = parameter(model, i, name);
    if (weight == NULL)
        return x;
    if (!rms)
        x = th_sub(x, th_mean(x, TH_AXES(-1), &keep));
    th_tensor *y = rms_norm(x, eps);
    y = unit_offset ? th_add(y, th_mul(y, weight)) : th_mul(y, weight);
    return bias ? th_add(y, bias) : y;
}

/* q, k or v: x W^T + b. part: 0, 1 or 2. */
static th_tensor *projected(th_module *model, int i, int part, th_tensor *x, int64_t begin, int64_t rows)
{
    static const char *const name[] = {"self_attn.q_proj_weight", "self_attn.k_proj_weight", "self_attn.v_proj_weight"};
    th_tensor *packed = parameter(model, i, "self_attn.in_proj_weight"),
              *bias = parameter(model, i, "self_attn.in_proj_bias");
    th_tensor *weight = packed ? th_slice(packed, 0, begin, begin + rows, 1) : parameter(model, i, name[part]);
    th_tensor *y = th_matmul(x, th_swap_axes(weight, -1, -2));
    return bias ? th_add(y, th_slice(bias, 0, begin, begin + rows, 1)) : y;
}

/* (B, n, T, width): element j of the first half of the rotated part is paired with j + half. */
static th_tensor *rotated(th_tensor *x, const th_score_options *scores)
{
    const int64_t width = th_size(x, -1), turned = scores->rotary_width ? scores->rotary_width : width;
    const double base = scores->rotary_base > 0 ? scores->rotary_base : 10000;
    const double factor = scores->rotary_scaling.kind == TH_ROTARY_LINEAR ? scores->rotary_scaling.factor : 1;
    double c[T * D * H] = {0}, s[T * D * H] = {0};
    for (int64_t t = 0; t < T; t++)
        for (int64_t j = 0; j < turned; j++) {
            const double frequency = pow(base, -2.0 * (double)(j % (turned / 2)) / (double)turned) / factor;
            c[t * turned + j] = cos((double)t * frequency);
            s[t * turned + j] = sin((double)t * frequency);
        }
    th_tensor *cosine = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, turned), c),
              *sine = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(T, turned), s);
    th_tensor *part = th_slice(x, -1, 0, turned, 1);
    th_tensor *const other[] = {th_neg(th_slice(part, -1, turned / 2, turned, 1)),
                                th_slice(part, -1, 0, turned / 2, 1)};
    th_tensor *y = th_add(th_mul(part, cosine), th_mul(th_concat(other, 2, -1), sine));
    th_tensor *const whole[] = {y, th_slice(x, -1, turned, width, 1)};
    return turned == width ? y : th_concat(whole, 2, -1);
}

/* (B, T, n width) -> (B, n, T, width) */
static th_tensor *split(th_tensor *x, int64_t n)
{
    return th_swap_axes(th_reshape(x, TH_SHAPE(B, T, n, th_size(x, 2) / n)), 1, 2);
}

/* (B, n, T, width) -> (B, H, T, width): query head h uses head h n / H. */
static th_tensor *repeated(th_tensor *x)
{
    const int64_t n = th_size(x, 1);
    th_tensor *each[H];
    for (int64_t h = 0; h < H; h++)
        each[h] = th_slice(x, 1, h * n / H, h * n / H + 1, 1);
    return th_concat(each, H, 1);
}

/* The norm of all queries or of all keys, which may have no weight. */
static th_tensor *qk_norm(th_module *model, int i, const char *layer, th_tensor *x, const th_score_options *s,
                          bool unit_offset)
{
    const bool offset = unit_offset || s->qk_norm_unit_offset;
    return s->qk_norm_no_weight ? rms_norm(x, s->qk_norm_eps) : norm(model, i, layer, x, true, offset, s->qk_norm_eps);
}

/* f0 x + f1 first, with the factors of layer i; x in layers without this parameter. */
static th_tensor *mixed(th_module *model, int i, const char *name, th_tensor *x, th_tensor *first)
{
    th_tensor *factors = parameter(model, i, name);
    if (factors == NULL)
        return x;
    th_tensor *const both[] = {x, first};
    return th_sum(th_mul(th_stack(both, 2, -1), factors), TH_AXES(-1), NULL);
}

/* *first_values: the values of layer 0, which sets them. */
static th_tensor *attention(th_module *model, int i, th_tensor *x, const th_language_model_options *o,
                            th_tensor **first_values)
{
    const th_score_options *s = o->other_layers && o->other_layers[i] ? &o->other_scores : &o->block.scores;
    const int64_t width = o->block.head_width ? o->block.head_width : E / H,
                  kv_heads = o->block.kv_heads ? o->block.kv_heads : H;
    const int64_t query_rows = H * width, key_rows = kv_heads * width;
    const bool offset = o->block.unit_offset;
    th_tensor *q = projected(model, i, 0, x, 0, query_rows), *k = projected(model, i, 1, x, query_rows, key_rows);
    th_tensor *own = projected(model, i, 2, x, query_rows + key_rows, key_rows);
    if (i == 0)
        *first_values = own;
    th_tensor *v = split(mixed(model, i, "self_attn.value_residual", own, *first_values), kv_heads);
    if (s->qk_norm_whole) {
        q = qk_norm(model, i, "self_attn.q_norm", q, s, offset);
        k = qk_norm(model, i, "self_attn.k_norm", k, s, offset);
    }
    q = split(q, H);
    k = split(k, kv_heads);
    if (s->qk_norm) {
        q = qk_norm(model, i, "self_attn.q_norm", q, s, offset);
        k = qk_norm(model, i, "self_attn.k_norm", k, s, offset);
    }
    if (s->rotary) {
        q = rotated(q, s);
        k = rotated(k, s);
    }
    const double scale =
        (o->block.scale > 0 ? o->block.scale : 1 / sqrt((double)width)) / (o->scale_by_layer ? i + 1 : 1);
    th_tensor *scores = th_scale(th_matmul(q, th_swap_axes(repeated(k), -1, -2)), scale);
    if (s->soft_cap > 0)
        scores = th_scale(th_tanh(th_scale(scores, 1 / s->soft_cap)), s->soft_cap);
    th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT};
    if (s->window > 0)
        mask.window = TH_WINDOW(s->window - 1, 0);
    th_tensor *y = th_matmul(th_masked_softmax(scores, &mask), repeated(v));
    return dense(model, i, "self_attn.out_proj", th_reshape(th_swap_axes(y, 1, 2), TH_SHAPE(B, T, H * width)));
}

static th_tensor *activated(th_tensor *x, th_activation activation)
{
    if (activation == TH_RELU_SQUARED)
        return th_mul(x, th_relu(x));
    if (activation == TH_TANH)
        return th_tanh(x);
    return activation == TH_SILU ? th_mul(x, th_sigmoid(x)) : activation == TH_GELU ? th_gelu(x) : th_gelu_tanh(x);
}

static th_tensor *mlp(th_module *model, int i, th_tensor *x, const th_language_model_options *o)
{
    th_tensor *h = dense(model, i, "linear1", x);
    h = o->block.gated ? th_mul(activated(dense(model, i, "gate", x), o->block.activation), h)
                       : activated(h, o->block.activation);
    return dense(model, i, "linear2", h);
}

static th_tensor *bigrams(th_tensor *input, int64_t rows)
{
    int32_t row[B * T];
    for (int i = 0; i < B * T; i++) {
        const int32_t token = (int32_t)th_get(input, TH_INDEX(i / T, i % T)),
                      previous = i % T ? (int32_t)th_get(input, TH_INDEX(i / T, i % T - 1)) : 0;
        const int32_t hash = (36313 * token ^ 27191 * previous) % (int32_t)(rows - 1);
        row[i] = i % T == 0 ? (int32_t)rows - 1 : rows > V * V ? previous * V + token : hash;
    }
    return th_from_data(ctx, TH_INT32, TH_SHAPE(B, T), row);
}

static th_tensor *logits_by_hand(th_module *model, th_tensor *input, const th_language_model_options *o)
{
    const bool rms = o->block.norm == TH_RMS_NORM, offset = o->block.unit_offset;
    th_tensor *x = th_embedding(parameter(model, -1, "embedding.weight"), input);
    if (o->embedding_scale > 0)
        x = th_scale(x, o->embedding_scale);
    if (o->positions == TH_POSITIONS_LEARNED)
        x = th_add(x, th_slice(parameter(model, -1, "position.weight"), 0, 0, T, 1));
    if (o->bigram_rows > 0)
        x = th_add(x, th_embedding(parameter(model, -1, "bigram_embedding.weight"), bigrams(input, o->bigram_rows)));
    if (o->embedding_norm)
        x = rms_norm(x, 0);
    th_tensor *first = x, *first_values = NULL;
    for (int i = 0; i < LAYERS; i++) {
        x = mixed(model, i, "embedding_skip", x, first);
        th_tensor *h = o->block.post_norm ? x : norm(model, i, "norm1", x, rms, offset, 0);
        th_tensor *a = norm(model, i, "norm1_out", attention(model, i, h, o, &first_values), rms, offset, 0);
        const double scale = o->block.branch_scale > 0 ? o->block.branch_scale : 1;
        th_tensor *sum = th_add(x, th_scale(a, scale));
        if (o->block.post_norm)
            sum = norm(model, i, "norm1", sum, rms, offset, 0);
        if (!o->block.no_mlp) {
            h = o->block.parallel ? x : sum;
            h = o->block.post_norm ? h : norm(model, i, o->block.shared_norm ? "norm1" : "norm2", h, rms, offset, 0);
            sum = th_add(sum, th_scale(norm(model, i, "norm2_out", mlp(model, i, h, o), rms, offset, 0), scale));
            if (o->block.post_norm)
                sum = norm(model, i, "norm2", sum, rms, offset, 0);
        }
        x = sum;
    }
    x = norm(model, -1, "norm", x, rms, offset, 0);
    x = o->logit_divisor > 0 ? th_scale(x, 1 / o->logit_divisor) : x;
    x = dense(model, -1, o->untied ? "classifier" : "embedding", x);
    return o->logit_soft_cap > 0 ? th_scale(th_tanh(th_scale(x, 1 / o->logit_soft_cap)), o->logit_soft_cap) : x;
}

static double largest(th_tensor *t)
{
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    return th_numel(t) ? th_item(th_max(th_abs(t), TH_ALL_AXES, NULL)) : 0;
}

START_TEST(a_model_equals_single_operations)
{
    const family *f = &families[_i / 4];
    th_set_fusion(ctx, _i % 2 == 0);
    th_language_model_options options = f->options;
    options.block.recompute = _i / 2 % 2;
    th_module *model = model_new(&options);
    th_tensor *input = tokens(5), *target = tokens(7);
    const double difference = largest(th_sub(th_module_forward(model, input), logits_by_hand(model, input, &options)));
    ck_assert_msg(difference <= 1e-12, "%s: %g", f->name, difference);
    th_tensor *loss = th_language_model_loss(model, input, target, NULL);
    ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
    th_tensor *expected = th_cross_entropy(logits_by_hand(model, input, &options), target, NULL);
    ck_assert_double_eq_tol(th_item(loss), th_item(expected), 1e-12);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        th_tensor *own = th_keep(th_gradient(p.tensor)), *theirs;
        const th_backward_options one = {.keep_tape = true, .wrt = &p.tensor, .n_wrt = 1, .gradients = &theirs};
        ck_assert_msg(th_backward(expected, &one) == TH_OK, "%s: %s", p.name, th_error_message(ctx));
        ck_assert_msg(largest(th_sub(own, theirs)) <= 1e-11 * fmax(largest(theirs), 1e-3), "%s: %s", f->name, p.name);
    }
}
END_TEST

/* -- gradients -- */

static th_tensor *loss_of(void *model, th_tensor *const *inputs)
{
    return th_language_model_loss(model, inputs[0], inputs[1], &(th_cross_entropy_options){TH_IGNORE(3)});
}

START_TEST(gradients_are_right)
{
    const family *f = &families[_i / 2];
    th_language_model_options options = f->options;
    th_set_fusion(ctx, _i % 2 == 0);
    options.layers = 2;
    options.block.recompute = _i % 2 == 0;
    options.dropout = options.block.attention_dropout = 0.1;
    th_tensor *const inputs[] = {tokens(5), tokens(7)};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, loss_of, model_new(&options), 2, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s: %s", f->name, th_gradient_failure(ctx, &report));
}
END_TEST

/* -- decoder blocks -- */

static const th_transformer_block_options decoders[] = {
    {.output_norm = true},
    {.output_norm = true, .no_input_norm = true, .norm = TH_RMS_NORM, .unit_offset = true},
    {.parallel = true, .gated = true},
    {.parallel = true, .output_norm = true, .no_output_bias = true, .scale = 0.9},
    {.no_mlp = true, .parallel = true, .unit_offset = true},
    {.post_norm = true, .unit_offset = true, .kv_heads = 1, .scores = {.qk_norm_whole = true}},
};
enum { DECODERS = sizeof decoders / sizeof *decoders };

static th_module *decoder_new(int i, bool recompute)
{
    th_transformer_block_options options = decoders[i];
    options.cross_attention = true;
    options.mlp_width = MLP;
    options.recompute = recompute;
    th_module *block = th_transformer_block_new(ctx, E, H, &options);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(block); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    return block;
}

/* Runs a member on x; returns x if the block lacks it. */
static th_tensor *member(th_module *block, const char *name, th_tensor *x)
{
    th_module *m = th_module_find(block, name);
    return m ? th_module_forward(m, x) : x;
}

/* The formulas of th_transformer_block_new, with the block's layers. */
static th_tensor *decoder_by_hand(th_module *block, const th_transformer_block_options *o, th_tensor *x,
                                  th_tensor *memory)
{
    static const char *const norms[] = {"norm1", "norm2", "norm3"}, *const outs[] = {"norm1_out", "norm2_out",
                                                                                     "norm3_out"};
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *sum = x;
    for (int i = 0; i < 3 - o->no_mlp; i++) {
        th_tensor *h = o->parallel ? x : sum, *y;
        h = o->post_norm ? h : member(block, norms[i], h);
        if (i == 0) {
            y = th_attend(th_module_find(block, "self_attn"), h, h, h, &(th_attend_options){.mask = &causal});
        } else if (i == 1) {
            y = th_attend(th_module_find(block, "multihead_attn"), h, memory, memory, NULL);
        } else {
            y = member(block, "linear1", h);
            y = o->gated ? th_mul(th_gelu_tanh(member(block, "gate", h)), y) : th_gelu_tanh(y);
            y = member(block, "linear2", y);
        }
        sum = th_add(sum, member(block, outs[i], y));
        sum = o->post_norm ? member(block, norms[i], sum) : sum;
    }
    return sum;
}

START_TEST(a_decoder_block_equals_its_formula)
{
    static const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    const int i = _i / 4;
    th_set_fusion(ctx, _i % 2);
    th_module *block = decoder_new(i, _i / 2 % 2);
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, E)), *memory = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, 4, E));
    th_tensor *y = th_transform(block, x, &(th_transform_options){.mask = &causal, .memory = memory});
    ck_assert_double_le(largest(th_sub(y, decoder_by_hand(block, &decoders[i], x, memory))), 1e-13);
}
END_TEST

static th_tensor *run_decoder(void *block, th_tensor *const *inputs)
{
    static const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    return th_transform(block, inputs[0], &(th_transform_options){.mask = &causal, .memory = inputs[1]});
}

START_TEST(gradients_of_decoder_blocks_are_right)
{
    th_set_fusion(ctx, _i % 2);
    th_tensor *const inputs[] = {th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 3, E)),
                                 th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 2, E))};
    th_gradient_report report;
    ck_assert_msg(th_check_gradient(ctx, run_decoder, decoder_new(_i / 2, _i % 2), 2, inputs, NULL, &report) == TH_OK,
                  "%s", th_gradient_failure(ctx, &report));
}
END_TEST

/* An encoder-decoder model with these blocks decodes the same with a cache. */
START_TEST(a_transformer_decodes_with_a_cache)
{
    const th_transformer_options options = {.source_vocabulary = V,
                                            .target_vocabulary = V,
                                            .length = LENGTH,
                                            .width = E,
                                            .heads = H,
                                            .encoder_layers = 1,
                                            .decoder_layers = 2,
                                            .block = decoders[_i]};
    th_module *model = th_transformer_new(ctx, &options);
    no_error();
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *source = tokens(5), *target = tokens(7), *memory = th_transformer_encode(model, source, NULL);
    th_tensor *whole = th_transformer_decode(model, target, memory, NULL);
    th_cache *cache = th_cache_new(model, B, LENGTH);
    for (int64_t t = 0; t < T; t++) {
        th_tensor *logits =
            th_transformer_decode(model, th_contiguous(th_slice(target, 1, t, t + 1, 1)), memory,
                                  &(th_transformer_decode_options){
                                      .positions = th_full(ctx, TH_INT32, TH_SHAPE(1), (double)t), .cache = cache});
        ck_assert_double_le(largest(th_sub(logits, th_slice(whole, 1, t, t + 1, 1))), 1e-12);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* -- the loss of capped logits, in chunks -- */

enum { MANY = 40000, LONG = 70 }; /* a chunk has 64 rows */

/* Compares loss and gradients with the operations without fusion. targets: a view that is not contiguous. */
START_TEST(capped_logits_in_chunks_equal_all_logits)
{
    static const th_cross_entropy_options kinds[] = {
        {.normalizer = 0}, {TH_IGNORE(7), .label_smoothing = 0.1}, {.normalizer = 3}, {TH_IGNORE(3)}};
    const th_language_model_options options = {.vocabulary = MANY,
                                               .length = LONG,
                                               .width = 2,
                                               .heads = 1,
                                               .layers = 1,
                                               .untied = true,
                                               .logit_soft_cap = 0.5,
                                               .block = {.no_mlp = true}};
    th_module *model = model_new(&options);
    th_tensor *input = th_random_integers(ctx, TH_INT32, TH_SHAPE(B, LONG), 0, MANY), *target;
    if (_i == 3) /* no target counts */
        target = th_full(ctx, TH_INT64, TH_SHAPE(B, LONG), 3);
    else
        target = th_slice(th_random_integers(ctx, TH_INT64, TH_SHAPE(B, 2 * LONG), 0, 9), 1, 0, 2 * LONG, 2);
    double loss[2];
    th_tensor *gradient[2][16];
    int parameters = 0;
    for (int fused = 0; fused < 2; fused++) {
        th_set_fusion(ctx, fused);
        th_tensor *result = th_language_model_loss(model, input, target, &kinds[_i]);
        loss[fused] = th_item(result);
        ck_assert_msg(th_backward(result, NULL) == TH_OK, "%s", th_error_message(ctx));
        parameters = 0;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
            ck_assert_int_lt(parameters, 16);
            gradient[fused][parameters++] = th_contiguous(th_keep(th_gradient(p.tensor)));
            th_empty_gradient(p.tensor);
        }
    }
    ck_assert_double_eq_tol(loss[0], loss[1], 1e-12);
    ck_assert_int_eq(loss[0] == 0, _i == 3);
    for (int i = 0; i < parameters; i++)
        ck_assert_double_le(largest(th_sub(gradient[0][i], gradient[1][i])), 1e-13);
    assert_error(th_language_model_loss(model, input, th_slice(target, 1, 0, LONG - 1, 1), NULL), TH_ERROR_SHAPE,
                 "targets");
    assert_error(th_language_model_loss(model, input, th_full(ctx, TH_INT32, TH_SHAPE(B, LONG), MANY), NULL),
                 TH_ERROR_INDEX, "40000");
    assert_error(th_language_model_loss(model, input, NULL, NULL), TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

/* -- the first block -- */

static th_module *mixing_stack(void)
{
    const th_transformer_stack_options options = {.block = {.value_residual = true, .embedding_skip = true}};
    th_module *stack = th_transformer_encoder_new(ctx, 2, E, H, &options);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(stack); th_parameter_next(&p);)
        ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    return stack;
}

static th_tensor *run_stack(void *stack, th_tensor *x)
{
    return th_transform(stack, x, NULL);
}

START_TEST(a_stack_gives_its_blocks_what_the_first_block_has)
{
    th_module *stack = mixing_stack(), *second = th_module_find(stack, "layers.1");
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, E)), *values = NULL;
    ck_assert_ptr_null(th_module_find_parameter(stack, "layers.0.embedding_skip"));
    th_transform_options options = {.first_values = &values};
    th_tensor *h = th_transform(th_module_find(stack, "layers.0"), x, &options);
    assert_shape(values, TH_SHAPE(B, T, E));
    options.first_input = x;
    th_tensor *y = th_module_forward(th_module_find(stack, "norm"), th_transform(second, h, &options));
    ck_assert_double_eq(largest(th_sub(y, run_stack(stack, x))), 0);
    assert_error(th_transform(second, h, &(th_transform_options){.first_input = x}), TH_ERROR_ARGUMENT,
                 ".first_values must be given");
    assert_error(th_transform(second, h, &(th_transform_options){.first_values = &values}), TH_ERROR_ARGUMENT,
                 ".first_input must be given");
    options.first_input = th_slice(x, 0, 0, 1, 1);
    assert_error(th_transform(second, h, &options), TH_ERROR_SHAPE,
                 ".first_input is (1, 6, 8), but it must be (B=2, T=6, E=8)");
    ck_assert_gradient(run_stack, stack, x);
}
END_TEST

/* The logits of all tokens alone would be larger. */
START_TEST(capped_logits_need_the_memory_of_a_chunk)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.shapes_only = true});
    const int64_t vocabulary = 256000, length = 1024;
    const th_language_model_options options = {
        .vocabulary = vocabulary, .length = length, .width = 64, .heads = 1, .layers = 1, .logit_soft_cap = 30};
    th_module *model = th_language_model_new(ctx, &options);
    th_tensor *input = th_zeros(ctx, TH_INT32, TH_SHAPE(1, length));
    ck_assert_msg(th_backward(th_language_model_loss(model, input, input, NULL), NULL) == TH_OK, "%s",
                  th_error_message(ctx));
    ck_assert_uint_lt(th_memory(ctx).peak, (size_t)(vocabulary * length) * sizeof(float) / 2);
    th_context_free(ctx);
    ctx = outer;
}
END_TEST

/* -- names -- */

START_TEST(parameters_have_their_names_and_values)
{
    static const char *const gemma[] = {"self_attn.q_proj_weight",
                                        "self_attn.k_proj_weight",
                                        "self_attn.v_proj_weight",
                                        "self_attn.q_norm.weight",
                                        "self_attn.k_norm.weight",
                                        "self_attn.out_proj.weight",
                                        "linear1.weight",
                                        "linear2.weight",
                                        "gate.weight",
                                        "norm1.weight",
                                        "norm1_out.weight",
                                        "norm2.weight",
                                        "norm2_out.weight"};
    static const char *const olmo[] = {
        "self_attn.q_proj_weight", "self_attn.k_proj_weight", "self_attn.v_proj_weight",
        "self_attn.q_norm.weight", "self_attn.k_norm.weight", "self_attn.out_proj.weight",
        "linear1.weight",          "linear2.weight",          "gate.weight",
        "norm1_out.weight",        "norm2_out.weight"};
    static const char *const qwen[] = {"self_attn.q_proj_weight",
                                       "self_attn.k_proj_weight",
                                       "self_attn.v_proj_weight",
                                       "self_attn.in_proj_bias",
                                       "self_attn.out_proj.weight",
                                       "linear1.weight",
                                       "linear2.weight",
                                       "gate.weight",
                                       "norm1.weight",
                                       "norm2.weight"};
    static const struct {
        const char *family, *const *name;
        size_t count;
    } expected[] = {{"Gemma 3", gemma, sizeof gemma / sizeof *gemma},
                    {"OLMo 2", olmo, sizeof olmo / sizeof *olmo},
                    {"Qwen 2", qwen, sizeof qwen / sizeof *qwen}};
    int found = 0;
    for (int i = 0; i < FAMILIES; i++)
        for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
            if (strcmp(families[i].name, expected[k].family) != 0)
                continue;
            found++;
            th_module *model = th_language_model_new(ctx, &families[i].options),
                      *block = th_module_find(model, "layers.1");
            size_t n = 0;
            for (th_parameter_iterator p = th_module_parameters(block); th_parameter_next(&p); n++) {
                ck_assert_uint_lt(n, expected[k].count);
                ck_assert_str_eq(p.name, expected[k].name[n]);
                if (strstr(p.name, "norm")) {
                    const double start = families[i].options.block.unit_offset ? 0 : 1;
                    ck_assert_double_eq(th_get(p.tensor, TH_INDEX(0)), start);
                    ck_assert_double_eq(largest(th_add_scalar(p.tensor, -start)), 0);
                }
            }
            ck_assert_uint_eq(n, expected[k].count);
        }
    ck_assert_int_eq(found, 3);
    th_module *whole = th_module_find(model_new(&families[2].options), "layers.0.self_attn");
    assert_shape(th_module_find_parameter(whole, "q_norm.weight"), TH_SHAPE(E));
    assert_shape(th_module_find_parameter(whole, "k_norm.weight"), TH_SHAPE(E / H * KV));
}
END_TEST

/* -- the cache, and generation -- */

/* In pieces of 3, 1, 1 and 1 tokens. The bits of OpenBLAS depend on the shape of a product. */
START_TEST(pieces_have_the_same_bits_as_the_whole_sequence)
{
    static const int64_t piece[] = {3, 1, 1, 1};
    const family *f = &families[_i / 2];
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    th_set_fusion(ctx, _i % 2 == 0);
    th_set_training(ctx, false);
    const double tolerance = strstr(th_build_info(ctx), "gemm=native") ? 0 : 1e-5;
    th_module *model = model_new(&f->options);
    th_no_grad_begin(ctx);
    th_tensor *input = tokens(5), *whole = th_module_forward(model, input);
    th_cache *cache = th_cache_new(model, B, LENGTH);
    int64_t first = 0;
    for (int i = 0; i < 4; i++) {
        th_tensor *positions = th_arange(ctx, TH_INT32, (double)first, (double)(first + piece[i]), 1);
        th_tensor *part = th_contiguous(th_slice(input, 1, first, first + piece[i], 1));
        th_tensor *logits = th_language_model_logits(
            model, part, &(th_language_model_logits_options){.positions = positions, .cache = cache});
        const double difference = largest(th_sub(logits, th_slice(whole, 1, first, first + piece[i], 1)));
        ck_assert_msg(difference <= tolerance, "%s, token %d: %g", f->name, (int)first, difference);
        first += piece[i];
    }
    no_error();
    th_no_grad_end(ctx);
    th_context_free(ctx);
    ctx = outer;
}
END_TEST

START_TEST(generated_tokens_are_the_likeliest)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2});
    th_module *model = model_new(&families[_i].options);
    th_tensor *prompts = tokens(5);
    th_generated result;
    ck_assert_msg(
        th_generate(model, &(th_generate_options){.prompts = prompts, .max_new_tokens = LENGTH - T}, &result) == TH_OK,
        "%s: %s", families[_i].name, th_error_message(ctx));
    th_tensor *const all[] = {prompts, result.tokens};
    th_tensor *sequence = th_concat(all, 2, 1);
    th_tensor *best = th_argmax(th_module_evaluate(model, sequence), -1);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = T; t < LENGTH; t++)
            ck_assert_msg(th_get(best, TH_INDEX(b, t - 1)) == th_get(sequence, TH_INDEX(b, t)), "%s: sequence %d",
                          families[_i].name, (int)b);
    no_error();
    th_context_free(ctx);
    ctx = outer;
}
END_TEST

/* -- training -- */

/* Some steps in float32. save, load: paths of checkpoints after the second step, or NULL. Returns the checksum of the
 * parameters; sets *peak to the largest memory. */
static uint32_t trained(const th_language_model_options *options, bool fusion, bool shapes_only, const char *save,
                        const char *load, size_t *peak)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 2, .shapes_only = shapes_only});
    th_set_fusion(ctx, fusion);
    th_module *model = th_language_model_new(ctx, options);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
    const th_checkpoint checkpoint = {.model = model, .optimizer = adam};
    th_tensor *input = tokens(5), *target = tokens(7);
    for (int step = load ? 2 : 0; step < 4; step++) {
        if (step == 2 && load)
            ck_assert_msg(th_checkpoint_load(load, &checkpoint) == TH_OK, "%s", th_error_message(ctx));
        th_tensor *loss = th_language_model_loss(model, input, target, NULL);
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s",
                      th_error_message(ctx));
        th_tape_clear(ctx);
        if (step == 1 && save)
            ck_assert_msg(th_checkpoint_save(save, &checkpoint) == TH_OK, "%s", th_error_message(ctx));
    }
    const uint32_t crc = th_module_crc32c(model);
    if (peak)
        *peak = th_memory(ctx).peak;
    th_context_free(ctx);
    ctx = outer;
    return crc;
}

static th_language_model_options with_dropout(int i)
{
    th_language_model_options options = families[i].options;
    options.dropout = 0.1;
    options.block.attention_dropout = 0.2;
    return options;
}

START_TEST(recomputed_blocks_train_to_the_same_bits)
{
    th_language_model_options options = with_dropout(_i / 2);
    const uint32_t crc = trained(&options, _i % 2, false, NULL, NULL, NULL);
    options.block.recompute = true;
    ck_assert_uint_eq(trained(&options, _i % 2, false, NULL, NULL, NULL), crc);
}
END_TEST

START_TEST(a_checkpoint_continues_with_the_same_bits)
{
    make_folder();
    const th_language_model_options options = with_dropout(_i);
    const char *path = in_folder("checkpoint");
    const uint32_t crc = trained(&options, true, false, path, NULL, NULL);
    ck_assert_uint_eq(trained(&options, true, false, NULL, path, NULL), crc);
    ck_assert_msg(th_language_model_check_weights(ctx, &options, path) == TH_OK, "%s", th_error_message(ctx));
    remove_folder();
}
END_TEST

START_TEST(a_shapes_only_run_forecasts_the_memory)
{
    th_language_model_options options = with_dropout(_i);
    options.vocabulary = 300;
    options.width = 32;
    options.block.mlp_width = 64;
    size_t real, forecast;
    (void)trained(&options, true, false, NULL, NULL, &real);
    (void)trained(&options, true, true, NULL, NULL, &forecast);
    ck_assert_msg(fabs((double)forecast / (double)real - 1) < 0.05, "%s: %zu bytes, forecast %zu", families[_i].name,
                  real, forecast);
}
END_TEST

/* The model has its own copy of other_layers. */
START_TEST(options_that_are_read_back_make_the_same_model)
{
    bool other[LAYERS];
    th_language_model_options options = with_dropout(_i);
    if (options.other_layers)
        options.other_layers = memcpy(other, options.other_layers, sizeof other);
    const th_language_model_options *read = th_language_model_options_of(th_language_model_new(ctx, &options));
    no_error();
    ck_assert_ptr_nonnull(read);
    memset(other, 1, sizeof other);
    ck_assert(options.other_layers == NULL || read->other_layers != other);
    const th_language_model_options given = with_dropout(_i);
    ck_assert_uint_eq(trained(read, true, false, NULL, NULL, NULL), trained(&given, true, false, NULL, NULL, NULL));
}
END_TEST

static th_module *make_first(th_context *fresh)
{
    return th_language_model_new(fresh, &families[0].options);
}

START_TEST(making_a_model_survives_the_failure_of_any_allocation)
{
    assert_constructor_survives(make_first);
}
END_TEST

/* -- errors -- */

START_TEST(combinations_that_cannot_work_are_errors)
{
    static const struct {
        th_transformer_block_options options;
        const char *words;
    } blocks[] = {
        {{.post_norm = true, .output_norm = true},
         "post_norm normalizes the sum after each branch: it cannot be combined with output_norm"},
        {{.post_norm = true, .no_input_norm = true}, "it cannot be combined with no_input_norm"},
        {{.post_norm = true, .parallel = true}, "it cannot be combined with parallel"},
        {{.no_input_norm = true}, "no_input_norm needs output_norm: the branches have no other norm"},
        {{.scale = -1}, "scale = -1 must be a positive number, or 0 for the usual one"},
        {{.scale = NAN}, "scale = nan must be"},
        {{.scale = INFINITY}, "scale = inf must be"},
        {{.scores = {.qk_norm = true, .qk_norm_whole = true}},
         "qk_norm_whole all heads together: only one can be given"},
        {{.scores = {.qk_norm = true, .qk_norm_unit_offset = true, .qk_norm_no_weight = true}},
         "qk_norm_unit_offset adds 1 to the weights, but qk_norm_no_weight leaves them out"},
        {{.shared_norm = true}, "shared_norm needs parallel: otherwise the branches read different numbers"},
        {{.shared_norm = true, .parallel = true, .output_norm = true, .no_input_norm = true},
         "shared_norm is a norm before the branches: it cannot be combined with no_input_norm"},
        {{.no_first_norm = true, .post_norm = true},
         "no_first_norm leaves out norm1: it cannot be combined with post_norm"},
        {{.no_first_norm = true, .shared_norm = true, .parallel = true}, "combined with shared_norm, which needs it"},
        {{.branch_scale = -1}, "branch_scale = -1 must be a positive number, or 0 for none"},
        {{.branch_scale = INFINITY}, "branch_scale = inf must be"},
        {{.activation = TH_TANH + 1}, "unknown activation: 6"},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        assert_error(th_transformer_block_new(ctx, E, H, &blocks[i].options), TH_ERROR_ARGUMENT, blocks[i].words);
    const th_language_model_options sizes = {SIZES};
    th_language_model_options o = sizes;
    o.embedding_scale = -2;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT,
                 "embedding_scale = -2 must be a positive number, or 0 for none");
    o = sizes;
    o.logit_soft_cap = NAN;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "logit_soft_cap = nan must be a positive number");
    o = sizes;
    o.logit_divisor = -4;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "logit_divisor = -4 must be a positive number");
    o = sizes;
    o.no_classifier = o.classifier_bias = true;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "neither .untied nor .classifier_bias");
    o = sizes;
    o.token_types = -1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "token_types = -1 must be positive, or 0 for none");
    o = sizes;
    o.first_position = -1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "first_position = -1 must be the number of a row");
    o = sizes;
    o.bigram_rows = 1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "bigram_rows = 1 must be at least 2, or 0");
    o = sizes;
    o.initialization.deviation = -1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "initialization.deviation = -1 must be");
    o.initialization = (th_initialization_options){.uniform = true, .deviation = 0.5};
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "initialization.deviation = 0.5 must be 0");
    o.initialization = (th_initialization_options){.zero_classifier = true};
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "zero_classifier needs .untied");
    o = sizes;
    o.other_layers = second_layer;
    o.other_scores.window = -3;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "window = -3");
    const th_norm_layer_options none = {.no_weight = true, .unit_offset = true};
    assert_error(th_rms_norm_new(ctx, E, &none), TH_ERROR_ARGUMENT, "unit_offset adds 1 to the weight");
    assert_error(th_layer_norm_new(ctx, E, &none), TH_ERROR_ARGUMENT, "no_weight leaves it out");
    const th_multi_head_attention_options scale = {.scale = NAN};
    assert_error(th_multi_head_attention_new(ctx, E, H, &scale), TH_ERROR_ARGUMENT, "scale must be finite; it is nan");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("families", setup, close_context);
    tcase_add_loop_test(tcase, a_model_equals_single_operations, 0, 4 * FAMILIES);
    tcase_add_loop_test(tcase, gradients_are_right, 0, 2 * FAMILIES);
    tcase_add_loop_test(tcase, a_decoder_block_equals_its_formula, 0, 4 * DECODERS);
    tcase_add_loop_test(tcase, gradients_of_decoder_blocks_are_right, 0, 2 * DECODERS);
    tcase_add_loop_test(tcase, a_transformer_decodes_with_a_cache, 0, DECODERS);
    tcase_add_test(tcase, a_stack_gives_its_blocks_what_the_first_block_has);
    tcase_add_loop_test(tcase, capped_logits_in_chunks_equal_all_logits, 0, 4);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tcase, capped_logits_need_the_memory_of_a_chunk);
    tcase_add_test(tcase, parameters_have_their_names_and_values);
    tcase_add_loop_test(tcase, pieces_have_the_same_bits_as_the_whole_sequence, 0, 2 * FAMILIES);
    tcase_add_loop_test(tcase, generated_tokens_are_the_likeliest, 0, FAMILIES);
    tcase_add_loop_test(tcase, recomputed_blocks_train_to_the_same_bits, 0, 2 * FAMILIES);
    tcase_add_loop_test(tcase, a_checkpoint_continues_with_the_same_bits, 0, FAMILIES);
    tcase_add_loop_test(tcase, a_shapes_only_run_forecasts_the_memory, 0, FAMILIES);
    tcase_add_loop_test(tcase, options_that_are_read_back_make_the_same_model, 0, FAMILIES);
    tcase_add_test(tcase, making_a_model_survives_the_failure_of_any_allocation);
    tcase_add_test(tcase, combinations_that_cannot_work_are_errors);
    return run_suites();
}
