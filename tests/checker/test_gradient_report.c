/* What a report of the gradient checker says of a mistake. Also the limits of the check: the smallest visible mistakes,
 * and derivatives that are 0 within the precision of the output. */
#include <math.h>

#include "gradient_checks.h"

/* Checks in one mode. Expects a verdict, and a sentence in the report or its absence. */
static void check_in(int mode, th_gradient_function_of_one *function, void *user, th_tensor *x,
                     th_gradient_verdict verdict)
{
    const th_gradient_options options = {.mode = (th_gradient_mode)mode};
    const th_status status = th_check_gradient_of(function, user, x, &options, &report);
    ck_assert_int_eq(status, verdict == TH_GRADIENT_RIGHT ? TH_OK : TH_ERROR_VALUE);
    ck_assert_msg(report.verdict == verdict, "mode %d: %s", mode, report.text);
}

static void expect_text(const char *words)
{
    ck_assert_msg(strstr(report.text, words) != NULL, "no \"%s\" in\n%s", words, report.text);
}

static void expect_no_text(const char *words)
{
    ck_assert_msg(strstr(report.text, words) == NULL, "\"%s\" in\n%s", words, report.text);
}

/* Returns y with its value unchanged and its gradient times the factors, one for each element of the last axis. */
static th_tensor *with_factors(th_tensor *y, const double *factors, int64_t n)
{
    double rest[8];
    for (int64_t i = 0; i < n; i++)
        rest[i] = 1 - factors[i];
    return th_add(th_mul(y, th_from_data(ctx, TH_FLOAT64, TH_SHAPE(n), factors)),
                  th_mul(th_detach(y), th_from_data(ctx, TH_FLOAT64, TH_SHAPE(n), rest)));
}

/* -- an operation that overwrites its gradients, or is not linear in them -- */

static double overwriting_factors[3], nonlinearity;

static th_status same_shape(th_call *c)
{
    th_call_output(c, 0, c->input[0].dtype, c->input[0].ndim, c->input[0].size, c->input[0].axes);
    return TH_OK;
}

static double load(const th_array *array, int64_t i)
{
    return array->dtype == TH_FLOAT64 ? ((const double *)array->data)[i] : (double)((const float *)array->data)[i];
}

static void store(const th_array *array, int64_t i, double value)
{
    if (array->dtype == TH_FLOAT64)
        ((double *)array->data)[i] = value;
    else
        ((float *)array->data)[i] = (float)value;
}

static void scale_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input[0]); i++)
        store(&c->output[0], i, 3 * load(&c->input[0], i));
}

static void overwriting_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        store(&c->input_gradient[0], i, overwriting_factors[i] * 3 * load(&c->output_gradient[0], i));
}

/* A little too large where more than one output has a gradient. */
static void nonlinear_backward(const th_call *c)
{
    const int64_t n = th_array_numel(&c->input_gradient[0]);
    int outputs = 0;
    for (int64_t i = 0; i < n; i++)
        outputs += load(&c->output_gradient[0], i) != 0;
    for (int64_t i = 0; i < n; i++)
        store(&c->input_gradient[0], i,
              (c->add[0] ? load(&c->input_gradient[0], i) : 0) +
                  (outputs > 1 ? 1 + nonlinearity : 1) * 3 * load(&c->output_gradient[0], i));
}

static const th_op overwriting_op = {.name = "overwriting",
                                     .n_inputs = 1,
                                     .flags = TH_OP_CONTIGUOUS,
                                     .shape = same_shape,
                                     .forward = scale_forward,
                                     .backward = overwriting_backward};
static const th_op nonlinear_op = {.name = "nonlinear",
                                   .n_inputs = 1,
                                   .flags = TH_OP_CONTIGUOUS,
                                   .shape = same_shape,
                                   .forward = scale_forward,
                                   .backward = nonlinear_backward};

static th_tensor *apply(void *op, th_tensor *x)
{
    return th_apply((const th_op *)op, NULL, x);
}

START_TEST(a_gradient_that_is_not_added_is_found)
{
    static const char *const words = "one backward is right, but a second one does not add its gradient";
    for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
        for (int i = 0; i < 3; i++)
            overwriting_factors[i] = 1;
        check_in(mode, apply, (void *)(uintptr_t)&overwriting_op, vector(1, 2, 3), TH_GRADIENT_WRONG);
        expect_text(words);
        expect_text(": analytic ");
        ck_assert_double_eq_tol(report.numeric, 2 * report.analytic, 1e-9 * fabs(report.numeric));
        ck_assert_double_eq_tol(report.error, 0.5, 1e-9);
        ck_assert(report.uncertainty > 0 && report.uncertainty < 1e-6);
        overwriting_factors[0] = 2; /* this element is wrong by itself */
        check_in(mode, apply, (void *)(uintptr_t)&overwriting_op, vector(1, 2, 3), TH_GRADIENT_WRONG);
        expect_no_text(words);
    }
}
END_TEST

START_TEST(a_rule_that_is_slightly_nonlinear_is_found)
{
    static const double invisible[] = {1e-9, 1e-4}, visible[] = {1e-6, 5e-3};
    for (int float32 = 0; float32 < 2; float32++) {
        const th_gradient_options options = {.mode = TH_GRADIENT_FULL, .float32 = float32 != 0};
        nonlinearity = invisible[float32];
        ck_assert_int_eq(
            th_check_gradient_of(apply, (void *)(uintptr_t)&nonlinear_op, vector(1, 2, 3), &options, &report), TH_OK);
        nonlinearity = visible[float32];
        ck_assert_int_eq(
            th_check_gradient_of(apply, (void *)(uintptr_t)&nonlinear_op, vector(1, 2, 3), &options, &report),
            TH_ERROR_VALUE);
        ck_assert_int_eq(report.verdict, TH_GRADIENT_WRONG);
        expect_text("each output by itself is right, but several at once are wrong");
    }
}
END_TEST

/* The output is 0 for every x, so that the quotients have no rounding error. The gradient is not. */
static th_tensor *cancelled(void *user, th_tensor *x)
{
    th_tensor *y = th_mul(x, user);
    return th_sub(y, th_detach(y));
}

START_TEST(analytic_sums_may_differ_by_rounding)
{
    th_tensor *factors = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(200), -1, 1), *x = th_ones(ctx, TH_FLOAT64, TH_SHAPE(1));
    for (int float32 = 0; float32 < 2; float32++) {
        const th_gradient_options options = {
            .mode = TH_GRADIENT_FULL, .absolute_tolerance = 2, .float32 = float32 != 0};
        ck_assert_msg(th_check_gradient_of(cancelled, factors, x, &options, &report) == TH_OK, "%s", report.text);
    }
}
END_TEST

/* -- zero within the precision of the output -- */

/* 1, with this derivative, which no quotient shows. */
static th_tensor *constant_with_slope(void *user, th_tensor *x)
{
    const double *slope = user;
    return th_add_scalar(th_scale(th_sub(x, th_detach(x)), *slope), 1);
}

/* The quotient is 0 with an uncertainty of 8 units for each step: 1.8e-15 / step, in float32 9.5e-7 / step. */
static const struct {
    bool float32;
    double step, slope;
    th_gradient_verdict verdict;
} zeros[] = {
    {false, 1e-5, 0, TH_GRADIENT_RIGHT},
    {false, 1e-5, 8e-13, TH_GRADIENT_RIGHT}, /* below 4096 units, which are 9.1e-13 */
    {false, 1e-5, 2e-12, TH_GRADIENT_CANNOT_TELL},
    {false, 2.4e-7, 8e-13, TH_GRADIENT_RIGHT}, /* an uncertainty of 7.4e-9, which must be below 1e-8 */
    {false, 1.2e-7, 8e-13, TH_GRADIENT_CANNOT_TELL},
    {true, 1e-3, 4e-4, TH_GRADIENT_RIGHT}, /* below 4096 units, which are 4.9e-4 */
    {true, 5e-4, 6e-4, TH_GRADIENT_CANNOT_TELL},
    {true, 6e-4, 4e-4, TH_GRADIENT_RIGHT}, /* an uncertainty of 1.6e-3, which must be below 2e-3 */
    {true, 4e-4, 4e-4, TH_GRADIENT_CANNOT_TELL},
};

START_TEST(a_derivative_is_zero_within_the_precision_of_the_output)
{
    const th_gradient_options options = {
        .mode = TH_GRADIENT_FULL, .float32 = zeros[_i].float32, .step = zeros[_i].step};
    double slope = zeros[_i].slope;
    const th_status status =
        th_check_gradient_of(constant_with_slope, &slope, vector(0.3, -0.7, 0.9), &options, &report);
    ck_assert_msg(report.verdict == zeros[_i].verdict, "verdict %d: %s", (int)report.verdict, report.text);
    ck_assert_int_eq(status, report.ok ? TH_OK : TH_ERROR_VALUE);
}
END_TEST

/* -- kinds of mistakes -- */

typedef struct pair {
    double factors[2]; /* of the gradients of both inputs */
} pair;

static th_tensor *difference(void *user, th_tensor *const *inputs)
{
    const pair *p = user;
    th_tensor *y[2] = {th_sin(inputs[0]), th_exp(inputs[1])};
    for (int i = 0; i < 2; i++)
        y[i] = th_add(th_scale(y[i], p->factors[i]), th_scale(th_detach(y[i]), 1 - p->factors[i]));
    return th_sub(y[0], y[1]);
}

START_TEST(the_report_names_the_mistake_of_either_input)
{
    static const struct {
        double factor;
        const char *words;
    } mistakes[] = {{-1, "every element has the opposite sign"},
                    {0, "every element is 0: the rule is probably missing"},
                    {2.5, "every element is 2.5 times what it should be"}};
    th_tensor *inputs[] = {vector(0.1, 0.2, 0.3), vector(-0.4, 0.5, 0.6)};
    for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++)
        for (int wrong = 0; wrong < 2; wrong++)
            for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
                pair p = {{1, 1}};
                p.factors[wrong] = mistakes[k].factor;
                const th_gradient_options options = {.mode = (th_gradient_mode)mode};
                ck_assert_int_eq(th_check_gradient(ctx, difference, &p, 2, inputs, &options, &report), TH_ERROR_VALUE);
                ck_assert_int_eq(report.input, wrong);
                expect_text(mistakes[k].words);
                expect_text("###");
            }
}
END_TEST

/* x in each of three columns. Only the gradient of column 2 arrives. */
static th_tensor *one_column(void *user, th_tensor *x)
{
    (void)user;
    return with_factors(th_expand(x, TH_SHAPE(2, 3)), (const double[]){0, 0, 1}, 3);
}

START_TEST(the_report_names_the_axis_of_a_missing_sum)
{
    th_tensor *x = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 1), (const double[]){0.5, -2});
    check_in(TH_GRADIENT_FULL, one_column, NULL, x, TH_GRADIENT_WRONG);
    expect_text("only index 2 of the output's axis 1 has a gradient: the sum over a broadcast axis is missing");
}
END_TEST

/* Element 0 only, with a gradient for element 1, or with a wrong one for element 0. */
static th_tensor *first_element(void *user, th_tensor *x)
{
    const double *wrong = user;
    th_tensor *first = th_slice(x, 0, 0, 1, 1), *second = th_slice(x, 0, 1, 2, 1);
    th_tensor *y = th_add(th_scale(first, wrong[0]), th_scale(th_detach(first), 1 - wrong[0]));
    return th_add(y, th_scale(th_sub(second, th_detach(second)), wrong[1]));
}

START_TEST(the_report_names_independent_elements)
{
    static const char *const words = "does not depend on the wrong elements";
    for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
        check_in(mode, first_element, (double[]){1, 5}, vector(1, 2, 3), TH_GRADIENT_WRONG);
        expect_text(words);
        expect_text(".#.");
        check_in(mode, first_element, (double[]){4, 5}, vector(1, 2, 3), TH_GRADIENT_WRONG);
        expect_text("##.");
    }
    expect_text(words); /* fast mode knows the worst element only, which is element 1 */
    check_in(TH_GRADIENT_FAST, first_element, (double[]){9, 5}, vector(1, 2, 3), TH_GRADIENT_WRONG);
    expect_no_text(words);
}
END_TEST

/* Two outputs: the first is NaN, the second has the gradient 2 instead of 1. */
static th_tensor *beside_nan(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *right = th_slice(x, 0, 0, 1, 1);
    return th_concat((th_tensor *[]){th_log(th_neg(right)), th_sub(th_scale(right, 2), th_detach(right))}, 2, 0);
}

START_TEST(no_kind_is_named_if_nothing_can_be_compared)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT64, TH_SHAPE(1));
    check_in(TH_GRADIENT_FULL, beside_nan, NULL, x, TH_GRADIENT_WRONG);
    expect_no_text("  every element");
}
END_TEST

/* x plus a root, whose quotients grow with every shorter step. */
static th_tensor *hidden_root(void *user, th_tensor *x)
{
    (void)user;
    return th_add(x, th_detach(th_sqrt(th_relu(x))));
}

START_TEST(the_report_says_that_quotients_differ)
{
    check_in(TH_GRADIENT_FULL, hidden_root, NULL, vector(0, 1e-30, 0), TH_GRADIENT_CANNOT_TELL);
    expect_text("the difference quotient is different for every step that was tried");
}
END_TEST

static th_tensor *rectified_beside_unrecorded(void *user, th_tensor *x)
{
    (void)user;
    th_no_grad_begin(ctx);
    th_tensor *zero = th_scale(x, 0);
    th_no_grad_end(ctx);
    return th_add(th_relu(x), zero);
}

START_TEST(only_a_wrong_gradient_is_blamed_on_recording)
{
    check_in(TH_GRADIENT_FULL, rectified_beside_unrecorded, NULL, vector(1, 0, -1), TH_GRADIENT_CANNOT_TELL);
    expect_no_text("recording was off");
}
END_TEST

static th_tensor *doubled(void *user, th_tensor *x)
{
    (void)user;
    return th_sub(th_scale(x, 2), th_detach(x));
}

START_TEST(a_map_has_a_largest_size)
{
    char row[65];
    memset(row, '#', 64);
    row[64] = 0;
    for (int64_t columns = 64; columns <= 65; columns++) {
        check_in(TH_GRADIENT_FULL, doubled, NULL, th_ones(ctx, TH_FLOAT64, TH_SHAPE(2, columns)), TH_GRADIENT_WRONG);
        char line[80];
        snprintf(line, sizeof line, "    %s%s\n", row, columns > 64 ? " ..." : "");
        ck_assert_int_eq(count(report.text, line), 2);
    }
    for (int64_t rows = 16; rows <= 17; rows++) {
        check_in(TH_GRADIENT_FULL, doubled, NULL, th_ones(ctx, TH_FLOAT64, TH_SHAPE(rows, 2)), TH_GRADIENT_WRONG);
        ck_assert_int_eq(count(report.text, "    ##\n"), 16);
        ck_assert_int_eq(count(report.text, "    ... (17 rows)\n"), rows > 16);
    }
}
END_TEST

/* -- options, settings and cost -- */

/* offset + sin(x), with a gradient that is 1e-4 too large. */
static th_tensor *offset_sine(void *user, th_tensor *x)
{
    (void)user;
    th_tensor *y = th_sin(x);
    return th_add_scalar(th_add(th_scale(y, 1 + 1e-4), th_scale(th_detach(y), -1e-4)), 1e6);
}

START_TEST(a_small_tolerance_makes_smaller_mistakes_visible)
{
    th_gradient_options options = {.mode = TH_GRADIENT_FULL};
    ck_assert_int_eq(th_check_gradient_of(offset_sine, NULL, vector(0.3, -0.7, 1.2), &options, &report), TH_OK);
    options.relative_tolerance = 1e-8;
    ck_assert_int_eq(th_check_gradient_of(offset_sine, NULL, vector(0.3, -0.7, 1.2), &options, &report),
                     TH_ERROR_VALUE);
}
END_TEST

static th_tensor *sine(void *user, th_tensor *x)
{
    (void)user;
    return th_sin(x);
}

START_TEST(the_numeric_derivative_is_of_the_given_step)
{
    const th_gradient_options options = {.mode = TH_GRADIENT_FULL, .step = 0.1};
    ck_assert_int_eq(th_check_gradient_of(sine, NULL, vector(0.3, -0.7, 1.2), &options, &report), TH_ERROR_VALUE);
    ck_assert_int_eq(report.index.size[0], 0);
    ck_assert_double_eq_tol(report.numeric, (sin(0.4) - sin(0.2)) / 0.2, 1e-12);
}
END_TEST

static int runs;

/* Element 0 has a wrong gradient; at the others the function has a kink. */
static th_tensor *wrong_and_kinks(void *user, th_tensor *x)
{
    runs++;
    th_tensor *y = th_relu(x);
    return with_factors(y, user, 8);
}

/* Kinks take all steps unless the check has already found a mistake. */
START_TEST(a_mistake_shortens_the_rest_of_the_check)
{
    th_tensor *x = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(8), (const double[]){1, 0, 0, 0, 0, 0, 0, 0});
    for (int mode = TH_GRADIENT_FULL; mode <= TH_GRADIENT_FAST; mode++) {
        int counts[2];
        for (int wrong = 0; wrong < 2; wrong++) {
            double factors[8] = {wrong ? 2 : 1, 1, 1, 1, 1, 1, 1, 1};
            runs = 0;
            check_in(mode, wrong_and_kinks, factors, x, wrong ? TH_GRADIENT_WRONG : TH_GRADIENT_CANNOT_TELL);
            counts[wrong] = runs;
        }
        ck_assert_msg(2 * counts[1] < counts[0], "mode %d: %d and %d runs", mode, counts[1], counts[0]);
    }
}
END_TEST

START_TEST(every_setting_is_restored)
{
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_set_precision(ctx, TH_PRECISION_BFLOAT16X3), TH_OK);
    th_set_training(ctx, false);
    th_set_fusion(ctx, false);
    for (int i = 0; i < 2; i++) {
        const state before = state_now();
        ck_assert_int_eq(th_check_gradient_of(sine, NULL, vector(1, 2, 3), NULL, &report), TH_OK);
        expect_unchanged(&before);
        ck_assert_op(ctx, th_op_find("gelu"));
        expect_unchanged(&before);
        ck_assert(!th_is_training(ctx) && !th_has_fusion(ctx));
        ck_assert_int_eq(ctx->machine.precision, TH_PRECISION_BFLOAT16X3);
    }
}
END_TEST

/* One output for 100 elements. The function calls backward itself, so that all runs record. */
static th_tensor *calling_backward(void *user, th_tensor *x)
{
    (void)user;
    if (th_backward(th_sum(th_mul(x, x), TH_ALL_AXES, NULL), NULL))
        return NULL;
    return th_sum(th_sin(x), TH_ALL_AXES, NULL);
}

START_TEST(a_check_in_which_all_runs_record_releases_its_memory)
{
    size_t live[3];
    th_tensor *x = th_ones(ctx, TH_FLOAT64, TH_SHAPE(100));
    for (int i = 0; i < 3; i++) {
        check_in(TH_GRADIENT_FULL, calling_backward, NULL, x, TH_GRADIENT_RIGHT);
        live[i] = th_memory(ctx).live;
    }
    ck_assert_uint_eq(live[1], live[2]);
}
END_TEST

START_TEST(a_function_of_one_tensor_needs_both)
{
    th_tensor *x = vector(1, 2, 3);
    report.ok = true;
    expect_status(th_check_gradient_of(NULL, NULL, x, NULL, &report), TH_ERROR_ARGUMENT,
                  "check_gradient: the function is NULL");
    ck_assert(!report.ok && report.input == -1);
    report.ok = true;
    expect_status(th_check_gradient_of(sine, NULL, NULL, NULL, &report), TH_ERROR_ARGUMENT, "the input is NULL");
    ck_assert(!report.ok && report.input == -1);
    expect_status(th_check_gradient_of(NULL, NULL, NULL, NULL, NULL), TH_ERROR_ARGUMENT, "the input is NULL");
    ck_assert_int_eq(th_check_gradient(ctx, difference, NULL, 33, (th_tensor *[33]){x}, NULL, &report),
                     TH_ERROR_ARGUMENT);
    expect_error(TH_ERROR_ARGUMENT, "check_gradient: n_inputs is 33; it must be 0 to 32");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("gradient report", setup, close_context);
    tcase_add_test(tcase, a_gradient_that_is_not_added_is_found);
    tcase_add_test(tcase, a_rule_that_is_slightly_nonlinear_is_found);
    tcase_add_test(tcase, analytic_sums_may_differ_by_rounding);
    tcase_add_loop_test(tcase, a_derivative_is_zero_within_the_precision_of_the_output, 0,
                        (int)(sizeof zeros / sizeof *zeros));
    tcase_add_test(tcase, the_report_names_the_mistake_of_either_input);
    tcase_add_test(tcase, the_report_names_the_axis_of_a_missing_sum);
    tcase_add_test(tcase, the_report_names_independent_elements);
    tcase_add_test(tcase, no_kind_is_named_if_nothing_can_be_compared);
    tcase_add_test(tcase, the_report_says_that_quotients_differ);
    tcase_add_test(tcase, only_a_wrong_gradient_is_blamed_on_recording);
    tcase_add_test(tcase, a_map_has_a_largest_size);
    tcase_add_test(tcase, a_small_tolerance_makes_smaller_mistakes_visible);
    tcase_add_test(tcase, the_numeric_derivative_is_of_the_given_step);
    tcase_add_test(tcase, a_mistake_shortens_the_rest_of_the_check);
    tcase_add_test(tcase, every_setting_is_restored);
    tcase_add_test(tcase, a_check_in_which_all_runs_record_releases_its_memory);
    tcase_add_test(tcase, a_function_of_one_tensor_needs_both);
    return run_suites();
}
