/* The gradient checker in float32 with reduced precision of products. In bfloat16x3 the layers pass with float32's
 * tolerances. In bfloat16 the checker calls no right gradient wrong and no wrong gradient right. Sizes are large enough
 * that bfloat16x3 splits its operands, in sums of 32 elements and more. In int8 the check uses float32. */
#include "tapehead/check.h"
#include "tapehead/tapehead.h"

#include "context.h"

enum { B = 2, T = 40, E = 64, H = 2, V = 48 };

static const th_gradient_options fast = {.mode = TH_GRADIENT_FAST, .float32 = true};
static const th_gradient_options faster = {.mode = TH_GRADIENT_FAST, .float32 = true, .directions = 3, .samples = 8};

static void open_with(th_precision precision)
{
    ctx = th_context_new(&(th_context_options){.seed = 5, .threads = 1, .precision = precision});
}

static void open_in_bfloat16x3(void)
{
    open_with(TH_PRECISION_BFLOAT16X3);
}

static void open_in_bfloat16(void)
{
    open_with(TH_PRECISION_BFLOAT16);
}

static void open_in_int8(void)
{
    open_with(TH_PRECISION_INT8);
}

/* -- checked functions -- */

static th_tensor *forward_of(void *module, th_tensor *x)
{
    return th_module_forward(module, x);
}

static th_tensor *attention_of(void *module, th_tensor *x)
{
    static const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    return th_attend(module, x, x, x, &(th_attend_options){.mask = &causal});
}

/* Twice the module's output, half of it detached: its gradient is half of the right one. */
static th_tensor *half_detached(void *module, th_tensor *x)
{
    return th_add(th_module_forward(module, x), th_detach(th_module_forward(module, x)));
}

typedef struct texts {
    th_module *model;
    th_tensor *source, *tokens, *targets; /* (B, T) */
} texts;

static texts texts_for(th_module *model)
{
    const th_shape shape = TH_SHAPE(B, T);
    return (texts){model, th_random_integers(ctx, TH_INT32, shape, 0, V),
                   th_random_integers(ctx, TH_INT32, shape, 0, V), th_random_integers(ctx, TH_INT32, shape, 0, V)};
}

static th_tensor *language_model_loss(void *user, th_tensor *const *inputs)
{
    const texts *t = user;
    (void)inputs;
    return th_language_model_loss(t->model, t->tokens, t->targets, NULL);
}

static th_tensor *transformer_loss(void *user, th_tensor *const *inputs)
{
    const texts *t = user;
    (void)inputs;
    return th_transformer_loss(t->model, t->source, NULL, t->tokens, t->targets, NULL);
}

static th_module *small_language_model(void)
{
    return th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = V, .length = T, .width = E, .heads = H, .layers = 1});
}

static th_module *small_transformer(void)
{
    return th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = V,
                                                             .target_vocabulary = V,
                                                             .length = T,
                                                             .width = E,
                                                             .heads = H,
                                                             .encoder_layers = 1,
                                                             .decoder_layers = 1});
}

/* With some seeds even float32 cannot decide about elements whose derivatives are a ten-thousandth of the others'. */
static void expect_right(th_gradient_function *function, th_module *model)
{
    texts t = texts_for(model);
    th_gradient_report report;
    th_gradient_options options = faster;
    options.seed = 3;
    const th_status status = th_check_gradient(ctx, function, &t, 0, NULL, &options, &report);
    ck_assert_msg(status == TH_OK, "%s", th_gradient_failure(ctx, &report));
}

/* -- bfloat16x3 -- */

START_TEST(layers_pass_in_bfloat16x3)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, E));
    ck_assert_gradient_with(forward_of, th_dense_new(ctx, E, V, NULL), x, &fast);
    ck_assert_gradient_with(forward_of, th_layer_norm_new(ctx, E, NULL), x, &fast);
    ck_assert_gradient_with(attention_of, th_multi_head_attention_new(ctx, E, H, NULL), x, &fast);
    ck_assert_gradient_with(forward_of, th_transformer_block_new(ctx, E, H, NULL), x, &fast);
}
END_TEST

START_TEST(losses_of_models_pass_in_bfloat16x3)
{
    expect_right(language_model_loss, small_language_model());
    expect_right(transformer_loss, small_transformer());
}
END_TEST

START_TEST(wrong_gradients_are_wrong_in_bfloat16x3)
{
    th_gradient_report report;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, E));
    ck_assert_int_eq(th_check_gradient_of(half_detached, th_dense_new(ctx, E, V, NULL), x, &fast, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
}
END_TEST

/* -- bfloat16 -- */

START_TEST(right_gradients_are_undecided_in_bfloat16)
{
    th_gradient_report report;
    texts t = texts_for(small_language_model());
    ck_assert_int_eq(th_check_gradient(ctx, language_model_loss, &t, 0, NULL, &faster, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_CANNOT_TELL);
    ck_assert_msg(strstr(report.text, "products round their operands to bfloat16"), "%s", report.text);
}
END_TEST

START_TEST(wrong_gradients_are_not_right_in_bfloat16)
{
    th_gradient_report report;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, E));
    ck_assert_int_eq(th_check_gradient_of(half_detached, th_dense_new(ctx, E, V, NULL), x, &fast, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(
        th_check_gradient_of(half_detached, th_transformer_block_new(ctx, E, H, NULL), x, &faster, &report),
        TH_ERROR_VALUE);
}
END_TEST

/* In float64 products are exact, with any precision of the context. */
START_TEST(float64_is_exact_in_any_precision)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 5, 8));
    ck_assert_gradient(forward_of, th_transformer_block_new(ctx, 8, 2, NULL), x);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16);
}
END_TEST

/* -- int8 -- */

START_TEST(gradients_with_stored_weights_are_checked_in_int8)
{
    th_gradient_report report;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, E));
    th_module *layer = th_dense_new(ctx, E, V, NULL);
    ck_assert_int_eq(th_module_freeze(layer, true), TH_OK);
    ck_assert_int_eq(th_module_store(layer, TH_Q8_0), TH_OK);
    ck_assert_gradient_with(forward_of, layer, x, &(th_gradient_options){.float32 = true});
    ck_assert_int_eq(th_check_gradient_of(half_detached, layer, x, &fast, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    ck_assert_msg(th_check_op(ctx, th_op_find("dense"), &(th_gradient_options){.float32 = true}, &report) == TH_OK,
                  "%s", th_gradient_failure(ctx, &report));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_INT8);
}
END_TEST

int main(void)
{
    TCase *three = new_suite("gradients in bfloat16x3", open_in_bfloat16x3, close_context);
    tcase_add_test(three, layers_pass_in_bfloat16x3);
    tcase_add_test(three, losses_of_models_pass_in_bfloat16x3);
    tcase_add_test(three, wrong_gradients_are_wrong_in_bfloat16x3);
    TCase *one = new_suite("gradients in bfloat16", open_in_bfloat16, close_context);
    tcase_add_test(one, right_gradients_are_undecided_in_bfloat16);
    tcase_add_test(one, wrong_gradients_are_not_right_in_bfloat16);
    tcase_add_test(one, float64_is_exact_in_any_precision);
    TCase *eight = new_suite("gradients in int8", open_in_int8, close_context);
    tcase_add_test(eight, gradients_with_stored_weights_are_checked_in_int8);
    return run_suites();
}
