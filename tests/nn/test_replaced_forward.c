/* Tests replaced forwards of library modules, and members added to them. Each replaced forward runs, or is an error. */
#include <string.h>

#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1, .default_dtype = TH_FLOAT64});
    ck_assert_ptr_nonnull(ctx);
}

/* -- the models and their functions -- */

enum { B = 2, T = 5, V = 11, ENCODER_DECODER = 2, MODELS = 3 };

static th_module *model_new(int i)
{
    static const th_language_model_options language[] = {
        {.vocabulary = V, .length = 8, .width = 12, .heads = 2, .layers = 2},
        {.vocabulary = V,
         .length = 8,
         .width = 12,
         .heads = 2,
         .layers = 2,
         .positions = TH_POSITIONS_SINUSOIDAL,
         .untied = true,
         .block = {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .scores = {.qk_norm = true}}},
    };
    if (i < ENCODER_DECODER)
        return th_language_model_new(ctx, &language[i]);
    return th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = V,
                                                             .target_vocabulary = V,
                                                             .length = 8,
                                                             .width = 12,
                                                             .heads = 2,
                                                             .encoder_layers = 1,
                                                             .decoder_layers = 1,
                                                             .positions = TH_POSITIONS_LEARNED,
                                                             .untied = true});
}

static th_tensor *tokens_new(void)
{
    int32_t token[B * T];
    for (int i = 0; i < B * T; i++)
        token[i] = (i * 7 + i / 4) % V;
    return th_from_data(ctx, TH_INT32, TH_SHAPE(B, T), token);
}

static th_tensor *loss_of(int i, th_module *model, th_tensor *tokens)
{
    return i < ENCODER_DECODER ? th_language_model_loss(model, tokens, tokens, NULL)
                               : th_transformer_loss(model, tokens, NULL, tokens, tokens, NULL);
}

/* -- each module of a model in turn -- */

static th_forward_function *original;
static int calls;

static th_tensor *counting(th_module *m, th_tensor *x)
{
    calls++;
    return original(m, x);
}

static int ran, refused;

static void replace_each(int i, th_module *model, th_module *m, th_tensor *tokens, double expected)
{
    original = m->forward;
    m->forward = counting;
    calls = 0;
    const double loss = th_item(loss_of(i, model, tokens));
    char name[TH_FULL_NAME_SIZE];
    th_module_full_name(m, name);
    if (calls > 0 && strcmp(m->type, "multi_head_attention") == 0) { /* its own forward is an error */
        expect_error(TH_ERROR_ARGUMENT, "takes query, key and value");
        ran++;
    } else if (th_error_code(ctx)) {
        ck_assert_msg(calls == 0 && strstr(th_error_message(ctx), "was replaced and cannot run here"), "%s: %s", name,
                      th_error_message(ctx));
        expect_error(TH_ERROR_ARGUMENT, m->name);
        refused++;
    } else {
        ck_assert_msg(calls > 0, "%s: the replaced forward did not run", name);
        ck_assert_double_eq_tol(loss, expected, 1e-12);
        ran++;
    }
    th_tape_clear(ctx);
    m->forward = original;
    for (th_module *child = m->first; child; child = child->next)
        replace_each(i, model, child, tokens, expected);
}

START_TEST(a_replaced_forward_runs_or_is_an_error)
{
    const int i = _i / 2;
    th_set_fusion(ctx, _i % 2);
    th_module *model = model_new(i);
    th_tensor *tokens = tokens_new();
    const double expected = th_item(loss_of(i, model, tokens));
    no_error();
    th_tape_clear(ctx);
    ran = refused = 0;
    replace_each(i, model, model, tokens, expected);
    ck_assert_int_ge(ran, 10);
    ck_assert_int_ge(refused, 4); /* lists, blocks and attention with a mask, the language model itself */
    no_error();
}
END_TEST

/* Without a mask, whole blocks and their attention can be replaced too. */
static th_tensor *doubled(th_module *m, th_tensor *x)
{
    (void)m;
    calls++;
    return th_scale(x, 2);
}

START_TEST(blocks_and_attention_without_a_mask)
{
    th_module *encoder = th_transformer_encoder_new(ctx, 2, 12, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12));
    const char *const names[] = {"layers.0.self_attn", "layers.1"};
    const th_mask nothing = {0}, causal = {.causal = TH_CAUSAL_TOP_LEFT};
    for (int fused = 0; fused < 2; fused++)
        for (int i = 0; i < 2; i++) {
            th_set_fusion(ctx, fused);
            th_module *m = th_module_find(encoder, names[i]);
            original = m->forward;
            m->forward = doubled;
            calls = 0;
            ck_assert_ptr_nonnull(th_module_forward(encoder, x));
            ck_assert_ptr_nonnull(th_transform(encoder, x, &(th_transform_options){.mask = &nothing}));
            ck_assert_int_eq(calls, 2);
            assert_error(th_transform(encoder, x, &(th_transform_options){.mask = &causal}), TH_ERROR_ARGUMENT,
                         "was replaced and cannot run here: it takes only x and would not get the mask");
            th_tape_clear(ctx);
            m->forward = original;
        }
    no_error();
}
END_TEST

/* -- attention and blocks with all options -- */

static th_tensor *own_attend(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                             const th_attend_options *options)
{
    calls++;
    ck_assert_ptr_null(options->residual);
    return th_attend(m, query, key, value, options);
}

static th_tensor *own_transform(th_module *m, th_tensor *x, const th_transform_options *options)
{
    calls++;
    return th_transform(m, x, options);
}

/* Sets the functions of all modules of this type. */
static void set_functions(th_module *m, const char *type, bool set)
{
    if (strcmp(m->type, type) == 0 && strcmp(type, "multi_head_attention") == 0)
        m->attend = set ? own_attend : NULL;
    else if (strcmp(m->type, type) == 0)
        m->transform = set ? own_transform : NULL;
    for (th_module *child = m->first; child; child = child->next)
        set_functions(child, type, set);
}

START_TEST(functions_of_attention_and_blocks_run_in_models)
{
    static const char *const types[] = {"multi_head_attention", "transformer_block", "transformer_encoder",
                                        "transformer_decoder"};
    static const int expected[4][MODELS] = {{2, 2, 3}, {2, 2, 2}, {0, 0, 1}, {0, 0, 1}};
    const int i = _i / 2;
    th_set_fusion(ctx, _i % 2);
    th_module *model = model_new(i);
    th_tensor *tokens = tokens_new();
    const double loss = th_item(loss_of(i, model, tokens));
    th_tape_clear(ctx);
    for (int k = 0; k < 4; k++) {
        set_functions(model, types[k], true);
        calls = 0;
        ck_assert_double_eq(th_item(loss_of(i, model, tokens)), loss);
        ck_assert_int_eq(calls, expected[k][i]);
        th_tape_clear(ctx);
        set_functions(model, types[k], false);
    }
    no_error();
}
END_TEST

/* The functions get the cache and return weights. */
START_TEST(functions_work_with_a_cache)
{
    th_module *model = model_new(_i);
    set_functions(model, "multi_head_attention", true);
    set_functions(model, "transformer_block", true);
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *tokens = tokens_new(), *whole = th_module_forward(model, tokens);
    th_cache *cache = th_cache_new(model, B, 8);
    for (int64_t t = 0; t < T; t++) {
        calls = 0;
        th_tensor *logits =
            th_language_model_logits(model, th_contiguous(th_slice(tokens, 1, t, t + 1, 1)),
                                     &(th_language_model_logits_options){
                                         .positions = th_full(ctx, TH_INT32, TH_SHAPE(1), (double)t), .cache = cache});
        ck_assert_int_eq(calls, 4);
        th_tensor *difference = th_sub(logits, th_slice(whole, 1, t, t + 1, 1));
        ck_assert_double_le(th_item(th_max(th_abs(difference), TH_ALL_AXES, NULL)), 1e-13);
    }
    th_no_grad_end(ctx);

    th_module *encoder = th_transformer_encoder_new(ctx, 2, 12, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12)), *expected[2], *weights[2] = {NULL, NULL};
    ck_assert_ptr_nonnull(th_transform(encoder, x, &(th_transform_options){.weights = expected}));
    set_functions(encoder, "multi_head_attention", true);
    set_functions(encoder, "transformer_block", true);
    set_functions(encoder, "transformer_encoder", true);
    calls = 0;
    ck_assert_ptr_nonnull(th_transform(encoder, x, &(th_transform_options){.weights = weights}));
    ck_assert_int_eq(calls, 5);
    for (int i = 0; i < 2; i++)
        ck_assert_double_eq(th_item(th_max(th_abs(th_sub(weights[i], expected[i])), TH_ALL_AXES, NULL)), 0);
    calls = 0;
    ck_assert_ptr_nonnull(th_module_forward(encoder, x)); /* runs ->transform too */
    ck_assert_int_eq(calls, 5);
    no_error();
}
END_TEST

/* Modules of the program's own, which th_attend and th_transform run: x + the mean over the tokens. */
static th_tensor *mean_attend(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                              const th_attend_options *options)
{
    (void)m;
    (void)key;
    (void)options;
    return th_add(th_scale(query, 0), th_mean(value, TH_AXES(-2), &(th_reduce_options){.keep_axes = true}));
}

static th_tensor *mean_block(th_module *m, th_tensor *x, const th_transform_options *options)
{
    calls++;
    return th_attend(th_module_find(m, "attention"), x, x, x,
                     &(th_attend_options){.mask = options->mask, .residual = x});
}

START_TEST(a_module_of_the_program_is_a_block)
{
    th_module *block = th_module_new(ctx, sizeof *block, "mean_block", NULL),
              *attention = th_module_add(block, "attention", th_module_new(ctx, sizeof *attention, "mean", NULL));
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12));
    assert_error(th_transform(block, x, NULL), TH_ERROR_ARGUMENT, "mean_block is not a transformer_block");
    block->transform = mean_block;
    assert_error(th_transform(block, x, NULL), TH_ERROR_ARGUMENT, "mean is not a multi_head_attention");
    attention->attend = mean_attend;
    th_tensor *expected = th_add(x, th_mean(x, TH_AXES(-2), &(th_reduce_options){.keep_axes = true}));
    th_tensor *y = th_transform(block, x, NULL);
    ck_assert_double_eq(th_item(th_max(th_abs(th_sub(y, expected)), TH_ALL_AXES, NULL)), 0);

    th_module *model = model_new(0);
    th_tensor *tokens = tokens_new();
    const double before = th_item(loss_of(0, model, tokens));
    ck_assert_ptr_nonnull(th_module_list_add(th_module_find(model, "layers"), block));
    calls = 0;
    ck_assert_double_ne(th_item(loss_of(0, model, tokens)), before);
    ck_assert_int_eq(calls, 1);
    no_error();
}
END_TEST

START_TEST(functions_that_a_module_never_runs_are_errors)
{
    static const char *const names[] = {"layers.0.linear1",
                                        "layers.0.linear2",
                                        "layers.0.norm1",
                                        "embedding",
                                        "position",
                                        "classifier",
                                        "layers",
                                        "layers.0.self_attn.q_norm",
                                        ""};
    th_module *model = model_new(1);
    th_tensor *tokens = tokens_new();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (int fused = 0; fused < 2; fused++) {
            th_set_fusion(ctx, fused);
            th_module *m = th_module_find(model, names[i]);
            ck_assert_ptr_nonnull(m);
            m->attend = own_attend;
            expect_failure(loss_of(1, model, tokens) == NULL, TH_ERROR_ARGUMENT, m->type);
            m->attend = NULL;
            m->transform = own_transform;
            expect_failure(loss_of(1, model, tokens) == NULL, TH_ERROR_ARGUMENT, m->type);
            m->transform = NULL;
            th_tape_clear(ctx);
        }
    th_module *block = th_module_find(model, "layers.0"), *attention = th_module_find(block, "self_attn");
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12));
    block->attend = own_attend;
    assert_error(th_transform(block, x, NULL), TH_ERROR_ARGUMENT, "transformer_block never runs ->attend");
    block->attend = NULL;
    attention->transform = own_transform;
    assert_error(th_attend(attention, x, x, x, NULL), TH_ERROR_ARGUMENT,
                 "multi_head_attention never runs ->transform: set another function");
    attention->transform = NULL;
    ck_assert_ptr_nonnull(loss_of(1, model, tokens));
    no_error();
}
END_TEST

START_TEST(a_direct_call_of_replaced_attention_runs_it_or_is_an_error)
{
    th_module *attention = th_multi_head_attention_new(ctx, 12, 2, NULL);
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12)), *other = th_neg(x), *weights;
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    attention->forward = doubled;
    calls = 0;
    th_tensor *y = th_attend(attention, x, x, x, &(th_attend_options){.residual = x});
    ck_assert_int_eq(calls, 1);
    ck_assert_double_le(th_item(th_max(th_abs(th_sub(y, th_scale(x, 3))), TH_ALL_AXES, NULL)), 1e-15);
    assert_error(th_attend(attention, x, other, other, NULL), TH_ERROR_ARGUMENT, "would not get the key and the value");
    assert_error(th_attend(attention, x, x, x, &(th_attend_options){.mask = &causal}), TH_ERROR_ARGUMENT, "the mask");
    assert_error(th_attend(attention, x, x, x, &(th_attend_options){.positions = th_zeros(ctx, TH_INT32, TH_SHAPE(T))}),
                 TH_ERROR_ARGUMENT, "would not get the positions");
    assert_error(th_attend(attention, x, x, x, &(th_attend_options){.weights = &weights}), TH_ERROR_ARGUMENT,
                 "no attention weights");
    ck_assert_int_eq(calls, 1);
    no_error();
}
END_TEST

/* -- results of another shape -- */

static th_tensor *first_column(th_module *m, th_tensor *x)
{
    return th_slice(original(m, x), -1, 0, 1, 1);
}

static th_tensor *column_attend(th_module *m, th_tensor *query, th_tensor *key, th_tensor *value,
                                const th_attend_options *options)
{
    return th_slice(th_attend(m, query, key, value, options), -1, 0, 1, 1);
}

/* A sum would broadcast (B, T, 1) without an error. */
START_TEST(a_result_of_another_shape_is_an_error)
{
    static const char *const names[] = {"linear2", "self_attn.out_proj", "norm1_out", "norm2_out"};
    const th_transformer_block_options options[] = {{.dropout = 0}, {.dropout = 0.5}, {.output_norm = true}};
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(B, T, 12));
    int errors = 0;
    for (int fused = 0; fused < 2; fused++)
        for (size_t o = 0; o < sizeof options / sizeof *options; o++)
            for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
                th_set_fusion(ctx, fused);
                th_module *block = th_transformer_block_new(ctx, 12, 2, &options[o]),
                          *m = th_module_find(block, names[i]);
                if (m == NULL || (options[o].output_norm && i < 2)) /* a norm of another width is an error anyway */
                    continue;
                original = m->forward;
                m->forward = first_column;
                assert_error(th_module_forward(block, x), TH_ERROR_SHAPE, "but the residual is");
                errors++;
                th_tape_clear(ctx);
                th_module_free(block);
            }
    ck_assert_int_eq(errors, 2 * (2 + 2 + 2));
    th_module *block = th_transformer_block_new(ctx, 12, 2, NULL);
    th_module_find(block, "self_attn")->attend = column_attend;
    assert_error(th_module_forward(block, x), TH_ERROR_SHAPE, "but the residual is");
    no_error();
}
END_TEST

/* -- an adapter like LoRA -- */

typedef struct adapter {
    th_module base;
    th_module *down, *up;
} adapter;

static th_tensor *adapter_forward(th_module *m, th_tensor *x)
{
    const adapter *a = (const adapter *)m;
    return th_module_forward(a->up, th_module_forward(a->down, x));
}

static th_module *adapter_new(int64_t in, int64_t out)
{
    adapter *a = th_module_new(ctx, sizeof *a, "adapter", adapter_forward);
    const th_dense_layer_options plain = {.no_bias = true};
    a->down = th_module_add(&a->base, "down", th_dense_new(ctx, in, 2, &plain));
    a->up = th_module_add(&a->base, "up", th_dense_new(ctx, 2, out, &plain));
    return &a->base;
}

static th_tensor *with_adapter(th_module *m, th_tensor *x)
{
    return th_add(original(m, x), th_module_forward(th_module_find(m, "adapter"), x));
}

START_TEST(an_adapter_of_a_layer_learns)
{
    static const char *const names[] = {"layers.1.linear2", "layers.0.self_attn.out_proj", "layers.0.linear1"};
    const int64_t in[] = {48, 12, 12}, out[] = {12, 12, 48};
    th_module *model = model_new(0), *layer = th_module_find(model, names[_i]);
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    original = layer->forward;
    layer->forward = with_adapter;
    ck_assert_ptr_nonnull(th_module_add(layer, "adapter", adapter_new(in[_i], out[_i])));
    th_optimizer *adam = th_adam_new(model, &(th_adam_options){.learning_rate = 1e-2});
    th_tensor *tokens = tokens_new();
    double first = 0, last = 0;
    for (int step = 0; step < 20; step++) {
        th_tensor *loss = loss_of(0, model, tokens);
        last = th_item(loss);
        first = step == 0 ? last : first;
        ck_assert_msg(th_backward(loss, NULL) == TH_OK && th_optimizer_step(adam) == TH_OK, "%s",
                      th_error_message(ctx));
        th_tape_clear(ctx);
    }
    ck_assert_msg(last < first - 0.01, "%g, then %g", first, last);
    char name[TH_FULL_NAME_SIZE];
    snprintf(name, sizeof name, "%s.adapter.down.weight", names[_i]);
    ck_assert_ptr_nonnull(th_module_find_parameter(model, name));
    no_error();
}
END_TEST

/* -- members that no forward uses -- */

static void add_to_each(th_module *m)
{
    const bool list = strcmp(m->type, "module_list") == 0;
    th_module *child = th_dense_new(ctx, 2, 2, NULL);
    if (!list) {
        assert_error(th_module_add(m, "extra", child), TH_ERROR_ARGUMENT, "would never use \"extra\"");
        assert_error(th_module_add_parameter(m, "extra", TH_SHAPE(2)), TH_ERROR_ARGUMENT, "would never use");
        assert_error(th_module_tie_parameter(m, "extra", th_module_find_parameter(child, "weight")), TH_ERROR_ARGUMENT,
                     m->type);
    }
    th_module_free(child);
    for (th_module *at = m->first; at; at = at->next)
        add_to_each(at);
}

START_TEST(members_that_no_forward_uses_are_errors)
{
    add_to_each(model_new(_i));
    th_module *dropout = th_dropout_new(ctx, 0.5), *own = th_module_new(ctx, sizeof *own, "own", NULL);
    add_to_each(dropout);
    ck_assert_ptr_nonnull(th_module_add(own, "extra", dropout));
    no_error();
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("replaced_forward", setup, close_context);
    tcase_add_loop_test(tests, a_replaced_forward_runs_or_is_an_error, 0, 2 * MODELS);
    tcase_add_test(tests, blocks_and_attention_without_a_mask);
    tcase_add_loop_test(tests, functions_of_attention_and_blocks_run_in_models, 0, 2 * MODELS);
    tcase_add_loop_test(tests, functions_work_with_a_cache, 0, ENCODER_DECODER);
    tcase_add_test(tests, a_module_of_the_program_is_a_block);
    tcase_add_test(tests, functions_that_a_module_never_runs_are_errors);
    tcase_add_test(tests, a_direct_call_of_replaced_attention_runs_it_or_is_an_error);
    tcase_add_test(tests, a_result_of_another_shape_is_an_error);
    tcase_add_loop_test(tests, an_adapter_of_a_layer_learns, 0, 3);
    tcase_add_loop_test(tests, members_that_no_forward_uses_are_errors, 0, MODELS);
    return run_suites();
}
