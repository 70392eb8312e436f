/* Tests the options of the language model: Llama against single operations, all kinds of positions and scores,
 * recomputed blocks, th_language_model_options_of. (test_transformer.c tests GPT-2.) */
#include <math.h>
#include <string.h>

#include "models.h"

enum { B = 2, T = 6, V = 13, E = 12, H = 4, KV = 2, D = E / H, MLP = 10, LAYERS = 2 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const th_language_model_options llama = {.vocabulary = V,
                                                .length = 9,
                                                .width = E,
                                                .heads = H,
                                                .layers = LAYERS,
                                                .positions = TH_POSITIONS_NONE,
                                                .untied = true,
                                                .block = {.norm = TH_RMS_NORM,
                                                          .gated = true,
                                                          .activation = TH_SILU,
                                                          .no_bias = true,
                                                          .kv_heads = KV,
                                                          .head_width = D + 1,
                                                          .mlp_width = MLP,
                                                          .eps = 1e-6,
                                                          .scores = {.rotary = true, .rotary_width = D + 1}}};

static th_tensor *tokens(int64_t factor)
{
    th_tensor *t = th_zeros(ctx, TH_INT32, TH_SHAPE(B, T));
    int32_t *token = th_data(t);
    for (int64_t i = 0; i < (int64_t)B * T; i++)
        token[i] = (int32_t)((factor * i + 1) % V);
    return t;
}

/* -- Llama -- */

static th_tensor *parameter(th_module *model, int layer, const char *name)
{
    char full[TH_FULL_NAME_SIZE];
    snprintf(full, sizeof full, "layers.%d.%s", layer, name);
    th_tensor *p = th_module_find_parameter(model, full);
    ck_assert_msg(p != NULL, "%s", full);
    return p;
}

static th_tensor *rms(th_tensor *x, th_tensor *weight)
{
    const th_reduce_options keep = {.keep_axes = true};
    th_tensor *mean = th_mean(th_mul(x, x), TH_AXES(-1), &keep);
    return th_mul(th_div(x, th_sqrt(th_add_scalar(mean, 1e-6))), weight);
}

/* (B, T, n width) -> (B, n, T, width) */
static th_tensor *heads(th_tensor *x, int64_t n)
{
    return th_transpose(th_reshape(x, TH_SHAPE(B, T, n, th_size(x, 2) / n)), TH_AXES(0, 2, 1, 3));
}

/* x cos + (-second half, first half) sin */
static th_tensor *rotated(th_tensor *x)
{
    const int64_t width = th_size(x, -1), half = width / 2;
    th_tensor *c = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(T, width)), *s = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(T, width));
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < width; i++) {
            const double angle = (double)t * pow(10000, -2.0 * (double)(i % half) / (double)width);
            ((double *)th_data(c))[t * width + i] = cos(angle);
            ((double *)th_data(s))[t * width + i] = sin(angle);
        }
    th_tensor *const other[] = {th_neg(th_slice(x, -1, half, width, 1)), th_slice(x, -1, 0, half, 1)};
    return th_add(th_mul(x, c), th_mul(th_concat(other, 2, -1), s));
}

static th_tensor *repeated(th_tensor *x) /* query head h uses head h KV / H */
{
    th_tensor *each[H];
    for (int h = 0; h < H; h++)
        each[h] = th_slice(x, 1, h * KV / H, h * KV / H + 1, 1);
    return th_concat(each, H, 1);
}

static th_tensor *llama_by_hand(th_module *model, th_tensor *input)
{
    th_tensor *x = th_embedding(th_module_find_parameter(model, "embedding.weight"), input);
    const int64_t width = llama.block.head_width;
    for (int i = 0; i < LAYERS; i++) {
        th_tensor *h = rms(x, parameter(model, i, "norm1.weight"));
        th_tensor *q = rotated(heads(th_dense(h, parameter(model, i, "self_attn.q_proj_weight"), NULL), H));
        th_tensor *k = rotated(heads(th_dense(h, parameter(model, i, "self_attn.k_proj_weight"), NULL), KV));
        th_tensor *v = heads(th_dense(h, parameter(model, i, "self_attn.v_proj_weight"), NULL), KV);
        th_tensor *scores = th_scale(th_matmul(q, th_swap_axes(repeated(k), -1, -2)), 1 / sqrt((double)width));
        th_tensor *weights = th_masked_softmax(scores, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT});
        th_tensor *y =
            th_reshape(th_transpose(th_matmul(weights, repeated(v)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(B, T, H * width));
        x = th_add(x, th_dense(y, parameter(model, i, "self_attn.out_proj.weight"), NULL));
        h = rms(x, parameter(model, i, "norm2.weight"));
        th_tensor *gate = th_dense(h, parameter(model, i, "gate.weight"), NULL);
        th_tensor *up = th_dense(h, parameter(model, i, "linear1.weight"), NULL);
        y = th_mul(th_mul(gate, th_sigmoid(gate)), up);
        x = th_add(x, th_dense(y, parameter(model, i, "linear2.weight"), NULL));
    }
    x = rms(x, th_module_find_parameter(model, "norm.weight"));
    return th_dense(x, th_module_find_parameter(model, "classifier.weight"), NULL);
}

static double largest(th_tensor *t)
{
    return th_numel(t) ? th_item(th_max(th_abs(t), TH_ALL_AXES, NULL)) : 0;
}

START_TEST(a_llama_equals_single_operations)
{
    th_set_fusion(ctx, _i % 2 == 0);
    th_language_model_options options = llama;
    options.block.recompute = _i >> 1;
    th_module *model = th_language_model_new(ctx, &options);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        ck_assert_ptr_null(strstr(p.name, "bias"));
    th_tensor *input = tokens(5), *target = tokens(7);
    ck_assert_double_le(largest(th_sub(th_module_forward(model, input), llama_by_hand(model, input))), 1e-13);
    th_tensor *loss = th_language_model_loss(model, input, target, NULL);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    th_tensor *expected = th_cross_entropy(llama_by_hand(model, input), target, NULL);
    ck_assert_double_eq_tol(th_item(loss), th_item(expected), 1e-12);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        th_tensor *own = th_keep(th_gradient(p.tensor)), *theirs;
        const th_backward_options one = {.keep_tape = true, .wrt = &p.tensor, .n_wrt = 1, .gradients = &theirs};
        ck_assert_int_eq(th_backward(expected, &one), TH_OK);
        ck_assert_msg(largest(th_sub(own, theirs)) <= 1e-12 * fmax(largest(theirs), 1e-3), "%s", p.name);
    }
}
END_TEST

START_TEST(llama_7b_has_the_published_number_of_parameters)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.shapes_only = true});
    const th_language_model_options options = {.vocabulary = 32000,
                                               .length = 4096,
                                               .width = 4096,
                                               .heads = 32,
                                               .layers = 32,
                                               .positions = TH_POSITIONS_NONE,
                                               .untied = true,
                                               .block = {.norm = TH_RMS_NORM,
                                                         .gated = true,
                                                         .activation = TH_SILU,
                                                         .no_bias = true,
                                                         .mlp_width = 11008,
                                                         .scores = {.rotary = true}}};
    ck_assert_int_eq(th_module_count(th_language_model_new(ctx, &options)), 6738415616);
    no_error();
    th_context_free(ctx);
    ctx = outer;
}
END_TEST

/* -- every option -- */

static th_language_model_options options_of(int i)
{
    th_language_model_options o = {.vocabulary = V, .length = 9, .width = E, .heads = H, .layers = LAYERS};
    o.dropout = 0.1;
    o.block.attention_dropout = 0.2;
    switch (i) {
    case 0:
        break;
    case 1:
        o = llama;
        o.block.dropout = 0.2;
        o.embedding_dropout = 0.3;
        break;
    case 2:
        o.positions = TH_POSITIONS_SINUSOIDAL;
        o.block.post_norm = true;
        break;
    case 3:
        o.positions = TH_POSITIONS_NONE;
        o.block.scores = (th_score_options){.alibi = true, .soft_cap = 3};
        break;
    case 4:
        o.block.scores = (th_score_options){.qk_norm = true, .window = 3};
        o.block.gated = true;
        break;
    case 5:
        o.untied = true;
        o.positions = TH_POSITIONS_NONE;
        o.block.head_width = 4;
        o.block.scores = (th_score_options){
            .rotary = true, .rotary_pairing = TH_ROTARY_NEIGHBORS, .rotary_width = 2, .rotary_base = 500};
        break;
    case 6:
        o.positions = TH_POSITIONS_NONE;
        o.untied = o.embedding_norm = true;
        o.block.norm = TH_RMS_NORM;
        o.block.activation = TH_RELU_SQUARED;
        o.block.head_width = 4;
        o.block.value_residual = o.block.embedding_skip = true;
        o.bigram_rows = 50;
        o.block.scores = (th_score_options){.rotary = true, .qk_norm = true, .qk_norm_no_weight = true};
        o.initialization = (th_initialization_options){.embedding_deviation = 1, .uniform = true};
        break;
    default:
        o.block.no_mlp = true;
        o.block.norm = TH_RMS_NORM;
        o.dropout = 0;
        break;
    }
    return o;
}
enum { OPTIONS = 8 };

/* Returns the checksum of the parameters after some steps. rounding: forward in bfloat16, backward in float32. */
static uint32_t trained(const th_language_model_options *options, bool fusion, bool rounding)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 2});
    th_set_fusion(ctx, fusion);
    th_module *model = th_language_model_new(ctx, options);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 1e-2});
    th_tensor *input = tokens(5), *target = tokens(7);
    for (int step = 0; step < 4; step++) {
        ck_assert_int_eq(th_set_precision(ctx, rounding ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32), TH_OK);
        th_tensor *loss = th_language_model_loss(model, input, target, NULL);
        ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_FLOAT32), TH_OK);
        (void)step_down(loss, adam);
    }
    const uint32_t crc = th_module_crc32c(model);
    th_context_free(ctx);
    ctx = outer;
    return crc;
}

START_TEST(recomputed_blocks_train_to_the_same_bits)
{
    th_language_model_options options = options_of(_i / 4);
    const uint32_t crc = trained(&options, _i % 2, _i / 2 % 2);
    options.block.recompute = true;
    ck_assert_uint_eq(trained(&options, _i % 2, _i / 2 % 2), crc);
}
END_TEST

/* Runs the whole model and its loss, whose forward can precompute gradients, in one scope. */
START_TEST(a_whole_model_may_be_a_scope)
{
    const th_language_model_options options = options_of(_i);
    th_module *model = th_language_model_new(ctx, &options);
    double sum[2] = {0, 0};
    for (int recomputed = 0; recomputed < 2; recomputed++) {
        th_set_step(ctx, 3); /* the same dropout */
        if (recomputed)
            th_scope_begin_recomputed(ctx, "all of it");
        th_tensor *loss = th_language_model_loss(model, tokens(5), tokens(7), NULL);
        if (recomputed)
            loss = th_scope_end(ctx, loss);
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
            const double *gradient = th_data_const(th_gradient(p.tensor));
            for (int64_t i = 0; i < th_numel(p.tensor); i++)
                sum[recomputed] += gradient[i] * cos((double)i);
            th_empty_gradient(p.tensor);
        }
        th_tape_clear(ctx);
    }
    ck_assert_double_eq(sum[0], sum[1]);
    ck_assert_double_ne(sum[0], 0);
}
END_TEST

START_TEST(options_that_are_read_back_make_the_same_model)
{
    const th_language_model_options options = options_of(_i);
    const th_language_model_options *read = th_language_model_options_of(th_language_model_new(ctx, &options));
    no_error();
    ck_assert_ptr_nonnull(read);
    ck_assert_int_gt(read->block.kv_heads, 0);
    ck_assert_int_gt(read->block.head_width, 0);
    ck_assert_uint_eq(trained(read, true, false), trained(&options, true, false));
}
END_TEST

/* The dropout rates of the embedding and of the branches are independent. Either may be 0. */
START_TEST(dropout_of_the_embedding_is_independent)
{
    for (int which = 0; which < 2; which++) {
        th_language_model_options options = options_of(OPTIONS - 1);
        options.block.no_mlp = false;
        if (which)
            options.block.dropout = 0.25;
        else
            options.embedding_dropout = 0.25;
        th_module *model = th_language_model_new(ctx, &options);
        ck_assert_ptr_nonnull(th_module_forward(model, tokens(5)));
        int dropped = 0;
        for (int64_t i = 0; i < th_tape_length(ctx); i++) {
            th_node_info node;
            ck_assert_int_eq(th_tape_node(ctx, i, &node), TH_OK);
            dropped += strcmp(node.operation, "dropout") == 0 || strcmp(node.operation, "dropout_residual") == 0;
        }
        ck_assert_int_eq(dropped, which ? 2 * LAYERS : 1);
        no_error();
        th_tape_clear(ctx);
    }
}
END_TEST

static th_tensor *loss_of(void *model, th_tensor *const *inputs)
{
    return th_language_model_loss(model, inputs[0], inputs[0], NULL);
}

START_TEST(gradients_of_a_llama_are_right)
{
    th_language_model_options options = llama;
    options.layers = 1;
    options.block.recompute = _i;
    options.block.dropout = 0.1;
    th_module *model = th_language_model_new(ctx, &options);
    th_tensor *const inputs[] = {tokens(5)};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, loss_of, model, 1, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s%s", report.text, th_error_message(ctx));
}
END_TEST

/* -- initialization -- */

static double root_mean_square(th_tensor *t)
{
    return sqrt(th_item(th_mean(th_mul(t, t), TH_ALL_AXES, NULL)));
}

/* A uniform distribution in +-bound has the deviation bound / sqrt(3). */
static double deviation_of_uniform(double inputs)
{
    return 1 / sqrt(3 * inputs);
}

START_TEST(weights_begin_as_the_options_say)
{
    static const struct {
        th_initialization_options options;
        double embedding, inner, last, classifier; /* 0: exactly 0; -1: uniform */
    } cases[] = {
        {{0}, 0.02, 0.02, 0.01, 0.02},
        {{.embedding_deviation = 1, .deviation = 0.5}, 1, 0.5, 0.25, 0.5},
        {{.uniform = true}, 0.02, -1, -1, -1},
        {{.uniform = true, .zero_branches = true}, 0.02, -1, 0, -1},
        {{.zero_branches = true, .zero_classifier = true}, 0.02, 0.02, 0, 0},
    };
    th_language_model_options o = {
        .vocabulary = 90, .length = 100, .width = 64, .heads = 2, .layers = 2, .untied = true, .block.gated = _i % 2};
    o.initialization = cases[_i / 2].options;
    th_module *model = th_language_model_new(ctx, &o);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        const bool at_end = strstr(p.name, "out_proj") || strstr(p.name, "linear2");
        const double wanted = strstr(p.name, "embedding") || strstr(p.name, "position") ? cases[_i / 2].embedding
                              : strstr(p.name, "classifier")                            ? cases[_i / 2].classifier
                              : at_end                                                  ? cases[_i / 2].last
                                                                                        : cases[_i / 2].inner;
        if (th_ndim(p.tensor) < 2) {
            ck_assert_double_eq(largest(p.tensor), strstr(p.name, "norm") && strstr(p.name, "weight") ? 1 : 0);
            continue;
        }
        const double inputs = (double)th_size(p.tensor, 1);
        const double deviation = wanted < 0 ? deviation_of_uniform(inputs) : wanted;
        ck_assert_msg(fabs(root_mean_square(p.tensor) - deviation) <= 0.05 * deviation, "%s: %g, not %g", p.name,
                      root_mean_square(p.tensor), deviation);
        if (wanted < 0)
            ck_assert_double_le(largest(p.tensor), 1 / sqrt(inputs));
    }
}
END_TEST

START_TEST(errors)
{
    th_language_model_options o = llama;
    o.positions = (th_position_kind)3;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "unknown kind of positions: 3");
    o = llama;
    o.embedding_dropout = 1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "embedding_dropout must be in [0, 1); it is 1");
    o = llama;
    o.block.head_width = -1;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "-1");
    o = llama;
    o.block.head_width = INT64_MAX / 4;
    assert_error(th_language_model_new(ctx, &o), TH_ERROR_ARGUMENT, "too wide");
    th_module *model = th_language_model_new(ctx, &llama);
    th_tensor *positions = th_full(ctx, TH_INT32, TH_SHAPE(T), 8);
    ck_assert_ptr_nonnull(
        th_language_model_logits(model, tokens(5), &(th_language_model_logits_options){.positions = positions}));
    assert_error(th_language_model_logits(
                     model, tokens(5),
                     &(th_language_model_logits_options){.positions = th_zeros(ctx, TH_INT32, TH_SHAPE(T + 1))}),
                 TH_ERROR_SHAPE, "positions must be (T) or (B, T) for tokens");
    assert_error(th_language_model_logits(th_dense_new(ctx, 2, 2, NULL), tokens(5), NULL), TH_ERROR_ARGUMENT,
                 "dense is not a language_model");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("language_model", setup, close_context);
    tcase_add_loop_test(tcase, a_llama_equals_single_operations, 0, 4);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tcase, llama_7b_has_the_published_number_of_parameters);
    tcase_add_loop_test(tcase, recomputed_blocks_train_to_the_same_bits, 0, 4 * OPTIONS);
    tcase_add_loop_test(tcase, a_whole_model_may_be_a_scope, 0, OPTIONS);
    tcase_add_loop_test(tcase, options_that_are_read_back_make_the_same_model, 0, OPTIONS);
    tcase_add_test(tcase, dropout_of_the_embedding_is_independent);
    tcase_add_loop_test(tcase, gradients_of_a_llama_are_right, 0, 2);
    tcase_add_loop_test(tcase, weights_begin_as_the_options_say, 0, 10);
    tcase_add_test(tcase, errors);
    return run_suites();
}
