/* cross_entropy and mse against plain loops in double: values, ignored targets, the normalizer of micro-batches,
 * errors. test_gradients.c checks the gradients. */
#include <math.h>
#include <string.h>

#include "row_values.h"

START_TEST(test_cross_entropy_values)
{
    th_context *ctx = open_context();
    for (int which = 0; which < 8; which++) {
        const th_dtype dtype = types[which % 2];
        const double smoothing = which / 4 ? 0.2 : 0;
        values x;
        th_tensor *logits = numbers(ctx, dtype, TH_SHAPE(2, 3, 21), -4, 4, which / 2 % 2);
        read_values(logits, &x);
        const int64_t target[6] = {20, -100, 0, 7, 7, -100};
        th_tensor *targets =
            th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(2, 3), target), which % 2 ? TH_INT32 : TH_INT64);
        double sum = 0;
        for (int r = 0; r < 6; r++) {
            const double *row = x.at + r * 21;
            if (target[r] >= 0)
                sum += log_sum_exp_of(21, row) - (1 - smoothing) * row[target[r]] - smoothing * mean_of(21, row);
        }
        const th_cross_entropy_options mean = {TH_IGNORE(-100), .label_smoothing = smoothing};
        const th_cross_entropy_options shared = {TH_IGNORE(-100), .label_smoothing = smoothing, .normalizer = 9};
        assert_values(th_cross_entropy(logits, targets, &mean), &(values){1, {sum / 4}}, tolerance_of(dtype),
                      "cross_entropy");
        assert_values(th_cross_entropy(logits, targets, &shared), &(values){1, {sum / 9}}, tolerance_of(dtype),
                      "cross_entropy with a normalizer");
        ck_assert_int_eq(th_target_count(targets, &mean), 4);
        ck_assert_int_eq(th_target_count(targets, NULL), 6);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_ignored_rows_have_no_effect)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(4, 18), -1, 1), true);
    float *data = th_data(x);
    for (int j = 0; j < 18; j++)
        data[18 + j] = NAN;
    data[3 * 18 + 2] = INFINITY;
    th_tensor *targets = th_from_data(ctx, TH_INT64, TH_SHAPE(4), (int64_t[]){3, 5, 17, 5});
    th_tensor *loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(5)});
    ck_assert(isfinite(th_item(loss)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const float *gradient = th_data_const(th_gradient(x));
    for (int i = 0; i < 4 * 18; i++)
        ck_assert(i / 18 % 2 ? gradient[i] == 0 : isfinite(gradient[i]) && gradient[i] != 0);

    /* no target counts: the loss is 0 and the gradient is 0 */
    th_tape_clear(ctx);
    th_empty_gradient(x);
    th_tensor *fives = th_full(ctx, TH_INT32, TH_SHAPE(4), 5);
    loss = th_cross_entropy(x, fives, &(th_cross_entropy_options){TH_IGNORE(5)});
    ck_assert_double_eq(th_item(loss), 0);
    ck_assert_int_eq(th_target_count(fives, &(th_cross_entropy_options){TH_IGNORE(5)}), 0);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    gradient = th_data_const(th_gradient(x));
    for (int i = 0; i < 4 * 18; i++)
        ck_assert(gradient[i] == 0);
    close_context(ctx);
}
END_TEST

/* Two micro-batches with the total count as normalizer accumulate the gradient of the whole batch. */
START_TEST(test_normalizer_accumulates)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(6, 5), -1, 1), true);
    th_tensor *targets = th_from_data(ctx, TH_INT64, TH_SHAPE(6), (int64_t[]){0, 4, -1, 2, -1, 3});
    values whole;
    ck_assert_int_eq(th_backward(th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(-1)}), NULL),
                     TH_OK);
    read_values(th_gradient(x), &whole);
    th_empty_gradient(x);
    const double count = (double)th_target_count(targets, &(th_cross_entropy_options){TH_IGNORE(-1)});
    ck_assert_double_eq(count, 4);
    for (int part = 0; part < 2; part++) {
        th_tensor *rows = th_slice(x, 0, 3 * part, 3 * part + 3, 1),
                  *some = th_slice(targets, 0, 3 * part, 3 * part + 3, 1);
        ck_assert_int_eq(
            th_backward(th_cross_entropy(rows, some, &(th_cross_entropy_options){TH_IGNORE(-1), .normalizer = count}),
                        NULL),
            TH_OK);
    }
    assert_values(th_gradient(x), &whole, 1e-15, "accumulated gradient");
    close_context(ctx);
}
END_TEST

START_TEST(test_loss_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2, 26));
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(2, 2), (int32_t[]){0, 25, -100, 26});
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(-100)}), TH_ERROR_INDEX,
                 "cross_entropy: target[1, 1] = 26 is outside [0, 26)");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, NULL), TH_ERROR_INDEX, "target[1, 0] = -100 is outside [0, 26)");
    th_tensor *flat = th_reshape(x, TH_SHAPE(4, 26));
    ASSERT_ERROR(ctx,
                 th_cross_entropy(flat, th_reshape(targets, TH_SHAPE(4)), &(th_cross_entropy_options){TH_IGNORE(-100)}),
                 TH_ERROR_INDEX, "target[3] = 26 is outside [0, 26)");
    ASSERT_ERROR(ctx, th_cross_entropy(flat, targets, NULL), TH_ERROR_SHAPE, "logits are (4, 26), targets (2, 2)");
    ASSERT_ERROR(ctx, th_cross_entropy(x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2)), NULL), TH_ERROR_TYPE, "float32");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){.label_smoothing = 1.5}),
                 TH_ERROR_ARGUMENT, "label_smoothing is 1.5");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = -1}), TH_ERROR_ARGUMENT,
                 "normalizer is -1");
    ck_assert_int_eq(th_target_count(x, NULL), 0);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_TYPE);
    th_error_clear(ctx);
    ASSERT_ERROR(ctx, th_mse(x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))), TH_ERROR_SHAPE, "mse");
    close_context(ctx);
}
END_TEST

START_TEST(test_mse_values)
{
    th_context *ctx = open_context();
    for (int which = 0; which < 4; which++) {
        values a, b;
        th_tensor *x = numbers(ctx, types[which % 2], TH_SHAPE(5, 7), -1, 1, which / 2),
                  *y = numbers(ctx, types[which % 2], TH_SHAPE(7), -1, 1, which / 2);
        read_values(x, &a);
        read_values(y, &b);
        double sum = 0;
        for (int i = 0; i < 35; i++)
            sum += (a.at[i] - b.at[i % 7]) * (a.at[i] - b.at[i % 7]);
        assert_values(th_mse(x, y), &(values){1, {sum / 35}}, tolerance_of(types[which % 2]), "mse");
        assert_values(th_mse(y, x), &(values){1, {sum / 35}}, tolerance_of(types[which % 2]), "mse");
    }
    close_context(ctx);
}
END_TEST

/* A target that the program changes through its own pointer after forward is checked again in backward. */
START_TEST(test_targets_changed_before_backward)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), true);
    th_tensor *weight = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3, 3)), *targets = th_zeros(ctx, TH_INT64, TH_SHAPE(2));
    int64_t *target = th_data(targets);
    for (int fused = 0; fused < 2; fused++) {
        th_keep_values(ctx, true); /* so that forward does not compute the gradients */
        target[1] = 2;
        th_tensor *loss = fused ? th_dense_cross_entropy(x, weight, targets, NULL) : th_cross_entropy(x, targets, NULL);
        ck_assert_ptr_nonnull(loss);
        target[1] = 3;
        ck_assert_int_eq(th_backward(loss, NULL), TH_ERROR_INDEX);
        ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "target[1] = 3 is outside [0, 3)");
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_counts_without_targets)
{
    const th_cross_entropy_options ignoring = {TH_IGNORE(0)};
    th_context *ctx = open_context(), *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    ck_assert_int_eq(th_target_count(th_zeros(ctx, TH_INT64, TH_SHAPE(3, 0)), &ignoring), 0);
    ck_assert_int_eq(th_target_count(th_zeros(ctx, TH_INT64, TH_SHAPE(3, 2)), &ignoring), 0);
    ck_assert_int_eq(th_target_count(th_zeros(ctx, TH_INT64, TH_SHAPE(3, 2)), NULL), 6);
    ck_assert_int_eq(th_target_count(th_zeros(forecast, TH_INT64, TH_SHAPE(3, 2)), &ignoring), 6);
    const int64_t classes = (int64_t)1 << 59; /* the weight is empty, but the logits overflow */
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1000, 0)),
              *weight = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(classes, 0));
    ASSERT_ERROR(ctx, th_dense_cross_entropy(x, weight, th_zeros(ctx, TH_INT64, TH_SHAPE(1000)), NULL), TH_ERROR_MEMORY,
                 "dense_cross_entropy");
    th_context_free(forecast);
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("losses", NULL, NULL);
    tcase_add_test(tests, test_cross_entropy_values);
    tcase_add_test(tests, test_ignored_rows_have_no_effect);
    tcase_add_test(tests, test_normalizer_accumulates);
    tcase_add_test(tests, test_loss_errors);
    tcase_add_test(tests, test_mse_values);
    tcase_add_test(tests, test_targets_changed_before_backward);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tests, test_counts_without_targets);
    return run_suites();
}
