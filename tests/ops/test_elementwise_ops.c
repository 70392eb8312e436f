/* Elementwise operations through the public API: values in both types, contiguous and strided, compared with libm;
 * comparisons and logic for every element type; dropout; errors; descriptors. (test_gradients.c checks gradients,
 * test_vector_math.c special values.) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/shared/elementwise.h"
#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3});
    ck_assert_ptr_nonnull(ctx);
}

#define GOOD(tensor) ck_assert_msg((tensor) != NULL, "%s", th_error_message(ctx))
#define RUNS(status) ck_assert_msg((status) == TH_OK, "%s", th_error_message(ctx))

enum { ROWS = 5, COLUMNS = 70, COUNT = ROWS * COLUMNS };

/* Returns a (5, 70) tensor uniform on [low, high), and its elements, row-major, in values. strided: the tensor is a
 * transposed view. */
static th_tensor *operand(th_dtype dtype, double low, double high, bool strided, double *values)
{
    th_tensor *t = strided ? th_swap_axes(th_uniform(ctx, dtype, TH_SHAPE(COLUMNS, ROWS), low, high), 0, 1)
                           : th_uniform(ctx, dtype, TH_SHAPE(ROWS, COLUMNS), low, high);
    GOOD(t);
    RUNS(th_copy_out(th_cast(t, TH_FLOAT64), values, COUNT * sizeof *values));
    return t;
}

static void expect(th_tensor *t, const double *values, double tolerance, const char *what)
{
    double got[COUNT];
    GOOD(t);
    RUNS(th_copy_out(th_cast(t, TH_FLOAT64), got, sizeof got));
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(fabs(got[i] - values[i]) <= tolerance * (1 + fabs(values[i])), "%s: %.17g, not %.17g", what,
                      got[i], values[i]);
}

/* -- one operand -- */

static double one_neg(double x)
{
    return -x;
}
static double one_scale(double x)
{
    return x * 2.5;
}
static double one_add_scalar(double x)
{
    return x + 2.5;
}
static double one_pow_scalar(double x)
{
    return pow(x, 1.5);
}
static double one_square(double x)
{
    return x * x;
}
static double one_rsqrt(double x)
{
    return 1 / sqrt(x);
}
static double one_clamp(double x)
{
    return fmin(fmax(x, -0.5), 0.25);
}
static double one_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double one_softplus(double x)
{
    return log1p(exp(x));
}
static double one_relu(double x)
{
    return x > 0 ? x : 0;
}
static double one_relu_squared(double x)
{
    return x > 0 ? x * x : 0;
}
static double one_gelu(double x)
{
    return x / 2 * (1 + erf(x * M_SQRT1_2));
}
static double one_gelu_tanh(double x)
{
    return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double one_silu(double x)
{
    return x / (1 + exp(-x));
}

static th_tensor *scale(th_tensor *x)
{
    return th_scale(x, 2.5);
}
static th_tensor *add_scalar(th_tensor *x)
{
    return th_add_scalar(x, 2.5);
}
static th_tensor *pow_scalar(th_tensor *x)
{
    return th_pow_scalar(x, 1.5);
}
static th_tensor *square(th_tensor *x)
{
    return th_pow_scalar(x, 2);
}
static th_tensor *clamp(th_tensor *x)
{
    return th_clamp(x, -0.5, 0.25);
}

static const struct unary {
    const char *name;
    th_tensor *(*operation)(th_tensor *);
    double (*reference)(double);
    double low, high;
} unaries[] = {
    {"neg", th_neg, one_neg, -2, 2},
    {"scale", scale, one_scale, -2, 2},
    {"add_scalar", add_scalar, one_add_scalar, -2, 2},
    {"pow_scalar", pow_scalar, one_pow_scalar, 0, 4},
    {"square", square, one_square, -2, 2},
    {"exp", th_exp, exp, -4, 4},
    {"log", th_log, log, 0.01, 9},
    {"sqrt", th_sqrt, sqrt, 0, 9},
    {"rsqrt", th_rsqrt, one_rsqrt, 0.1, 9},
    {"sin", th_sin, sin, -30, 30},
    {"cos", th_cos, cos, -30, 30},
    {"abs", th_abs, fabs, -2, 2},
    {"clamp", clamp, one_clamp, -1, 1},
    {"tanh", th_tanh, tanh, -4, 4},
    {"sigmoid", th_sigmoid, one_sigmoid, -9, 9},
    {"softplus", th_softplus, one_softplus, -40, 40},
    {"relu", th_relu, one_relu, -2, 2},
    {"relu_squared", th_relu_squared, one_relu_squared, -2, 2},
    {"gelu", th_gelu, one_gelu, -6, 6},
    {"gelu_tanh", th_gelu_tanh, one_gelu_tanh, -6, 6},
    {"silu", th_silu, one_silu, -9, 9},
};

START_TEST(test_unary)
{
    const struct unary *u = &unaries[_i];
    for (int kind = 0; kind < 4; kind++) {
        const th_dtype dtype = kind % 2 ? TH_FLOAT64 : TH_FLOAT32;
        double values[COUNT];
        th_tensor *x = operand(dtype, u->low, u->high, kind / 2, values);
        for (int i = 0; i < COUNT; i++)
            values[i] = u->reference(values[i]);
        th_tensor *y = u->operation(x);
        expect(y, values, dtype == TH_FLOAT32 ? 3e-7 : 1e-15, u->name);
        ck_assert(th_dtype_of(y) == dtype);
        th_tape_clear(ctx);
    }
    expect_failure(u->operation(th_arange(ctx, TH_INT32, 0, 3, 1)) == NULL, TH_ERROR_TYPE, "int32");
    expect_failure(u->operation(NULL) == NULL, TH_ERROR_ARGUMENT, "is NULL");
}
END_TEST

/* -- two operands -- */

static double two_add(double a, double b)
{
    return a + b;
}
static double two_sub(double a, double b)
{
    return a - b;
}
static double two_mul(double a, double b)
{
    return a * b;
}
static double two_div(double a, double b)
{
    return a / b;
}

static const struct binary {
    const char *name;
    th_tensor *(*operation)(th_tensor *, th_tensor *);
    double (*reference)(double, double);
} binaries[] = {
    {"add", th_add, two_add}, {"sub", th_sub, two_sub},      {"mul", th_mul, two_mul},      {"div", th_div, two_div},
    {"pow", th_pow, pow},     {"maximum", th_maximum, fmax}, {"minimum", th_minimum, fmin},
};

START_TEST(test_binary)
{
    const struct binary *f = &binaries[_i];
    for (int kind = 0; kind < 8; kind++) {
        const th_dtype dtype = kind % 2 ? TH_FLOAT64 : TH_FLOAT32;
        const double tolerance = dtype == TH_FLOAT32 ? 2e-7 : 1e-15;
        double a[COUNT], b[COUNT], y[COUNT], row[COUNT], column[COUNT];
        th_tensor *x0 = operand(dtype, 0.2, 3, kind / 2 % 2, a), *x1 = operand(dtype, 0.2, 3, kind / 4, b);
        for (int i = 0; i < COUNT; i++) {
            y[i] = f->reference(a[i], b[i]);
            row[i] = f->reference(a[i], b[2 * COLUMNS + i % COLUMNS]);
            column[i] = f->reference(a[i / COLUMNS * COLUMNS + 3], b[i]);
        }
        expect(f->operation(x0, x1), y, tolerance, f->name);
        expect(f->operation(x0, th_select(x1, 0, 2)), row, tolerance, f->name);
        expect(f->operation(th_slice(x0, 1, 3, 4, 1), x1), column, tolerance, f->name);
        th_tape_clear(ctx);
    }
    expect_failure(f->operation(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)), th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2))) == NULL,
                   TH_ERROR_TYPE, "types are mixed");
    expect_failure(f->operation(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)), th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))) == NULL,
                   TH_ERROR_SHAPE, "do not broadcast");
}
END_TEST

START_TEST(test_where)
{
    double a[COUNT], b[COUNT], y[COUNT];
    th_tensor *x0 = operand(TH_FLOAT32, -1, 1, false, a), *x1 = operand(TH_FLOAT32, -1, 1, true, b);
    for (int i = 0; i < COUNT; i++)
        y[i] = a[i] < b[i] ? a[i] : b[i];
    expect(th_where(th_less(x0, x1), x0, x1), y, 0, "where");
    for (int i = 0; i < COUNT; i++)
        y[i] = a[2 * COLUMNS + i % COLUMNS] > b[2 * COLUMNS + i % COLUMNS] ? a[i] : b[0];
    th_tensor *condition = th_select(th_greater(x0, x1), 0, 2), *number = th_select(th_select(x1, 0, 0), 0, 0);
    th_tensor *result = th_where(condition, th_set_axes(x0, "RC"), number);
    expect(result, y, 0, "where, broadcast");
    ck_assert_str_eq(th_axes_of(result), "RC");
    assert_error(th_where(x0, x0, x1), TH_ERROR_TYPE, "bool");
    assert_error(th_where(condition, x0, th_cast(x1, TH_FLOAT64)), TH_ERROR_TYPE, "types are mixed");
}
END_TEST

/* -- comparisons and logic -- */

static const struct comparison {
    const char *name;
    th_tensor *(*operation)(th_tensor *, th_tensor *);
    bool less, equal, greater, unordered; /* the result in each case */
} comparisons[] = {
    {"equal", th_equal, false, true, false, false},     {"not_equal", th_not_equal, true, false, true, true},
    {"less", th_less, true, false, false, false},       {"less_equal", th_less_equal, true, true, false, false},
    {"greater", th_greater, false, false, true, false}, {"greater_equal", th_greater_equal, false, true, true, false},
};

START_TEST(test_comparisons)
{
    const struct comparison *f = &comparisons[_i];
    for (int dtype = 0; dtype <= TH_BOOL; dtype++) {
        /* a column of 0, 1, 2 (bool: 0, 1, 1) against a row of the same */
        th_tensor *values = th_cast(th_arange(ctx, TH_INT32, 0, 3, 1), (th_dtype)dtype);
        th_tensor *y = f->operation(th_unsqueeze(values, 1), values);
        GOOD(y);
        ck_assert(th_dtype_of(y) == TH_BOOL && th_ndim(y) == 2 && th_size(y, 0) == 3 && th_size(y, 1) == 3);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                const int a = dtype == TH_BOOL ? i > 0 : i, b = dtype == TH_BOOL ? j > 0 : j;
                const bool expected = a < b ? f->less : a == b ? f->equal : f->greater;
                ck_assert_msg(th_get(y, TH_INDEX(i, j)) == expected, "%s %s: %d, %d", f->name,
                              th_dtype_name((th_dtype)dtype), i, j);
            }
    }
    th_tensor *nan = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), NAN);
    ck_assert(th_get(f->operation(nan, nan), TH_INDEX(1)) == f->unordered);
    /* integers that doubles cannot distinguish */
    const int64_t large[2] = {((int64_t)1 << 60) + 1, (int64_t)1 << 60};
    th_tensor *a = th_from_data(ctx, TH_INT64, TH_SHAPE(1), &large[0]),
              *b = th_from_data(ctx, TH_INT64, TH_SHAPE(1), &large[1]);
    ck_assert(th_item(f->operation(a, b)) == f->greater);
    expect_failure(f->operation(nan, a) == NULL, TH_ERROR_TYPE, "float32");
}
END_TEST

START_TEST(test_logic)
{
    const bool values[2] = {false, true};
    th_tensor *a = th_from_data(ctx, TH_BOOL, TH_SHAPE(2, 1), values),
              *b = th_from_data(ctx, TH_BOOL, TH_SHAPE(2), values);
    th_tensor *both = th_logical_and(a, b), *either = th_logical_or(a, b), *neither = th_logical_not(either);
    GOOD(neither);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            ck_assert(th_get(both, TH_INDEX(i, j)) == (i && j));
            ck_assert(th_get(either, TH_INDEX(i, j)) == (i || j));
            ck_assert(th_get(neither, TH_INDEX(i, j)) == !(i || j));
        }
    assert_error(th_logical_not(th_zeros(ctx, TH_INT32, TH_SHAPE(2))), TH_ERROR_TYPE, "int32");
    assert_error(th_logical_and(a, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))), TH_ERROR_TYPE, "must be bool");
}
END_TEST

/* -- dropout -- */

START_TEST(test_dropout)
{
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(100, 100));
    static float first[10000], second[10000], gradient[10000];
    /* the gradient is the mask of the value, for x = 1 */
    GOOD(th_set_requires_gradient(x, true));
    th_tensor *y = th_dropout(x, 0.25);
    GOOD(y);
    RUNS(th_copy_out(y, first, sizeof first));
    int dropped = 0;
    for (int i = 0; i < 10000; i++) {
        ck_assert(first[i] == 0 || first[i] == (float)(1 / 0.75));
        dropped += first[i] == 0;
    }
    ck_assert(abs(dropped - 2500) < 5 * 44);
    RUNS(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL));
    RUNS(th_copy_out(th_gradient(x), gradient, sizeof gradient));
    ck_assert(memcmp(first, gradient, sizeof first) == 0);
    /* the next call draws different numbers */
    RUNS(th_copy_out(th_dropout(x, 0.25), second, sizeof second));
    ck_assert(memcmp(first, second, sizeof first) != 0);
    th_tape_clear(ctx);
    /* x itself if nothing is dropped */
    ck_assert_ptr_eq(th_dropout(x, 0), x);
    th_set_training(ctx, false);
    ck_assert_ptr_eq(th_dropout(x, 0.25), x);
    for (int training = 0; training < 2; training++) {
        const double wrong[] = {-0.1, 1, 1.5, NAN};
        th_set_training(ctx, training);
        for (int i = 0; i < 4; i++) {
            ck_assert_ptr_null(th_dropout(x, wrong[i]));
            ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
            ck_assert_ptr_null(th_dropout(x, 0)); /* an error is pending */
            th_error_clear(ctx);
        }
    }
}
END_TEST

/* dropout_residual has the same bits as the sum of residual and dropout, in values and gradients. */
START_TEST(test_dropout_residual)
{
    const th_shape shape = TH_SHAPE(3, 5, 37);
    static float value[2][555], gradient[2][2][555];
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, shape, -1, 1), *residual = th_uniform(ctx, TH_FLOAT32, shape, -1, 1),
              *cotangent = th_uniform(ctx, TH_FLOAT32, shape, -1, 1);
    GOOD(th_set_requires_gradient(x, true));
    GOOD(th_set_requires_gradient(residual, true));
    for (int fused = 0; fused < 2; fused++) {
        th_set_step(ctx, 3 + fused);
        th_set_step(ctx, 9);
        th_tensor *y = fused ? th_dropout_residual(x, 0.4, residual) : th_add(residual, th_dropout(x, 0.4));
        GOOD(y);
        RUNS(th_copy_out(y, value[fused], sizeof value[0]));
        RUNS(th_backward(y, &(th_backward_options){.cotangent = cotangent}));
        RUNS(th_copy_out(th_gradient(x), gradient[fused][0], sizeof gradient[0][0]));
        RUNS(th_copy_out(th_gradient(residual), gradient[fused][1], sizeof gradient[0][0]));
        th_empty_gradient(x);
        th_empty_gradient(residual);
        th_tape_clear(ctx);
    }
    ck_assert(memcmp(value[0], value[1], sizeof value[0]) == 0);
    ck_assert(memcmp(gradient[0], gradient[1], sizeof gradient[0]) == 0);

    /* neither x nor anything else is saved */
    const size_t before = th_memory(ctx).live;
    th_scope_begin(ctx, NULL);
    GOOD(th_scope_end(ctx, th_dropout_residual(th_scale(x, INFINITY), 0.4, residual)));
    ck_assert_uint_lt(th_memory(ctx).live - before, 2 * sizeof value[0]);
    th_tape_clear(ctx);

    /* if nothing is dropped, the result is the sum; errors are still reported */
    th_tensor *row = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(37)), *wide = th_zeros(ctx, TH_FLOAT64, shape);
    for (int training = 0; training < 2; training++) {
        const double p = training ? 0 : 0.4;
        th_set_training(ctx, training);
        th_tensor *difference = th_sub(th_dropout_residual(x, p, residual), th_add(residual, x));
        ck_assert(th_item(th_max(th_abs(difference), TH_ALL_AXES, NULL)) == 0);
        ck_assert_ptr_null(th_dropout_residual(x, p, row));
        ck_assert_int_eq(th_error_code(ctx), TH_ERROR_SHAPE);
        th_error_clear(ctx);
        ck_assert_ptr_null(th_dropout_residual(x, p, wide));
        ck_assert_int_eq(th_error_code(ctx), TH_ERROR_TYPE);
        th_error_clear(ctx);
        ck_assert_ptr_null(th_dropout_residual(x, 1, residual));
        ck_assert_int_eq(th_error_code(ctx), TH_ERROR_ARGUMENT);
        ck_assert_ptr_null(th_dropout_residual(x, 0, residual)); /* an error is pending */
        th_error_clear(ctx);
    }
}
END_TEST

/* The mask is the same for a strided operand, in float64, and with any number of threads. */
START_TEST(test_dropout_layouts)
{
    double masks[4][COUNT];
    for (int kind = 0; kind < 4; kind++) {
        double values[COUNT];
        RUNS(th_set_threads(ctx, 1 + kind));
        th_set_step(ctx, kind); /* the call counter restarts ... */
        th_set_step(ctx, 9);    /* ... in the same step */
        th_tensor *x = operand(kind % 2 ? TH_FLOAT64 : TH_FLOAT32, 1, 2, kind / 2, values);
        GOOD(x);
        RUNS(th_copy_out(th_cast(th_dropout(x, 0.5), TH_FLOAT64), masks[kind], sizeof masks[kind]));
        for (int i = 0; i < COUNT; i++) {
            ck_assert(masks[kind][i] == 0 || fabs(masks[kind][i] - 2 * values[i]) < 1e-6);
            masks[kind][i] = masks[kind][i] != 0;
        }
        ck_assert(memcmp(masks[kind], masks[0], sizeof masks[0]) == 0);
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(test_clamp_range)
{
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2));
    assert_error(th_clamp(x, 1, 0), TH_ERROR_ARGUMENT, "clamp");
    assert_error(th_clamp(x, NAN, 0), TH_ERROR_ARGUMENT, "clamp");
    ck_assert(th_get(th_clamp(x, 1, 1), TH_INDEX(0)) == 1);
}
END_TEST

/* Every descriptor of an elementwise operation gives its kernels the operands and the attributes that they read. */
START_TEST(test_descriptors_fit_their_kernels)
{
    static const struct {
        const char *name;
        int sources;
        size_t numbers;
    } kernels[] = {
#define ELEMENTWISE(name, sources, numbers) {#name, sources, numbers},
#include "elementwise.def"
#undef ELEMENTWISE
    };
    int operations = 0;
    for (int o = 0; o < th_op_count(); o++) {
        const th_op *op = th_op_at(o);
        if (op->forward != th_elementwise_forward)
            continue;
        operations++;
        const th_elementwise_id *ids = op->kernel;
        ck_assert_msg(kernels[ids[0]].sources == op->n_inputs, "%s: kernel %s", op->name, kernels[ids[0]].name);
        ck_assert_msg(kernels[ids[0]].numbers * sizeof(double) == op->attributes_size, "%s: attributes", op->name);
        for (int i = 0; i < op->n_inputs; i++) {
            if (op == th_op_find("where") && i == 0)
                continue; /* the condition has no gradient */
            const int reads = 1 + __builtin_popcount(op->saves | op->saves_for[i]);
            ck_assert_msg(kernels[ids[1 + i]].sources == reads,
                          "%s: gradient of input %d: kernel %s reads %d operands, the"
                          " descriptor gives it %d",
                          op->name, i, kernels[ids[1 + i]].name, kernels[ids[1 + i]].sources, reads);
            ck_assert_msg(kernels[ids[1 + i]].numbers * sizeof(double) <= op->attributes_size, "%s: attributes",
                          op->name);
        }
    }
    ck_assert_int_gt(operations, 20);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("elementwise_ops", setup, close_context);
    tcase_add_loop_test(tests, test_unary, 0, sizeof unaries / sizeof *unaries);
    tcase_add_loop_test(tests, test_binary, 0, sizeof binaries / sizeof *binaries);
    tcase_add_test(tests, test_where);
    tcase_add_loop_test(tests, test_comparisons, 0, sizeof comparisons / sizeof *comparisons);
    tcase_add_test(tests, test_logic);
    tcase_add_test(tests, test_dropout);
    tcase_add_test(tests, test_dropout_residual);
    tcase_add_test(tests, test_dropout_layouts);
    tcase_add_test(tests, test_clamp_range);
    tcase_add_test(tests, test_descriptors_fit_their_kernels);
    return run_suites();
}
