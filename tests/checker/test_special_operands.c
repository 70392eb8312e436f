/* Rules that are wrong only for some operands or modes: after another call, with a stride of 0, in evaluation mode,
 * beside a NaN or an infinity, at 0. th_check_op rejects them, and accepts right rules that look similar. */
#include <math.h>

#include "tensor/context.h"
#include "user_ops.h"

static void expect_rejected(const th_op *op, const char *words)
{
    th_gradient_report report;
    const th_status status = th_check_op(ctx, op, NULL, &report);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    ck_assert_msg(status == TH_ERROR_VALUE && report.verdict == TH_GRADIENT_WRONG, "passed, and should be wrong: %s",
                  words);
    ck_assert_msg(strstr(report.text, words) != NULL, "no \"%s\" in\n%s", words, report.text);
}

/* -- y = a b, with one mistake -- */

typedef enum mistake {
    NONE,
    KEEPS_THE_LAST_INPUT,
    IGNORES_STRIDE_0,
    READS_WRONG_WITH_STRIDE_0,
    FORGETS_EVALUATION,
    WRONG_ALONE_IN_EVALUATION,
    SPREADS_NAN,
    STOPS_AT_NAN,
    STOPS_AT_INFINITY,
    WRONG_AT_0,
    DIVIDES
} mistake;

static mistake current;
static double last[64]; /* b in the last forward */

static th_status product_of_two_shape(th_call *c)
{
    if (th_call_floating(c, 0) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    th_call_output(c, 0, c->input[0].dtype, c->input[0].ndim, c->input[0].size, NULL);
    return TH_OK;
}

static bool has_stride_0(const th_array *x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->stride[d] == 0 && x->size[d] > 1)
            return true;
    return false;
}

/* In evaluation mode, y is half as large. */
static double factor_of(const th_call *c)
{
    return c->training || current < FORGETS_EVALUATION || current > WRONG_ALONE_IN_EVALUATION ? 1 : 0.5;
}

static void product_of_two_forward(const th_call *c)
{
    const bool wrong = current == READS_WRONG_WITH_STRIDE_0 && has_stride_0(&c->input[0]);
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++) {
        const double b = load(&c->input[1], i);
        last[i % 64] = b;
        store(&c->output[0], i, factor_of(c) * load(&c->input[0], wrong ? 0 : i) * b);
    }
}

/* Returns dy times the other input at element i, or what a mistake makes of it. */
static double gradient_of(const th_call *c, int input, int64_t i)
{
    const int64_t n = th_array_numel(&c->input[0]);
    const double a = load(&c->input[0], i), b = load(&c->input[1], i), other = input == 0 ? b : a,
                 dy = load(&c->output_gradient[0], i), before = load(&c->input[0], (i + n - 1) % n);
    const bool alone = !c->input_gradient[1 - input].given;
    switch (current) {
    case KEEPS_THE_LAST_INPUT:
        return dy * (input == 0 ? last[i % 64] : a);
    case IGNORES_STRIDE_0:
        return has_stride_0(&c->input[1]) && input == 0 ? dy : dy * other;
    case FORGETS_EVALUATION:
        return dy * other;
    case WRONG_ALONE_IN_EVALUATION:
        return factor_of(c) * dy * other * (alone && !c->training ? 3 : 1);
    case SPREADS_NAN:
        return dy * other + 0 * before;
    case STOPS_AT_NAN:
        return isnan(before) ? 0 : dy * other;
    case STOPS_AT_INFINITY:
        return isinf(before) ? 0 : dy * other;
    case WRONG_AT_0:
        return a == 0 ? 7 * dy : dy * other;
    case DIVIDES:
        return dy * (a * b) / (input == 0 ? a : b);
    default:
        return dy * other;
    }
}

static void product_of_two_backward(const th_call *c)
{
    for (int input = 0; input < 2; input++)
        for (int64_t i = 0; c->input_gradient[input].given && i < th_array_numel(&c->input[0]); i++)
            give(c, input, i, gradient_of(c, input, i));
}

#define MATRIX                                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(4, 3)                                                                                        \
    }
static const th_sample product_of_two_samples[] = {{.name = "matrices", .n_inputs = 2, .input = {MATRIX, MATRIX}},
                                                   {.name = NULL}};
static const th_op product_of_two = {.name = "product of two",
                                     .n_inputs = 2,
                                     .saves = TH_INPUT(0) | TH_INPUT(1),
                                     .shape = product_of_two_shape,
                                     .forward = product_of_two_forward,
                                     .backward = product_of_two_backward,
                                     .samples = product_of_two_samples};

static const struct {
    mistake mistake;
    const char *words;
} mistakes[] = {
    {KEEPS_THE_LAST_INPUT, "is wrong if another call with other inputs comes between forward and backward: the "
                           "gradient of x0["},
    {IGNORES_STRIDE_0, "is wrong if x1 is expanded, with a stride of 0: the gradient of x0["},
    {READS_WRONG_WITH_STRIDE_0, "is wrong if x0 is expanded, with a stride of 0: element "},
    {FORGETS_EVALUATION, ", in evaluation mode) is wrong: "},
    {WRONG_ALONE_IN_EVALUATION, ", in evaluation mode) is wrong if only x"},
    {SPREADS_NAN, "is wrong if an element of x0 is NaN or infinite, on which these outputs do not depend: the gradient "
                  "of x"},
    {STOPS_AT_NAN, "is wrong if an element of x0 is NaN or infinite, on which these outputs do not depend: the "},
    {STOPS_AT_INFINITY, "is wrong if an element of x0 is NaN or infinite, on which these outputs do not depend: the "},
    {WRONG_AT_0, "elements are 0) is wrong: worst at x0["},
    {DIVIDES, "elements are 0) is wrong: worst at x0["},
};

START_TEST(a_rule_that_is_wrong_for_some_operands_is_rejected)
{
    current = mistakes[_i].mistake;
    expect_rejected(&product_of_two, mistakes[_i].words);
    current = NONE;
    ck_assert_op(ctx, &product_of_two);
    ck_assert_op_with(ctx, &product_of_two, &(th_gradient_options){.float32 = true});
}
END_TEST

/* The check starts in the mode of the context, and returns to it. */
START_TEST(both_modes_are_checked_from_either)
{
    for (int training = 0; training < 2; training++) {
        th_set_training(ctx, training);
        current = FORGETS_EVALUATION;
        expect_rejected(&product_of_two, training ? ", in evaluation mode) is wrong" : "is wrong: worst at x0[");
        ck_assert_int_eq(ctx->training, training);
        current = NONE;
        ck_assert_op(ctx, &product_of_two);
        ck_assert_int_eq(ctx->training, training);
    }
}
END_TEST

/* -- functions of one number, at 0 and elsewhere -- */

typedef struct scalar_function {
    const char *name;
    double (*f)(double x);
    double (*derivative)(double x);
    double low, high; /* of the samples; 0, 0: the default */
    bool kink;        /* the sample says that there is a kink at 0 */
} scalar_function;

static const scalar_function *function;

static void elementwise_forward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->output[0]); i++)
        store(&c->output[0], i, function->f(load(&c->input[0], i)));
}

static void elementwise_backward(const th_call *c)
{
    for (int64_t i = 0; i < th_array_numel(&c->input_gradient[0]); i++)
        give(c, 0, i, function->derivative(load(&c->input[0], i)) * load(&c->output_gradient[0], i));
}

static char first_report[TH_GRADIENT_TEXT];

/* Checks the function with 20 seeds. Returns how many checks found a mistake; other results fail. */
static int count_wrong(const scalar_function *f, bool float32)
{
    const th_sample samples[] = {
        {.name = "matrix",
         .n_inputs = 1,
         .input = {{.shape = TH_SIZES(2, 4), .low = f->low, .high = f->high, .kinks = {0}, .n_kinks = f->kink}}},
        {.name = NULL}};
    const th_op op = {.name = f->name,
                      .n_inputs = 1,
                      .saves = TH_INPUT(0),
                      .shape = same_shape,
                      .forward = elementwise_forward,
                      .backward = elementwise_backward,
                      .samples = samples};
    int wrong = 0;
    function = f;
    for (uint64_t seed = 0; seed < 20; seed++) {
        th_gradient_report report;
        const th_gradient_options options = {.float32 = float32, .seed = seed};
        if (th_check_op(ctx, &op, &options, &report) != TH_OK) {
            const char *text = th_gradient_failure(ctx, &report);
            ck_assert_msg(report.verdict == TH_GRADIENT_WRONG, "%s: %s", f->name, text);
            if (wrong++ == 0)
                snprintf(first_report, sizeof first_report, "%s", text);
        }
    }
    return wrong;
}

static double magnitude(double x)
{
    return fabs(x);
}

static double sign(double x)
{
    return x > 0 ? 1 : -1;
}

static double sign_or_0(double x)
{
    return x == 0 ? 0 : sign(x);
}

static double sign_by_division(double x)
{
    return x / fabs(x);
}

static double ramp(double x)
{
    return x > 0 ? x : 0;
}

static double step(double x)
{
    return x > 0 ? 1 : 0;
}

static double step_at_0(double x)
{
    return x >= 0 ? 1 : 0;
}

static double step_with_2(double x)
{
    return x == 0 ? 2 : step(x);
}

static double cube_of_magnitude(double x)
{
    return fabs(x) * x * x;
}

static double its_derivative(double x)
{
    return 3 * fabs(x) * x;
}

static double its_derivative_by_division(double x)
{
    return 3 * fabs(x) * x * x * x / (x * x);
}

static double root(double x)
{
    return sqrt(fabs(x));
}

static double root_derivative(double x)
{
    return sign(x) / (2 * sqrt(fabs(x)));
}

static double entropy(double x)
{
    return x == 0 ? 0 : x * log(fabs(x));
}

static double entropy_derivative(double x)
{
    return log(fabs(x)) + 1;
}

static double logarithm(double x)
{
    return log(fabs(x));
}

static double reciprocal(double x)
{
    return 1 / x;
}

static double reciprocal_derivative(double x)
{
    return -1 / (x * x);
}

static double sinc(double x)
{
    return sin(x) / x;
}

static double sinc_derivative(double x)
{
    return (x * cos(x) - sin(x)) / (x * x);
}

static double halves(double x)
{
    return x < 0 ? 1 + x : 2 + x;
}

static double one(double x)
{
    (void)x;
    return 1;
}

/* Reduces its argument step by step: an infinite one never ends. */
static double periodic(double x)
{
    while (x > 1)
        x -= 2;
    while (x < -1)
        x += 2;
    return x * x;
}

static double periodic_derivative(double x)
{
    while (x > 1)
        x -= 2;
    while (x < -1)
        x += 2;
    return 2 * x;
}

static const scalar_function right_functions[] = {
    {"abs", magnitude, sign, 0, 0, true},
    {"abs with 0 at 0", magnitude, sign_or_0, 0, 0, true},
    {"abs without a kink in the sample", magnitude, sign_or_0, 0, 0, false},
    {"relu", ramp, step, 0, 0, true},
    {"relu with 1 at 0", ramp, step_at_0, 0, 0, true},
    {"|x|^3", cube_of_magnitude, its_derivative, 0, 0, false},
    {"sqrt |x|, infinite at 0", root, root_derivative, 0, 0, true},
    {"x log |x|", entropy, entropy_derivative, -1, 1, true},
    {"log |x|", logarithm, reciprocal, -1, 1, true},
    {"sqrt", sqrt, root_derivative, 0.1, 2, false},
    {"log from 0", log, reciprocal, 0.05, 2, false},
    {"1 / x", reciprocal, reciprocal_derivative, -2, 2, true},
    {"sin x / x", sinc, sinc_derivative, -3, 3, true},
    {"a jump at 0", halves, one, 0, 0, true},
    {"periodic", periodic, periodic_derivative, -0.9, 0.9, false},
};

START_TEST(a_right_rule_passes)
{
    for (int float32 = 0; float32 < 2; float32++)
        ck_assert_msg(count_wrong(&right_functions[_i], float32) == 0, "%s", first_report);
}
END_TEST

static const scalar_function wrong_functions[] = {
    {"abs, NaN at 0", magnitude, sign_by_division, 0, 0, true},
    {"relu, 2 at 0", ramp, step_with_2, 0, 0, true},
    {"|x|^3, NaN at 0", cube_of_magnitude, its_derivative_by_division, 0, 0, false},
};

START_TEST(a_rule_that_is_wrong_at_0_is_rejected)
{
    for (int float32 = 0; float32 < 2; float32++)
        ck_assert_int_eq(count_wrong(&wrong_functions[_i], float32), 20);
}
END_TEST

/* -- functions of a row: y_i = f(x_i0, x_i1, ...) -- */

enum { MAX_ROW = 8 };

typedef struct row_function {
    const char *name;
    double (*f)(const double *x, int64_t n);
    double (*derivative)(const double *x, int64_t n, double y, int64_t j);
    th_sample_kind kind;
} row_function;

static const row_function *of_row;

static th_status rows_shape(th_call *c)
{
    if (th_call_floating(c, 0))
        return TH_ERROR_TYPE;
    if (c->input[0].size[1] < 2 || c->input[0].size[1] > MAX_ROW)
        return th_call_fail(c, TH_ERROR_SHAPE, "rows have 2 to 8 elements; x is %s", TH_TEXT(&c->input[0]));
    th_call_output(c, 0, c->input[0].dtype, 1, c->input[0].size, NULL);
    return TH_OK;
}

static void load_row(const th_call *c, int64_t i, double *row)
{
    for (int64_t j = 0; j < c->input[0].size[1]; j++)
        row[j] = load(&c->input[0], i * c->input[0].size[1] + j);
}

static void rows_forward(const th_call *c)
{
    double row[MAX_ROW];
    for (int64_t i = 0; i < c->input[0].size[0]; i++) {
        load_row(c, i, row);
        store(&c->output[0], i, of_row->f(row, c->input[0].size[1]));
    }
}

static void rows_backward(const th_call *c)
{
    const int64_t n = c->input[0].size[1];
    double row[MAX_ROW];
    for (int64_t i = 0; i < c->input[0].size[0]; i++) {
        load_row(c, i, row);
        for (int64_t j = 0; j < n; j++)
            give(c, 0, i * n + j, load(&c->output_gradient[0], i) * of_row->derivative(row, n, of_row->f(row, n), j));
    }
}

static double largest_of(const double *x, int64_t n)
{
    double y = x[0];
    for (int64_t j = 1; j < n; j++)
        y = fmax(y, x[j]);
    return y;
}

/* The first of equal elements gets the gradient. */
static double largest_derivative(const double *x, int64_t n, double y, int64_t j)
{
    (void)n;
    for (int64_t k = 0; k < j; k++)
        if (x[k] == y)
            return 0;
    return x[j] == y;
}

static double norm_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] * x[j];
    return sqrt(sum);
}

static double norm_derivative(const double *x, int64_t n, double y, int64_t j)
{
    (void)n;
    return x[j] / y;
}

static double mean_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j] / (double)n;
    return sum;
}

/* Infinite slopes where all elements are equal, as in an expanded row. */
static double deviation_of(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (x[j] - mean_of(x, n)) * (x[j] - mean_of(x, n)) / (double)n;
    return sqrt(sum);
}

static double deviation_derivative(const double *x, int64_t n, double y, int64_t j)
{
    return (x[j] - mean_of(x, n)) / ((double)n * y);
}

static double log_sum_of(const double *x, int64_t n)
{
    const double largest = largest_of(x, n);
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += exp(x[j] - largest);
    return largest + log(sum);
}

static double log_sum_derivative(const double *x, int64_t n, double y, int64_t j)
{
    (void)n;
    return exp(x[j] - y);
}

static double product_of(const double *x, int64_t n)
{
    double y = 1;
    for (int64_t j = 0; j < n; j++)
        y *= x[j];
    return y;
}

static double product_derivative(const double *x, int64_t n, double y, int64_t j)
{
    (void)y;
    return product_of(x, j) * product_of(x + j + 1, n - j - 1);
}

static double quotient_by_product(const double *x, int64_t n, double y, int64_t j)
{
    (void)n;
    return y / x[j];
}

static const row_function right_rows[] = {
    {"max", largest_of, largest_derivative, TH_SAMPLE_DISTINCT},
    {"norm", norm_of, norm_derivative, TH_SAMPLE_REAL},
    {"standard deviation", deviation_of, deviation_derivative, TH_SAMPLE_REAL},
    {"log of a sum", log_sum_of, log_sum_derivative, TH_SAMPLE_REAL},
    {"product", product_of, product_derivative, TH_SAMPLE_REAL},
};

static const row_function divided_product = {"product by division", product_of, quotient_by_product, TH_SAMPLE_REAL};

/* Checks the function with this seed. */
static th_status check_rows(const row_function *f, bool float32, uint64_t seed, th_gradient_report *report)
{
    const th_sample samples[] = {{.name = "rows", .n_inputs = 1, .input = {{.kind = f->kind, .shape = TH_SIZES(3, 4)}}},
                                 {.name = NULL}};
    const th_op op = {.name = f->name,
                      .n_inputs = 1,
                      .saves = TH_INPUT(0),
                      .shape = rows_shape,
                      .forward = rows_forward,
                      .backward = rows_backward,
                      .samples = samples};
    of_row = f;
    return th_check_op(ctx, &op, &(th_gradient_options){.float32 = float32, .seed = seed}, report);
}

START_TEST(a_right_rule_of_rows_passes)
{
    th_gradient_report report;
    for (int float32 = 0; float32 < 2; float32++)
        for (uint64_t seed = 0; seed < 10; seed++)
            ck_assert_msg(check_rows(&right_rows[_i], float32, seed, &report) == TH_OK, "%s, seed %d: %s",
                          right_rows[_i].name, (int)seed, th_gradient_failure(ctx, &report));
}
END_TEST

START_TEST(a_product_that_divides_by_0_is_rejected)
{
    th_gradient_report report;
    ck_assert_int_eq(check_rows(&divided_product, false, 0, &report), TH_ERROR_VALUE);
    ck_assert_msg(strstr(report.text, "(sample \"rows\", elements are 0) is wrong") != NULL, "%s", report.text);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("special operands", setup, close_context);
    tcase_add_loop_test(tcase, a_rule_that_is_wrong_for_some_operands_is_rejected, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    tcase_add_test(tcase, both_modes_are_checked_from_either);
    tcase_add_loop_test(tcase, a_right_rule_passes, 0, (int)(sizeof right_functions / sizeof *right_functions));
    tcase_add_loop_test(tcase, a_rule_that_is_wrong_at_0_is_rejected, 0,
                        (int)(sizeof wrong_functions / sizeof *wrong_functions));
    tcase_add_loop_test(tcase, a_right_rule_of_rows_passes, 0, (int)(sizeof right_rows / sizeof *right_rows));
    tcase_add_test(tcase, a_product_that_divides_by_0_is_rejected);
    return run_suites();
}
