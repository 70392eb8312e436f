/* Errors of modules, layers and contexts: which operation a message names, the limits of names, what remains after an
 * error. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"
#include "tensor/context_struct.h"

#include "context.h"

enum { B = 2, T = 3, E = 8, H = 2, V = 9 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* -- names -- */

static char name_of_64[TH_NAME_SIZE]; /* 63 letters and the final 0 */

/* Returns a new module of this name under m; NULL: a root. */
static th_module *below(th_module *m, const char *name)
{
    th_module *child = th_module_new(ctx, sizeof(th_module), "part", NULL);
    return m ? th_module_add(m, name, child) : child;
}

/* Names of 255 bytes are legal, and longer ones are errors: of modules, of parameters, and of the members of a tree
 * that is added. */
START_TEST(a_full_name_has_255_bytes)
{
    static const char *const words = "under \"%s\" would be longer than 255 bytes";
    char expected[160], longest[TH_FULL_NAME_SIZE], name[TH_FULL_NAME_SIZE];
    memset(name_of_64, 'x', TH_NAME_SIZE - 1);
    memset(longest, 'x', TH_FULL_NAME_SIZE - 1);
    longest[TH_FULL_NAME_SIZE - 1] = 0;
    longest[63] = longest[127] = longest[191] = '.';
    th_module *root = below(NULL, NULL), *deep = root;
    for (int i = 0; i < 3; i++)
        deep = below(deep, name_of_64);
    th_tensor *p = th_module_add_parameter(deep, name_of_64, TH_SHAPE(2));
    no_error();
    th_parameter_iterator it = th_module_parameters(root);
    ck_assert(th_parameter_next(&it));
    ck_assert_str_eq(it.name, longest);
    ck_assert_ptr_eq(th_module_find_parameter(root, longest), p);
    th_module *last = below(deep, "y");
    ck_assert_ptr_nonnull(th_module_add_parameter(last, name_of_64 + 2, TH_SHAPE(2))); /* y. and 61 bytes */
    snprintf(expected, sizeof expected, words, name_of_64 + 1);
    assert_error(th_module_add_parameter(last, name_of_64 + 1, TH_SHAPE(2)), TH_ERROR_ARGUMENT, expected);
    assert_error(th_module_tie_parameter(last, name_of_64 + 1, p), TH_ERROR_ARGUMENT, "module_tie_parameter: the full");
    assert_error(below(last, name_of_64 + 1), TH_ERROR_ARGUMENT, "module_add: the full name of a member under");
    th_module *end = below(deep, "name");
    ck_assert_ptr_nonnull(below(end, name_of_64 + 5)); /* "name." and 58 bytes */
    assert_error(below(end, name_of_64 + 4), TH_ERROR_ARGUMENT, "longer than 255 bytes");
    /* the longest name in a tree belongs to a parameter, to a member, or to a parameter of a member */
    for (int kind = 0; kind < 3; kind++)
        for (int more = 0; more < 2; more++) {
            th_module *tree = below(NULL, NULL), *inner = kind == 1 ? tree : below(tree, "a");
            inner = kind == 0 ? tree : inner;
            th_module_add_parameter(inner, name_of_64 + 6, TH_SHAPE(1)); /* a name before it that is shorter by 1 */
            if (kind == 1)
                below(tree, name_of_64 + 5);
            else
                th_module_add_parameter(inner, name_of_64 + 5, TH_SHAPE(1));
            th_module_add_parameter(inner, "b", TH_SHAPE(1)); /* a short name after the long one */
            below(inner, "c");
            no_error();
            snprintf(name, sizeof name, "%s%d%s", kind == 2 ? "t" : "tre", kind, more ? "x" : "");
            if (more)
                assert_error(th_module_add(deep, name, tree), TH_ERROR_ARGUMENT, "longer than 255 bytes");
            else
                ck_assert_ptr_nonnull(th_module_add(deep, name, tree));
        }
}
END_TEST

/* -- memory -- */

/* A model that cannot be made leaves no parameters behind. */
START_TEST(a_model_that_fails_is_freed)
{
    const th_transformer_options transformer = {.source_vocabulary = V,
                                                .target_vocabulary = V,
                                                .length = 5,
                                                .width = E,
                                                .heads = 3,
                                                .encoder_layers = 1,
                                                .decoder_layers = 1};
    size_t live[6];
    for (int i = 0; i < 6; i++) {
        assert_error(th_transformer_new(ctx, &transformer), TH_ERROR_SHAPE, "3 heads must divide");
        ck_assert_ptr_null(ctx->parameter_blocks);
        ck_assert_ptr_null(ctx->attachments);
        live[i] = th_memory(ctx).live;
    }
    ck_assert_uint_eq(live[5], live[4]);
}
END_TEST

/* The message says how many bytes a module needs. */
START_TEST(a_module_without_memory)
{
    test_memory memory = {0};
    th_context *small = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    run_out(&memory);
    ck_assert_ptr_null(th_module_new(small, 5000, "large", NULL));
    ck_assert_int_eq(th_error_code(small), TH_ERROR_MEMORY);
    ck_assert_msg(strstr(th_error_message(small), "module_new: ") && strstr(th_error_message(small), "5"), "%s",
                  th_error_message(small));
    memory.fail_at = 0;
    th_error_clear(small);
    th_context_free(small);
}
END_TEST

/* -- layers -- */

START_TEST(sizes_of_layers)
{
    static const int64_t wrong[] = {0, -3};
    char words[64];
    for (int i = 0; i < 2; i++) {
        const int64_t w = wrong[i];
        snprintf(words, sizeof words, "must be positive; it is %d", (int)w);
        assert_error(th_dense_new(ctx, w, 2, NULL), TH_ERROR_ARGUMENT, "dense: the input width");
        assert_error(th_dense_new(ctx, 2, w, NULL), TH_ERROR_ARGUMENT, "dense: the output width");
        assert_error(th_embedding_new(ctx, w, 2), TH_ERROR_ARGUMENT, "embedding: the number of rows");
        assert_error(th_embedding_new(ctx, 2, w), TH_ERROR_ARGUMENT, "embedding: the width");
        assert_error(th_layer_norm_new(ctx, w, NULL), TH_ERROR_ARGUMENT, words);
        assert_error(th_rms_norm_new(ctx, w, NULL), TH_ERROR_ARGUMENT, "rms_norm: the width");
    }
    static const double eps[] = {-1, NAN};
    for (int i = 0; i < 2; i++) {
        assert_error(th_layer_norm_new(ctx, 2, &(th_norm_layer_options){.eps = eps[i]}), TH_ERROR_ARGUMENT,
                     "layer_norm: eps must not be negative; it is ");
        assert_error(th_rms_norm_new(ctx, 2, &(th_norm_layer_options){.eps = eps[i]}), TH_ERROR_ARGUMENT,
                     "rms_norm: eps must not be negative; it is ");
    }
    static const double rate[] = {-0.1, 1, NAN};
    for (int i = 0; i < 3; i++)
        assert_error(th_dropout_new(ctx, rate[i]), TH_ERROR_ARGUMENT, "dropout: p must be in [0, 1); it is ");
    ck_assert_ptr_null(th_dense_new(NULL, 2, 2, NULL));
    ck_assert_ptr_null(th_dropout_new(NULL, 0.5));
    ck_assert_ptr_null(th_module_new(NULL, sizeof(th_module), "m", NULL));
}
END_TEST

/* A norm checks the width of x even without a weight. */
START_TEST(a_norm_checks_its_width)
{
    const th_norm_layer_options bare = {.no_weight = true};
    th_module *const norms[] = {th_layer_norm_new(ctx, 4, NULL), th_layer_norm_new(ctx, 4, &bare),
                                th_rms_norm_new(ctx, 4, NULL), th_rms_norm_new(ctx, 4, &bare)};
    for (int i = 0; i < 4; i++) {
        const char *words = i < 2 ? "layer_norm: the last axis of x must have size 4, the layer's width"
                                  : "rms_norm: the last axis of x must have size 4, the layer's width";
        assert_error(th_module_forward(norms[i], th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4, 5))), TH_ERROR_SHAPE, words);
        assert_error(th_module_forward(norms[i], th_zeros(ctx, TH_FLOAT32, TH_SCALAR)), TH_ERROR_SHAPE, words);
        assert_shape(th_module_forward(norms[i], th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4))), TH_SHAPE(4));
    }
}
END_TEST

START_TEST(modules_that_do_not_fit)
{
    char long_type[TH_NAME_SIZE + 1];
    memset(long_type, 't', TH_NAME_SIZE);
    long_type[TH_NAME_SIZE] = 0;
    static const char *const words = "module_new: a module needs a type name of 1 to 63 bytes";
    assert_error(th_module_new(ctx, sizeof(th_module), long_type, NULL), TH_ERROR_ARGUMENT, words);
    assert_error(th_module_new(ctx, sizeof(th_module), "", NULL), TH_ERROR_ARGUMENT, words);
    assert_error(th_module_new(ctx, sizeof(th_module), NULL, NULL), TH_ERROR_ARGUMENT, words);
    assert_error(th_module_new(ctx, sizeof(th_module) - 1, "m", NULL), TH_ERROR_ARGUMENT, words);
    assert_error(th_module_new(ctx, SIZE_MAX, "m", NULL), TH_ERROR_MEMORY, "module_new: ");
    th_module *m = th_module_new(ctx, sizeof(th_module), long_type + 1, NULL);
    ck_assert_ptr_nonnull(m);
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2));
    assert_error(th_module_forward(m, x), TH_ERROR_ARGUMENT, "takes more than one tensor: call its own function");
    assert_error(th_module_tie_parameter(NULL, "p", x), TH_ERROR_ARGUMENT, "module_tie_parameter: the module is NULL");
    assert_error(th_module_add_parameter(m, "p", ((th_shape){.ndim = 9})), TH_ERROR_SHAPE,
                 "module_add_parameter: a size");
    ck_assert_ptr_nonnull(th_module_add_parameter(m, "all", TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)));
    ck_assert_ptr_nonnull(th_module_add_parameter(m, "none", TH_SCALAR));
    assert_error(th_module_add_parameter(m, "p", ((th_shape){.ndim = -1})), TH_ERROR_SHAPE, "of the parameter");
    assert_error(th_module_tie_parameter(m, "p", NULL), TH_ERROR_ARGUMENT, "module_tie_parameter: the parameter");
    assert_error(th_module_evaluate(NULL, x), TH_ERROR_ARGUMENT, "module_evaluate: the module is NULL");
    ck_assert_ptr_null(th_module_find(NULL, "a"));
    ck_assert_ptr_null(th_module_find_parameter(m, NULL));
    ck_assert(!th_module_is_training(NULL));
    ck_assert_int_eq(th_module_list_length(NULL), 0);
    assert_error(th_module_list_at(th_module_list_new(ctx), -1), TH_ERROR_INDEX, "index -1 is outside a list of 0");
}
END_TEST

/* -- models -- */

/* A function of a model that gets another module names itself. */
START_TEST(the_wrong_module)
{
    th_module *dense = th_dense_new(ctx, 4, 4, NULL);
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(B, T)), *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(B, T, 4));
    for (int null = 0; null < 2; null++) {
        th_module *m = null ? NULL : dense;
        const char *words[6] = {"language_model_logits: dense is not a language_model",
                                "language_model_loss: dense is not a language_model",
                                "transformer_encode: dense is not a transformer",
                                "transformer_decode: dense is not a transformer",
                                "transformer_loss: dense is not a transformer",
                                "transform: dense is not a transformer_block or a stack of them"};
        for (int i = 0; null && i < 6; i++)
            words[i] = "the module is NULL";
        assert_error(th_language_model_logits(m, tokens, NULL), TH_ERROR_ARGUMENT, words[0]);
        assert_error(th_language_model_loss(m, tokens, tokens, NULL), TH_ERROR_ARGUMENT, words[1]);
        assert_error(th_transformer_encode(m, tokens, NULL), TH_ERROR_ARGUMENT, words[2]);
        assert_error(th_transformer_decode(m, tokens, x, NULL), TH_ERROR_ARGUMENT, words[3]);
        assert_error(th_transformer_loss(m, tokens, NULL, tokens, tokens, NULL), TH_ERROR_ARGUMENT, words[4]);
        assert_error(th_transform(m, x, NULL), TH_ERROR_ARGUMENT, words[5]);
        ck_assert_ptr_null(th_language_model_options_of(m));
        ck_assert_ptr_null(th_transformer_options_of(m));
        no_error();
    }
}
END_TEST

START_TEST(positions_that_do_not_fit)
{
    th_module *m = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = V, .length = 5, .width = E, .heads = H, .layers = 1});
    th_tensor *tokens = th_zeros(ctx, TH_INT32, TH_SHAPE(B, T));
    const th_shape wrong[] = {TH_SCALAR, TH_SHAPE(T - 1), TH_SHAPE(B, T + 1), TH_SHAPE(B + 1, T), TH_SHAPE(1, B, T)};
    static const char *const shape[] = {"()", "(2)", "(2, 4)", "(3, 3)", "(1, 2, 3)"};
    char words[96];
    for (int i = 0; i < 5; i++) {
        snprintf(words, sizeof words, "positions must be (T) or (B, T) for tokens (2, 3); they are %s", shape[i]);
        const th_language_model_logits_options given = {.positions = th_zeros(ctx, TH_INT64, wrong[i])};
        assert_error(th_language_model_logits(m, tokens, &given), TH_ERROR_SHAPE, words);
    }
    th_tensor *ended = th_zeros(ctx, TH_INT64, TH_SHAPE(T));
    th_tensor_free(ended);
    assert_error(th_language_model_logits(m, tokens, &(th_language_model_logits_options){.positions = ended}),
                 TH_ERROR_STATE, "positions");
    assert_error(th_language_model_logits(m, tokens, &(th_language_model_logits_options){.rows = ended}),
                 TH_ERROR_STATE, "rows");
    const th_tensor *rows[] = {th_zeros(ctx, TH_FLOAT32, TH_SHAPE(B)), th_zeros(ctx, TH_INT32, TH_SHAPE(B + 1)),
                               th_zeros(ctx, TH_INT32, TH_SHAPE(B, 1))};
    static const char *const given_rows[] = {"float32 (2)", "int32 (3)", "int32 (2, 1)"};
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof words, "rows must be int32 or int64 (B), that is (2); they are %s", given_rows[i]);
        const th_language_model_logits_options given = {.rows = (th_tensor *)rows[i]};
        assert_error(th_language_model_logits(m, tokens, &given), TH_ERROR_SHAPE, words);
    }
    for (int i = 0; i < 2; i++) {
        th_tensor *p = i ? th_zeros(ctx, TH_INT64, TH_SHAPE(B, T)) : th_zeros(ctx, TH_INT64, TH_SHAPE(T));
        assert_shape(th_language_model_logits(m, tokens, &(th_language_model_logits_options){.positions = p}),
                     TH_SHAPE(B, T, V));
    }
}
END_TEST

/* After an error, weights that were asked for are NULL. */
START_TEST(weights_after_an_error)
{
    th_module *block = th_transformer_block_new(ctx, E, H, &(th_transformer_block_options){.cross_attention = true});
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, E)), *narrow = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, 3));
    th_tensor *weights = x, *memory_weights = x;
    th_transform_options given = {.memory = x, .weights = &weights, .memory_weights = &memory_weights};
    assert_error(th_transform(block, narrow, &given), TH_ERROR_SHAPE, "x is (2, 3, 3)");
    ck_assert(weights == NULL && memory_weights == NULL);
    ck_assert_ptr_nonnull(th_transform(block, x, &given));
    assert_shape(weights, TH_SHAPE(B, H, T, T));
    assert_shape(memory_weights, TH_SHAPE(B, H, T, T));
    given.memory = narrow;
    assert_error(th_transform(block, x, &given), TH_ERROR_SHAPE, "the key is (2, 3, 3)");
    ck_assert_ptr_null(memory_weights);
    th_module *attention = th_multi_head_attention_new(ctx, E, H, NULL);
    weights = x;
    const th_mask wrong = {.keep = th_ones(ctx, TH_BOOL, TH_SHAPE(T + 4, T + 5))};
    assert_error(th_attend(attention, x, x, x, &(th_attend_options){.mask = &wrong, .weights = &weights}),
                 TH_ERROR_SHAPE, "");
    ck_assert_ptr_null(weights);
    const th_shape shapes[] = {TH_SCALAR, TH_SHAPE(E), TH_SHAPE(1, 1, 1, 1, 1, 1, 1, E)};
    for (int i = 0; i < 3; i++)
        assert_error(th_transform(block, th_zeros(ctx, TH_FLOAT32, shapes[i]), &given), TH_ERROR_SHAPE, "x is ");
    /* a block without cross attention takes no memory */
    block = th_transformer_block_new(ctx, E, H, NULL);
    const th_mask nothing = {0};
    const th_transform_options each[] = {{.memory = x}, {.memory_mask = &nothing}, {.memory_weights = &memory_weights}};
    for (int i = 0; i < 3; i++)
        assert_error(th_transform(block, x, &each[i]), TH_ERROR_ARGUMENT, "made without cross_attention");
}
END_TEST

static th_tensor *doubled(th_module *m, th_tensor *x)
{
    (void)m;
    return th_scale(x, 2);
}

/* A block whose forward was replaced takes only x. Each option that it would not get is an error. */
START_TEST(options_of_a_replaced_block)
{
    th_module *block = th_transformer_block_new(ctx, E, H, NULL);
    block->forward = doubled;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, E)), *weights = NULL;
    th_cache *cache = th_cache_new(block, B, T);
    const th_mask nothing = {0};
    const th_mask masks[] = {{.causal = TH_CAUSAL_TOP_LEFT},
                             {.window = TH_WINDOW(1, -1)},
                             {.valid_lengths = th_ones(ctx, TH_INT64, TH_SHAPE(B))},
                             {.keep = th_ones(ctx, TH_BOOL, TH_SHAPE(T, T))},
                             {.additive = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(T, T))}};
    for (int i = 0; i < 5; i++)
        assert_error(th_transform(block, x, &(th_transform_options){.mask = &masks[i]}), TH_ERROR_ARGUMENT,
                     "it takes only x and would not get the mask");
    const struct {
        th_transform_options given;
        const char *words;
    } cases[] = {{{.memory = x}, "would not get the memory"},
                 {{.memory_mask = &nothing}, "would not get the memory"},
                 {{.positions = th_zeros(ctx, TH_INT64, TH_SHAPE(T))}, "would not get the positions"},
                 {{.cache = cache}, "would not get the cache"},
                 {{.weights = &weights}, "it returns only y and no attention weights"},
                 {{.memory_weights = &weights}, "it returns only y and no attention weights"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_error(th_transform(block, x, &cases[i].given), TH_ERROR_ARGUMENT, cases[i].words);
    ck_assert_ptr_nonnull(th_transform(block, x, &(th_transform_options){.mask = &nothing}));
}
END_TEST

/* A function that is checked cannot cast its module: the status says so. */
static th_status cast_status;

static th_tensor *casting(void *module, th_tensor *x)
{
    th_tensor *y = th_module_forward(module, x);
    cast_status = th_module_cast(module, TH_FLOAT32);
    return y;
}

START_TEST(a_cast_inside_a_check)
{
    th_module *m = th_dense_new(ctx, 2, 2, NULL);
    ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
    th_gradient_report report;
    const th_status status = th_check_gradient_of(casting, m, th_ones(ctx, TH_FLOAT64, TH_SHAPE(1, 2)), NULL, &report);
    ck_assert_int_eq(cast_status, TH_ERROR_STATE);
    expect_status(status, TH_ERROR_STATE, "module_cast");
    /* the bytes of a parameter overflow */
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *huge = th_module_new(shapes, sizeof(th_module), "huge", NULL);
    if (sizeof(size_t) == 8) { /* its sizes need 64 bits */
        ck_assert_ptr_nonnull(th_module_add_parameter(huge, "p", TH_SHAPE(INT64_MAX / 8)));
        ck_assert_int_eq(th_module_cast(huge, TH_FLOAT64), TH_ERROR_SHAPE);
        ck_assert_ptr_nonnull(strstr(th_error_message(shapes), "module_cast: the parameter's bytes overflow"));
    }
    th_context_free(shapes);
    ck_assert_ptr_nonnull(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1))); /* makes ctx the context used last */
    expect_status(th_module_cast(NULL, TH_FLOAT64), TH_ERROR_ARGUMENT, "module_cast: the module is NULL");
    expect_status(th_module_freeze(NULL, true), TH_ERROR_ARGUMENT, "module_freeze: the module is NULL");
    expect_status(th_module_cast(m, TH_BOOL), TH_ERROR_TYPE,
                  "module_cast: parameters are float32 or float64, not bool");
}
END_TEST

/* -- contexts -- */

/* Functions of a context that get none do nothing, and return 0, "" or an error. */
START_TEST(functions_without_a_context)
{
    th_set_training(NULL, true);
    th_no_grad_begin(NULL);
    th_no_grad_end(NULL);
    th_set_fusion(NULL, true);
    th_keep_values(NULL, true);
    th_set_seed(NULL, 1);
    th_set_step(NULL, 1);
    th_set_step(NULL, -1);
    ck_assert(!th_is_training(NULL) && !th_is_recording(NULL) && !th_has_fusion(NULL));
    ck_assert_int_eq(th_set_precision(NULL, TH_PRECISION_FLOAT32), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_set_default_dtype(NULL, TH_FLOAT64), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_set_threads(NULL, 1), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_precision_of(NULL), TH_PRECISION_FLOAT32);
    ck_assert_int_eq(th_default_dtype(NULL), TH_FLOAT32);
    ck_assert_int_eq(th_threads(NULL), 0);
    ck_assert_int_eq(th_team_size(NULL), 0);
    ck_assert_int_eq(th_step(NULL), 0);
    ck_assert_str_eq(th_build_info(NULL), "");
    ck_assert_int_eq(th_error_code(NULL), TH_ERROR_ARGUMENT);
    ck_assert_str_eq(th_error_message(NULL), "no context");
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
}
END_TEST

/* The ends of the ranges of settings. */
START_TEST(settings_outside_their_range)
{
    static const int threads[] = {-1, 0, TH_MAX_THREADS + 1};
    const int before = th_threads(ctx);
    for (int i = 0; i < 3; i++)
        expect_status(th_set_threads(ctx, threads[i]), TH_ERROR_ARGUMENT, "set_threads: threads must be 1 to ");
    ck_assert_int_eq(th_threads(ctx), before);
    ck_assert_int_eq(th_set_threads(ctx, TH_MAX_THREADS), TH_OK);
    ck_assert_int_eq(th_set_threads(ctx, 1), TH_OK);
    th_set_step(ctx, -1);
    expect_error(TH_ERROR_ARGUMENT, "set_step: the number of steps must be 0 to 2^62; it is -1");
    th_set_step(ctx, INT64_MAX / 2 + 1);
    expect_error(TH_ERROR_ARGUMENT, "it is 4611686018427387904");
    ck_assert_int_eq(th_step(ctx), 0);
    th_set_step(ctx, INT64_MAX / 2);
    ck_assert_int_eq(th_step(ctx), INT64_MAX / 2);
    th_set_step(ctx, 0);
    ck_assert_int_eq(th_step(ctx), 0);
    expect_status(th_set_precision(ctx, (th_precision)4), TH_ERROR_ARGUMENT, "set_precision: the precision must be");
    expect_status(th_set_precision(ctx, (th_precision)-1), TH_ERROR_ARGUMENT, "it is -1");
    expect_status(th_set_default_dtype(ctx, TH_BOOL), TH_ERROR_TYPE, "set_default_dtype: the default type must be");
    const th_context_options wrong[] = {{.threads = TH_MAX_THREADS + 1}, {.precision = (th_precision)7}};
    for (int i = 0; i < 2; i++) {
        th_context *wrong_one = th_context_new(&wrong[i]);
        ck_assert_int_eq(th_error_code(wrong_one), TH_ERROR_ARGUMENT);
        ck_assert(th_threads(wrong_one) > 0 && th_threads(wrong_one) <= TH_MAX_THREADS);
        th_context_free(wrong_one);
    }
    th_context *largest = th_context_new(&(th_context_options){.threads = TH_MAX_THREADS});
    ck_assert_int_eq(th_threads(largest), TH_MAX_THREADS);
    th_context_free(largest);
    th_no_grad_end(ctx); /* without a begin it does nothing */
    ck_assert(th_is_recording(ctx));
    th_no_grad_begin(ctx);
    ck_assert(!th_is_recording(ctx));
    th_no_grad_end(ctx);
    ck_assert(th_is_recording(ctx));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("layer_errors", setup, close_context);
    tcase_add_test(tests, a_full_name_has_255_bytes);
    tcase_add_test(tests, a_model_that_fails_is_freed);
    tcase_add_test(tests, a_module_without_memory);
    tcase_add_test(tests, sizes_of_layers);
    tcase_add_test(tests, a_norm_checks_its_width);
    tcase_add_test(tests, modules_that_do_not_fit);
    tcase_add_test(tests, the_wrong_module);
    tcase_add_test(tests, positions_that_do_not_fit);
    tcase_add_test(tests, weights_after_an_error);
    tcase_add_test(tests, options_of_a_replaced_block);
    tcase_add_test(tests, a_cast_inside_a_check);
    tcase_add_test(tests, functions_without_a_context);
    tcase_add_test(tests, settings_outside_their_range);
    return run_suites();
}
