/* Tests transformer blocks and the language model: names and counts, values and gradients against PyTorch, and masks,
 * threads, fusion and memory of whole models. B batch, T length, S memory length, E width, H heads, V
 * vocabulary.
 */
#include <math.h>
#include <string.h>

#include "tapehead/check.h"

#include "models.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

/* The bits of OpenBLAS depend on the shape of a product; those of native products do not. */
static bool native_products(void)
{
    return strstr(th_build_info(ctx), "gemm=native") != NULL;
}

static const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};

/* -- against PyTorch --
 *
 * Numbers of PyTorch 2.13.0 in float64, dropout 0, batch_first.
 *
 * Inputs: element i is sin(0.7 i + phase). Parameters: element i is 0.3 sin(0.7 i + p), where p is the sum of the bytes
 * of the name; weights of norms add 1. The cotangent: element i is cos(0.9 i + 1).
 *
 * Tests compare one number for each tensor, sum_i t_i cos(0.9 i + 1). For the gradients of parameters it is the sum
 * over all parameters, with p instead of 1. */

enum { B = 2, T = 5, S = 4, E = 8, H = 2, MLP = 12, V = 7, MAX_NUMEL = 512 };

static double phase_of(const char *name)
{
    double sum = 0;
    while (*name)
        sum += *name++;
    return sum;
}

static void fill_wave(th_tensor *t, double base, double scale, double phase)
{
    double value[MAX_NUMEL];
    ck_assert_int_le(th_numel(t), MAX_NUMEL);
    for (int64_t i = 0; i < th_numel(t); i++)
        value[i] = base + scale * sin(0.7 * (double)i + phase);
    ck_assert_int_eq(th_copy_in(t, value, (size_t)th_numel(t) * sizeof *value), TH_OK);
}

static void fill_parameters(th_module *m)
{
    no_error();
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);) {
        const bool norm = strstr(p.name, "norm") && strstr(p.name, "weight");
        fill_wave(p.tensor, norm ? 1 : 0, 0.3, phase_of(p.name));
    }
}

static th_tensor *wave(th_shape shape, double phase)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT64, shape);
    fill_wave(t, 0, 1, phase);
    return th_set_requires_gradient(t, true);
}

static double mark(th_tensor *t, double phase)
{
    double value[MAX_NUMEL], sum = 0;
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    ck_assert_int_le(th_numel(t), MAX_NUMEL);
    ck_assert_int_eq(th_copy_out(t, value, (size_t)th_numel(t) * sizeof *value), TH_OK);
    for (int64_t i = 0; i < th_numel(t); i++)
        sum += value[i] * cos(0.9 * (double)i + phase);
    return sum;
}

static double mark_of_parameters(th_module *m)
{
    double sum = 0;
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        sum += mark(th_gradient(p.tensor), phase_of(p.name));
    return sum;
}

static th_tensor *cotangent(void)
{
    double value[B * T * E];
    for (int i = 0; i < B * T * E; i++)
        value[i] = cos(0.9 * i + 1);
    return th_from_data(ctx, TH_FLOAT64, TH_SHAPE(B, T, E), value);
}

static void assert_near(double actual, double expected, const char *what, const char *name)
{
    if (!(fabs(actual - expected) <= 1e-12 * fmax(1, fabs(expected))))
        ck_abort_msg("%s, %s: %.15g, PyTorch has %.15g", name, what, actual, expected);
}

/* Padding hides the last two keys of the second sequence, and the last key of the first memory. */
static th_tensor *kept_keys(int64_t keys, int64_t first, int64_t second)
{
    bool keep[2 * T];
    for (int64_t s = 0; s < keys; s++) {
        keep[s] = s < first;
        keep[keys + s] = s < second;
    }
    return th_from_data(ctx, TH_BOOL, TH_SHAPE(B, 1, 1, keys), keep);
}

static const struct {
    const char *name;
    th_transformer_block_options options;
    double y, dx, dmemory, dparameters;
} torch_blocks[] = {
    {"encoder, pre-norm, gelu_tanh", {0}, -9.38633063839607, 76.291341591256, 0, 11.9607671860699},
    {"encoder, pre-norm, gelu", {.activation = TH_GELU}, -9.38626466543495, 76.2920455994891, 0, 11.9617815150874},
    {"encoder, post-norm, relu",
     {.post_norm = true, .activation = TH_RELU},
     -4.33026350394731,
     25.8679792352407,
     0,
     13.5389823951704},
    {"encoder, post-norm, silu",
     {.post_norm = true, .activation = TH_SILU},
     -4.76522833466717,
     25.5799593478041,
     0,
     13.3742362461303},
    {"decoder, pre-norm, gelu_tanh",
     {.cross_attention = true},
     -14.4755968819514,
     80.2316528979856,
     3.39203714397503,
     86.3783318719915},
    {"decoder, post-norm, relu",
     {.cross_attention = true, .post_norm = true, .activation = TH_RELU},
     -1.78952068871618,
     17.404622520906,
     -2.06133164733592,
     23.7974137087975},
};

START_TEST(blocks_equal_pytorch)
{
    const char *name = torch_blocks[_i / 2].name;
    th_transformer_block_options options = torch_blocks[_i / 2].options;
    options.mlp_width = MLP;
    th_set_fusion(ctx, _i % 2 == 0);
    th_module *block = th_transformer_block_new(ctx, E, H, &options);
    fill_parameters(block);
    th_tensor *x = wave(TH_SHAPE(B, T, E), 0.5), *memory = wave(TH_SHAPE(B, S, E), 0.25);
    const th_mask mask = {.causal = options.cross_attention ? TH_CAUSAL_TOP_LEFT : TH_CAUSAL_NONE,
                          .keep = kept_keys(T, 5, 3)},
                  memory_mask = {.keep = kept_keys(S, 3, 4)};
    th_transform_options given = {.mask = &mask};
    if (options.cross_attention) {
        given.memory = memory;
        given.memory_mask = &memory_mask;
    }
    th_tensor *y = th_transform(block, x, &given);
    assert_near(mark(y, 1), torch_blocks[_i / 2].y, "y", name);
    ck_assert_str_eq(th_axes_of(y), "BTE");
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent()}), TH_OK);
    assert_near(mark(th_gradient(x), 1), torch_blocks[_i / 2].dx, "dx", name);
    if (options.cross_attention)
        assert_near(mark(th_gradient(memory), 1), torch_blocks[_i / 2].dmemory, "dmemory", name);
    assert_near(mark_of_parameters(block), torch_blocks[_i / 2].dparameters, "gradients of parameters", name);
}
END_TEST

static const th_language_model_options tiny = {.vocabulary = V, .length = 6, .width = E, .heads = H, .layers = 2};

/* (B, T): factor i + first modulo V */
static th_tensor *counted_tokens(int64_t factor, int64_t first)
{
    int64_t token[B * T];
    for (int64_t i = 0; i < B * T; i++)
        token[i] = (factor * i + first) % V;
    return th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), token);
}

START_TEST(the_language_model_equals_pytorch)
{
    th_set_fusion(ctx, _i == 0);
    th_module *model = th_language_model_new(ctx, &tiny);
    fill_parameters(model);
    th_tensor *tokens = counted_tokens(3, 0), *targets = counted_tokens(5, 1);
    const th_cross_entropy_options options = {TH_IGNORE(2), .label_smoothing = 0.1};
    th_tensor *logits = th_module_forward(model, tokens);
    ck_assert_str_eq(th_axes_of(logits), "BTV");
    assert_near(mark(logits, 1), 17.1793586091748, "logits", "model");
    const double composed = th_item(th_cross_entropy(logits, targets, &options));
    th_tape_clear(ctx);
    th_tensor *loss = th_language_model_loss(model, tokens, targets, &options);
    assert_near(th_item(loss), 2.13401433494645, "loss", "model");
    assert_near(th_item(loss), composed, "loss and cross entropy of the logits", "model");
    ck_assert_msg(th_backward(loss, NULL) == TH_OK, "%s", th_error_message(ctx));
    assert_near(mark_of_parameters(model), 2.27777859382206, "gradients of parameters", "model");
}
END_TEST

/* -- names, counts, initialization -- */

static void assert_names(const th_module *m, const char *const *names)
{
    no_error();
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p); names++) {
        ck_assert_ptr_nonnull(*names);
        ck_assert_str_eq(p.name, *names);
    }
    ck_assert_ptr_null(*names);
}

START_TEST(parameters_are_named_as_in_pytorch)
{
    assert_names(th_transformer_block_new(ctx, E, H, NULL),
                 (const char *const[]){"self_attn.in_proj_weight", "self_attn.in_proj_bias",
                                       "self_attn.out_proj.weight", "self_attn.out_proj.bias", "linear1.weight",
                                       "linear1.bias", "linear2.weight", "linear2.bias", "norm1.weight", "norm1.bias",
                                       "norm2.weight", "norm2.bias", NULL});
    assert_names(
        th_transformer_block_new(ctx, E, H, &(th_transformer_block_options){.cross_attention = true, .no_bias = true}),
        (const char *const[]){"self_attn.in_proj_weight", "self_attn.out_proj.weight", "multihead_attn.in_proj_weight",
                              "multihead_attn.out_proj.weight", "linear1.weight", "linear2.weight", "norm1.weight",
                              "norm2.weight", "norm3.weight", NULL});
    assert_names(th_transformer_block_new(
                     ctx, E, H, &(th_transformer_block_options){.no_mlp = true, .no_bias = true, .kv_heads = 1}),
                 (const char *const[]){"self_attn.q_proj_weight", "self_attn.k_proj_weight", "self_attn.v_proj_weight",
                                       "self_attn.out_proj.weight", "norm1.weight", NULL});
    th_language_model_options options = tiny;
    options.block.no_mlp = options.block.no_bias = true;
    assert_names(th_language_model_new(ctx, &options),
                 (const char *const[]){"embedding.weight", "position.weight", "layers.0.self_attn.in_proj_weight",
                                       "layers.0.self_attn.out_proj.weight", "layers.0.norm1.weight",
                                       "layers.1.self_attn.in_proj_weight", "layers.1.self_attn.out_proj.weight",
                                       "layers.1.norm1.weight", "norm.weight", NULL});
    options.block.post_norm = true;
    ck_assert_ptr_null(th_module_find_parameter(th_language_model_new(ctx, &options), "norm.weight"));
}
END_TEST

START_TEST(gpt2_has_124_million_parameters)
{
    th_context *dry = th_context_new(&(th_context_options){.threads = 1, .shapes_only = true});
    th_module *gpt2 = th_language_model_new(
        dry,
        &(th_language_model_options){.vocabulary = 50257, .length = 1024, .width = 768, .heads = 12, .layers = 12});
    ck_assert_int_eq(th_module_count(gpt2), 124439808);
    th_tensor *tokens = th_zeros(dry, TH_INT32, TH_SHAPE(4, 1024));
    ck_assert_msg(th_backward(th_language_model_loss(gpt2, tokens, tokens, NULL), NULL) == TH_OK, "%s",
                  th_error_message(dry));
    th_context_free(dry);
}
END_TEST

static double deviation(th_tensor *t)
{
    return th_item(th_sqrt(th_variance(t, TH_ALL_AXES, NULL)));
}

START_TEST(the_model_starts_as_gpt2_does)
{
    const th_language_model_options options = {.vocabulary = 300, .length = 100, .width = 64, .heads = 4, .layers = 8};
    th_module *model = th_language_model_new(ctx, &options);
    no_error();
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
        const bool norm = strstr(p.name, "norm") != NULL,
                   ends_branch = strstr(p.name, "out_proj") || strstr(p.name, "linear2");
        const double constant = strstr(p.name, "bias") ? 0 : 1, expected = ends_branch ? 0.02 / 4 : 0.02;
        if (constant == 0 || norm) {
            ck_assert_double_eq(th_item(th_max(p.tensor, TH_ALL_AXES, NULL)), constant);
            ck_assert_double_eq(th_item(th_max(th_neg(p.tensor), TH_ALL_AXES, NULL)), -constant);
        } else {
            ck_assert_msg(fabs(deviation(p.tensor) / expected - 1) < 0.05, "%s has deviation %g", p.name,
                          deviation(p.tensor));
        }
    }
    ck_assert_double_eq_tol(
        th_item(th_cross_entropy(th_module_forward(model, counted_tokens(1, 0)), counted_tokens(1, 1), NULL)), log(300),
        0.1);
}
END_TEST

/* -- gradients -- */

static th_tensor *run(void *module, th_tensor *x)
{
    return th_module_forward(module, x);
}

/* The arguments of th_transform. */
typedef struct transformation {
    th_module *block;
    th_transform_options options;
} transformation;

static th_tensor *run_decoder(void *user, th_tensor *const *inputs)
{
    transformation *t = user;
    t->options.memory = inputs[1];
    return th_transform(t->block, inputs[0], &t->options);
}

static th_tensor *run_loss(void *model, th_tensor *const *inputs)
{
    return th_language_model_loss(model, inputs[0], inputs[1], &(th_cross_entropy_options){TH_IGNORE(3)});
}

START_TEST(gradients_are_right_with_dropout_replayed)
{
    th_set_fusion(ctx, _i % 2 == 0);
    th_transformer_block_options options = {
        .mlp_width = 5, .dropout = 0.2, .attention_dropout = 0.1, .post_norm = _i >= 2};
    ck_assert_gradient(run, th_transformer_block_new(ctx, 4, 2, &options),
                       th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 3, 4)));

    options.cross_attention = true;
    options.kv_heads = 1;
    transformation decoder = {th_transformer_block_new(ctx, 4, 2, &options), {.mask = &causal}};
    th_tensor *const inputs[] = {th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 3, 4)),
                                 th_randn(ctx, TH_FLOAT64, TH_SHAPE(1, 2, 4))};
    th_gradient_report report;
    ck_assert_msg(th_check_gradient(ctx, run_decoder, &decoder, 2, inputs, NULL, &report) == TH_OK, "%s",
                  th_gradient_failure(ctx, &report));

    const th_language_model_options model = {.vocabulary = 5,
                                             .length = 4,
                                             .width = 4,
                                             .heads = 2,
                                             .layers = 1,
                                             .dropout = 0.2,
                                             .block = {.post_norm = _i >= 2, .activation = TH_SILU}};
    th_tensor *const tokens[] = {th_random_integers(ctx, TH_INT32, TH_SHAPE(2, 3), 0, 5),
                                 th_random_integers(ctx, TH_INT64, TH_SHAPE(2, 3), 0, 5)};
    ck_assert_msg(th_check_gradient(ctx, run_loss, th_language_model_new(ctx, &model), 2, tokens, NULL, &report) ==
                      TH_OK,
                  "%s", th_gradient_failure(ctx, &report));
}
END_TEST

/* The table is embedding and classifier: its gradient is the sum of the gradients of both uses. */
START_TEST(the_tied_gradient_is_the_sum_of_both_uses)
{
    th_module *model = th_language_model_new(ctx, &tiny);
    fill_parameters(model);
    th_tensor *tokens = counted_tokens(3, 0), *targets = counted_tokens(5, 1);
    th_tensor *table = th_module_find_parameter(model, "embedding.weight"),
              *positions = th_module_find_parameter(model, "position.weight");
    ck_assert_int_eq(th_backward(th_language_model_loss(model, tokens, targets, NULL), NULL), TH_OK);
    th_tensor *tied = th_keep(th_gradient(table));
    th_tape_clear(ctx);

    th_tensor *embedding = th_set_requires_gradient(th_keep(table), true),
              *classifier = th_set_requires_gradient(th_keep(table), true);
    th_tensor *x = th_add(th_embedding(embedding, tokens), th_slice(positions, 0, 0, T, 1));
    for (int64_t i = 0; i < tiny.layers; i++)
        x = th_transform(th_module_list_at(th_module_find(model, "layers"), i), x,
                         &(th_transform_options){.mask = &causal});
    x = th_module_forward(th_module_find(model, "norm"), x);
    ck_assert_int_eq(th_backward(th_cross_entropy(th_dense(x, classifier, NULL), targets, NULL), NULL), TH_OK);
    th_tensor *sum = th_add(th_gradient(embedding), th_gradient(classifier));
    ck_assert_double_le(th_item(th_max(th_abs(th_sub(tied, sum)), TH_ALL_AXES, NULL)), 1e-15);
    no_error();
}
END_TEST

/* -- hidden values -- */

START_TEST(no_logit_depends_on_a_later_token)
{
    enum { LENGTH = 37, VOCABULARY = 19 };
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT32), TH_OK);
    const th_language_model_options options = {
        .vocabulary = VOCABULARY, .length = LENGTH, .width = 24, .heads = 3, .layers = 2};
    th_module *model = th_language_model_new(ctx, &options);
    static float before[LENGTH * VOCABULARY], after[LENGTH * VOCABULARY];
    th_tensor *tokens = th_random_integers(ctx, TH_INT32, TH_SHAPE(1, LENGTH), 0, VOCABULARY);
    ck_assert_int_eq(th_copy_out(th_module_evaluate(model, tokens), before, sizeof before), TH_OK);
    for (int64_t t = 0; t + 1 < LENGTH; t += 5) {
        const double token = th_get(tokens, TH_INDEX(0, t + 1));
        ck_assert_int_eq(th_set(tokens, TH_INDEX(0, t + 1), fmod(token + 1, VOCABULARY)), TH_OK);
        ck_assert_int_eq(th_copy_out(th_module_evaluate(model, tokens), after, sizeof after), TH_OK);
        ck_assert_int_eq(th_set(tokens, TH_INDEX(0, t + 1), token), TH_OK);
        const size_t visible = (size_t)(t + 1) * VOCABULARY;
        ck_assert_mem_eq(before, after, visible * sizeof *before);
        ck_assert_mem_ne(before + visible, after + visible, VOCABULARY * sizeof *before);
        th_tape_clear(ctx);
    }
    /* the length of the sequence does not matter either */
    ck_assert_int_eq(th_copy_out(th_module_evaluate(model, th_contiguous(th_slice(tokens, 1, 0, 11, 1))), after,
                                 11 * VOCABULARY * sizeof *after),
                     TH_OK);
    for (int i = 0; i < 11 * VOCABULARY; i++)
        if (!(fabsf(after[i] - before[i]) <= (native_products() ? 0 : 1e-5f)))
            ck_abort_msg("logit %d: %g in a sequence of 11, %g in one of %d", i, after[i], before[i], LENGTH);
}
END_TEST

/* Sets the rows from first on of each sequence of t (B, rows, E) to value. */
static void pad(th_tensor *t, const int64_t *first, double value)
{
    for (int64_t b = 0; b < th_size(t, 0); b++)
        for (int64_t row = first[b]; row < th_size(t, 1); row++)
            for (int64_t e = 0; e < th_size(t, 2); e++)
                if (th_set(t, TH_INDEX(b, row, e), value) != TH_OK)
                    ck_abort_msg("%s", th_error_message(ctx));
}

/* Values in padded rows of x and of the memory change no bit of other rows. NaN in the memory changes no gradient
 * either. */
START_TEST(values_in_the_padding_have_no_effect)
{
    static const int64_t lengths[B] = {5, 3}, memory_lengths[B] = {2, 4};
    const th_transformer_block_options options = {.cross_attention = true, .post_norm = _i % 2 == 1};
    th_set_fusion(ctx, _i < 2);
    th_module *block = th_transformer_block_new(ctx, E, H, &options);
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT,
                          .valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), lengths)},
                  memory_mask = {.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), memory_lengths)};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, E)), *memory = wave(TH_SHAPE(B, S, E), 0);
    const th_transform_options given = {.mask = &mask, .memory = memory, .memory_mask = &memory_mask};
    double y[2][B * T * E], gradient[2] = {0, 0};
    for (int dirty = 0; dirty < 2; dirty++) {
        pad(memory, memory_lengths, dirty ? NAN : 0.25);
        th_tensor *result = th_transform(block, x, &given);
        ck_assert_int_eq(th_copy_out(result, y[dirty], sizeof y[dirty]), TH_OK);
        ck_assert_int_eq(th_backward(result, &(th_backward_options){.cotangent = cotangent()}), TH_OK);
        gradient[dirty] = mark_of_parameters(block) + mark(th_gradient(memory), 1);
        for (th_parameter_iterator p = th_module_parameters(block); th_parameter_next(&p);)
            th_empty_gradient(p.tensor);
        th_empty_gradient(memory);
        th_tape_clear(ctx);
    }
    ck_assert_mem_eq(y[0], y[1], sizeof y[0]);
    ck_assert_double_eq(gradient[0], gradient[1]);

    pad(x, lengths, NAN);
    ck_assert_int_eq(th_copy_out(th_transform(block, x, &given), y[1], sizeof y[1]), TH_OK);
    for (int b = 0; b < B; b++)
        ck_assert_mem_eq(y[0] + b * T * E, y[1] + b * T * E, (size_t)lengths[b] * E * sizeof **y);
    no_error();
}
END_TEST

/* -- training -- */

static const th_language_model_options small = {.vocabulary = 53,
                                                .length = 40,
                                                .width = 48,
                                                .heads = 3,
                                                .layers = 2,
                                                .dropout = 0.1,
                                                .block = {.attention_dropout = 0.1}};

/* A model and its training data, in a separate context. */
typedef struct training {
    th_context *ctx;
    th_module *model;
    th_optimizer *adam;
    th_tensor *tokens, *targets;
} training;

static training training_new(const th_context_options *options, const th_language_model_options *model, int64_t batch)
{
    training t = {.ctx = th_context_new(options)};
    t.model = th_language_model_new(t.ctx, model);
    t.adam = th_adam_w_new(t.model, &(th_adam_options){.learning_rate = 3e-3, .weight_decay = 0.1, .max_norm = 1});
    const th_shape shape = TH_SHAPE(batch, model->length);
    t.tokens = th_random_integers(t.ctx, TH_INT32, shape, 0, model->vocabulary);
    t.targets = th_random_integers(t.ctx, TH_INT32, shape, 0, model->vocabulary);
    return t;
}

/* Returns the loss of one step; NaN with an error pending. */
static double train(const training *t)
{
    th_tensor *loss = th_language_model_loss(t->model, t->tokens, t->targets, NULL);
    const double value = th_item(loss);
    const bool failed = th_backward(loss, NULL) || th_optimizer_step(t->adam);
    th_tape_clear(t->ctx);
    return failed ? NAN : value;
}

START_TEST(a_model_learns)
{
    th_language_model_options options = small;
    options.block.post_norm = _i == 1;
    options.layers = 1;
    options.length = 12;
    training t = training_new(&(th_context_options){.seed = 1, .threads = 2}, &options, 4);
    double first = 0, last = 0;
    for (int step = 0; step < 150; step++) {
        last = train(&t);
        first = step == 0 ? last : first;
    }
    ck_assert_msg(last < 0.3 * first, "the loss went from %g to %g; %s", first, last, th_error_message(t.ctx));
    th_context_free(t.ctx);
}
END_TEST

static uint32_t trained_bits(int threads, bool fusion)
{
    training t = training_new(&(th_context_options){.seed = 9, .threads = threads}, &small, 5);
    th_set_fusion(t.ctx, fusion);
    for (int step = 0; step < 3; step++)
        if (isnan(train(&t)))
            ck_abort_msg("%s", th_error_message(t.ctx));
    const uint32_t crc = th_module_crc32c(t.model);
    th_context_free(t.ctx);
    return crc;
}

START_TEST(any_number_of_threads_gives_the_same_bits)
{
    const uint32_t one = trained_bits(1, _i == 0);
    ck_assert_uint_eq(trained_bits(2, _i == 0), one);
    ck_assert_uint_eq(trained_bits(3, _i == 0), one);
}
END_TEST

/* Compares loss and gradients of one step with dropout in float32 and float64. */
START_TEST(fused_equals_composed_except_for_rounding)
{
    const double tolerance = _i ? 1e-12 : 1e-5;
    const th_context_options options = {.seed = 9, .threads = 2, .default_dtype = _i ? TH_FLOAT64 : TH_FLOAT32};
    training t[2] = {training_new(&options, &small, 3), training_new(&options, &small, 3)};
    double loss[2];
    for (int i = 0; i < 2; i++) {
        th_set_fusion(t[i].ctx, i == 0);
        th_tensor *result = th_language_model_loss(t[i].model, t[i].tokens, t[i].targets, NULL);
        loss[i] = th_item(result);
        ck_assert_msg(th_backward(result, NULL) == TH_OK, "%s", th_error_message(t[i].ctx));
    }
    ck_assert_double_eq_tol(loss[0], loss[1], tolerance);
    th_parameter_iterator p[2] = {th_module_parameters(t[0].model), th_module_parameters(t[1].model)};
    while (th_parameter_next(&p[0]) && th_parameter_next(&p[1])) {
        double largest = 0, difference = 0;
        th_tensor *fused = th_cast(th_gradient(p[0].tensor), TH_FLOAT64),
                  *composed = th_cast(th_gradient(p[1].tensor), TH_FLOAT64);
        const double *f = th_data_const(th_contiguous(fused)), *c = th_data_const(th_contiguous(composed));
        ck_assert(f && c);
        for (int64_t k = 0; k < th_numel(p[0].tensor); k++) {
            largest = fmax(largest, fabs(c[k]));
            difference = fmax(difference, fabs(f[k] - c[k]));
        }
        ck_assert_msg(difference <= tolerance * largest, "%s: %g of %g", p[0].name, difference, largest);
    }
    th_context_free(t[0].ctx);
    th_context_free(t[1].ctx);
}
END_TEST

START_TEST(a_shapes_only_run_forecasts_the_memory)
{
    th_language_model_options options = small;
    options.vocabulary = 700;
    options.width = 64;
    options.heads = 4;
    options.dropout = options.block.attention_dropout = _i == 1 ? 0.1 : 0;
    size_t peak[2];
    for (int dry = 0; dry < 2; dry++) {
        training t = training_new(&(th_context_options){.seed = 9, .threads = 2, .shapes_only = dry}, &options, 8);
        for (int step = 0; step < 2; step++) /* the first step allocates the moments, which count in the second */
            (void)train(&t);
        ck_assert_msg(th_error_code(t.ctx) == TH_OK, "%s", th_error_message(t.ctx));
        peak[dry] = th_memory(t.ctx).peak;
        th_context_free(t.ctx);
    }
    ck_assert_double_eq_tol((double)peak[1] / (double)peak[0], 1, 0.05);
}
END_TEST

START_TEST(a_warm_step_allocates_nothing)
{
    training t = training_new(&(th_context_options){.seed = 9, .threads = 2}, &small, 4);
    ck_assert(!isnan(train(&t)));
    const size_t allocations = th_memory(t.ctx).allocations;
    for (int step = 0; step < 5; step++)
        ck_assert(!isnan(train(&t)));
    ck_assert_uint_eq(th_memory(t.ctx).allocations, allocations);
    th_context_free(t.ctx);
}
END_TEST

static th_module *make_tiny(th_context *fresh)
{
    return th_language_model_new(fresh, &tiny);
}

START_TEST(making_a_model_survives_the_failure_of_any_allocation)
{
    assert_constructor_survives(make_tiny);
}
END_TEST

START_TEST(evaluation_has_no_dropout)
{
    th_language_model_options options = tiny;
    options.dropout = options.block.attention_dropout = 0.5;
    th_module *model = th_language_model_new(ctx, &options);
    fill_parameters(model);
    th_tensor *tokens = counted_tokens(3, 0);
    ck_assert_double_gt(fabs(mark(th_module_forward(model, tokens), 1) - 17.1793586091748), 1e-3);
    assert_near(mark(th_module_evaluate(model, tokens), 1), 17.1793586091748, "logits", "model");
    th_set_training(ctx, false);
    assert_near(th_item(th_language_model_loss(model, tokens, counted_tokens(5, 1),
                                               &(th_cross_entropy_options){TH_IGNORE(2), .label_smoothing = 0.1})),
                2.13401433494645, "loss", "model");
}
END_TEST

/* Dropout acts on the ends of branches, and inside the MLP unless no_mlp_dropout. */
START_TEST(dropout_inside_the_mlp_is_an_option)
{
    for (int without = 0; without < 2; without++) {
        const th_transformer_block_options options = {.dropout = 0.5, .no_mlp_dropout = without};
        th_module *block = th_transformer_block_new(ctx, E, H, &options);
        th_tensor *x = wave(TH_SHAPE(B, T, E), 0);
        ck_assert_ptr_nonnull(th_transform(block, x, NULL));
        int dropped = 0, inside = 0;
        for (int64_t i = 0; i < th_tape_length(ctx); i++) {
            th_node_info before, node;
            ck_assert_int_eq(th_tape_node(ctx, i, &node), TH_OK);
            if (strcmp(node.operation, "dropout") != 0 && strcmp(node.operation, "dropout_residual") != 0)
                continue;
            dropped++;
            ck_assert_int_eq(th_tape_node(ctx, i - 1, &before), TH_OK);
            inside += strcmp(before.operation, "gelu_tanh") == 0;
        }
        ck_assert_int_eq(inside, !without);
        ck_assert_int_eq(dropped, 2 + inside);
        no_error();
        th_tape_clear(ctx);
    }
}
END_TEST

static size_t kept_with(double dropout, int64_t layers)
{
    th_context *fresh = th_context_new(&(th_context_options){.seed = 9, .threads = 1});
    const th_language_model_options options = {.vocabulary = 16,
                                               .length = 32,
                                               .width = 64,
                                               .heads = 4,
                                               .layers = layers,
                                               .dropout = dropout,
                                               .block = {.attention_dropout = dropout}};
    th_module *model = th_language_model_new(fresh, &options);
    th_tensor *tokens = th_random_integers(fresh, TH_INT32, TH_SHAPE(8, 32), 0, 16);
    const size_t before = th_memory(fresh).live;
    ck_assert_msg(th_language_model_loss(model, tokens, tokens, NULL) != NULL, "%s", th_error_message(fresh));
    const size_t kept = th_memory(fresh).live - before;
    th_context_free(fresh);
    return kept;
}

/* Dropout masks are drawn again, never stored: a layer saves 10 E + H + 4 numbers for each token in either case. */
START_TEST(dropout_saves_no_masks)
{
    for (int dropped = 0; dropped < 2; dropped++) {
        const double dropout = dropped ? 0.1 : 0;
        ck_assert_uint_eq(kept_with(dropout, 3) - kept_with(dropout, 2), 8 * 32 * (10 * 64 + 4 + 4) * sizeof(float));
    }
}
END_TEST

START_TEST(any_leading_dimensions)
{
    th_module *block = th_transformer_block_new(ctx, E, H, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 3, T, E));
    th_tensor *y = th_module_forward(block, x);
    th_tensor *one = th_module_forward(block, th_select(th_select(x, 0, 1), 0, 2)); /* (T, E) */
    th_tensor *same = th_select(th_select(y, 0, 1), 0, 2);
    ck_assert_double_le(th_item(th_max(th_abs(th_sub(one, same)), TH_ALL_AXES, NULL)), native_products() ? 0 : 1e-14);
    ck_assert_int_eq(th_numel(th_module_forward(block, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, T, E)))), 0);
    ck_assert_int_eq(
        th_size(th_module_forward(th_language_model_new(ctx, &tiny), th_zeros(ctx, TH_INT32, TH_SHAPE(2, 0))), 1), 0);
    no_error();
}
END_TEST

/* -- errors -- */

START_TEST(errors_of_blocks)
{
    ck_assert_ptr_null(th_transformer_block_new(ctx, 0, 1, NULL));
    expect_error(TH_ERROR_ARGUMENT, "width and heads must be positive");
    ck_assert_ptr_null(th_transformer_block_new(ctx, 8, 3, NULL));
    expect_error(TH_ERROR_SHAPE, "3 heads must divide");
    ck_assert_ptr_null(th_transformer_block_new(ctx, 8, 2, &(th_transformer_block_options){.dropout = 1}));
    expect_error(TH_ERROR_ARGUMENT, "dropout must be in [0, 1); it is 1");
    ck_assert_ptr_null(th_transformer_block_new(ctx, 8, 2, &(th_transformer_block_options){.attention_dropout = NAN}));
    expect_error(TH_ERROR_ARGUMENT, "attention_dropout");
    ck_assert_ptr_null(
        th_transformer_block_new(ctx, 8, 2, &(th_transformer_block_options){.activation = (th_activation)9}));
    expect_error(TH_ERROR_ARGUMENT, "9");
    ck_assert_ptr_null(th_transformer_block_new(ctx, 8, 2, &(th_transformer_block_options){.eps = -1}));
    expect_error(TH_ERROR_ARGUMENT, "eps");
    ck_assert_ptr_null(th_transformer_block_new(ctx, 8, 2, &(th_transformer_block_options){.mlp_width = INT64_MAX}));
    expect_error(TH_ERROR_ARGUMENT, "too large");

    th_module *encoder = th_transformer_block_new(ctx, E, H, NULL);
    th_module *decoder = th_transformer_block_new(ctx, E, H, &(th_transformer_block_options){.cross_attention = true});
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, E)), *narrow = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 3));
    ck_assert_ptr_null(th_module_forward(encoder, narrow));
    expect_error(TH_ERROR_SHAPE, "the block takes (..., length, 8); at ");
    ck_assert_ptr_null(th_transform(encoder, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "x");
    ck_assert_ptr_null(th_transform(encoder, x, &(th_transform_options){.memory = x}));
    expect_error(TH_ERROR_ARGUMENT, "without cross_attention");
    ck_assert_ptr_null(th_transform(decoder, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "needs a memory");
    ck_assert_ptr_null(th_transform(decoder, x, &(th_transform_options){.memory = narrow}));
    expect_error(TH_ERROR_SHAPE, "the key is");
    ck_assert_ptr_null(th_transform(th_dense_new(ctx, E, E, NULL), x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "dense is not a transformer_block");
    ck_assert_ptr_null(th_transform(NULL, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

START_TEST(errors_of_the_language_model)
{
    ck_assert_ptr_null(th_language_model_new(ctx, NULL));
    expect_error(TH_ERROR_ARGUMENT, "vocabulary must be positive");
    th_language_model_options options = tiny;
    options.layers = -2;
    ck_assert_ptr_null(th_language_model_new(ctx, &options));
    expect_error(TH_ERROR_ARGUMENT, "layers must be positive; it is -2");
    options.layers = INT64_MAX;
    ck_assert_ptr_null(th_language_model_new(ctx, &options));
    expect_error(TH_ERROR_ARGUMENT, "at most 65536 layers, not 9223372036854775807");
    options = tiny;
    options.block.cross_attention = true;
    ck_assert_ptr_null(th_language_model_new(ctx, &options));
    expect_error(TH_ERROR_ARGUMENT, "no memory");
    options = tiny;
    options.dropout = -0.5;
    ck_assert_ptr_null(th_language_model_new(ctx, &options));
    expect_error(TH_ERROR_ARGUMENT, "it is -0.5");
    options = tiny;
    options.heads = 5;
    ck_assert_ptr_null(th_language_model_new(ctx, &options));
    expect_error(TH_ERROR_SHAPE, "5 heads must divide");

    th_module *model = th_language_model_new(ctx, &tiny);
    th_tensor *tokens = counted_tokens(3, 0);
    ck_assert_ptr_null(th_module_forward(model, th_zeros(ctx, TH_INT32, TH_SHAPE(1, 7))));
    expect_error(TH_ERROR_SHAPE, "at most 6 tokens, one for each position; these have 7");
    ck_assert_ptr_null(th_module_forward(model, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(1, 3))));
    expect_error(TH_ERROR_TYPE, "tokens must be int32 or int64; they are float64");
    ck_assert_ptr_null(th_module_forward(model, th_zeros(ctx, TH_INT32, TH_SHAPE(3))));
    expect_error(TH_ERROR_SHAPE, "tokens must be (B, T)");
    ck_assert_ptr_null(th_module_forward(model, th_full(ctx, TH_INT32, TH_SHAPE(1, 3), V)));
    expect_error(TH_ERROR_INDEX, "7");
    ck_assert_ptr_null(th_language_model_loss(model, tokens, th_zeros(ctx, TH_INT32, TH_SHAPE(B, T + 1)), NULL));
    expect_error(TH_ERROR_SHAPE, "targets");
    ck_assert_ptr_null(th_language_model_loss(model, tokens, NULL, NULL));
    expect_error(TH_ERROR_ARGUMENT, "NULL");
    ck_assert_ptr_null(th_language_model_loss(th_transformer_block_new(ctx, E, H, NULL), tokens, tokens, NULL));
    expect_error(TH_ERROR_ARGUMENT, "transformer_block is not a language_model");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("transformer", setup, close_context);
    tcase_add_loop_test(tcase, blocks_equal_pytorch, 0, 2 * (int)(sizeof torch_blocks / sizeof *torch_blocks));
    tcase_add_loop_test(tcase, the_language_model_equals_pytorch, 0, 2);
    tcase_add_test(tcase, parameters_are_named_as_in_pytorch);
    tcase_add_test(tcase, gpt2_has_124_million_parameters);
    tcase_add_test(tcase, the_model_starts_as_gpt2_does);
    tcase_add_loop_test(tcase, gradients_are_right_with_dropout_replayed, 0, 4);
    tcase_add_test(tcase, the_tied_gradient_is_the_sum_of_both_uses);
    tcase_add_test(tcase, no_logit_depends_on_a_later_token);
    tcase_add_loop_test(tcase, values_in_the_padding_have_no_effect, 0, 4);
    tcase_add_loop_test(tcase, a_model_learns, 0, 2);
    tcase_add_loop_test(tcase, any_number_of_threads_gives_the_same_bits, 0, 2);
    tcase_add_loop_test(tcase, fused_equals_composed_except_for_rounding, 0, 2);
    tcase_add_loop_test(tcase, a_shapes_only_run_forecasts_the_memory, 0, 2);
    tcase_add_test(tcase, a_warm_step_allocates_nothing);
    tcase_add_test(tcase, making_a_model_survives_the_failure_of_any_allocation);
    tcase_add_test(tcase, evaluation_has_no_dropout);
    tcase_add_test(tcase, dropout_inside_the_mlp_is_an_option);
    tcase_add_test(tcase, dropout_saves_no_masks);
    tcase_add_test(tcase, any_leading_dimensions);
    tcase_add_test(tcase, errors_of_blocks);
    tcase_add_test(tcase, errors_of_the_language_model);
    return run_suites();
}
