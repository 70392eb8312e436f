/* The precision of a context: the setting, which operations it affects, backward with the precision of its forward, and
 * training. (test_precision_bits.c tests the products' bits.) */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/machine.h"
#include "suite.h"
#include "tapehead/tapehead.h"

#define RUNS(status) ck_assert_msg((status) == TH_OK, "%s", th_error_message(ctx))

static th_context *open_in(th_precision precision)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 7, .precision = precision});
    ck_assert_ptr_nonnull(ctx);
    RUNS(th_error_code(ctx));
    return ctx;
}

static th_context *open_context(bool rounded)
{
    return open_in(rounded ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32);
}

START_TEST(test_switch)
{
    unsetenv("TAPEHEAD_ISA");
    th_context *ctx = open_context(false);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    ck_assert_ptr_null(strstr(th_build_info(ctx), "precision"));
    RUNS(th_set_precision(ctx, TH_PRECISION_BFLOAT16));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16);
    ck_assert_ptr_nonnull(strstr(th_build_info(ctx), " precision=bfloat16 products="));
    RUNS(th_set_precision(ctx, TH_PRECISION_FLOAT32));
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)17), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    th_context_free(ctx);
    ctx = open_context(true);
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_BFLOAT16);
    th_context_free(ctx);
    ck_assert_int_eq(th_set_precision(NULL, TH_PRECISION_BFLOAT16), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_precision_of(NULL), TH_PRECISION_FLOAT32);
}
END_TEST

/* Sums of squares of results. bfloat16 cannot represent the operands. */
typedef double operation(th_context *ctx, th_dtype dtype);

static double square_sum(th_tensor *y)
{
    return th_item(th_cast(th_mse(y, th_scale(y, 0)), TH_FLOAT64));
}

static th_tensor *operand(th_context *ctx, th_dtype dtype, int64_t rows, int64_t columns)
{
    return th_set_requires_gradient(th_uniform(ctx, dtype, TH_SHAPE(rows, columns), -1, 1), true);
}

static double matmul(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_matmul(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 9, 5)));
}

static double dense(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_dense(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 5, 9), NULL));
}

static double dense_gradients(th_context *ctx, th_dtype dtype)
{
    th_tensor *x = operand(ctx, dtype, 7, 9), *w = operand(ctx, dtype, 5, 9);
    th_tensor *cotangent = th_uniform(ctx, dtype, TH_SHAPE(7, 5), -1, 1);
    RUNS(th_backward(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
    return square_sum(th_gradient(x)) + square_sum(th_gradient(w));
}

static double masked_matmul(th_context *ctx, th_dtype dtype)
{
    th_tensor *keep = th_full(ctx, TH_BOOL, TH_SHAPE(7, 9), 1);
    return square_sum(th_masked_matmul(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 9, 5), keep, TH_MASK_LEFT));
}

static double attention(th_context *ctx, th_dtype dtype)
{
    return square_sum(th_scaled_dot_product_attention(operand(ctx, dtype, 7, 9), operand(ctx, dtype, 6, 9),
                                                      operand(ctx, dtype, 6, 5), NULL));
}

static bool changes(operation *compute, th_dtype dtype)
{
    double result[2];
    for (int on = 0; on < 2; on++) {
        th_context *ctx = open_context(on);
        result[on] = compute(ctx, dtype);
        RUNS(th_error_code(ctx));
        ck_assert(isfinite(result[on]) && result[on] > 0);
        th_context_free(ctx);
    }
    if (result[0] != result[1])
        ck_assert_double_eq_tol(result[0], result[1], 1e-2 * result[0]);
    return result[0] != result[1];
}

START_TEST(test_what_it_changes)
{
    ck_assert(changes(matmul, TH_FLOAT32));
    ck_assert(changes(dense, TH_FLOAT32));
    ck_assert(changes(dense_gradients, TH_FLOAT32));
    ck_assert(changes(masked_matmul, TH_FLOAT32));
    ck_assert(changes(attention, TH_FLOAT32));
    ck_assert(!changes(matmul, TH_FLOAT64));
    ck_assert(!changes(dense_gradients, TH_FLOAT64));
    ck_assert(!changes(attention, TH_FLOAT64));
}
END_TEST

/* One operation of each kind that multiplies, recorded in one precision. Then the precision changes before backward. */
enum { TOKENS = 70, WIDTH_OF_X = 24, CLASSES = 50, GRADIENT = TOKENS * WIDTH_OF_X + CLASSES * WIDTH_OF_X };

static th_tensor *recorded(th_context *ctx, int kind, th_tensor *x, th_tensor *w)
{
    th_tensor *targets = th_random_integers(ctx, TH_INT64, TH_SHAPE(TOKENS), 0, CLASSES);
    switch (kind) {
    case 0:
        return th_mse(th_dense(x, w, NULL), th_zeros(ctx, TH_FLOAT32, TH_SHAPE(TOKENS, CLASSES)));
    case 1:
        return th_mse(th_matmul(x, th_swap_axes(w, 0, 1)), th_zeros(ctx, TH_FLOAT32, TH_SHAPE(TOKENS, CLASSES)));
    case 2: /* with precomputed gradients */
        return th_dense_cross_entropy(x, w, targets, NULL);
    default: /* the second finds their memory in use: its logits are recomputed */
        return th_add(th_dense_cross_entropy(x, w, targets, NULL), th_dense_cross_entropy(x, w, targets, NULL));
    }
}

static void gradients_of(int kind, bool forward, bool backward, float *gradients /* (GRADIENT) */)
{
    th_context *ctx = open_context(forward);
    th_tensor *x = operand(ctx, TH_FLOAT32, TOKENS, WIDTH_OF_X), *w = operand(ctx, TH_FLOAT32, CLASSES, WIDTH_OF_X);
    th_tensor *loss = recorded(ctx, kind, x, w);
    RUNS(th_set_precision(ctx, backward ? TH_PRECISION_BFLOAT16 : TH_PRECISION_FLOAT32));
    RUNS(th_backward(loss, NULL));
    ck_assert((th_precision_of(ctx) != TH_PRECISION_FLOAT32) == backward);
    RUNS(th_copy_out(th_gradient(x), gradients, TOKENS * WIDTH_OF_X * sizeof(float)));
    RUNS(th_copy_out(th_gradient(w), gradients + TOKENS * WIDTH_OF_X, CLASSES * WIDTH_OF_X * sizeof(float)));
    th_context_free(ctx);
}

START_TEST(test_backward_has_the_precision_of_its_forward)
{
    float expected[GRADIENT], other[GRADIENT], switched[GRADIENT];
    for (int forward = 0; forward < 2; forward++) {
        gradients_of(_i, forward, forward, expected);
        gradients_of(_i, forward, !forward, switched);
        ck_assert_mem_eq(switched, expected, sizeof expected);
        gradients_of(_i, !forward, !forward, other);
        ck_assert_mem_ne(other, expected, sizeof expected);
    }
}
END_TEST

/* A row without a gradient does not contribute to dW, whatever it holds: not even a number that rounding makes
 * infinite. In the last block of rows, which is short, and in a long one. */
static void check_rows_without_gradient(th_precision precision, int64_t rows, int64_t excluded)
{
    enum { IN = 8, OUT = 5 };
    static const float numbers[] = {1, NAN, INFINITY, FLT_MAX, -3.397e38f};
    th_context *ctx = open_in(precision);
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(rows, IN), -1, 1), *w = operand(ctx, TH_FLOAT32, OUT, IN);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(rows, OUT), -1, 1);
    memset((float *)th_data(cotangent) + excluded * OUT, 0, OUT * sizeof(float));
    float gradient[OUT * IN], first[OUT * IN];
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) {
        ((float *)th_data(x))[excluded * IN + 3] = numbers[i];
        RUNS(th_backward(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
        RUNS(th_copy_out(th_gradient(w), gradient, sizeof gradient));
        th_tape_clear(ctx);
        th_empty_gradient(w);
        if (i == 0)
            memcpy(first, gradient, sizeof first);
        ck_assert_mem_eq(gradient, first, sizeof first);
    }
    th_context_free(ctx);
}

START_TEST(test_rows_without_gradient)
{
    check_rows_without_gradient((th_precision)_i, 30, 7);
    check_rows_without_gradient((th_precision)_i, 530, 7);
    check_rows_without_gradient((th_precision)_i, 530, 527);
}
END_TEST

/* The classifier's last chunk of rows may be too short for bfloat16x3; the sum for dW is not. */
START_TEST(test_chunks_of_the_classifier)
{
    enum { ROWS_OF_X = 1034, IN = 3, MANY = 1400 };
    static float gradients[2][MANY * IN];
    th_context *ctx = open_in((th_precision)_i);
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ROWS_OF_X, IN), -1, 1), *w = operand(ctx, TH_FLOAT32, MANY, IN);
    th_tensor *targets = th_random_integers(ctx, TH_INT64, TH_SHAPE(ROWS_OF_X), 0, MANY);
    for (int composed = 0; composed < 2; composed++) {
        RUNS(th_backward(composed ? th_cross_entropy(th_dense(x, w, NULL), targets, NULL)
                                  : th_dense_cross_entropy(x, w, targets, NULL),
                         NULL));
        RUNS(th_copy_out(th_gradient(w), gradients[composed], sizeof gradients[composed]));
        th_tape_clear(ctx);
        th_empty_gradient(w);
    }
    ck_assert_mem_eq(gradients[0], gradients[1], sizeof gradients[0]);
    th_context_free(ctx);
}
END_TEST

enum { STEPS = 30 };

/* Losses of two layers that overfit. Some of their sums are too short for bfloat16x3, some are not. */
static void train(th_precision precision, double *losses /* (STEPS) */)
{
    th_context *ctx = open_in(precision);
    th_module *first = th_dense_new(ctx, 12, 64, NULL), *second = th_dense_new(ctx, 64, 3, NULL);
    th_optimizer *optimizers[] = {th_adam_new(first, &(th_adam_options){.learning_rate = 0.01}),
                                  th_adam_new(second, &(th_adam_options){.learning_rate = 0.01})};
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(80, 12)),
              *y = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(80, 3), -1, 1);
    for (int step = 0; step < STEPS; step++) {
        th_tensor *loss = th_mse(th_module_forward(second, th_tanh(th_module_forward(first, x))), y);
        losses[step] = th_item(loss);
        RUNS(th_backward(loss, NULL));
        for (int i = 0; i < 2; i++)
            RUNS(th_optimizer_step(optimizers[i]));
        th_tape_clear(ctx);
    }
    for (int i = 0; i < 2; i++)
        th_optimizer_free(optimizers[i]);
    th_context_free(ctx);
}

/* It learns as in float32, with the same bits on every path with fused multiply-add. (The last paths of the list are
 * for products alone.) */
START_TEST(test_times)
{
    th_context *ctx = th_context_new(NULL), *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    const size_t before = th_memory(ctx).live;
    ck_assert_double_eq(th_precision_time(ctx, TH_PRECISION_FLOAT32), 1);
    for (int p = TH_PRECISION_BFLOAT16X3; p <= TH_PRECISION_INT8; p++) {
        const double time = th_precision_time(ctx, (th_precision)p);
        ck_assert(time > 0.001 && time < 1000);
        ck_assert_double_eq(th_precision_time(ctx, (th_precision)p), time);
        ck_assert_double_eq(th_precision_time(shapes, (th_precision)p), 1);
    }
    ck_assert_int_eq(th_precision_of(ctx), TH_PRECISION_FLOAT32);
    ck_assert_uint_eq(th_memory(ctx).live, before);
    ck_assert_int_eq(th_error_code(ctx), TH_OK);
    ck_assert_double_eq(th_precision_time(ctx, (th_precision)9), 0);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
    ck_assert_double_eq(th_precision_time(NULL, TH_PRECISION_BFLOAT16), 0);
    th_context_free(shapes);
    th_context_free(ctx);
}
END_TEST

START_TEST(test_training)
{
    const th_precision precision = (th_precision)_i;
    double expected[STEPS], losses[STEPS], first[STEPS];
    bool any = false;
    train(TH_PRECISION_FLOAT32, expected);
    ck_assert_double_lt(expected[STEPS - 1], 0.7 * expected[0]);
    for (int i = 0; i < th_isa_choice_count; i++) {
        th_machine machine;
        setenv("TAPEHEAD_ISA", th_isa_choices[i].name, 1);
        if (th_machine_detect(&machine) != NULL) {
            printf("skipped: no %s\n", th_isa_choices[i].name);
            continue;
        }
        train(precision, losses);
        ck_assert_mem_ne(losses, expected, sizeof losses);
        for (int step = 0; step < STEPS; step++)
            ck_assert_double_eq_tol(losses[step], expected[step], 1e-2 * expected[step]);
        if (!machine.isa->fused)
            continue;
        if (!any)
            memcpy(first, losses, sizeof first);
        any = true;
        ck_assert_mem_eq(losses, first, sizeof losses);
    }
    unsetenv("TAPEHEAD_ISA");
}
END_TEST

int main(void)
{
    TCase *context = new_suite("precision: context", NULL, NULL);
    tcase_add_test(context, test_switch);
    tcase_add_test(context, test_what_it_changes);
    tcase_add_test(context, test_times);
    tcase_add_loop_test(context, test_backward_has_the_precision_of_its_forward, 0, 4);
    tcase_add_loop_test(context, test_rows_without_gradient, 0, TH_PRECISION_BFLOAT16 + 1);
    tcase_add_loop_test(context, test_chunks_of_the_classifier, 0, TH_PRECISION_BFLOAT16 + 1);
    tcase_add_loop_test(context, test_training, TH_PRECISION_BFLOAT16X3, TH_PRECISION_BFLOAT16 + 1);
    return run_suites();
}
