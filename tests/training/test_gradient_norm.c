/* The norm of gradients and clipping to it: every element counts once, whatever the length of a gradient, and a
 * gradient is scaled exactly if its norm is above max_norm. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tapehead/tapehead.h"

#include "context.h"

enum { CHUNK = 1 << 14, PARTIALS = 256, ROUND = CHUNK * PARTIALS }; /* as in src/training/gradient_norm.c */

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

/* Adds a parameter with the gradient g, which has the parameter's type. */
static th_tensor *add_gradient(th_module *m, const char *name, int64_t count, th_dtype dtype, const void *g)
{
    th_tensor *p = th_module_add_parameter(m, name, TH_SHAPE(count));
    ck_assert_int_eq(th_module_cast(m, dtype), TH_OK);
    p = th_module_find_parameter(m, name);
    th_tensor *cotangent = th_from_data(ctx, dtype, TH_SHAPE(count), g);
    no_error();
    ck_assert_int_eq(th_backward(p, &(th_backward_options){.cotangent = cotangent}), TH_OK);
    th_tape_clear(ctx);
    th_tensor_free(cotangent);
    return p;
}

static th_module *parameters_new(void)
{
    return th_module_new(ctx, sizeof(th_module), "parameters", NULL);
}

/* -- the norm -- */

static void set(void *numbers, th_dtype dtype, int64_t i, double value)
{
    if (dtype == TH_FLOAT64)
        ((double *)numbers)[i] = value;
    else
        ((float *)numbers)[i] = (float)value;
}

/* Returns the norm of a gradient that is 0 except for 2^k at element at[k]. An element that is listed twice gets the
 * first of its values. */
static double norm_of(int64_t count, const int64_t *at, int n, th_dtype dtype, double *expected)
{
    void *g = calloc((size_t)count, th_dtype_size(dtype));
    double sum = 0, norm = 0;
    for (int k = 0; k < n; k++) {
        bool counts = at[k] >= 0 && at[k] < count;
        for (int before = 0; before < k; before++)
            counts &= at[before] != at[k];
        sum += counts ? (double)(1 << k) * (double)(1 << k) : 0;
        if (counts)
            set(g, dtype, at[k], (double)(1 << k));
    }
    th_module *m = parameters_new();
    add_gradient(m, "weight", count, dtype, g);
    free(g);
    ck_assert_int_eq(th_clip_gradients(m, 1e30, &norm), TH_OK);
    th_module_free(m);
    *expected = sqrt(sum);
    return norm;
}

static void expect_every_element_counts(int64_t count, th_dtype dtype)
{
    const int64_t at[] = {0,     CHUNK - 1, CHUNK,     2 * CHUNK - 1,     ROUND - CHUNK, ROUND - 1,
                          ROUND, ROUND + 1, ROUND + 2, ROUND + CHUNK - 1, ROUND + CHUNK, count - 1};
    double expected;
    const double norm = norm_of(count, at, sizeof at / sizeof *at, dtype, &expected);
    ck_assert_msg(norm == expected, "%d elements: %.17g, not %.17g", (int)count, norm, expected);
}

START_TEST(every_element_of_a_short_gradient_counts)
{
    static const int64_t counts[] = {2, 15, 64, CHUNK - 2, CHUNK, CHUNK + 2, 2 * CHUNK + 1, 5 * CHUNK - 7};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int type = 0; type < 2; type++)
            expect_every_element_counts(counts[i], type ? TH_FLOAT64 : TH_FLOAT32);
}
END_TEST

START_TEST(every_element_of_a_long_gradient_counts)
{
    static const int64_t counts[] = {ROUND - 3, ROUND, ROUND + 1, ROUND + CHUNK + 5};
    expect_every_element_counts(counts[_i], TH_FLOAT32);
}
END_TEST

/* Several parameters, some without a gradient; the norm of none is 0. */
START_TEST(every_parameter_counts)
{
    th_module *m = parameters_new();
    double norm = -1;
    ck_assert_int_eq(th_clip_gradients(m, 1, &norm), TH_OK);
    ck_assert_double_eq(norm, 0);
    static const float three[2] = {1, 2}, four[1] = {-2}, five[3] = {4, 0, 0};
    add_gradient(m, "a", 2, TH_FLOAT32, three);
    th_module_add_parameter(m, "idle", TH_SHAPE(4));
    add_gradient(m, "b", 1, TH_FLOAT32, four);
    th_module *child = th_module_add(m, "child", parameters_new());
    add_gradient(child, "c", 3, TH_FLOAT32, five);
    ck_assert_int_eq(th_clip_gradients(m, 100, &norm), TH_OK);
    ck_assert_double_eq(norm, 5);
    ck_assert_int_eq(th_clip_gradients(child, 100, &norm), TH_OK);
    ck_assert_double_eq(norm, 4);
}
END_TEST

/* If squares overflow, the norm is still right, whatever the signs. A norm that overflows is the largest number. */
START_TEST(squares_may_overflow)
{
    static const struct {
        double g[3], norm;
    } cases[] = {{{3e200, 4e200, 0}, 5e200},
                 {{-3e200, 0, -4e200}, 5e200},
                 {{0, -1e300, 0}, 1e300},
                 {{1e300, -1e10, 0}, 1e300},
                 {{-1e308, 1e308, -1e308}, 1.7320508075688772e308},
                 {{1.7e308, 1.7e308, 0}, DBL_MAX},
                 {{-1.7e308, -1.7e308, -1.7e308}, DBL_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_module *m = parameters_new();
        double norm = 0;
        add_gradient(m, "p", 3, TH_FLOAT64, cases[i].g);
        ck_assert_int_eq(th_clip_gradients(m, DBL_MAX, &norm), TH_OK);
        ck_assert_double_le(fabs(norm / cases[i].norm - 1), 1e-14);
        th_module_free(m);
    }
}
END_TEST

/* The element that is not finite is named with its index in every dimension. */
START_TEST(a_number_that_is_not_finite_is_named)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const words[] = {"is nan at [", "is inf at [", "is -inf at ["};
    for (int64_t i = 0; i < 2 * 3 * 4; i++) {
        double g[2 * 3 * 4] = {1, 2}, norm = 0;
        char expected[96];
        g[i] = bad[i % 3];
        th_module *m = parameters_new(), *child = th_module_add(m, "child", parameters_new());
        th_module_add_parameter(m, "other", TH_SHAPE(2));
        th_tensor *p = th_module_add_parameter(child, "p", TH_SHAPE(2, 3, 4));
        ck_assert_int_eq(th_module_cast(m, TH_FLOAT64), TH_OK);
        p = th_module_find_parameter(child, "p");
        th_tensor *cotangent = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 3, 4), g);
        ck_assert_int_eq(th_backward(p, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        th_tape_clear(ctx);
        snprintf(expected, sizeof expected, "child.p %s%d, %d, %d]", words[i % 3], (int)(i / 12), (int)(i / 4 % 3),
                 (int)(i % 4));
        ck_assert_int_eq(th_clip_gradients(m, 1, &norm), TH_ERROR_VALUE);
        expect_error(TH_ERROR_VALUE, expected);
        ck_assert(isnan(norm));
        th_tensor_free(cotangent);
        th_module_free(m);
    }
}
END_TEST

START_TEST(shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *m = th_dense_new(shapes, 3, 4, NULL);
    double norm = 0;
    th_tensor *y = th_module_forward(m, th_zeros(shapes, TH_FLOAT32, TH_SHAPE(2, 3)));
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_int_eq(th_clip_gradients(m, 1, &norm), TH_OK);
    ck_assert(isnan(norm)); /* it is not known */
    ck_assert_int_eq(th_clip_gradients(m, 0, &norm), TH_ERROR_ARGUMENT);
    th_context_free(shapes);
}
END_TEST

/* -- clipping -- */

static const double ratios[] = {0.25, 0.5, 0.999, 1, 1.001, 1.25, 1.999, 2, 2.001, 3, 1000}; /* norm / max_norm */

/* _i: the ratio, times the type. */
START_TEST(gradients_above_the_norm_are_scaled_to_it)
{
    const bool wide = _i % 2;
    const double ratio = ratios[_i / 2], max_norm = 5 / ratio, tolerance = wide ? 1e-15 : 1e-6;
    const double g[4] = {3, 0, -4, 0};
    const float narrow[4] = {3, 0, -4, 0};
    th_module *m = parameters_new();
    th_tensor *p = add_gradient(m, "p", 4, wide ? TH_FLOAT64 : TH_FLOAT32, wide ? (const void *)g : narrow);
    double before = 0, after = 0;
    ck_assert_int_eq(th_clip_gradients(m, max_norm, &before), TH_OK);
    ck_assert_double_eq(before, 5);
    for (int i = 0; i < 4; i++) {
        const double got = th_get(th_gradient(p), TH_INDEX(i)), expected = ratio > 1 ? g[i] / ratio : g[i];
        ck_assert_double_le(fabs(got - expected), ratio > 1 ? tolerance * fabs(expected) : 0);
    }
    ck_assert_int_eq(th_clip_gradients(m, 1e30, &after), TH_OK);
    ck_assert_double_eq_tol(after, ratio > 1 ? max_norm : 5, tolerance * 5);
}
END_TEST

/* The optimizer's max_norm has the effect of th_clip_gradients. */
START_TEST(an_optimizer_clips_like_the_function)
{
    const float g[4] = {3, 0, -4, 0};
    const double max_norm = 5 / ratios[_i];
    th_module *m = parameters_new();
    add_gradient(m, "p", 4, TH_FLOAT32, g);
    ck_assert_int_eq(th_fill(th_module_find_parameter(m, "p"), 0), TH_OK);
    th_optimizer *o = th_sgd_new(m, &(th_sgd_options){.learning_rate = 1, .max_norm = max_norm});
    ck_assert_int_eq(th_optimizer_step(o), TH_OK);
    ck_assert_double_eq(th_optimizer_gradient_norm(o), 5);
    for (int i = 0; i < 4; i++) {
        const double expected = -(double)g[i] / (ratios[_i] > 1 ? ratios[_i] : 1);
        ck_assert_double_eq_tol(th_get(th_module_find_parameter(m, "p"), TH_INDEX(i)), expected, 1e-6);
    }
}
END_TEST

/* Every element counts once also if the squares overflow. */
START_TEST(every_element_of_an_overflowing_gradient_counts)
{
    enum { COUNT = 3 * CHUNK + 5 };
    double *g = malloc(COUNT * sizeof *g), norm;
    for (int i = 0; i < COUNT; i++)
        g[i] = i % 2 ? -0x1p600 : 0x1p600;
    th_module *m = parameters_new();
    add_gradient(m, "weight", COUNT, TH_FLOAT64, g);
    free(g);
    ck_assert_int_eq(th_clip_gradients(m, DBL_MAX, &norm), TH_OK);
    ck_assert_double_eq_tol(norm / 0x1p600, sqrt(COUNT), 1e-9);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("gradient_norm", setup, close_context);
    tcase_add_test(tests, every_element_of_a_short_gradient_counts);
    tcase_add_loop_test(tests, every_element_of_a_long_gradient_counts, 0, 4);
    tcase_add_test(tests, every_parameter_counts);
    tcase_add_test(tests, squares_may_overflow);
    tcase_add_test(tests, a_number_that_is_not_finite_is_named);
    tcase_add_test(tests, shapes_only);
    tcase_add_loop_test(tests, gradients_above_the_norm_are_scaled_to_it, 0, 2 * sizeof ratios / sizeof *ratios);
    tcase_add_loop_test(tests, an_optimizer_clips_like_the_function, 0, sizeof ratios / sizeof *ratios);
    tcase_add_test(tests, every_element_of_an_overflowing_gradient_counts);
    return run_suites();
}
