/* Models with stored weights in the precision int8: the batch, the cache and the team change no bit, and only products
 * with stored blocks differ from float32. */
#include <math.h>
#include <string.h>

#include "models.h"
#include "tapehead/models.h"

#include "context.h"

enum { VOCABULARY = 50, WIDTH = 64, LENGTH = 16, SEQUENCES = 3, PROMPT = 7, NEW = 8 };

static th_context *context_in(th_precision precision, int threads)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 5, .threads = threads, .precision = precision});
    ck_assert_ptr_nonnull(c);
    return c;
}

static void setup(void)
{
    ctx = context_in(TH_PRECISION_INT8, 3);
}

static th_module *stored_model(th_context *c, th_dtype dtype)
{
    th_module *model = th_language_model_new(c, &(th_language_model_options){.vocabulary = VOCABULARY,
                                                                             .length = LENGTH,
                                                                             .width = WIDTH,
                                                                             .heads = 4,
                                                                             .layers = 2,
                                                                             .untied = true,
                                                                             .block = {.mlp_width = 96}});
    ck_assert_int_eq(th_module_freeze(model, true), TH_OK);
    ck_assert_int_eq(th_module_store(model, dtype), TH_OK);
    return model;
}

static th_tensor *some_tokens(th_context *c)
{
    th_tensor *numbers = th_reshape(th_arange(c, TH_FLOAT32, 0, SEQUENCES * LENGTH, 1), TH_SHAPE(SEQUENCES, LENGTH));
    return th_cast(numbers, TH_INT32);
}

static const float *logits_of(th_module *model, th_tensor *tokens)
{
    th_tensor *logits = th_contiguous(th_module_forward(model, tokens));
    ck_assert_msg(logits != NULL, "%s", th_error_message(model->ctx));
    return th_data_const(logits);
}

/* The logits of each sequence alone, and of each of its beginnings, in teams of 1 and 3. */
START_TEST(logits_depend_on_their_own_tokens_only)
{
    const th_dtype dtype = _i ? TH_Q8_0 : TH_Q4_0;
    const size_t row = VOCABULARY * sizeof(float);
    th_module *model = stored_model(ctx, dtype);
    const float *all = logits_of(model, some_tokens(ctx));
    th_context *alone = context_in(TH_PRECISION_INT8, 1);
    th_module *same_model = stored_model(alone, dtype);
    for (int64_t s = 0; s < SEQUENCES; s++)
        for (int64_t length = 1; length <= LENGTH; length++) {
            th_tensor *beginning = th_slice(th_slice(some_tokens(alone), 0, s, s + 1, 1), 1, 0, length, 1);
            const float *logits = logits_of(same_model, beginning);
            ck_assert_msg(memcmp(logits, all + s * LENGTH * VOCABULARY, (size_t)length * row) == 0,
                          "sequence %d, %d tokens", (int)s, (int)length);
            th_tape_clear(alone);
        }
    th_context_free(alone);
}
END_TEST

/* Generation with a cache chooses the tokens, with the probabilities, of whole sequences. */
START_TEST(the_cache_changes_nothing)
{
    th_module *model = stored_model(ctx, TH_Q8_0);
    th_tensor *prompts = th_slice(some_tokens(ctx), 1, 0, PROMPT, 1);
    th_generated text;
    ck_assert_int_eq(
        th_generate(model, &(th_generate_options){.prompts = prompts, .max_new_tokens = NEW, .log_probabilities = true},
                    &text),
        TH_OK);
    th_tensor *whole = th_concat((th_tensor *[]){prompts, text.tokens}, 2, 1);
    th_tensor *logits = th_cast(th_module_forward(model, whole), TH_FLOAT64);
    const double *log_softmax = th_data_const(th_log_softmax(logits, 2));
    const double *generated = th_data_const(text.log_probabilities);
    const int32_t *tokens = th_data_const(text.tokens);
    for (int s = 0; s < SEQUENCES; s++)
        for (int t = 0; t < NEW; t++) {
            const double *row = log_softmax + (s * (PROMPT + NEW) + PROMPT + t - 1) * VOCABULARY;
            for (int v = 0; v < VOCABULARY; v++)
                ck_assert_double_le(row[v], row[tokens[s * NEW + t]]);
            ck_assert_double_eq_tol(row[tokens[s * NEW + t]], generated[s * NEW + t], 1e-13);
        }
}
END_TEST

/* The result differs from float32's a little. The gradient of the input, dy W, is float32's. */
START_TEST(gradients_of_inputs_are_float32)
{
    th_tensor *weight = th_cast(th_randn(ctx, TH_FLOAT32, TH_SHAPE(40, 96)), TH_Q8_0);
    th_tensor *x = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(9, 96)), true);
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(9, 40));
    float y[2][9 * 40], dx[2][9 * 96];
    for (int int8 = 0; int8 < 2; int8++) {
        ck_assert_int_eq(th_set_precision(ctx, int8 ? TH_PRECISION_INT8 : TH_PRECISION_FLOAT32), TH_OK);
        th_tensor *result = th_dense(x, weight, NULL);
        memcpy(y[int8], th_data_const(result), sizeof y[0]);
        ck_assert_int_eq(th_backward(result, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        memcpy(dx[int8], th_data_const(th_gradient(x)), sizeof dx[0]);
        th_empty_gradient(x);
    }
    ck_assert(memcmp(y[0], y[1], sizeof y[0]) != 0);
    for (int i = 0; i < 9 * 40; i++)
        ck_assert_float_eq_tol(y[0][i], y[1][i], 0.5);
    ck_assert(memcmp(dx[0], dx[1], sizeof dx[0]) == 0);
}
END_TEST

START_TEST(a_model_without_stored_blocks_is_float32)
{
    uint32_t checksums[2];
    for (int int8 = 0; int8 < 2; int8++) {
        th_context *c = context_in(int8 ? TH_PRECISION_INT8 : TH_PRECISION_FLOAT32, 2);
        const float *logits = logits_of(stored_model(c, TH_BFLOAT16), some_tokens(c));
        checksums[int8] = 0;
        for (int i = 0; i < SEQUENCES * LENGTH * VOCABULARY; i++) {
            uint32_t bits;
            memcpy(&bits, logits + i, sizeof bits);
            checksums[int8] = checksums[int8] * 31 + bits;
        }
        th_context_free(c);
    }
    ck_assert_uint_eq(checksums[0], checksums[1]);
}
END_TEST

START_TEST(memory_is_forecast)
{
    th_memory_usage used[2];
    for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
        th_context *c = th_context_new(
            &(th_context_options){.threads = 2, .shapes_only = shapes_only, .precision = TH_PRECISION_INT8});
        th_module *model = stored_model(c, TH_Q8_0);
        th_memory_reset_peak(c);
        ck_assert_ptr_nonnull(th_module_forward(model, th_zeros(c, TH_INT32, TH_SHAPE(SEQUENCES, LENGTH))));
        used[shapes_only] = th_memory(c);
        th_context_free(c);
    }
    ck_assert_uint_eq(used[0].peak, used[1].peak);
    ck_assert_uint_eq(used[0].reserved_peak, used[1].reserved_peak);
}
END_TEST

START_TEST(build_info_names_the_precision)
{
    ck_assert(strstr(th_build_info(ctx), " precision=int8") != NULL);
    ck_assert(strstr(th_build_info(ctx), "products=") == NULL); /* no bfloat16 parts */
    ck_assert_str_eq(th_precision_name(TH_PRECISION_INT8), "int8");
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("int8 models", setup, close_context);
    tcase_add_loop_test(tests, logits_depend_on_their_own_tokens_only, 0, 2);
    tcase_add_test(tests, the_cache_changes_nothing);
    tcase_add_test(tests, gradients_of_inputs_are_float32);
    tcase_add_test(tests, a_model_without_stored_blocks_is_float32);
    tcase_add_test(tests, memory_is_forecast);
    tcase_add_test(tests, build_info_names_the_precision);
    return run_suites();
}
