/* layer_norm and rms_norm against plain loops in double: values on every layout, large numbers, rows without gradient,
 * recomputation, errors. test_gradients.c checks the gradients. */
#include <math.h>
#include <string.h>

#include "row_values.h"

static void norm_reference(const values *x, int64_t n, bool centered, double eps, const double *weight,
                           const double *bias, values *y)
{
    y->count = x->count;
    for (int64_t at = 0; at < x->count; at += n) {
        const double mean = centered ? mean_of(n, x->at + at) : 0;
        const double scale = 1 / sqrt(square_sum_of(n, x->at + at, mean) / (double)n + eps);
        for (int64_t j = 0; j < n; j++)
            y->at[at + j] = (x->at[at + j] - mean) * scale * (weight ? weight[j] : 1) + (bias ? bias[j] : 0);
    }
}

START_TEST(test_norm_values)
{
    static values x, y, w, b;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        const bool strided = which / SHAPES / 2;
        const int64_t n = shape.size[shape.ndim - 1];
        th_tensor *t = numbers(ctx, dtype, shape, -1, 3, strided);
        th_tensor *weight = numbers(ctx, dtype, TH_SHAPE(n), -1, 1, strided),
                  *bias = numbers(ctx, dtype, TH_SHAPE(n), -1, 1, strided);
        read_values(t, &x);
        read_values(weight, &w);
        read_values(bias, &b);
        const double tolerance = 4 * tolerance_of(dtype);
        norm_reference(&x, n, true, 1e-5, w.at, b.at, &y);
        assert_values(th_layer_norm(t, &(th_norm_options){.weight = weight, .bias = bias}), &y, tolerance,
                      "layer_norm");
        norm_reference(&x, n, true, 0.5, NULL, b.at, &y);
        assert_values(th_layer_norm(t, &(th_norm_options){.bias = bias, .eps = 0.5}), &y, tolerance,
                      "layer_norm without weight");
        norm_reference(&x, n, true, 1e-5, NULL, NULL, &y);
        assert_values(th_layer_norm(t, NULL), &y, tolerance, "layer_norm alone");
        norm_reference(&x, n, false, 1e-5, w.at, NULL, &y);
        assert_values(th_rms_norm(t, &(th_norm_options){.weight = weight}), &y, tolerance, "rms_norm");
        norm_reference(&x, n, false, 0.1, NULL, NULL, &y);
        assert_values(th_rms_norm(t, &(th_norm_options){.eps = 0.1}), &y, tolerance, "rms_norm alone");
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

/* Rows of float32 numbers up to 1e17, so long that a plain sum of squares would overflow. */
START_TEST(test_norms_of_large_numbers)
{
    static values large, small;
    th_context *ctx = open_context();
    th_tensor *base = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(1, 30000), -1, 1), true);
    th_tensor *x = th_set_requires_gradient(th_keep(th_scale(base, 1e17)), true);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(1, 30000), -1, 1);
    for (int i = 0; i < 2; i++) {
        th_tensor *big = i ? th_rms_norm(x, NULL) : th_layer_norm(x, NULL);
        th_tensor *unit = i ? th_rms_norm(base, &(th_norm_options){.eps = 1e-30})
                            : th_layer_norm(base, &(th_norm_options){.eps = 1e-30});
        read_values(th_slice(big, 1, 0, MAX_VALUES, 1), &large);
        read_values(th_slice(unit, 1, 0, MAX_VALUES, 1), &small);
        assert_values(th_slice(big, 1, 0, MAX_VALUES, 1), &small, 1e-5, "norm of large numbers");
        ck_assert_int_eq(th_backward(big, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        ck_assert_int_eq(th_backward(unit, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        read_values(th_slice(th_gradient(base), 1, 0, MAX_VALUES, 1), &small);
        assert_values(th_slice(th_scale(th_gradient(x), 1e17), 1, 0, MAX_VALUES, 1), &small, 1e-5, "its gradient");
        th_empty_gradient(x);
        th_empty_gradient(base);
    }
    close_context(ctx);
}
END_TEST

/* With many rows the weight's gradient is summed in groups. Some rows have an output gradient of 0, and NaN in these
 * rows must not reach any gradient. */
START_TEST(test_norm_rows_without_gradient)
{
    enum { ROWS = 700, WIDTH = 21 };
    th_context *ctx = open_context();
    th_tensor *clean = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(ROWS, WIDTH), -2, 2);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(ROWS, WIDTH), -1, 1);
    double *data = th_data(clean), *dy = th_data(cotangent);
    double dweight[WIDTH] = {0}, dbias[WIDTH] = {0};
    for (int r = 0; r < ROWS; r++) {
        if (r % 5 == 3)
            memset(dy + r * WIDTH, 0, WIDTH * sizeof *dy);
        const double mean = mean_of(WIDTH, data + r * WIDTH);
        const double scale = 1 / sqrt(square_sum_of(WIDTH, data + r * WIDTH, mean) / (double)WIDTH + 1e-5);
        for (int j = 0; j < WIDTH; j++) {
            dweight[j] += dy[r * WIDTH + j] * (data[r * WIDTH + j] - mean) * scale;
            dbias[j] += dy[r * WIDTH + j];
        }
    }
    th_tensor *x = th_set_requires_gradient(th_keep(clean), true);
    double *dirty = th_data(x);
    for (int r = 3; r < ROWS; r += 5)
        dirty[r * WIDTH + r % WIDTH] = r % 2 ? NAN : INFINITY;
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(WIDTH), -1, 1), true);
    th_tensor *bias = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(WIDTH), -1, 1), true);
    values expected = {.count = WIDTH};
    for (int twice = 1; twice <= 2; twice++) { /* the second time, gradients accumulate */
        th_tensor *y = th_layer_norm(x, &(th_norm_options){.weight = weight, .bias = bias});
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        for (int j = 0; j < WIDTH; j++)
            expected.at[j] = twice * dweight[j];
        assert_values(th_gradient(weight), &expected, 1e-12, "gradient of the weight");
        for (int j = 0; j < WIDTH; j++)
            expected.at[j] = twice * dbias[j];
        assert_values(th_gradient(bias), &expected, 1e-12, "gradient of the bias");
        const double *dx = th_data_const(th_gradient(x));
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < WIDTH; j++)
                ck_assert(r % 5 == 3 ? dx[r * WIDTH + j] == 0 : isfinite(dx[r * WIDTH + j]));
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

/* A norm's result is not saved for later operations: the recomputed result must have the same bits. */
START_TEST(test_norms_are_computed_again)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(6, 21), -1, 1), true);
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(21), -1, 1), true);
    float gradient[2][2][6 * 21];
    memset(gradient, 0, sizeof gradient);
    for (int keep = 0; keep < 2; keep++) {
        th_keep_values(ctx, keep);
        for (int i = 0; i < 2; i++) {
            const th_norm_options options = {.weight = weight};
            th_scope_begin(ctx, "norm");
            th_tensor *y = i ? th_rms_norm(x, &options) : th_layer_norm(x, &options);
            th_tensor *square = th_scope_end(ctx, th_mul(y, y));
            ck_assert_int_eq(th_backward(th_sum(square, TH_ALL_AXES, NULL), NULL), TH_OK);
            th_tape_clear(ctx);
        }
        ck_assert_int_eq(th_copy_out(th_gradient(x), gradient[keep][0], sizeof gradient[0][0]), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(weight), gradient[keep][1], 21 * sizeof(float)), TH_OK);
        th_empty_gradient(x);
        th_empty_gradient(weight);
    }
    ck_assert(memcmp(gradient[0], gradient[1], sizeof gradient[0]) == 0);
    close_context(ctx);
}
END_TEST

/* The gradients of weight and bias are sums over groups of 128 rows of 64 elements. The first group loses the ones of
 * its rows to rounding, the others do not. */
START_TEST(test_norm_gradients_are_summed_in_groups)
{
    th_context *ctx = open_context();
    const int64_t rows = 512, length = 64;
    th_tensor *x = th_randn(ctx, TH_FLOAT64, TH_SHAPE(rows, length)),
              *bias = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT64, TH_SHAPE(length)), true),
              *cotangent = th_ones(ctx, TH_FLOAT64, TH_SHAPE(rows, length));
    for (int64_t i = 0; i < length; i++)
        ((double *)th_data(cotangent))[i] = 0x1p53;
    th_tensor *y = th_layer_norm(x, &(th_norm_options){.bias = bias});
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    for (int64_t i = 0; i < length; i++)
        ck_assert_double_eq(((const double *)th_data(th_gradient(bias)))[i], 0x1p53 + 3 * 128);
    th_tape_clear(ctx);
    close_context(ctx);
}
END_TEST

/* The cost of a group of rows overflows, but the tensor is empty. */
START_TEST(test_norm_of_no_rows_that_are_very_long)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, (int64_t)1 << 59)), true);
    th_tensor *y = th_rms_norm(x, NULL);
    ck_assert_msg(y != NULL, "%s", th_error_message(ctx));
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tape_clear(ctx);
    close_context(ctx);
}
END_TEST

START_TEST(test_norm_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 4)), *short_weight = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.weight = short_weight}), TH_ERROR_SHAPE,
                 "layer_norm: weight is (3), but the last axis of x (2, 4) has 4 elements");
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.eps = -1}), TH_ERROR_ARGUMENT, "eps is -1");
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.bias = th_ones(ctx, TH_FLOAT64, TH_SHAPE(4))}),
                 TH_ERROR_TYPE, "float64");
    ASSERT_ERROR(ctx, th_rms_norm(x, &(th_norm_options){.bias = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4))}),
                 TH_ERROR_ARGUMENT, "no bias");
    ASSERT_ERROR(ctx, th_layer_norm(th_ones(ctx, TH_FLOAT32, TH_SCALAR), NULL), TH_ERROR_SHAPE,
                 "no axis to normalize along");
    close_context(ctx);
}
END_TEST

/* Strided rows are copied in blocks, which end where a group of rows ends. */
START_TEST(test_norm_gradients_of_strided_rows)
{
    th_context *ctx = open_context();
    const int64_t rows = 200, length = 100; /* groups of 81 rows */
    th_tensor *plain = th_randn(ctx, TH_FLOAT32, TH_SHAPE(rows, length)),
              *strided = th_keep(th_contiguous(th_swap_axes(plain, 0, 1))),
              *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(rows, length));
    th_tensor *weight[2];
    for (int i = 0; i < 2; i++) {
        weight[i] = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(length)), true);
        th_tensor *y = th_layer_norm(i ? th_swap_axes(strided, 0, 1) : plain, &(th_norm_options){.weight = weight[i]});
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    }
    ck_assert_mem_eq(th_data(th_gradient(weight[0])), th_data(th_gradient(weight[1])), (size_t)length * sizeof(float));
    th_tape_clear(ctx);
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("norms", NULL, NULL);
    tcase_add_test(tests, test_norm_values);
    tcase_add_test(tests, test_norms_of_large_numbers);
    tcase_add_test(tests, test_norm_rows_without_gradient);
    tcase_add_test(tests, test_norms_are_computed_again);
    tcase_add_test(tests, test_norm_gradients_are_summed_in_groups);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tests, test_norm_of_no_rows_that_are_very_long);
    tcase_add_test(tests, test_norm_errors);
    tcase_add_test(tests, test_norm_gradients_of_strided_rows);
    return run_suites();
}
