/* Verdicts of the gradient checker on difficult derivatives: they change quickly, are 0, are hidden by rounding, or do
 * not exist. Also its options. */
#include <math.h>

#include "gradient_checks.h"

/* -- scales -- */

/* offset + scale sin(x), with a gradient that is `factor` times the right one. */
typedef struct scaled {
    double offset, scale, factor;
} scaled;

static th_tensor *scaled_sine(void *user, th_tensor *x)
{
    const scaled *s = user;
    th_tensor *y = th_sin(x);
    y = th_add(th_scale(y, s->factor), th_scale(th_detach(y), 1 - s->factor));
    return th_add_scalar(th_scale(y, s->scale), s->offset);
}

START_TEST(tolerances_follow_the_gradient_and_the_rounding)
{
    static const scaled right[] = {{0, 1, 1},    {0, 1e-9, 1}, {0, 1e-30, 1}, {0, 1e-300, 1},
                                   {0, 1e30, 1}, {1e8, 1, 1},  {1e9, 1, 1},   {1, 1e-9, 1}};
    static const double factors[] = {0, -1, 2, 1.01};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        scaled s = right[i];
        expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_RIGHT, NULL);
        for (size_t k = 0; k < 4; k++) {
            s.factor = factors[k];
            expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_WRONG, "is wrong");
        }
    }
}
END_TEST

/* weight has little effect. If user is not NULL, its gradient is lost, too. */
static th_tensor *weak_coupling(void *user, th_tensor *x)
{
    return th_add(x, th_scale(user ? th_add(th_detach(weight), th_scale(weight, 0)) : weight, 1e-9));
}

static th_tensor *constant_sum(void *user, th_tensor *x)
{
    (void)user;
    return th_sum(th_softmax(x, -1), TH_AXES(-1), NULL);
}

START_TEST(small_derivatives_of_one_leaf_are_seen)
{
    expect(weak_coupling, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL);
    expect(weak_coupling, ctx, vector(1, 2, 3), TH_GRADIENT_WRONG, "parameter 0");
    expect(constant_sum, NULL, vector(1, 2, 3), TH_GRADIENT_RIGHT, NULL); /* 0, apart from rounding on both sides */
}
END_TEST

/* -- functions that bend -- */

static th_tensor *logarithm(void *user, th_tensor *x)
{
    (void)user;
    return th_log(x);
}

static th_tensor *reciprocal_root(void *user, th_tensor *x)
{
    (void)user;
    return th_rsqrt(x);
}

static th_tensor *fast_sine(void *user, th_tensor *x)
{
    return th_sin(th_scale(x, *(const double *)user));
}

static th_tensor *narrow_bell(void *user, th_tensor *x)
{
    th_tensor *z = th_scale(x, *(const double *)user);
    return th_exp(th_neg(th_mul(z, z)));
}

START_TEST(functions_that_change_quickly_are_right)
{
    expect(logarithm, NULL, vector(1e-3, 2e-3, 0.5), TH_GRADIENT_RIGHT, NULL);
    expect(logarithm, NULL, vector(1e-9, 1e-15, 1e-6), TH_GRADIENT_RIGHT, NULL);
    expect(reciprocal_root, NULL, vector(1e-3, 1e-4, 1e-7), TH_GRADIENT_RIGHT, NULL);
    for (double k = 1; k <= 1e8; k *= 100) {
        expect(fast_sine, &k, vector(0.3, -0.7, 1.2), TH_GRADIENT_RIGHT, NULL);
        expect(narrow_bell, &k, vector(0.3 / k, -0.7 / k, 1.2 / k), TH_GRADIENT_RIGHT, NULL);
    }
}
END_TEST

static th_tensor *rectified(void *user, th_tensor *x)
{
    (void)user;
    return th_relu(x);
}

static th_tensor *steps(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, th_full(ctx, TH_FLOAT64, TH_SHAPE(3), th_get(x, TH_INDEX(1)) >= 2 ? 3 : 1));
}

static th_tensor *squared(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(x, x);
}

static th_tensor *large_offset(void *user, th_tensor *x)
{
    return th_add_scalar(th_sin(x), *(const double *)user);
}

START_TEST(the_report_has_the_reason_why_it_cannot_tell)
{
    expect(rectified, NULL, vector(1, 0, -1), TH_GRADIENT_CANNOT_TELL, "a kink");
    ck_assert_ptr_nonnull(strstr(report.text, "x"));
    expect(rectified, NULL, vector(1e-6, -1e-8, 1e-11), TH_GRADIENT_RIGHT, NULL);
    expect(steps, NULL, vector(1, 2, 3), TH_GRADIENT_CANNOT_TELL, "jumps");
    expect(logarithm, NULL, vector(1, -2, 3), TH_GRADIENT_CANNOT_TELL, "not a number");
    expect(narrow_bell, &(double){1e200}, vector(1, 2, 3), TH_GRADIENT_RIGHT,
           NULL); /* 0, though an intermediate value is infinite */
    ck_assert_int_eq(th_check_gradient_of(squared, NULL, vector(1e160, 1, 2),
                                          &(th_gradient_options){.mode = TH_GRADIENT_FULL}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(report.text, "infinite or"));
    double offset = 1e11;
    expect(large_offset, &offset, vector(1, 2, 3), TH_GRADIENT_CANNOT_TELL, "rounding hides the derivative");
    ck_assert(!report.ok && report.uncertainty > 0);
}
END_TEST

/* -- rounding that no output shows -- */

static th_tensor *softplus(void *user, th_tensor *x)
{
    (void)user;
    return th_log(th_add_scalar(th_exp(x), 1)); /* the rounding error of 1, even if the output is small */
}

static th_tensor *log_softmax(void *user, th_tensor *x)
{
    (void)user;
    return th_log_softmax(x, -1);
}

START_TEST(rounding_inside_is_not_a_mistake)
{
    static const double at[] = {-29, -28.3, -27.1, -25.9, -24.4, -23.2, -22.478, -20.7};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        expect(softplus, NULL, vector(at[i], 1.6, 12), TH_GRADIENT_RIGHT, NULL);
        const th_gradient_options full = {.mode = TH_GRADIENT_FULL};
        const th_status status = th_check_gradient_of(softplus, NULL, vector(at[i], at[i], at[i]), &full, &report);
        ck_assert_msg(status == TH_OK || report.verdict == TH_GRADIENT_CANNOT_TELL, "%g: %s", at[i], report.text);
    }
    expect(log_softmax, NULL, vector(-33.7353, -29.0823, 17.79), TH_GRADIENT_RIGHT, NULL);
    expect(log_softmax, NULL, vector(14.2337, -13.9127, 43.5), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

/* Adds and subtracts a large number; the gradient is `factor` times the right one. */
static th_tensor *through_a_large_number(void *user, th_tensor *x)
{
    const scaled *s = user;
    th_tensor *y = th_add(th_scale(x, s->factor), th_scale(th_detach(x), 1 - s->factor));
    return th_add_scalar(th_add_scalar(y, s->offset), -s->offset);
}

static th_tensor *variance_beside_a_large_mean(void *user, th_tensor *x)
{
    (void)user;
    return th_variance(th_add_scalar(th_scale(x, 1e-3), 1e4), TH_ALL_AXES, NULL);
}

static th_tensor *overflowing(void *user, th_tensor *x)
{
    (void)user;
    return th_mul(th_exp(th_scale(x, 300)), th_exp(th_scale(x, -300)));
}

static void expect_in_float32(th_gradient_function_of_one *function, void *user, th_gradient_verdict verdict,
                              const char *sentence)
{
    for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
        const th_gradient_options options = {.float32 = true, .mode = (th_gradient_mode)mode};
        ck_assert_int_eq(th_check_gradient_of(function, user, vector(0.3, -0.7, 0), &options, &report), TH_ERROR_VALUE);
        ck_assert_msg(report.verdict == verdict, "mode %d: verdict %d: %s", mode, (int)report.verdict,
                      th_gradient_failure(ctx, &report));
        ck_assert_ptr_nonnull(strstr(report.text, sentence));
    }
}

/* Rounding of float32 hides the whole change of the outputs, which three steps see as 0. */
START_TEST(measured_rounding_is_not_a_mistake)
{
    scaled s = {.offset = 1e8, .factor = 1};
    expect_in_float32(through_a_large_number, &s, TH_GRADIENT_CANNOT_TELL, "round");
    s.factor = 0;
    s.offset = 100;
    expect_in_float32(through_a_large_number, &s, TH_GRADIENT_WRONG, "is wrong");
    s.factor = 2;
    s.offset = 1e4;
    expect_in_float32(through_a_large_number, &s, TH_GRADIENT_WRONG, "is wrong");
    expect_in_float32(variance_beside_a_large_mean, NULL, TH_GRADIENT_CANNOT_TELL, "round");
    /* an output is infinite, and 0 times its derivative is NaN */
    expect_in_float32(overflowing, NULL, TH_GRADIENT_CANNOT_TELL, "not a number");
}
END_TEST

static th_tensor *softmax(void *user, th_tensor *x)
{
    (void)user;
    return th_softmax(x, -1);
}

START_TEST(a_distant_jump_is_not_reported)
{
    /* the longest steps cross the whole function, and every step has a large uncertainty */
    ck_assert_int_ne(th_check_gradient_of(softmax, NULL, vector(502.419, 525.068, -794.75), NULL, &report),
                     TH_ERROR_ARGUMENT);
    ck_assert_ptr_null(strstr(report.text, "jumps"));
    ck_assert_ptr_null(strstr(report.text, "kink"));
    ck_assert_int_ne(report.verdict, TH_GRADIENT_WRONG);
}
END_TEST

/* -- mistakes of a thousandth -- */

/* The square root. The gradient of one element is 1.001 times the right one. */
static th_tensor *root_off_by_a_thousandth(void *user, th_tensor *x)
{
    const double *factor = user;
    th_tensor *f = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){1, *factor, 1});
    th_tensor *rest = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){0, 1 - *factor, 0});
    return th_sqrt(th_add(th_mul(x, f), th_mul(th_detach(x), rest)));
}

START_TEST(a_thousandth_too_much_is_found)
{
    double off = 1.001, none = 1;
    for (int i = 0; i < 60;
         i++) { /* at some of these the truncation error of the usual step is as large as the mistake */
        th_tensor *x = vector(0.5, 1.05e-5 + 2e-8 * i, 3.4e-9);
        for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
            const th_gradient_options options = {.mode = (th_gradient_mode)mode};
            ck_assert_int_eq(th_check_gradient_of(root_off_by_a_thousandth, &off, x, &options, &report),
                             TH_ERROR_VALUE);
            ck_assert_msg(report.verdict == TH_GRADIENT_WRONG, "%d: %s", i, report.text);
            ck_assert_int_eq(th_check_gradient_of(root_off_by_a_thousandth, &none, x, &options, &report), TH_OK);
        }
        th_tensor_free(x);
    }
    scaled s = {1e6, 1, 1.0011};
    expect(scaled_sine, &s, vector(0.3, -0.7, 1.2), TH_GRADIENT_WRONG, "is wrong");
}
END_TEST

static th_tensor *a_two_hundredth(void *user, th_tensor *x)
{
    const double *factor = user;
    th_tensor *y = th_scale(x, 0.005);
    return th_add(th_scale(y, *factor), th_scale(th_detach(y), 1 - *factor));
}

START_TEST(small_outputs_beside_huge_ones_are_seen)
{
    double right = 1, wrong = 2;
    th_tensor *x = vector(-1.26e-3, 5.4e27, -3.9e15);
    expect(a_two_hundredth, &right, x, TH_GRADIENT_RIGHT, NULL);
    ck_assert_int_eq(
        th_check_gradient_of(a_two_hundredth, &wrong, x, &(th_gradient_options){.mode = TH_GRADIENT_FULL}, &report),
        TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "every element is 2 times"));
}
END_TEST

/* -- many kinks, none at the point -- */

START_TEST(kinks_nearby_do_not_make_a_gradient_wrong)
{
    static const double near[] = {1e-8, 2.3e-8, 7e-8, 1.9e-7, 5e-7, 3e-6};
    for (int i = 0; i < 216; i++) {
        const double sign = i % 2 ? -1 : 1;
        th_tensor *x = vector(near[i % 6] * sign, near[i / 6 % 6], -near[i / 36]);
        const th_gradient_options options = {.mode = TH_GRADIENT_FAST, .seed = (uint64_t)i};
        ck_assert_msg(th_check_gradient_of(rectified, NULL, x, &options, &report) == TH_OK, "%s", report.text);
        th_tensor_free(x);
    }
}
END_TEST

/* -- a point at infinity -- */

START_TEST(an_infinite_element_has_derivative_0)
{
    expect(softmax, NULL, vector(0.3, -INFINITY, 1.2), TH_GRADIENT_RIGHT, NULL);
}
END_TEST

START_TEST(a_map_shows_where_it_cannot_tell)
{
    const th_gradient_options full = {.mode = TH_GRADIENT_FULL};
    ck_assert_int_eq(th_check_gradient_of(rectified, NULL, vector(1, 0, -1), &full, &report), TH_ERROR_VALUE);
    ck_assert_ptr_nonnull(strstr(report.text, "~ cannot tell):\n    .~.\n"));
    ck_assert_ptr_nonnull(strstr(report.text, "the slope is 0 below and 1 above"));
}
END_TEST

/* -- options -- */

static void expect_rejected(const th_gradient_options *options, const char *sentence)
{
    ck_assert_int_eq(th_check_gradient_of(exponential, NULL, vector(1, 2, 3), options, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok && report.verdict == TH_GRADIENT_COULD_NOT_RUN);
    ck_assert_msg(strstr(th_error_message(ctx), sentence) != NULL, "%s", th_error_message(ctx));
    ck_assert_ptr_nonnull(strstr(report.text, sentence));
    th_error_clear(ctx);
    ck_assert_int_eq(th_check_op(ctx, th_op_find("exp"), options, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok);
    th_error_clear(ctx);
}

START_TEST(invalid_options_are_rejected)
{
    expect_rejected(&(th_gradient_options){.step = -0.1}, "step is -0.1");
    expect_rejected(&(th_gradient_options){.step = NAN}, "step is");
    expect_rejected(&(th_gradient_options){.step = INFINITY}, "step is inf");
    expect_rejected(&(th_gradient_options){.relative_tolerance = -1}, "relative_tolerance is -1");
    expect_rejected(&(th_gradient_options){.relative_tolerance = NAN}, "relative_tolerance is");
    expect_rejected(&(th_gradient_options){.absolute_tolerance = -1e-9}, "absolute_tolerance is -1e-09");
    expect_rejected(&(th_gradient_options){.absolute_tolerance = INFINITY}, "absolute_tolerance is inf");
    expect_rejected(&(th_gradient_options){.directions = -5}, "directions is -5");
    expect_rejected(&(th_gradient_options){.samples = -1}, "samples is -1");
    expect_rejected(&(th_gradient_options){.mode = (th_gradient_mode)17}, "mode is 17");
    expect_rejected(&(th_gradient_options){.mode = (th_gradient_mode)-1}, "mode is -1");
}
END_TEST

static th_tensor *of_two(void *user, th_tensor *const *inputs)
{
    (void)user;
    return inputs[0] ? th_mul(inputs[0], inputs[1]) : th_exp(inputs[1]);
}

START_TEST(invalid_arguments_are_rejected)
{
    th_tensor *x[2] = {vector(1, 2, 3), vector(4, 5, 6)}, *absent[2] = {NULL, x[1]};
    ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, x, NULL, &report), TH_OK);
    ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, absent, NULL, &report), TH_OK);
    const struct {
        th_gradient_function *function;
        int n;
        th_tensor *const *inputs;
        const char *sentence;
    } wrong[] = {{of_two, 2, NULL, "inputs is NULL"},
                 {NULL, 2, x, "function is NULL"},
                 {of_two, -1, x, "is -1"},
                 {of_two, 1000, x, "is 1000"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        report.ok = true;
        ck_assert_int_eq(th_check_gradient(ctx, wrong[i].function, NULL, wrong[i].n, wrong[i].inputs, NULL, &report),
                         TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        ck_assert_msg(strstr(th_error_message(ctx), wrong[i].sentence) != NULL, "%s", th_error_message(ctx));
        report.ok = true; /* with an error pending */
        ck_assert_int_eq(th_check_gradient(ctx, of_two, NULL, 2, x, NULL, &report), TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        ck_assert_int_eq(th_check_op(ctx, th_op_find("exp"), NULL, &report), TH_ERROR_ARGUMENT);
        ck_assert(!report.ok);
        th_error_clear(ctx);
    }
    ck_assert_int_eq(th_check_gradient(NULL, of_two, NULL, 2, x, NULL, &report), TH_ERROR_ARGUMENT);
    ck_assert(!report.ok);
}
END_TEST

START_TEST(given_tolerances_and_steps_decide)
{
    scaled s = {0, 1, 1.01};
    th_tensor *x = vector(0.3, -0.7, 1.2);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.relative_tolerance = 0.02}, &report), TH_OK);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.absolute_tolerance = 0.02}, &report), TH_OK);
    ck_assert_int_eq(
        th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.relative_tolerance = 0.005}, &report),
        TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    s.factor = 1;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 1e-4}, &report), TH_OK);
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 0.1}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_CANNOT_TELL);
    ck_assert_ptr_nonnull(strstr(report.text, "the option step, 0.1"));
    s.factor = 2;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &(th_gradient_options){.step = 1e-4}, &report),
                     TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
}
END_TEST

START_TEST(a_function_is_checked_in_float32)
{
    const th_gradient_options options = {.float32 = true};
    scaled s = {0, 1, 1};
    th_tensor *x = vector(0.3, -0.7, 1.2);
    ck_assert_gradient_with(with_constants, NULL, x, &options);
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_OK);
    s.scale = 1e-6;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_OK);
    s.factor = 0;
    ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
    ck_assert_int_eq(th_check_gradient_of(constant_sum, NULL, x, &options, &report), TH_OK);
}
END_TEST

/* Records the types of its input. */
static th_tensor *noting_its_type(void *user, th_tensor *x)
{
    ((bool *)user)[th_dtype_of(x)] = true;
    return th_sin(x);
}

START_TEST(with_float32_nothing_runs_in_float64)
{
    th_tensor *x = vector(0.3, -0.7, 1.2);
    for (int float32 = 0; float32 < 2; float32++) {
        bool seen[TH_DTYPE_COUNT] = {false};
        const th_gradient_options options = {.float32 = float32};
        ck_assert_gradient_with(noting_its_type, seen, x, &options);
        ck_assert(seen[TH_FLOAT32] == float32 && seen[TH_FLOAT64] == !float32);
        scaled s = {0, 1, 1.005}; /* float32 does not show so small a mistake */
        ck_assert_int_eq(th_check_gradient_of(scaled_sine, &s, x, &options, &report), float32 ? TH_OK : TH_ERROR_VALUE);
    }
}
END_TEST

/* The check compares a sample twice: after one backward and after two. */
START_TEST(options_set_the_number_of_directions_and_samples)
{
    static const struct {
        int directions, samples, comparisons;
    } counts[] = {{0, 0, 8 + 2 * 24}, {1, 1, 1 + 2 * 1}, {5, 2, 5 + 2 * 2}, {0, 3, 8 + 2 * 3}, {9, 0, 9 + 2 * 24}};
    th_tensor *x = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(100), -1, 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const th_gradient_options options = {
            .mode = TH_GRADIENT_FAST, .directions = counts[i].directions, .samples = counts[i].samples};
        ck_assert_int_eq(th_check_gradient_of(exponential, NULL, x, &options, &report), TH_OK);
        ck_assert_int_eq(report.checked, counts[i].comparisons);
    }
}
END_TEST

/* The product of two inputs. The gradient of input *user is lost. */
static th_tensor *losing_one(void *user, th_tensor *const *inputs)
{
    const int lost = *(const int *)user;
    return th_mul(lost == 0 ? th_detach(inputs[0]) : inputs[0], lost == 1 ? th_detach(inputs[1]) : inputs[1]);
}

START_TEST(the_report_uses_the_names_of_inputs)
{
    th_tensor *inputs[] = {vector(1, 2, 3), vector(4, 5, 6)};
    static const char *const names[] = {"query", NULL};
    static const char *const expected[2][2] = {{"x0[", "x1["}, {"query[", "x1["}};
    for (int given = 0; given < 2; given++)
        for (int lost = 0; lost < 2; lost++) {
            const th_gradient_options options = {.input_names = given ? names : NULL};
            ck_assert_int_eq(th_check_gradient(ctx, losing_one, &lost, 2, inputs, &options, &report), TH_ERROR_VALUE);
            ck_assert_int_eq(report.input, lost);
            ck_assert_msg(strstr(report.text, expected[given][lost]) != NULL, "no \"%s\" in %s", expected[given][lost],
                          report.text);
        }
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("gradient verdict", setup, close_context);
    tcase_add_test(tcase, tolerances_follow_the_gradient_and_the_rounding);
    tcase_add_test(tcase, small_derivatives_of_one_leaf_are_seen);
    tcase_add_test(tcase, functions_that_change_quickly_are_right);
    tcase_add_test(tcase, the_report_has_the_reason_why_it_cannot_tell);
    tcase_add_test(tcase, rounding_inside_is_not_a_mistake);
    tcase_add_test(tcase, measured_rounding_is_not_a_mistake);
    tcase_add_test(tcase, a_distant_jump_is_not_reported);
    tcase_add_test(tcase, a_thousandth_too_much_is_found);
    tcase_add_test(tcase, small_outputs_beside_huge_ones_are_seen);
    tcase_add_test(tcase, kinks_nearby_do_not_make_a_gradient_wrong);
    tcase_add_test(tcase, an_infinite_element_has_derivative_0);
    tcase_add_test(tcase, a_map_shows_where_it_cannot_tell);
    tcase_add_test(tcase, invalid_options_are_rejected);
    tcase_add_test(tcase, invalid_arguments_are_rejected);
    tcase_add_test(tcase, given_tolerances_and_steps_decide);
    tcase_add_test(tcase, a_function_is_checked_in_float32);
    tcase_add_test(tcase, with_float32_nothing_runs_in_float64);
    tcase_add_test(tcase, options_set_the_number_of_directions_and_samples);
    tcase_add_test(tcase, the_report_uses_the_names_of_inputs);
    return run_suites();
}
