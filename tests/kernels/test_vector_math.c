/* Elementwise kernels and reductions: accuracy against libm in float64, special values, the same bits on AVX2 and
 * AVX-512 and for every length, and no access beyond the end. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "suite.h"

/* Returns the next test number, uniform on [low, high), from a 64-bit linear congruential generator. */
static uint64_t state = 1;
static double uniform(double low, double high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 11) * 0x1p-53;
}

/* -- accuracy against libm in float64 -- */

typedef struct accuracy {
    const char *name;
    size_t entry; /* offset in th_kernels */
    double (*reference)(double);
    float low, high;
    double relative, absolute; /* |error| <= relative |value| + absolute */
} accuracy;

static double reference_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double reference_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double reference_gelu(double x)
{
    return x * 0.5 * erfc(-x * M_SQRT1_2);
}

static double reference_gelu_tanh(double x)
{
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double reference_silu(double x)
{
    return x / (1 + exp(-x));
}

static double reference_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double reference_relu(double x)
{
    return x > 0 ? x : 0;
}

static double reference_relu_squared(double x)
{
    return x > 0 ? x * x : 0;
}

static const accuracy accuracies[] = {
    {ENTRY(exp), exp, -87.3f, 88.72f, 1.0e-7, 0},
    {ENTRY(exp), exp, -110.0f, -87.3f, 0, 1.5e-45}, /* denormal */
    {ENTRY(log), log, 1e-45f, FLT_MAX, 1.2e-7, 0},
    {ENTRY(log), log, 0.5f, 2.0f, 1.2e-7, 0},
    {ENTRY(tanh), tanh, -30.0f, 30.0f, 2.0e-7, 0},
    {ENTRY(sigmoid), reference_sigmoid, -87.0f, 87.0f, 2.0e-7, 0},
    {ENTRY(sin), sin, -FLT_MAX, FLT_MAX, 0, 1.0e-7},
    {ENTRY(sin), sin, -1e5f, 1e5f, 1.5e-7, 0}, /* relative, also near the zeros */
    {ENTRY(cos), cos, -FLT_MAX, FLT_MAX, 0, 1.0e-7},
    {ENTRY(cos), cos, -1e5f, 1e5f, 1.5e-7, 0},
    {ENTRY(sqrt), sqrt, 0.0f, FLT_MAX, 6.0e-8, 0},
    {ENTRY(rsqrt), reference_rsqrt, FLT_MIN, FLT_MAX, 1.2e-7, 0},
    {ENTRY(gelu), reference_gelu, -6.0f, 30.0f, 5.0e-7, 1.5e-45},
    {ENTRY(gelu), reference_gelu, -50.0f, -6.0f, 5.0e-7, 2e-44},
    {ENTRY(gelu_tanh), reference_gelu_tanh, -3.0f, 50.0f, 1.0e-6, 1.5e-45},
    {ENTRY(gelu_tanh), reference_gelu_tanh, -50.0f, -3.0f, 0, 5e-8},
    {ENTRY(silu), reference_silu, -87.0f, 87.0f, 3.0e-7, 1.5e-45},
    {ENTRY(softplus), reference_softplus, -87.0f, FLT_MAX, 3.0e-7, 0},
    {ENTRY(abs), fabs, -FLT_MAX, FLT_MAX, 0, 0},
    {ENTRY(relu), reference_relu, -FLT_MAX, FLT_MAX, 0, 0},
    {ENTRY(relu_squared), reference_relu_squared, -FLT_MAX, 1e19f, 6.0e-8, 1.5e-45},
};

enum { SWEEP = 40000 };

START_TEST(test_accuracy)
{
    const accuracy *a = &accuracies[_i];
    float *x = malloc(SWEEP * sizeof *x), *y = malloc(SWEEP * sizeof *y);
    ck_assert(x && y);
    /* half of them uniform over the interval, half over the exponents */
    for (int i = 0; i < SWEEP; i++) {
        const float any = (float)ldexp(uniform(-2, 2), (int)uniform(-149, 128));
        x[i] = i % 2 && any >= a->low && any <= a->high ? any : (float)uniform((double)a->low, (double)a->high);
    }
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        kernel_at(f32[isa], a->entry)(SWEEP, (void *const[]){y, x}, NULL);
        for (int i = 0; i < SWEEP; i++) {
            const double value = a->reference((double)x[i]);
            const double error = fabs((double)y[i] - value);
            const double bound = a->relative * fabs(value) + a->absolute;
            ck_assert_msg(error <= bound, "%s(%.9g) = %.9g, not %.9g", a->name, (double)x[i], (double)y[i], value);
        }
    }
    free(x);
    free(y);
}
END_TEST

START_TEST(test_pow_accuracy)
{
    enum { N = 20000 };
    float *x = malloc(N * sizeof *x), *p = malloc(N * sizeof *p), *y = malloc(N * sizeof *y);
    ck_assert(x && p && y);
    for (int i = 0; i < N; i++) {
        x[i] = (float)exp(uniform(-80, 80));
        p[i] = (float)uniform(-3, 3);
        if (i % 3 == 0) {
            x[i] = -(float)uniform(0, 10);
            p[i] = (float)(int)uniform(-9, 9);
        }
    }
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        f32[isa]->pow(N, (void *const[]){y, x, p}, NULL);
        for (int i = 0; i < N; i++) {
            const double value = pow((double)x[i], (double)p[i]);
            if (fabs(value) >= (double)FLT_MAX * 1.0000001)
                ck_assert(isinf(y[i]) && signbit(y[i]) == signbit(value));
            else
                ck_assert_msg(fabs((double)y[i] - value) <= 6.1e-8 * fabs(value) + 0.8e-45,
                              "%.9g ^ %.9g = %.9g, not %.9g", (double)x[i], (double)p[i], (double)y[i], value);
        }
    }
    free(x);
    free(p);
    free(y);
}
END_TEST

/* -- special values -- */

typedef struct special {
    const char *name;
    size_t entry;
    float x, y;
} special;

static const special specials[] = {
    {ENTRY(exp), 0.0f, 1.0f},
    {ENTRY(exp), -0.0f, 1.0f},
    {ENTRY(exp), INFINITY, INFINITY},
    {ENTRY(exp), -INFINITY, 0.0f},
    {ENTRY(exp), 1e30f, INFINITY},
    {ENTRY(exp), 88.8f, INFINITY},
    {ENTRY(exp), -1e30f, 0.0f},
    {ENTRY(exp), NAN, NAN},
    {ENTRY(log), 1.0f, 0.0f},
    {ENTRY(log), 0.0f, -INFINITY},
    {ENTRY(log), -0.0f, -INFINITY},
    {ENTRY(log), -1.0f, NAN},
    {ENTRY(log), -1e-45f, NAN},
    {ENTRY(log), INFINITY, INFINITY},
    {ENTRY(log), -INFINITY, NAN},
    {ENTRY(log), NAN, NAN},
    {ENTRY(tanh), 0.0f, 0.0f},
    {ENTRY(tanh), -0.0f, -0.0f},
    {ENTRY(tanh), INFINITY, 1.0f},
    {ENTRY(tanh), -INFINITY, -1.0f},
    {ENTRY(tanh), 1e-45f, 1e-45f},
    {ENTRY(tanh), NAN, NAN},
    {ENTRY(sigmoid), 0.0f, 0.5f},
    {ENTRY(sigmoid), INFINITY, 1.0f},
    {ENTRY(sigmoid), -INFINITY, 0.0f},
    {ENTRY(sigmoid), NAN, NAN},
    {ENTRY(sin), 0.0f, 0.0f},
    {ENTRY(sin), -0.0f, -0.0f},
    {ENTRY(sin), INFINITY, NAN},
    {ENTRY(sin), -INFINITY, NAN},
    {ENTRY(sin), NAN, NAN},
    {ENTRY(sin), 1e-45f, 1e-45f},
    {ENTRY(cos), 0.0f, 1.0f},
    {ENTRY(cos), -0.0f, 1.0f},
    {ENTRY(cos), INFINITY, NAN},
    {ENTRY(cos), NAN, NAN},
    {ENTRY(sqrt), 0.0f, 0.0f},
    {ENTRY(sqrt), -0.0f, -0.0f},
    {ENTRY(sqrt), -1.0f, NAN},
    {ENTRY(sqrt), INFINITY, INFINITY},
    {ENTRY(rsqrt), 0.0f, INFINITY},
    {ENTRY(rsqrt), INFINITY, 0.0f},
    {ENTRY(abs), -0.0f, 0.0f},
    {ENTRY(abs), -INFINITY, INFINITY},
    {ENTRY(abs), NAN, NAN},
    {ENTRY(relu), -INFINITY, 0.0f},
    {ENTRY(relu), NAN, NAN},
    {ENTRY(relu), -0.0f, 0.0f},
    {ENTRY(relu_squared), -INFINITY, 0.0f},
    {ENTRY(relu_squared), INFINITY, INFINITY},
    {ENTRY(relu_squared), NAN, NAN},
    {ENTRY(gelu), 0.0f, 0.0f},
    {ENTRY(gelu), INFINITY, INFINITY},
    {ENTRY(gelu), NAN, NAN},
    {ENTRY(gelu), -1e30f, -0.0f},
    {ENTRY(gelu), 1e30f, 1e30f},
    {ENTRY(gelu_tanh), 0.0f, 0.0f},
    {ENTRY(gelu_tanh), 1e30f, 1e30f},
    {ENTRY(gelu_tanh), -1e30f, -0.0f},
    {ENTRY(gelu_tanh), NAN, NAN},
    {ENTRY(silu), 0.0f, 0.0f},
    {ENTRY(silu), INFINITY, INFINITY},
    {ENTRY(silu), -1e30f, -0.0f},
    {ENTRY(silu), NAN, NAN},
    {ENTRY(softplus), INFINITY, INFINITY},
    {ENTRY(softplus), -INFINITY, 0.0f},
    {ENTRY(softplus), NAN, NAN},
    {ENTRY(neg), 0.0f, -0.0f},
};

START_TEST(test_special_values)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const special *s = &specials[i];
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            float y;
            kernel_at(f32[isa], s->entry)(1, (void *const[]){&y, (void *)&s->x}, NULL);
            ck_assert_msg(same((double)y, (double)s->y), "%s(%g) = %g, not %g", s->name, (double)s->x, (double)y,
                          (double)s->y);
            if (fabsf(s->x) < 80 && fabsf(s->x) > 0 && fabsf(s->x) < 1e-40f) /* (float64 has other limits) */
                continue;
            if (fabsf(s->x) == 88.8f)
                continue;
            double x64 = (double)s->x, y64;
            kernel_at(f64[isa], s->entry)(1, (void *const[]){&y64, &x64}, NULL);
            ck_assert_msg(same(y64, (double)s->y), "%s(%g) = %g in float64", s->name, x64, y64);
        }
    }
}
END_TEST

START_TEST(test_pow_special_values)
{
    const double values[] = {0.0,  -0.0,  1.0, -1.0,  2.0,      -2.0,      0.5, -0.5,       3.0,         -3.0,
                             1e30, -1e30, 7.0, 1e-30, INFINITY, -INFINITY, NAN, 16777217.0, -16777215.0, 8388608.5};
    enum { COUNT = sizeof values / sizeof *values };
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            for (int isa = 0; isa < ISAS && supported(isa); isa++) {
                float x = (float)values[i], p = (float)values[j], y;
                f32[isa]->pow(1, (void *const[]){&y, &x, &p}, NULL);
                const float value = (float)pow((double)x, (double)p);
                ck_assert_msg(same((double)y, (double)value) || fabsf(y - value) <= 1.2e-7f * fabsf(value),
                              "%g ^ %g = %g, not %g", (double)x, (double)p, (double)y, (double)value);
            }
}
END_TEST

START_TEST(test_ties_and_nan)
{
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        float a[6] = {1, 2, 3, NAN, 1, NAN}, b[6] = {2, 2, 1, 1, NAN, NAN}, dy[6] = {8, 8, 8, 8, 8, 8}, y[6];
        const float max[6] = {2, 2, 3, NAN, NAN, NAN}, least[6] = {1, 2, 1, NAN, NAN, NAN};
        f32[isa]->maximum(6, (void *const[]){y, a, b}, NULL);
        for (int i = 0; i < 6; i++)
            ck_assert(same((double)y[i], (double)max[i]));
        f32[isa]->minimum(6, (void *const[]){y, a, b}, NULL);
        for (int i = 0; i < 6; i++)
            ck_assert(same((double)y[i], (double)least[i]));
        f32[isa]->maximum_backward(6, (void *const[]){y, dy, a, b}, NULL);
        ck_assert(y[0] == 0 && y[1] == 4 && y[2] == 8 && y[3] == 8 && y[4] == 8);
        f32[isa]->minimum_backward(6, (void *const[]){y, dy, a, b}, NULL);
        ck_assert(y[0] == 8 && y[1] == 4 && y[2] == 0 && y[3] == 8 && y[4] == 8);

        float x[6] = {-1, 0, 0.5f, 1, 2, NAN};
        const double range[2] = {0, 1};
        f32[isa]->clamp(6, (void *const[]){y, x}, range);
        ck_assert(y[0] == 0 && y[1] == 0 && y[2] == 0.5f && y[3] == 1 && y[4] == 1 && isnan(y[5]));
        f32[isa]->clamp_backward(6, (void *const[]){y, dy, x}, range);
        ck_assert(y[0] == 0 && y[1] == 8 && y[2] == 8 && y[3] == 8 && y[4] == 0 && y[5] == 0);
        f32[isa]->abs_backward(6, (void *const[]){y, dy, x}, NULL);
        ck_assert(y[0] == -8 && y[1] == 0 && y[2] == 8 && isnan(y[5]));
        f32[isa]->relu_backward(6, (void *const[]){y, dy, x}, NULL);
        ck_assert(y[0] == 0 && y[1] == 0 && y[2] == 8);

        float zero[3] = {0, 0, 0}, exponent[3] = {0, 1, 2}, power[3];
        f32[isa]->pow(3, (void *const[]){power, zero, exponent}, NULL);
        f32[isa]->pow_backward_base(3, (void *const[]){y, dy, zero, exponent}, NULL);
        ck_assert(y[0] == 0 && y[1] == 8 && y[2] == 0);
        f32[isa]->pow_backward_exponent(3, (void *const[]){y, dy, zero, exponent, power}, NULL);
        ck_assert(y[0] == 0 && y[1] == 0 && y[2] == 0);
        f32[isa]->sqrt_backward(1, (void *const[]){y, dy, zero}, NULL);
        ck_assert(isinf(y[0]));
        /* for large |x| the slope is 0 or 1, not NaN */
        float far[2] = {-1e25f, 1e25f};
        f32[isa]->gelu_backward(2, (void *const[]){y, dy, far}, NULL);
        ck_assert(y[0] == 0 && y[1] == 8);
        f32[isa]->gelu_tanh_backward(2, (void *const[]){y, dy, far}, NULL);
        ck_assert(y[0] == 0 && y[1] == 8);
        f32[isa]->silu_backward(2, (void *const[]){y, dy, far}, NULL);
        ck_assert(y[0] == 0 && y[1] == 8);
    }
}
END_TEST

/* Kernels that compare: all pairs of some numbers, beside the definitions. */

typedef double branch_function(double dy, double a, double b);

static double slope_of_maximum(double dy, double a, double b)
{
    return a < b ? 0 : a == b ? dy / 2 : dy;
}

static double slope_of_minimum(double dy, double a, double b)
{
    return a > b ? 0 : a == b ? dy / 2 : dy;
}

static double slope_of_relu(double dy, double y, double unused)
{
    (void)unused;
    return y <= 0 ? 0 : dy;
}

static double slope_of_clamp(double dy, double x, double unused)
{
    (void)unused;
    return x >= -0.5 && x <= 1 ? dy : 0;
}

static double slope_of_abs(double dy, double x, double unused)
{
    (void)unused;
    return isnan(x) ? x : dy * copysign(x != 0, x);
}

static const struct branch {
    const char *name;
    size_t entry;
    branch_function *reference;
} branches[] = {
    {ENTRY(maximum_backward), slope_of_maximum}, {ENTRY(minimum_backward), slope_of_minimum},
    {ENTRY(relu_backward), slope_of_relu},       {ENTRY(clamp_backward), slope_of_clamp},
    {ENTRY(abs_backward), slope_of_abs},
};

START_TEST(test_branches)
{
    static const double values[] = {-2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, INFINITY, -INFINITY, NAN}, range[] = {-0.5, 1};
    enum { COUNT = sizeof values / sizeof *values, PAIRS = COUNT * COUNT };
    double x64[3][PAIRS], y64[PAIRS];
    float x[3][PAIRS], y[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        x64[0][i] = i + 1;
        x64[1][i] = values[i % COUNT];
        x64[2][i] = values[i / COUNT];
        for (int k = 0; k < 3; k++)
            x[k][i] = (float)x64[k][i];
    }
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        kernel_at(f32[isa], branches[_i].entry)(PAIRS, (void *const[]){y, x[0], x[1], x[2]}, range);
        kernel_at(f64[isa], branches[_i].entry)(PAIRS, (void *const[]){y64, x64[0], x64[1], x64[2]}, range);
        for (int i = 0; i < PAIRS; i++) {
            const double expected = branches[_i].reference(x64[0][i], x64[1][i], x64[2][i]);
            ck_assert_msg(same((double)y[i], expected) && same(y64[i], expected), "%s(%g, %g, %g) = %g and %g, not %g",
                          branches[_i].name, x64[0][i], x64[1][i], x64[2][i], (double)y[i], y64[i], expected);
        }
    }
}
END_TEST

/* -- every elementwise kernel: float32 against float64, instruction sets, every length, in place -- */

enum { MAX_SOURCES = 4, LENGTH = 1000, SHORT = 70 };

typedef struct elementwise_case {
    const char *name;
    size_t entry;
    int sources;
    double low, high; /* of all sources */
    const double *numbers;
    double tolerance; /* of float32 against float64, in units of 1 + |value| */
} elementwise_case;

static const double number_3[] = {0.3}, numbers_range[] = {-0.4, 0.7}, number_pow[] = {2.5}, number_2[] = {2};

static const elementwise_case elementwise_cases[] = {
    {ENTRY(copy), 1, -3, 3, NULL, 0},
    {ENTRY(add), 2, -3, 3, NULL, 1e-7},
    {ENTRY(sub), 2, -3, 3, NULL, 1e-7},
    {ENTRY(mul), 2, -3, 3, NULL, 1e-7},
    {ENTRY(div), 2, 0.3, 3, NULL, 1e-7},
    {ENTRY(div_backward), 3, 0.3, 3, NULL, 2e-7},
    {ENTRY(neg), 1, -3, 3, NULL, 0},
    {ENTRY(scale), 1, -3, 3, number_3, 1e-7},
    {ENTRY(add_scalar), 1, -3, 3, number_3, 1e-7},
    {ENTRY(maximum), 2, -3, 3, NULL, 0},
    {ENTRY(minimum), 2, -3, 3, NULL, 0},
    {ENTRY(maximum_backward), 3, -3, 3, NULL, 0},
    {ENTRY(minimum_backward), 3, -3, 3, NULL, 0},
    {ENTRY(clamp), 1, -1, 1, numbers_range, 1e-7},
    {ENTRY(clamp_backward), 2, -1, 1, numbers_range, 0},
    {ENTRY(abs), 1, -3, 3, NULL, 0},
    {ENTRY(abs_backward), 2, -3, 3, NULL, 0},
    {ENTRY(exp), 1, -5, 5, NULL, 2e-7},
    {ENTRY(log), 1, 0, 5, NULL, 2e-7},
    {ENTRY(sqrt), 1, 0, 5, NULL, 1e-7},
    {ENTRY(sqrt_backward), 2, 0.2, 5, NULL, 1e-7},
    {ENTRY(rsqrt), 1, 0.1, 5, NULL, 2e-7},
    {ENTRY(rsqrt_backward), 2, 0.1, 3, NULL, 3e-7},
    {ENTRY(sin), 1, -9, 9, NULL, 2e-7},
    {ENTRY(sin), 1, -1e9, 1e9, NULL, 2e-7},
    {ENTRY(sin_backward), 2, -9, 9, NULL, 3e-7},
    {ENTRY(cos), 1, -9, 9, NULL, 2e-7},
    {ENTRY(cos_backward), 2, -9, 9, NULL, 3e-7},
    {ENTRY(pow), 2, 0.1, 3, NULL, 1e-7},
    {ENTRY(pow_backward_base), 3, 0.1, 3, NULL, 4e-7},
    {ENTRY(pow_backward_exponent), 4, 0.1, 3, NULL, 4e-7},
    {ENTRY(pow_scalar), 1, 0.1, 3, number_pow, 1e-7},
    {ENTRY(pow_scalar), 1, -3, 3, number_2, 1e-7},
    {ENTRY(pow_scalar_backward), 2, 0.1, 3, number_pow, 3e-7},
    {ENTRY(pow_scalar_backward), 2, -3, 3, number_2, 2e-7},
    {ENTRY(tanh), 1, -4, 4, NULL, 2e-7},
    {ENTRY(tanh_backward), 2, -1, 1, NULL, 2e-7},
    {ENTRY(sigmoid), 1, -9, 9, NULL, 2e-7},
    {ENTRY(sigmoid_backward), 2, 0, 1, NULL, 2e-7},
    {ENTRY(relu), 1, -3, 3, NULL, 0},
    {ENTRY(relu_backward), 2, -3, 3, NULL, 0},
    {ENTRY(gelu), 1, -6, 6, NULL, 2e-7},
    {ENTRY(gelu_backward), 2, -6, 6, NULL, 5e-7},
    {ENTRY(gelu_tanh), 1, -6, 6, NULL, 3e-7},
    {ENTRY(gelu_tanh_backward), 2, -6, 6, NULL, 1e-6},
    {ENTRY(silu), 1, -9, 9, NULL, 2e-7},
    {ENTRY(silu_backward), 2, -9, 9, NULL, 6e-7},
    {ENTRY(divide_by), 1, -3, 3, number_3, 1e-7},
    {ENTRY(squared_difference), 2, -3, 3, NULL, 1e-6},
    {ENTRY(scaled_difference), 2, -3, 3, number_3, 1e-6},
    {ENTRY(lerp), 2, -3, 3, number_3, 2e-7},
};

START_TEST(test_elementwise_kernels)
{
    const elementwise_case *m = &elementwise_cases[_i];
    static float x[MAX_SOURCES + 1][LENGTH], y[ISAS][LENGTH];
    static double x64[MAX_SOURCES + 1][LENGTH], y64[LENGTH];
    for (int k = 0; k <= MAX_SOURCES; k++)
        for (int i = 0; i < LENGTH; i++)
            x64[k][i] = (double)(x[k][i] = (float)uniform(m->low, m->high));
    memcpy(y64, x64[0], sizeof y64);
    kernel_at(f64[0], m->entry)(LENGTH, (void *const[]){y64, x64[1], x64[2], x64[3], x64[4]}, m->numbers);
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        th_elementwise_kernel *kernel = kernel_at(f32[isa], m->entry);
        memcpy(y[isa], x[0], sizeof y[isa]);
        kernel(LENGTH, (void *const[]){y[isa], x[1], x[2], x[3], x[4]}, m->numbers);
        for (int i = 0; i < LENGTH; i++)
            ck_assert_msg(fabs((double)y[isa][i] - y64[i]) <= m->tolerance * (1 + fabs(y64[i])), "%s: %.9g, not %.9g",
                          m->name, (double)y[isa][i], y64[i]);
        /* every length and alignment gives the same elements and writes nothing else */
        for (int n = 0; n <= SHORT; n++) {
            const int from = n % 7;
            float part[SHORT + 16];
            for (int i = 0; i < SHORT + 16; i++)
                part[i] = 77;
            kernel(n, (void *const[]){part, x[1] + from, x[2] + from, x[3] + from, x[4] + from}, m->numbers);
            ck_assert(memcmp(part, y[isa] + from, (size_t)n * sizeof(float)) == 0);
            for (int i = n; i < SHORT + 16; i++)
                ck_assert(part[i] == 77);
        }
        /* the destination may be any of the sources */
        for (int k = 1; k <= m->sources; k++) {
            float same_memory[LENGTH];
            memcpy(same_memory, x[k], sizeof same_memory);
            void *operands[MAX_SOURCES + 1] = {same_memory, x[1], x[2], x[3], x[4]};
            operands[k] = same_memory;
            kernel(LENGTH, operands, m->numbers);
            ck_assert(memcmp(same_memory, y[isa], sizeof same_memory) == 0);
        }
    }
    for (int isa = FUSED + 1; isa < ISAS && supported(isa); isa++)
        ck_assert_msg(memcmp(y[FUSED], y[isa], sizeof y[0]) == 0, "%s differs between %s and %s", m->name,
                      th_isas[FUSED].name, th_isas[isa].name);
    /* float64: instruction sets agree */
    static double again[ISAS][LENGTH];
    for (int isa = FUSED; isa < ISAS && supported(isa); isa++) {
        memcpy(again[isa], x64[0], sizeof again[0]);
        kernel_at(f64[isa], m->entry)(LENGTH, (void *const[]){again[isa], x64[1], x64[2], x64[3], x64[4]}, m->numbers);
        for (int i = 0; i < LENGTH; i++)
            ck_assert(fabs(again[isa][i] - y64[i]) <= 4e-16 * (1 + fabs(y64[i])) * 4);
        ck_assert(memcmp(again[FUSED], again[isa], sizeof again[0]) == 0);
    }
}
END_TEST

START_TEST(test_where)
{
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        float a[37], b[37], y[37];
        bool condition[37];
        for (int i = 0; i < 37; i++) {
            a[i] = (float)i;
            b[i] = NAN;
            condition[i] = uniform(0, 1) < 0.5;
        }
        f32[isa]->where(37, (void *const[]){y, condition, a, b}, NULL);
        for (int i = 0; i < 37; i++)
            ck_assert(condition[i] ? y[i] == a[i] : isnan(y[i]));
        f32[isa]->keep_unless(37, (void *const[]){y, a, condition}, NULL);
        for (int i = 0; i < 37; i++)
            ck_assert(y[i] == (condition[i] ? 0 : a[i]));
    }
}
END_TEST

START_TEST(test_reductions)
{
    enum { N = 20000 };
    float *x = malloc(N * sizeof *x);
    ck_assert(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)uniform(-1, 2);
    for (int n = 0; n <= N; n = n < SHORT ? n + 1 : n * 3 + 1) {
        double squares[ISAS], exact = 0;
        for (int i = 0; i < n; i++)
            exact += (double)x[i] * (double)x[i];
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            f32[isa]->sum_squares(n, x, &squares[isa]);
            ck_assert(fabs(squares[isa] - exact) <= 1e-13 * exact);
            ck_assert(squares[isa] == squares[0]);
        }
    }
    /* one element that is not finite, at any index */
    for (int at = 0; at < SHORT; at++) {
        const float kept = x[at];
        x[at] = at % 3 == 0 ? NAN : at % 3 == 1 ? INFINITY : -INFINITY;
        for (int isa = 0; isa < ISAS && supported(isa); isa++) {
            double squares;
            f32[isa]->sum_squares(SHORT, x, &squares);
            ck_assert(!isfinite(squares));
        }
        x[at] = kept;
    }
    free(x);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("vector_math", NULL, NULL);
    tcase_add_loop_test(tests, test_accuracy, 0, sizeof accuracies / sizeof *accuracies);
    tcase_add_test(tests, test_pow_accuracy);
    tcase_add_test(tests, test_special_values);
    tcase_add_test(tests, test_pow_special_values);
    tcase_add_test(tests, test_ties_and_nan);
    tcase_add_loop_test(tests, test_branches, 0, (int)(sizeof branches / sizeof *branches));
    tcase_add_loop_test(tests, test_elementwise_kernels, 0, sizeof elementwise_cases / sizeof *elementwise_cases);
    tcase_add_test(tests, test_where);
    tcase_add_test(tests, test_reductions);
    return run_suites();
}
