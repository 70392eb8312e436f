/* Softmax and reductions against plain loops in double: values on every axis and layout, huge logits, NaN and infinity,
 * ties, empty axes, errors. test_gradients.c checks the gradients. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "row_values.h"

START_TEST(test_softmax_values)
{
    static values x, y, log_y;
    static row_layout rows;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        for (int axis = 0; axis < shape.ndim; axis++) {
            th_tensor *t = numbers(ctx, dtype, shape, -4, 4, which / SHAPES / 2);
            read_values(t, &x);
            find_rows(shape, 1u << axis, &rows);
            y.count = log_y.count = x.count;
            for (int64_t e = 0; e < x.count; e++) {
                double row[MAX_VALUES];
                log_y.at[e] = x.at[e] - log_sum_exp_of(take_row(&rows, &x, rows.row[e], row), row);
                y.at[e] = exp(log_y.at[e]);
            }
            assert_values(th_softmax(t, axis), &y, tolerance_of(dtype), "softmax");
            assert_values(th_softmax(t, axis - shape.ndim), &y, tolerance_of(dtype), "softmax, negative axis");
            assert_values(th_log_softmax(t, axis), &log_y, tolerance_of(dtype), "log_softmax");
        }
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_reduction_values)
{
    static values x, sum, mean, variance, corrected, largest, log_sum;
    static row_layout rows;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        const double tolerance = tolerance_of(dtype);
        th_tensor *t = numbers(ctx, dtype, shape, -1, 3, which / SHAPES / 2);
        read_values(t, &x);
        for (uint32_t along = 1; along < 1u << shape.ndim; along++) {
            th_shape axes = {0};
            for (int i = shape.ndim - 1; i >= 0; i--) /* in descending order, some negative */
                if (along >> i & 1)
                    axes.size[axes.ndim++] = i % 2 ? i - shape.ndim : i;
            find_rows(shape, along, &rows);
            sum.count = mean.count = variance.count = corrected.count = largest.count = log_sum.count = rows.rows;
            for (int64_t r = 0; r < rows.rows; r++) {
                double row[MAX_VALUES];
                const int64_t n = take_row(&rows, &x, r, row);
                mean.at[r] = mean_of(n, row);
                sum.at[r] = mean.at[r] * (double)n;
                const double squares = square_sum_of(n, row, mean.at[r]);
                variance.at[r] = squares / (double)n;
                corrected.at[r] = n > 1 ? squares / (double)(n - 1) : NAN;
                largest.at[r] = largest_of(n, row);
                log_sum.at[r] = log_sum_exp_of(n, row);
            }
            const th_reduce_options keep_axes = {.keep_axes = true}, correction = {.correction = 1};
            assert_values(th_sum(t, axes, NULL), &sum, tolerance * 8, "sum");
            assert_values(th_mean(t, axes, NULL), &mean, tolerance, "mean");
            assert_values(th_variance(t, axes, NULL), &variance, tolerance, "variance");
            assert_values(th_variance(t, axes, &correction), &corrected, tolerance, "corrected variance");
            assert_values(th_max(t, axes, NULL), &largest, 0, "max");
            assert_values(th_log_sum_exp(t, axes, &keep_axes), &log_sum, tolerance, "log_sum_exp, keep_axes");
            th_tensor *with_axes = th_mean(t, axes, &keep_axes);
            ck_assert_int_eq(th_ndim(with_axes), shape.ndim);
            for (int i = 0; i < shape.ndim; i++)
                ck_assert_int_eq(th_size(with_axes, i), along >> i & 1 ? 1 : shape.size[i]);
            ck_assert_int_eq(th_ndim(th_mean(t, axes, NULL)), shape.ndim - axes.ndim);
        }
        find_rows(shape, (1u << shape.ndim) - 1, &rows);
        sum.count = 1;
        sum.at[0] = mean_of(x.count, x.at) * (double)x.count;
        assert_values(th_sum(t, TH_ALL_AXES, NULL), &sum, tolerance * 8, "sum of everything");
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_huge_logits)
{
    th_context *ctx = open_context();
    const float logits[] = {FLT_MAX, -FLT_MAX, FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, 88, -FLT_MAX, 1e30f};
    th_tensor *x = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3, 3), logits), true);
    const values softmax = {9, {0.5, 0, 0.5, 1 / 3., 1 / 3., 1 / 3., 0, 0, 1}};
    assert_values(th_softmax(x, -1), &softmax, 1e-7, "softmax");
    const values log_sum = {3, {FLT_MAX, -FLT_MAX, 1e30f}};
    assert_values(th_log_sum_exp(x, TH_AXES(1), NULL), &log_sum, 1e-7, "log_sum_exp");
    const values log_softmax = {9, {-log(2), -INFINITY, -log(2), -log(3), -log(3), -log(3), -1e30, -FLT_MAX, 0}};
    assert_values(th_log_softmax(x, -1), &log_softmax, 1e-6, "log_softmax");

    /* The first row's loss is 2 FLT_MAX, which no float can hold. The normalizer makes the result finite. */
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(3), (int32_t[]){1, 0, 2});
    th_tensor *loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = 4});
    ck_assert_double_eq_tol(th_item(loss), FLT_MAX / 2.0, 1e-6 * FLT_MAX);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const values gradient = {9, {0.125, -0.25, 0.125, 1 / 12. - 0.25, 1 / 12., 1 / 12., 0, 0, 0}};
    assert_values(th_gradient(x), &gradient, 1e-7, "gradient");
    loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = 9, .label_smoothing = 0.5});
    ck_assert(isfinite(th_item(loss)));
    close_context(ctx);
}
END_TEST

START_TEST(test_not_finite)
{
    th_context *ctx = open_context();
    const double inf = INFINITY, nan = NAN;
    const double rows[] = {1, inf, 2, 1, nan, 2, -inf, -inf, -inf, 0, -inf, 0};
    th_tensor *x = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 3), rows);
    for (int i = 0; i < 2; i++) {
        const values softmax = {12, {nan, nan, nan, nan, nan, nan, nan, nan, nan, 0.5, 0, 0.5}};
        assert_values(th_softmax(x, 1), &softmax, 1e-6, "softmax");
        assert_values(th_log_sum_exp(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, log(2)}}, 1e-6, "log_sum_exp");
        assert_values(th_max(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, 0}}, 0, "max");
        assert_values(th_argmax(x, 1), &(values){4, {1, 1, 0, 0}}, 0, "argmax");
        assert_values(th_sum(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, -inf}}, 0, "sum");
        x = th_cast(x, TH_FLOAT32);
    }
    /* The softmax of a row of -inf is NaN, but its log-sum-exp is -inf with gradient 0. */
    th_tensor *leaf = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 3), rows), true);
    th_tensor *part = th_slice(th_log_sum_exp(leaf, TH_AXES(1), NULL), 0, 2, 4, 1);
    ck_assert_int_eq(th_backward(part, &(th_backward_options){.cotangent = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2))}),
                     TH_OK);
    values gradient;
    read_values(th_gradient(leaf), &gradient);
    for (int j = 0; j < 3; j++) {
        ck_assert_double_eq(gradient.at[6 + j], 0);
        ck_assert_double_eq_tol(gradient.at[9 + j], j == 1 ? 0 : 0.5, 1e-15);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_ties_and_first_of_equals)
{
    th_context *ctx = open_context();
    const float data[] = {3, 1, 3, 3, NAN, 5, NAN, 0};
    th_tensor *x = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 4), data), true);
    th_tensor *y = th_max(x, TH_AXES(-1), NULL);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 6)}),
                     TH_OK);
    assert_values(th_gradient(x), &(values){8, {2, 0, 2, 2, 3, 0, 3, 0}}, 0, "gradient of max");
    assert_values(th_argmax(x, 1), &(values){2, {0, 0}}, 0, "argmax");
    assert_values(th_argmax(x, 0), &(values){4, {1, 1, 1, 0}}, 0, "argmax");
    ck_assert_int_eq(th_dtype_of(th_argmax(x, 0)), TH_INT64);
    close_context(ctx);
}
END_TEST

START_TEST(test_empty_tensors)
{
    th_context *ctx = open_context();
    th_tensor *rows = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 0)), *none = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, 3));
    ck_assert_int_eq(th_numel(th_softmax(rows, 1)), 0);
    ck_assert_int_eq(th_numel(th_softmax(rows, 0)), 0);
    ck_assert_int_eq(th_numel(th_log_softmax(none, 1)), 0);
    assert_values(th_sum(rows, TH_AXES(1), NULL), &(values){2, {0, 0}}, 0, "sum of nothing");
    assert_values(th_mean(rows, TH_AXES(1), NULL), &(values){2, {NAN, NAN}}, 0, "mean of nothing");
    assert_values(th_variance(rows, TH_AXES(1), NULL), &(values){2, {NAN, NAN}}, 0, "variance of nothing");
    assert_values(th_log_sum_exp(rows, TH_AXES(1), NULL), &(values){2, {-INFINITY, -INFINITY}}, 0,
                  "log_sum_exp of nothing");
    assert_values(th_sum(none, TH_ALL_AXES, NULL), &(values){1, {0}}, 0, "sum of nothing");
    ck_assert_int_eq(th_numel(th_max(none, TH_AXES(1), NULL)), 0);
    ck_assert_int_eq(th_numel(th_argmax(none, -1)), 0);
    ck_assert_int_eq(th_numel(th_layer_norm(none, NULL)), 0);
    ck_assert_int_eq(th_numel(th_rms_norm(rows, NULL)), 0);
    ck_assert_int_eq(th_numel(th_masked_softmax(rows, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT})), 0);
    assert_values(th_mse(none, none), &(values){1, {NAN}}, 0, "mse of nothing");
    th_tensor *targets = th_zeros(ctx, TH_INT64, TH_SHAPE(0));
    assert_values(th_cross_entropy(none, targets, NULL), &(values){1, {0}}, 0, "cross entropy of nothing");
    ASSERT_ERROR(ctx, th_max(rows, TH_AXES(1), NULL), TH_ERROR_SHAPE,
                 "max: an empty axis has no largest element: x is (2, 0)");
    ASSERT_ERROR(ctx, th_argmax(rows, 1), TH_ERROR_SHAPE, "argmax: an empty axis has no largest element");
    ASSERT_ERROR(ctx, th_cross_entropy(rows, th_zeros(ctx, TH_INT32, TH_SHAPE(2)), NULL), TH_ERROR_SHAPE,
                 "have no classes");
    /* gradients of empty tensors */
    th_tensor *leaf = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 4)), true);
    th_tensor *weight = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(4)), true);
    ck_assert_int_eq(
        th_backward(th_sum(th_layer_norm(th_softmax(leaf, 1), &(th_norm_options){.weight = weight}), TH_ALL_AXES, NULL),
                    NULL),
        TH_OK);
    assert_values(th_gradient(weight), &(values){4, {0, 0, 0, 0}}, 0, "gradient of a weight that met no row");
    close_context(ctx);
}
END_TEST

START_TEST(test_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 4));
    ASSERT_ERROR(ctx, th_softmax(x, 2), TH_ERROR_SHAPE, "axis 2");
    ASSERT_ERROR(ctx, th_sum(x, TH_AXES(0, -2), NULL), TH_ERROR_SHAPE, "axis 0 is given twice");
    ASSERT_ERROR(ctx, th_sum(x, TH_AXES(-3), NULL), TH_ERROR_SHAPE, "axis -3");
    ASSERT_ERROR(ctx, th_sum(th_zeros(ctx, TH_BOOL, TH_SHAPE(2)), TH_ALL_AXES, NULL), TH_ERROR_TYPE, "bool");
    ASSERT_ERROR(ctx, th_variance(x, TH_ALL_AXES, &(th_reduce_options){.correction = NAN}), TH_ERROR_ARGUMENT,
                 "correction");
    close_context(ctx);
}
END_TEST

/* Very large sizes beside a size of 0. */
START_TEST(test_empty_tensors_of_huge_sizes)
{
    th_context *ctx = open_context();
    const int64_t huge = (int64_t)1 << 29;
    th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, huge, huge)), true);
    for (int axis = 0; axis < 3; axis++) {
        th_tensor *y = th_softmax(x, axis);
        ck_assert_msg(y != NULL, "%s", th_error_message(ctx));
        ck_assert_int_eq(th_numel(y), 0);
        ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    }
    ck_assert_int_eq(th_numel(th_sum(x, TH_AXES(1, 2), NULL)), 0);
    ck_assert_int_eq(th_numel(th_max(x, TH_AXES(1, 2), NULL)), 0);
    ASSERT_ERROR(ctx, th_max(x, TH_AXES(0), NULL), TH_ERROR_SHAPE, "max: an empty axis has no largest element");
    th_tape_clear(ctx);
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("reductions", NULL, NULL);
    tcase_add_test(tests, test_softmax_values);
    tcase_add_test(tests, test_reduction_values);
    tcase_add_test(tests, test_huge_logits);
    tcase_add_test(tests, test_not_finite);
    tcase_add_test(tests, test_ties_and_first_of_equals);
    tcase_add_test(tests, test_empty_tensors);
    tcase_add_test(tests, test_errors);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tests, test_empty_tensors_of_huge_sizes);
    return run_suites();
}
