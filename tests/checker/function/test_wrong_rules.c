/* Wrong rules that th_check_function must find in float64: a table of 61, beside right ones that it must accept. The
 * rules that no check at random points can find are at the end, with the reason. */
#include "plain_functions.h"

/* -- functions of each element: value, right slope, wrong slopes -- */

#define F(name, expression)                                                                                            \
    static double name(double x)                                                                                       \
    {                                                                                                                  \
        return expression;                                                                                             \
    }

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double square(double x)
{
    return x * x;
}

F(swish, x *sigmoid(x))
F(swish_right, sigmoid(x) * (1 + x * (1 - sigmoid(x))))
F(swish_1, sigmoid(x))
F(swish_2, sigmoid(x) * (1 + x * sigmoid(x)))
F(swish_3, 1 + x * (1 - sigmoid(x)))
F(swish_4, sigmoid(x) * (1 - sigmoid(x)))
F(swish_5, sigmoid(x) * (1 - x * (1 - sigmoid(x))))
F(swish_6, 1.001 * swish_right(x))
F(tanh_right, 1 - square(tanh(x)))
F(tanh_1, 1 - tanh(x))
F(tanh_2, 1 + square(tanh(x)))
F(tanh_3, square(1 - tanh(x)))
F(tanh_4, 1 - square(x))
F(tanh_5, tanh(x) * (1 - tanh(x)))
F(gelu, x *(1 + erf(x / sqrt(2))) / 2)
F(gelu_right, (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * acos(-1)))
F(gelu_1, (1 + erf(x / sqrt(2))) / 2)
F(gelu_2, (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(acos(-1)))
F(gelu_3, (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x) / sqrt(2 * acos(-1)))
F(gelu_4, (1 + erf(x)) / 2 + x * exp(-x * x / 2) / sqrt(2 * acos(-1)))
F(gelu_5, (1 + tanh(0.7978845608 * (x + 0.044715 * x * x * x))) / 2)
F(softplus, log1p(exp(x)))
F(softplus_1, sigmoid(-x))
F(softplus_2, sigmoid(x) * (1 - sigmoid(x)))
F(softplus_3, x > 0 ? 1 : exp(x))
F(elu, x > 0 ? x : expm1(x))
F(elu_right, x > 0 ? 1 : exp(x))
F(elu_1, x > 0 ? 1 : expm1(x))
F(elu_2, exp(x))
F(elu_3, x > -1e9)
F(elu_4, x > 0 ? 1 : 1 + exp(x))
F(leaky, x > 0 ? x : 0.01 * x)
F(leaky_right, x > 0 ? 1 : 0.01)
F(leaky_1, x > 0 ? 1 : 0)
F(leaky_2, x > 0 ? 1 : -0.01)
F(leaky_3, x > 0.01 ? 1 : 0.1)
F(huber, fabs(x) < 1 ? x * x / 2 : fabs(x) - 0.5)
F(huber_right, fmax(-1, fmin(1, x)))
F(huber_1, x)
F(huber_2, fabs(x) < 1 ? x : 1)
F(huber_3, fabs(x) < 0.5 ? x : copysign(1, x))
F(huber_4, fabs(x) < 1 ? x / 2 : copysign(1, x))
F(inverse, 1 / (1 + x * x))
F(inverse_right, -2 * x / square(1 + x * x))
F(inverse_1, -2 * x / (1 + x * x))
F(inverse_2, 2 * x / square(1 + x * x))
F(inverse_3, -1 / square(1 + x * x))
F(inverse_4, -x / square(1 + x * x))
F(sine_right, cos(x))
F(sine_1, -cos(x))
F(sine_2, cos(x + 1e-3))
F(sine_3, fabs(x) < 1.9 ? cos(x) : 0)
F(clamp6, fmin(6, fmax(0, x)))
F(clamp6_right, x > 0 && x < 6)
F(clamp6_1, x > 0)
F(clamp6_2, x < 6)

static const struct rule {
    const char *name;
    double (*value)(double), (*right)(double), (*wrong[7])(double);
} rules[] = {{"swish", swish, swish_right, {swish_1, swish_2, swish_3, swish_4, swish_5, swish_6}},
             {"tanh", tanh, tanh_right, {tanh_1, tanh_2, tanh_3, tanh_4, tanh_5}},
             {"gelu", gelu, gelu_right, {gelu_1, gelu_2, gelu_3, gelu_4, gelu_5}},
             {"softplus", softplus, sigmoid, {softplus_1, softplus_2, softplus_3}},
             {"elu", elu, elu_right, {elu_1, elu_2, elu_3, elu_4}},
             {"leaky", leaky, leaky_right, {leaky_1, leaky_2, leaky_3}},
             {"huber", huber, huber_right, {huber_1, huber_2, huber_3, huber_4}},
             {"inverse", inverse, inverse_right, {inverse_1, inverse_2, inverse_3, inverse_4}},
             {"sine", sin, sine_right, {sine_1, sine_2, sine_3}},
             {"clamp6", clamp6, clamp6_right, {clamp6_1, clamp6_2}}};

/* -- functions of a matrix (R, C); rule 0 is right -- */

enum { R = 4, C = 5 };

typedef struct matrix_function {
    const char *name;
    void (*value)(const double *x, double *y);
    void (*backward)(int rule, const double *x, const double *y, const double *dy, double *dx);
    int wrong; /* the number of wrong rules */
    int64_t outputs;
} matrix_function;

#define AT(r, c) ((r)*C + (c))

static void softmax(const double *x, double *y)
{
    for (int r = 0; r < R; r++) {
        double sum = 0;
        for (int c = 0; c < C; c++)
            sum += exp(x[AT(r, c)]);
        for (int c = 0; c < C; c++)
            y[AT(r, c)] = exp(x[AT(r, c)]) / sum;
    }
}

static void softmax_backward(int rule, const double *x, const double *y, const double *dy, double *dx)
{
    (void)x;
    for (int r = 0; r < R; r++) {
        double dot = 0, sum = 0;
        for (int c = 0; c < C - (rule == 5); c++) {
            dot += y[AT(r, c)] * dy[AT(r, c)];
            sum += dy[AT(r, c)];
        }
        for (int c = 0; c < C; c++) {
            const double p = y[AT(r, c)], g = dy[AT(r, c)];
            const double results[] = {p * (g - dot),     p * (1 - p) * g, p * g,         p * (g + dot),
                                      p * (g - dot / C), p * (g - dot),   p * (g - sum), g - dot};
            dx[AT(r, c)] = results[rule];
        }
    }
}

static void cumulative_sum(const double *x, double *y)
{
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            y[AT(r, c)] = x[AT(r, c)] + (c ? y[AT(r, c - 1)] : 0);
}

static void cumulative_sum_backward(int rule, const double *x, const double *y, const double *dy, double *dx)
{
    (void)x, (void)y;
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            dx[AT(r, c)] = 0;
            const int first = rule == 1 ? 0 : rule == 2 ? c + 1 : c, end = rule == 1 ? c + 1 : rule == 3 ? C - 1 : C;
            for (int k = first; k < end; k++)
                dx[AT(r, c)] += dy[AT(rule == 4 ? (r + 1) % R : r, k)];
        }
}

static void column_means_of_squares(const double *x, double *y)
{
    for (int c = 0; c < C; c++) {
        y[c] = 0;
        for (int r = 0; r < R; r++)
            y[c] += x[AT(r, c)] * x[AT(r, c)] / R;
    }
}

static void column_means_backward(int rule, const double *x, const double *y, const double *dy, double *dx)
{
    (void)y;
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            const double right = 2 * x[AT(r, c)] * dy[c] / R;
            const double results[] = {right,         right * R,
                                      right * R / C, right / 2,
                                      r ? 0 : right, r == R - 1 ? 0 : right,
                                      2 * dy[c] / R, 2 * x[AT(r, c)] * dy[(c + 1) % C] / R};
            dx[AT(r, c)] = results[rule];
        }
}

static void row_maximum(const double *x, double *y)
{
    for (int r = 0; r < R; r++) {
        y[r] = x[AT(r, 0)];
        for (int c = 1; c < C; c++)
            y[r] = fmax(y[r], x[AT(r, c)]);
    }
}

static void row_maximum_backward(int rule, const double *x, const double *y, const double *dy, double *dx)
{
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            const bool largest = x[AT(r, c)] == y[r];
            const double results[] = {largest ? dy[r] : 0, dy[r], largest ? dy[0] : 0, dy[r] / C,
                                      largest && c < C - 1 ? dy[r] : 0};
            dx[AT(r, c)] = results[rule];
        }
}

static const matrix_function matrix_functions[] = {
    {"softmax", softmax, softmax_backward, 7, R *C},
    {"cumulative sum", cumulative_sum, cumulative_sum_backward, 4, R *C},
    {"column means", column_means_of_squares, column_means_backward, 7, C},
    {"row maximum", row_maximum, row_maximum_backward, 4, R}};

typedef struct matrix_user {
    const matrix_function *function;
    int rule;
} matrix_user;

static int matrix_forward(void *user, const th_buffer *in, th_buffer *out)
{
    ((const matrix_user *)user)->function->value(in->data, out->data);
    return 0;
}

static int matrix_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    const matrix_user *m = user;
    m->function->backward(m->rule, in->data, out->data, dout->data, din->data);
    return 0;
}

static th_status check_matrix(const matrix_function *f, int rule)
{
    matrix_user user = {f, rule};
    const th_port x = TH_PORT("x", TH_FLOAT64, R, C), y = th_port_of("y", TH_FLOAT64, TH_SHAPE(f->outputs));
    const th_function function = th_function_of(f->name, matrix_forward, matrix_backward, &user, 1, &x, 1, &y);
    return check(&function);
}

/* -- the table -- */

enum { RULES = 61 };

static int tried, found;

static void count_wrong(const char *name, int number, th_status status)
{
    tried++;
    found += status == TH_ERROR_VALUE && report.verdict == TH_GRADIENT_WRONG;
    if (status == TH_OK)
        fprintf(stderr, "wrong rule %d of %s is not found\n", number, name);
}

START_TEST(wrong_rules_are_found)
{
    const th_port port = TH_PORT("x", TH_FLOAT64, 24);
    for (size_t f = 0; f < sizeof rules / sizeof *rules; f++) {
        expect_right(check_elementwise(rules[f].value, rules[f].right, &port));
        for (int w = 0; rules[f].wrong[w]; w++)
            count_wrong(rules[f].name, w + 1, check_elementwise(rules[f].value, rules[f].wrong[w], &port));
    }
    for (size_t f = 0; f < sizeof matrix_functions / sizeof *matrix_functions; f++) {
        expect_right(check_matrix(&matrix_functions[f], 0));
        for (int w = 1; w <= matrix_functions[f].wrong; w++)
            count_wrong(matrix_functions[f].name, w, check_matrix(&matrix_functions[f], w));
    }
    ck_assert_int_eq(tried, RULES);
    ck_assert_msg(found == RULES, "only %d of %d wrong rules were found", found, tried);
}
END_TEST

/* -- wrong rules that stay hidden: include/tapehead/check_function.h names their kinds -- */

F(far_branch, x > 20 ? 7 : cos(x))                /* wrong only where no input is */
F(thin_branch, fabs(x - 0.5) < 1e-7 ? 7 : cos(x)) /* wrong in a range that random inputs hardly hit */
F(small_error, cos(x) * (1 + 1e-7))               /* smaller than the tolerance */

START_TEST(rules_that_random_points_cannot_show)
{
    const th_port port = TH_PORT("x", TH_FLOAT64, 24);
    expect_right(check_elementwise(sin, far_branch, &port));
    expect_right(check_elementwise(sin, thin_branch, &port));
    expect_right(check_elementwise(sin, small_error, &port));
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("wrong rules of plain functions", NULL, NULL);
    tcase_add_test(tcase, wrong_rules_are_found);
    tcase_add_test(tcase, rules_that_random_points_cannot_show);
    return run_suites();
}
