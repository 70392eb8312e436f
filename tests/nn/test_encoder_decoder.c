/* Tests the encoder-decoder model and stacks: names, values against single operations, padding, odd sizes, dropout,
 * recomputation, threads, errors. */
#include <math.h>
#include <string.h>

#include "models.h"

enum { B = 3, S = 5, T = 4, V = 11, W = 9, E = 8, H = 2 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 2, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

static const th_transformer_options tiny = {.source_vocabulary = V,
                                            .target_vocabulary = W,
                                            .length = 7,
                                            .width = E,
                                            .heads = H,
                                            .encoder_layers = 2,
                                            .decoder_layers = 2,
                                            .block = {.mlp_width = 12}};

/* A small model of Vaswani et al. 2017. */
static const th_transformer_options published = {.source_vocabulary = V,
                                                 .target_vocabulary = V,
                                                 .length = 7,
                                                 .width = E,
                                                 .heads = H,
                                                 .encoder_layers = 2,
                                                 .decoder_layers = 2,
                                                 .positions = TH_POSITIONS_SINUSOIDAL,
                                                 .shared_embeddings = true,
                                                 .dropout = 0.1,
                                                 .block = {.post_norm = true, .activation = TH_RELU, .mlp_width = 12}};

static th_tensor *tokens(int64_t batch, int64_t length, int64_t factor, int64_t vocabulary)
{
    th_tensor *t = th_zeros(ctx, TH_INT32, TH_SHAPE(batch, length));
    int32_t *token = th_data(t);
    for (int64_t i = 0; i < batch * length; i++)
        token[i] = (int32_t)((factor * i + 1) % vocabulary);
    return t;
}

static th_tensor *lengths(int64_t a, int64_t b, int64_t c)
{
    return th_from_data(ctx, TH_INT64, TH_SHAPE(B), (const int64_t[]){a, b, c});
}

static double largest_difference(th_tensor *a, th_tensor *b)
{
    return th_item(th_max(th_abs(th_sub(a, b)), TH_ALL_AXES, NULL));
}

/* -- parameters and values -- */

START_TEST(members_are_named_as_in_pytorch)
{
    th_module *model = th_transformer_new(ctx, &tiny);
    no_error();
    static const char *const names[] = {"source_embedding.weight",
                                        "target_embedding.weight",
                                        "source_position.weight",
                                        "target_position.weight",
                                        "encoder.layers.1.self_attn.in_proj_weight",
                                        "encoder.layers.0.linear2.bias",
                                        "encoder.norm.weight",
                                        "decoder.layers.0.multihead_attn.out_proj.weight",
                                        "decoder.layers.1.norm3.bias",
                                        "decoder.norm.bias"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        ck_assert_msg(th_module_find_parameter(model, names[i]) != NULL, "%s", names[i]);
    ck_assert_ptr_null(th_module_find_parameter(model, "classifier.weight"));

    th_transformer_options options = published;
    options.untied = true;
    th_module *shared = th_transformer_new(ctx, &options);
    ck_assert_ptr_nonnull(th_module_find_parameter(shared, "embedding.weight"));
    ck_assert_ptr_nonnull(th_module_find_parameter(shared, "classifier.weight"));
    ck_assert_ptr_null(th_module_find_parameter(shared, "encoder.norm.weight"));
    ck_assert_ptr_null(th_module_find_parameter(shared, "source_position.weight"));
}
END_TEST

/* All combinations of options that share, tie, scale and add, against operations on the model's members. */
static th_tensor *by_hand(th_module *model, const th_transformer_options *o, th_tensor *source,
                          th_tensor *source_lengths, th_tensor *target)
{
    th_tensor *in[2] = {source, target}, *x[2];
    static const char *const sides[2] = {"source", "target"};
    for (int side = 0; side < 2; side++) {
        char name[64];
        snprintf(name, sizeof name, "%s_embedding.weight", sides[side]);
        th_tensor *table = th_module_find_parameter(model, o->shared_embeddings ? "embedding.weight" : name);
        x[side] = th_scale(th_embedding(table, in[side]), o->no_embedding_scale ? 1 : sqrt(E));
        const int64_t length = th_size(in[side], 1);
        snprintf(name, sizeof name, "%s_position.weight", sides[side]);
        if (o->positions == TH_POSITIONS_LEARNED) {
            x[side] = th_add(x[side], th_slice(th_module_find_parameter(model, name), 0, 0, length, 1));
        } else if (o->positions == TH_POSITIONS_SINUSOIDAL) {
            th_tensor *table_of_waves = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(length, E));
            double *wave = th_data(table_of_waves);
            for (int64_t p = 0; p < length; p++)
                for (int64_t e = 0; e < E; e++) {
                    const double angle = (double)p / pow(10000, (double)(e - e % 2) / (double)E);
                    wave[p * E + e] = e % 2 ? cos(angle) : sin(angle);
                }
            x[side] = th_add(x[side], table_of_waves);
        }
    }
    const th_mask padding = {.valid_lengths = source_lengths}, causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_transform_options given = {.mask = &padding};
    for (int i = 0; i < 2; i++)
        x[0] = th_transform(th_module_list_at(th_module_find(model, "encoder.layers"), i), x[0], &given);
    if (th_module_find(model, "encoder.norm"))
        x[0] = th_module_forward(th_module_find(model, "encoder.norm"), x[0]);
    given = (th_transform_options){.mask = &causal, .memory = x[0], .memory_mask = &padding};
    for (int i = 0; i < 2; i++)
        x[1] = th_transform(th_module_list_at(th_module_find(model, "decoder.layers"), i), x[1], &given);
    if (th_module_find(model, "decoder.norm"))
        x[1] = th_module_forward(th_module_find(model, "decoder.norm"), x[1]);
    const char *classifier = o->untied              ? "classifier.weight"
                             : o->shared_embeddings ? "embedding.weight"
                                                    : "target_embedding.weight";
    return th_dense(x[1], th_module_find_parameter(model, classifier), NULL);
}

START_TEST(the_model_equals_single_operations)
{
    th_transformer_options options = tiny;
    options.target_vocabulary = V;
    options.positions = (th_position_kind)(_i % 3);
    options.shared_embeddings = _i & 1;
    options.untied = _i >> 1 & 1;
    options.no_embedding_scale = _i >> 2 & 1;
    options.final_norm = (th_final_norm)(_i % 3);
    options.block.post_norm = _i >> 3 & 1;
    options.block.activation = (th_activation)(_i % 4);
    options.block.gated = _i % 5 == 0;
    options.block.norm = _i % 7 == 0 ? TH_RMS_NORM : TH_LAYER_NORM;
    th_module *model = th_transformer_new(ctx, &options);
    th_tensor *source = tokens(B, S, 3, V), *target = tokens(B, T, 5, V), *source_lengths = lengths(5, 2, 3);
    th_tensor *expected = by_hand(model, &options, source, source_lengths, target);
    th_tensor *memory = th_transformer_encode(model, source, source_lengths);
    th_tensor *weights[2];
    th_tensor *logits = th_transformer_decode(
        model, target, memory,
        &(th_transformer_decode_options){.memory_lengths = source_lengths, .memory_weights = weights});
    assert_shape(logits, TH_SHAPE(B, T, V));
    ck_assert_str_eq(th_axes_of(logits), "BTV");
    ck_assert_double_le(largest_difference(logits, expected), 1e-12);
    for (int i = 0; i < 2; i++) {
        assert_shape(weights[i], TH_SHAPE(B, H, T, S));
        ck_assert_double_eq_tol(th_item(th_sum(weights[i], TH_ALL_AXES, NULL)), B * H * T, 1e-9);
        ck_assert_double_eq(th_get(weights[i], TH_INDEX(1, 1, 3, 2)), 0); /* after the end of the source */
    }
    th_tensor *next = tokens(B, T, 7, V);
    const th_cross_entropy_options loss = {TH_IGNORE(2), .label_smoothing = 0.1};
    const double by_parts = th_item(th_cross_entropy(expected, next, &loss));
    ck_assert_double_eq_tol(th_item(th_transformer_loss(model, source, source_lengths, target, next, &loss)), by_parts,
                            1e-12);
    th_set_fusion(ctx, false);
    ck_assert_double_eq_tol(th_item(th_transformer_loss(model, source, source_lengths, target, next, &loss)), by_parts,
                            1e-12);
}
END_TEST

START_TEST(options_are_read_back)
{
    const th_transformer_options *o = th_transformer_options_of(th_transformer_new(ctx, &published));
    ck_assert_ptr_nonnull(o);
    ck_assert_int_eq(o->block.kv_heads, H);
    ck_assert_int_eq(o->block.head_width, E / H);
    ck_assert_double_eq(o->block.eps, 1e-5);
    ck_assert_double_eq(o->block.attention_dropout, 0.1);
    ck_assert_double_eq(o->embedding_dropout, 0.1);
    const uint32_t crc = th_module_crc32c(th_transformer_new(ctx, o));
    no_error();
    ck_assert_uint_ne(crc, 0);
    ck_assert_ptr_null(th_transformer_options_of(th_dense_new(ctx, 2, 2, NULL)));
    ck_assert_ptr_null(th_language_model_options_of(th_dense_new(ctx, 2, 2, NULL)));
    const th_language_model_options language = {.vocabulary = V, .length = 4, .width = E, .heads = H, .layers = 1};
    const th_language_model_options *l = th_language_model_options_of(th_language_model_new(ctx, &language));
    ck_assert_int_eq(l->block.mlp_width, 4 * E);
    ck_assert_int_eq(l->vocabulary, V);
}
END_TEST

/* -- padding -- */

/* Neither the tokens after the end of a source nor the amount of padding change a bit of logits or gradients. */
START_TEST(padding_has_no_effect)
{
    th_module *model = th_transformer_new(ctx, _i % 2 ? &published : &tiny);
    th_set_training(ctx, false);
    th_set_fusion(ctx, _i < 2);
    th_tensor *target = tokens(B, T, 5, W), *next = tokens(B, T, 7, W);
    double loss[2], gradient[2];
    for (int longer = 0; longer < 2; longer++) {
        th_tensor *source = tokens(B, longer ? 7 : S, 3, V);
        static const int64_t length[B] = {5, 0, 2};
        int32_t *token = th_data(source);
        for (int64_t b = 0; b < B; b++)
            for (int64_t s = 0; s < th_size(source, 1); s++)
                token[b * th_size(source, 1) + s] =
                    (int32_t)(s < length[b] ? (b + s) % V : longer); /* other tokens after the end */
        th_tensor *l = th_transformer_loss(model, source, lengths(5, 0, 2), target, next, NULL);
        loss[longer] = th_item(l);
        ck_assert_int_eq(th_backward(l, NULL), TH_OK);
        gradient[longer] = 0;
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
            if (strcmp(p.name, "source_position.weight") != 0) /* its gradient always has the shape of all positions */
                gradient[longer] += th_item(th_sum(th_abs(th_gradient(p.tensor)), TH_ALL_AXES, NULL));
            th_empty_gradient(p.tensor);
        }
        no_error();
        th_tape_clear(ctx);
    }
    const double rounding = strstr(th_build_info(ctx), "gemm=native") ? 0 : 1e-9;
    ck_assert_double_le(fabs(loss[0] - loss[1]), rounding);
    ck_assert_double_le(fabs(gradient[0] - gradient[1]), rounding);
}
END_TEST

START_TEST(sizes_may_be_odd_or_zero)
{
    th_transformer_options options = tiny;
    options.width = 9;
    options.heads = 3;
    options.positions = TH_POSITIONS_SINUSOIDAL; /* with an odd width */
    th_module *model = th_transformer_new(ctx, &options);
    static const int64_t size[][3] = {{2, 0, 3}, {2, 3, 0}, {0, 3, 2}, {1, 1, 1}, {2, 7, 7}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        const int64_t b = size[i][0], s = size[i][1], t = size[i][2];
        th_tensor *memory = th_transformer_encode(model, tokens(b, s, 3, V), NULL);
        assert_shape(memory, TH_SHAPE(b, s, 9));
        assert_shape(th_transformer_decode(model, tokens(b, t, 3, W), memory, NULL), TH_SHAPE(b, t, W));
        th_tensor *loss =
            th_transformer_loss(model, tokens(b, s, 3, V), NULL, tokens(b, t, 3, W), tokens(b, t, 5, W), NULL);
        ck_assert(isfinite(th_item(loss)));
        ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);) {
            if (th_gradient(p.tensor))
                ck_assert(isfinite(th_item(th_sum(th_gradient(p.tensor), TH_ALL_AXES, NULL))));
            th_empty_gradient(p.tensor);
        }
        no_error();
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(positions_may_be_given)
{
    th_transformer_options options = published;
    options.positions = _i ? TH_POSITIONS_LEARNED : TH_POSITIONS_SINUSOIDAL;
    th_module *model = th_transformer_new(ctx, &options);
    th_set_training(ctx, false);
    th_tensor *memory = th_transformer_encode(model, tokens(B, S, 3, V), NULL), *target = tokens(B, T, 5, V);
    th_tensor *usual = th_transformer_decode(model, target, memory, NULL);
    static const int32_t positions[T] = {0, 1, 2, 3}, other[B * T] = {0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 6};
    th_tensor *same = th_transformer_decode(
        model, target, memory,
        &(th_transformer_decode_options){.positions = th_from_data(ctx, TH_INT32, TH_SHAPE(T), positions)});
    ck_assert_double_eq(largest_difference(usual, same), 0);
    th_tensor *moved = th_transformer_decode(
        model, target, memory,
        &(th_transformer_decode_options){.positions = th_from_data(ctx, TH_INT32, TH_SHAPE(B, T), other)});
    ck_assert_double_eq(largest_difference(th_select(usual, 0, 0), th_select(moved, 0, 0)), 0);
    ck_assert_double_gt(largest_difference(th_select(usual, 0, 1), th_select(moved, 0, 1)), 1e-3);
}
END_TEST

/* -- training -- */

static uint32_t trained(const th_transformer_options *options, bool recompute, int threads, double *loss, bool *exact)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = threads});
    th_transformer_options given = *options;
    given.block.recompute = recompute;
    th_module *model = th_transformer_new(ctx, &given);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 3e-3});
    th_tensor *source = tokens(B, S, 3, V), *source_lengths = lengths(5, 1, 4), *target = tokens(B, T, 5, V),
              *next = tokens(B, T, 7, V);
    for (int step = 0; step < 12; step++)
        loss[step] = step_down(th_transformer_loss(model, source, source_lengths, target, next, NULL), adam);
    const uint32_t crc = th_module_crc32c(model);
    *exact = strstr(th_build_info(ctx), "gemm=native") != NULL;
    th_context_free(ctx);
    ctx = outer;
    return crc;
}

START_TEST(it_learns_with_the_same_bits_recomputed_and_on_any_team)
{
    th_transformer_options options = published;
    if (_i == 1) {
        options.block.post_norm = false;
        options.block.gated = true;
        options.block.norm = TH_RMS_NORM;
        options.block.no_bias = true;
        options.block.kv_heads = 1;
    }
    double loss[12], again[12];
    bool exact;
    const uint32_t crc = trained(&options, false, 1, loss, &exact);
    ck_assert_double_lt(loss[11], loss[0] - 0.3);
    ck_assert_uint_eq(trained(&options, true, 1, again, &exact), crc);
    ck_assert_mem_eq(loss, again, sizeof loss);
    if (exact)
        ck_assert_uint_eq(trained(&options, true, 3, again, &exact), crc);
}
END_TEST

static size_t peak_of(th_module *(*make)(bool recompute), bool recompute, bool dry)
{
    th_context *outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 7, .threads = 1, .shapes_only = dry});
    th_module *model = make(recompute);
    th_optimizer *adam = th_adam_w_new(model, &(th_adam_options){.learning_rate = 3e-3});
    th_tensor *source = th_zeros(ctx, TH_INT32, TH_SHAPE(4, 32));
    for (int step = 0; step < 2; step++)
        (void)step_down(th_transformer_loss(model, source, NULL, source, source, NULL), adam);
    const size_t peak = th_memory(ctx).peak;
    th_context_free(ctx);
    ctx = outer;
    return peak;
}

static th_module *deep(bool recompute)
{
    th_transformer_options options = published;
    options.length = 32;
    options.encoder_layers = options.decoder_layers = 6;
    options.block.recompute = recompute;
    return th_transformer_new(ctx, &options);
}

START_TEST(recomputing_saves_memory_as_forecast)
{
    const size_t usual = peak_of(deep, false, false), less = peak_of(deep, true, false);
    ck_assert_uint_lt(less, usual * 3 / 4);
    ck_assert_uint_eq(peak_of(deep, true, true), less);
    ck_assert_uint_eq(peak_of(deep, false, true), usual);
}
END_TEST

static th_tensor *loss_of(void *model, th_tensor *const *inputs)
{
    th_tensor *source = inputs[0];
    return th_transformer_loss(model, source, inputs[1], source, source, NULL);
}

START_TEST(its_gradients_are_right)
{
    th_transformer_options options = published;
    options.source_vocabulary = options.target_vocabulary = 5;
    options.width = 4;
    options.heads = 2;
    options.encoder_layers = options.decoder_layers = 1;
    options.block.mlp_width = 3;
    options.block.activation = TH_GELU;
    options.block.recompute = _i & 1;
    options.block.gated = _i >> 1;
    th_module *model = th_transformer_new(ctx, &options);
    th_tensor *const inputs[] = {tokens(B, 3, 2, 5), lengths(3, 0, 1)};
    th_gradient_report report;
    const th_status status = th_check_gradient(ctx, loss_of, model, 2, inputs, NULL, &report);
    ck_assert_msg(status == TH_OK, "%s%s", report.text, th_error_message(ctx));
}
END_TEST

static th_module *make_published(th_context *fresh)
{
    return th_transformer_new(fresh, &published);
}

START_TEST(making_one_survives_the_failure_of_any_allocation)
{
    assert_constructor_survives(make_published);
}
END_TEST

/* -- errors -- */

static void refused(th_transformer_options options, const char *words)
{
    assert_error(th_transformer_new(ctx, &options), TH_ERROR_ARGUMENT, words);
}

START_TEST(errors)
{
    th_transformer_options o = tiny;
    o.decoder_layers = 0;
    refused(o, "decoder_layers must be positive; it is 0");
    o = tiny;
    o.shared_embeddings = true;
    refused(o, "shared embeddings need one vocabulary, but the source has 11 tokens and the target 9");
    o = tiny;
    o.block.cross_attention = true;
    refused(o, ".block.cross_attention must be false");
    o = tiny;
    o.dropout = 1;
    refused(o, "dropout must be in [0, 1); it is 1");
    o = tiny;
    o.embedding_dropout = -1;
    refused(o, "embedding_dropout must be in [0, 1)");
    o = tiny;
    o.positions = (th_position_kind)3;
    refused(o, "unknown kind of positions: 3");
    o = tiny;
    o.final_norm = (th_final_norm)3;
    refused(o, "unknown choice of a final norm: 3");
    o = tiny;
    o.encoder_layers = 1 << 20;
    refused(o, "1 to 65536 layers, not 1048576");
    o = tiny;
    o.block.no_mlp = o.block.gated = true;
    refused(o, "cannot be gated");
    o = tiny;
    o.block.norm = (th_norm)2;
    refused(o, "unknown norm: 2");
    o = tiny;
    o.heads = 3;
    assert_error(th_transformer_new(ctx, &o), TH_ERROR_SHAPE, "3 heads must divide");
    assert_error(th_transformer_new(ctx, NULL), TH_ERROR_ARGUMENT, "source_vocabulary must be positive");
    assert_error(th_transformer_encoder_new(ctx, 0, E, H, NULL), TH_ERROR_ARGUMENT, "1 to 65536 layers, not 0");
    assert_error(
        th_transformer_encoder_new(ctx, 1, E, H, &(th_transformer_stack_options){.block = {.cross_attention = true}}),
        TH_ERROR_ARGUMENT, "an encoder's blocks have no memory");

    th_module *model = th_transformer_new(ctx, &tiny);
    th_tensor *source = tokens(B, S, 3, V), *memory = th_transformer_encode(model, source, NULL),
              *target = tokens(B, T, 3, W);
    assert_error(th_module_forward(model, source), TH_ERROR_ARGUMENT, "takes a source and a target");
    assert_error(th_transformer_encode(model, memory, NULL), TH_ERROR_TYPE, "the source must be int32 or int64");
    assert_error(th_transformer_encode(model, tokens(B, 8, 3, V), NULL), TH_ERROR_SHAPE, "at most 7 tokens");
    assert_error(th_transformer_encode(model, source, lengths(5, 6, 1)), TH_ERROR_INDEX, "6");
    assert_error(th_transformer_decode(model, target, NULL, NULL), TH_ERROR_ARGUMENT, "memory");
    assert_error(
        th_transformer_decode(model, target, memory,
                              &(th_transformer_decode_options){.positions = th_zeros(ctx, TH_INT32, TH_SHAPE(B, S))}),
        TH_ERROR_SHAPE, "positions must be (T) or (B, T) for the target");
    assert_error(
        th_transformer_decode(model, target, memory,
                              &(th_transformer_decode_options){.positions = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(T))}),
        TH_ERROR_TYPE, "positions must be int32 or int64");
    assert_error(th_transformer_encode(th_dense_new(ctx, 2, 2, NULL), source, NULL), TH_ERROR_ARGUMENT,
                 "dense is not a transformer");
    assert_error(th_transformer_loss(model, source, NULL, target, source, NULL), TH_ERROR_SHAPE, "targets");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("encoder_decoder", setup, close_context);
    tcase_add_test(tcase, members_are_named_as_in_pytorch);
    tcase_add_loop_test(tcase, the_model_equals_single_operations, 0, 24);
    tcase_add_test(tcase, options_are_read_back);
    tcase_add_loop_test(tcase, padding_has_no_effect, 0, 4);
    tcase_add_test(tcase, sizes_may_be_odd_or_zero);
    tcase_add_loop_test(tcase, positions_may_be_given, 0, 2);
    tcase_add_loop_test(tcase, it_learns_with_the_same_bits_recomputed_and_on_any_team, 0, 2);
    tcase_add_test(tcase, recomputing_saves_memory_as_forecast);
    tcase_add_loop_test(tcase, its_gradients_are_right, 0, 4);
    tcase_add_test(tcase, making_one_survives_the_failure_of_any_allocation);
    tcase_add_test(tcase, errors);
    return run_suites();
}
