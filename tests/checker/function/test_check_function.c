/* The verdicts of th_check_function: right, wrong and cannot tell, in each type, for VJP, JVP and references. */
#include "plain_functions.h"

static const th_dtype floats[] = {TH_FLOAT64, TH_FLOAT32};

static double swish(double x)
{
    return x / (1 + exp(-x));
}

static double swish_slope(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

static double swish_slope_without_factor(double x)
{
    const double s = 1 / (1 + exp(-x));
    return s * (1 + x * s);
}

START_TEST(a_right_and_a_wrong_rule)
{
    for (int t = 0; t < 2; t++) {
        const th_port x = th_port_of("x", floats[t], TH_SHAPE(3, 4));
        expect_right(check_elementwise(swish, swish_slope, &x));
        ck_assert(report.ok && report.mode == TH_GRADIENT_FULL && report.input == -1 && report.checked > 144);
        expect_wrong(check_elementwise(swish, swish_slope_without_factor, &x), "gradient of f is wrong: worst at x[");
        ck_assert_int_eq(report.input, 0);
        ck_assert_int_eq(report.index.ndim, 2);
        ck_assert_double_eq_tol(
            report.error, fabs(report.analytic - report.numeric) / fmax(fabs(report.analytic), fabs(report.numeric)),
            1e-12);
    }
}
END_TEST

/* -- functions with jumps, kinks and saturation -- */

static double thousandths(double x)
{
    return round(1000 * x) / 1000;
}

static double zero(double x)
{
    (void)x;
    return 0;
}

START_TEST(a_function_that_rounds_is_not_called_wrong)
{
    for (int t = 0; t < 2; t++)
        for (int n = 1; n <= 12; n++) {
            th_port x = th_port_of("x", floats[t], TH_SHAPE(n));
            x.low = -9;
            x.high = 9;
            const th_status status = check_elementwise(thousandths, zero, &x);
            ck_assert_msg(status == TH_OK || report.verdict == TH_GRADIENT_CANNOT_TELL, "%s", report.text);
        }
    const double values[] = {-8.73204, 4.1502, 0.3303, -2.5304, 7.0701};
    th_port x = TH_PORT("x", TH_FLOAT64, 5);
    x.values = values;
    expect_verdict(check_elementwise(thousandths, zero, &x), TH_GRADIENT_CANNOT_TELL, "discontinuity");
}
END_TEST

START_TEST(a_missing_rule_is_wrong)
{
    for (int t = 0; t < 2; t++) {
        const th_port x = th_port_of("x", floats[t], TH_SHAPE(5));
        expect_wrong(check_elementwise(swish, zero, &x), "every element is 0: the rule is probably missing");
    }
}
END_TEST

static double normal(double x)
{
    return 0.5 * erfc(-x / sqrt(2));
}

static double normal_slope(double x)
{
    return exp(-x * x / 2) / sqrt(2 * acos(-1));
}

/* At 8.478 the value is 1 in float32, and no step changes it. */
START_TEST(an_output_that_does_not_change_may_hide_a_small_derivative)
{
    const float values[] = {8.478f, 8.478f, 8.478f, 8.478f};
    for (int64_t n = 1; n <= 4; n++) {
        th_port x = th_port_of("x", TH_FLOAT32, TH_SHAPE(n));
        x.values = values;
        elementwise user = {normal, normal_slope};
        const th_function function =
            th_function_of("normal", elementwise_forward, elementwise_backward, &user, 1, &x, 1, &x);
        for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
            const th_function_options options = {.mode = (th_gradient_mode)mode, .samples = mode == TH_GRADIENT_FAST};
            expect_right(th_check_function(&function, &options, &report));
        }
    }
}
END_TEST

static double normal_without_its_tail(double x)
{
    return 0.5 * (1 + (double)erff((float)(x / sqrt(2))));
}

/* At -8.478 the value is 0, because 1 + erf is 0 in float32. The derivative is 1e-16. Longer steps show slopes of 1e-4. */
START_TEST(an_output_of_0_may_hide_a_small_derivative)
{
    const float value = -8.478f;
    th_port x = TH_PORT_SCALAR("x", TH_FLOAT32);
    x.values = &value;
    expect_verdict(check_elementwise(normal_without_its_tail, normal_slope, &x), TH_GRADIENT_CANNOT_TELL, "rounding");
    expect_wrong(check_elementwise(normal_without_its_tail, swish_slope, &x), "worst at x");
}
END_TEST

static double absolute(double x)
{
    return fabs(x);
}

static double sign(double x)
{
    return x < 0 ? -1 : 1;
}

START_TEST(a_kink_is_named)
{
    const double values[] = {-1, 0, 2};
    th_port x = TH_PORT("x", TH_FLOAT64, 3);
    x.values = values;
    expect_verdict(check_elementwise(absolute, sign, &x), TH_GRADIENT_CANNOT_TELL, "the slope is -1 below and 1 above");
}
END_TEST

/* -- other types, a reference, jvp -- */

static double load_any(const th_buffer *b, int64_t i)
{
    if (b->dtype != TH_BFLOAT16)
        return load(b, i);
    const uint32_t bits = (uint32_t)((const uint16_t *)b->data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void store_any(const th_buffer *b, int64_t i, double number)
{
    if (b->dtype != TH_BFLOAT16) {
        store(b, i, number);
        return;
    }
    const float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    ((uint16_t *)b->data)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int forward_in_any_type(void *user, const th_buffer *in, th_buffer *out)
{
    for (int64_t i = 0; i < in->numel; i++)
        store_any(out, i, ((const elementwise *)user)->value(load_any(in, i)));
    return 0;
}

static int backward_in_any_type(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                th_buffer *din)
{
    (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store_any(din, i, ((const elementwise *)user)->slope(load_any(in, i)) * load_any(dout, i));
    return 0;
}

static double negated(double x)
{
    return -swish_slope(x);
}

static double x_times_sigmoid(double x)
{
    return x / (1 + exp(-x));
}

static th_status check_bfloat16(double (*slope)(double), bool with_reference)
{
    elementwise user = {swish, slope};
    const th_port x = TH_PORT("x", TH_BFLOAT16, 12);
    th_function function = th_function_of("swish", forward_in_any_type, backward_in_any_type, &user, 1, &x, 1, &x);
    function.reference = with_reference ? forward_in_any_type : NULL;
    return check(&function);
}

START_TEST(bfloat16_with_and_without_a_reference)
{
    expect_right(check_bfloat16(swish_slope, true));
    expect_wrong(check_bfloat16(negated, true), "every element has the opposite sign");
    expect_wrong(check_bfloat16(x_times_sigmoid, true), "");
    const th_status status = check_bfloat16(swish_slope, false);
    ck_assert_msg(status == TH_OK || report.verdict == TH_GRADIENT_CANNOT_TELL, "%s", report.text);
    expect_wrong(check_bfloat16(negated, false), "opposite sign");
    expect_wrong(check_bfloat16(x_times_sigmoid, false), "");
}
END_TEST

static int product(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < out->numel; i++)
        store(out, i, load(&in[0], i) * load(&in[1], i));
    return 0;
}

static int product_jvp(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *din, th_buffer *dout)
{
    (void)out;
    for (int64_t i = 0; i < dout->numel; i++)
        store(dout, i, load(&in[1], i) * load(&din[0], i) + (user ? 0 : load(&in[0], i) * load(&din[1], i)));
    return 0;
}

START_TEST(a_forward_derivative)
{
    for (int t = 0; t < 2; t++) {
        const th_port in[] = {th_port_of("x", floats[t], TH_SHAPE(2, 3)), th_port_of("y", floats[t], TH_SHAPE(2, 3))};
        th_function function = {
            .forward = product, .jvp = product_jvp, .inputs = in, .outputs = in, .n_inputs = 2, .n_outputs = 1};
        expect_right(check(&function));
        function.user = &function;
        expect_wrong(check(&function), "every element is 0");
        ck_assert_int_eq(report.input, 1);
    }
}
END_TEST

/* -- functions that are not deterministic -- */

static int noisy_sum(void *user, const th_buffer *in, th_buffer *out)
{
    static uint64_t state = 1;
    double sum = 0;
    for (int64_t i = 0; i < in->numel; i++)
        sum += load(in, i) * load(in, i);
    state = state * 6364136223846793005u + 1442695040888963407u;
    store(out, 0, sum * (1 + 4 * 0x1p-24 * (double)(int64_t)(state >> 33) / 0x1p31));
    (void)user;
    return 0;
}

static int twice(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, (user ? 3 : 2) * load(in, i) * load(dout, 0));
    return 0;
}

START_TEST(a_function_that_is_not_deterministic_is_recognized)
{
    const th_port x = TH_PORT("x", TH_FLOAT32, 7), y = TH_PORT_SCALAR("y", TH_FLOAT32);
    th_function function = th_function_of("sum of squares", noisy_sum, twice, NULL, 1, &x, 1, &y);
    expect_right(check(&function));
    ck_assert(report.not_deterministic && report.noise > 0);
    function.user = &function;
    expect_wrong(check(&function), "times what it should be");
}
END_TEST

/* -- float32 inside a function of float64 buffers -- */

static double sine_in_float32(double x)
{
    return (double)sinf((float)x);
}

static double cosine_in_float32(double x)
{
    return (double)cosf((float)x);
}

static double negated_cosine(double x)
{
    return -cos(x);
}

static double enlarged_cosine(double x)
{
    return 1.1 * cos(x);
}

static double thousand_and_sine_in_float32(double x)
{
    return (double)(1000 + sinf((float)x));
}

START_TEST(a_float64_function_may_compute_in_float32)
{
    static const char *const words = "the function computes in float32, although its buffers are float64";
    for (int64_t n = 6; n <= 6000; n *= 1000) { /* full and fast */
        const th_port x = th_port_of("x", TH_FLOAT64, TH_SHAPE(n));
        expect_right(check_elementwise(sine_in_float32, cos, &x));
        ck_assert_msg(report.noise > 1e-9, "noise %g", report.noise);
        expect_right(check_elementwise(sine_in_float32, cosine_in_float32, &x));
        expect_right(check_elementwise(thousand_and_sine_in_float32, cos, &x));
        expect_wrong(check_elementwise(sine_in_float32, negated_cosine, &x), "opposite sign");
        ck_assert_ptr_nonnull(strstr(report.text, words));
        expect_wrong(check_elementwise(sine_in_float32, enlarged_cosine, &x), words);
        expect_wrong(check_elementwise(sine_in_float32, zero, &x), words);
        expect_wrong(check_elementwise(sin, negated_cosine, &x), "opposite sign");
        ck_assert_ptr_null(strstr(report.text, words));
    }
}
END_TEST

/* A linear function whose coefficients are in float32. Backward computes them again, with other rounding errors. */
static int two_points(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, load(in, i) + 0.25 * load(in, (i + 1) % in->numel));
    return 0;
}

static int two_points_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                               th_buffer *din)
{
    (void)in, (void)out;
    const int64_t n = dout->numel;
    for (int64_t i = 0; i < n; i++)
        store(din, i,
              load(dout, i) + 0.25 * load(dout, (i + n - 1) % n) + *(const double *)user * load(dout, (i + 1) % n));
    return 0;
}

START_TEST(coefficients_may_be_in_float32)
{
    double rest = 4e-8;
    const th_port x = TH_PORT("x", TH_FLOAT64, 8);
    const th_function function = th_function_of("two points", two_points, two_points_backward, &rest, 1, &x, 1, &x);
    expect_verdict(check(&function), TH_GRADIENT_CANNOT_TELL, "numbers in float32");
    const th_function_options exact = {.relative_tolerance = 1e-8};
    expect_wrong(th_check_function(&function, &exact, &report), "worst at x[");
    rest = 1e-6;
    expect_wrong(check(&function), "worst at x[");
}
END_TEST

/* -- arguments -- */

START_TEST(arguments_are_checked)
{
    const th_port x = TH_PORT("x", TH_FLOAT64, 3), unnamed = TH_PORT(NULL, TH_FLOAT64, 3),
                  block = TH_PORT("x", TH_Q8_0, 3);
    elementwise user = {swish, swish_slope};
    const th_function right = th_function_of("f", elementwise_forward, elementwise_backward, &user, 1, &x, 1, &x);
    th_function wrong = right;
    wrong.backward = NULL;
    ck_assert_int_eq(check(&wrong), TH_ERROR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(report.text, "neither backward nor jvp"));
    wrong = right;
    wrong.n_inputs = TH_MAX_PORTS + 1;
    ck_assert_int_eq(check(&wrong), TH_ERROR_ARGUMENT);
    wrong = right;
    wrong.inputs = &unnamed;
    ck_assert_int_eq(check(&wrong), TH_ERROR_ARGUMENT);
    wrong.inputs = &block;
    ck_assert_int_eq(check(&wrong), TH_ERROR_ARGUMENT);
    const th_function_options needs_isolate = {.time_limit = 1};
    ck_assert_int_eq(th_check_function(&right, &needs_isolate, NULL), TH_ERROR_ARGUMENT);
    ck_assert_int_eq(th_check_function(&right, NULL, NULL), TH_OK);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("check of plain functions", NULL, NULL);
    tcase_add_test(tcase, a_right_and_a_wrong_rule);
    tcase_add_test(tcase, a_function_that_rounds_is_not_called_wrong);
    tcase_add_test(tcase, a_missing_rule_is_wrong);
    tcase_add_test(tcase, an_output_that_does_not_change_may_hide_a_small_derivative);
    tcase_add_test(tcase, an_output_of_0_may_hide_a_small_derivative);
    tcase_add_test(tcase, a_kink_is_named);
    tcase_add_test(tcase, bfloat16_with_and_without_a_reference);
    tcase_add_test(tcase, a_forward_derivative);
    tcase_add_test(tcase, a_function_that_is_not_deterministic_is_recognized);
    tcase_add_test(tcase, a_float64_function_may_compute_in_float32);
    tcase_add_test(tcase, coefficients_may_be_in_float32);
    tcase_add_test(tcase, arguments_are_checked);
    return run_suites();
}
