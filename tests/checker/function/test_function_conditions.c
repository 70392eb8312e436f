/* Conditions of th_check_function other than one backward of one forward: each finds a mistake that gradients at one point
 * do not show, and accepts a function without it. */
#include "plain_functions.h"

static const th_port vector = TH_PORT("x", TH_FLOAT64, 6);
static const th_port pair[] = {TH_PORT("x", TH_FLOAT64, 6), TH_PORT("y", TH_FLOAT64, 6)};

static th_function square_with(th_function_forward *forward, th_function_backward *backward)
{
    return th_function_of("f", forward, backward, NULL, 1, &vector, 1, &vector);
}

static int square(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, load(in, i) * load(in, i));
    return 0;
}

/* -- linearity -- */

static int clipped(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, 2 * load(in, i) * fmax(-8, fmin(8, load(dout, i))));
    return 0;
}

static int not_zero_for_zero(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                             th_buffer *din)
{
    bool zero = true;
    for (int64_t i = 0; i < in->numel; i++)
        zero &= load(dout, i) == 0;
    clipped(user, in, out, dout, din);
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, zero ? 1 : 2 * load(in, i) * load(dout, i));
    return 0;
}

START_TEST(backward_must_be_linear)
{
    const th_function clips = square_with(square, clipped), zero = square_with(square, not_zero_for_zero);
    expect_wrong(check(&clips), "with large gradients of the outputs");
    expect_wrong(check(&zero), "with gradients of the outputs that are 0");
}
END_TEST

/* The derivative along a tangent. The rule clips it, or adds a part that is not linear. */
static int square_jvp(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *din, th_buffer *dout)
{
    (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(dout, i, 2 * load(in, i) * ((const elementwise *)user)->slope(load(din, i)));
    return 0;
}

static double same(double tangent)
{
    return tangent;
}

static double clip(double tangent)
{
    return fmax(-2, fmin(2, tangent));
}

static double bent(double tangent)
{
    return tangent * fabs(tangent);
}

START_TEST(a_forward_derivative_must_be_linear)
{
    elementwise rules[] = {{NULL, same}, {NULL, clip}, {NULL, bent}};
    static const th_dtype floats[] = {TH_FLOAT64, TH_FLOAT32};
    for (int t = 0; t < 2; t++)
        for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
            const th_port x = th_port_of("x", floats[t], TH_SHAPE(6));
            const th_function function = {.forward = square,
                                          .jvp = square_jvp,
                                          .user = &rules[r],
                                          .inputs = &x,
                                          .outputs = &x,
                                          .n_inputs = 1,
                                          .n_outputs = 1};
            if (r == 0)
                expect_right(check(&function));
            else
                expect_wrong(check(&function), "jvp is not linear in the tangents");
        }
}
END_TEST

/* The exponential of a matrix (n, n) by squaring. */
enum { SIZE = 3 };

static void multiply_matrices(int n, const float *a, const float *b, float *c)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int k = 0; k < n; k++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
        }
}

static void exponential(int n, const float *x, float *y)
{
    float scaled[4 * SIZE * SIZE], power[4 * SIZE * SIZE], largest = 0;
    int squarings = 0;
    for (int e = 0; e < n * n; e++)
        largest = fmaxf(largest, fabsf(x[e]));
    while (ldexpf((float)n * largest, -squarings) > 0.5f)
        squarings++;
    for (int e = 0; e < n * n; e++) {
        scaled[e] = ldexpf(x[e], -squarings);
        y[e] = e % (n + 1) == 0;
    }
    for (int k = 8; k > 0; k--) { /* Horner's scheme */
        multiply_matrices(n, scaled, y, power);
        for (int e = 0; e < n * n; e++)
            y[e] = power[e] / (float)k + (e % (n + 1) == 0);
    }
    for (; squarings > 0; squarings--) {
        multiply_matrices(n, y, y, power);
        memcpy(y, power, sizeof *y * (size_t)(n * n));
    }
}

static int matrix_exponential(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    exponential(SIZE, in->data, out->data);
    return 0;
}

/* The gradient is a block of the exponential of a matrix that contains the output's gradient. */
static int matrix_exponential_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                                       th_buffer *din)
{
    const float *x = in->data, *dy = dout->data;
    float *dx = din->data, blocks[4 * SIZE * SIZE] = {0}, result[4 * SIZE * SIZE];
    (void)user, (void)out;
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            blocks[2 * SIZE * i + j] = blocks[2 * SIZE * (SIZE + i) + SIZE + j] = x[j * SIZE + i];
            blocks[2 * SIZE * i + SIZE + j] = dy[i * SIZE + j];
        }
    exponential(2 * SIZE, blocks, result);
    for (int i = 0; i < SIZE; i++)
        memcpy(dx + (ptrdiff_t)SIZE * i, result + (ptrdiff_t)2 * SIZE * i + SIZE, SIZE * sizeof *dx);
    return 0;
}

START_TEST(a_rule_may_lose_digits_with_large_gradients)
{
    const th_port x = TH_PORT("x", TH_FLOAT32, SIZE, SIZE);
    const th_function function =
        th_function_of("exp", matrix_exponential, matrix_exponential_backward, NULL, 1, &x, 1, &x);
    expect_right(check(&function));
}
END_TEST

/* -- accumulation -- */

static int adds(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, load(din, i) + 2 * load(in, i) * load(dout, i));
    return 0;
}

static int overwrites(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, 2 * load(in, i) * load(dout, i));
    return 0;
}

START_TEST(backward_accumulates_as_the_function_says)
{
    th_function adding = square_with(square, adds), overwriting = square_with(square, overwrites);
    expect_right(check(&overwriting));
    expect_wrong(check(&adding), "it probably adds to the gradient instead of overwriting it");
    adding.accumulates = overwriting.accumulates = true;
    expect_right(check(&adding));
    expect_wrong(check(&overwriting), "backward overwrites them");
}
END_TEST

/* -- another forward before backward -- */

static double kept[6];

static int keeping_square(void *user, const th_buffer *in, th_buffer *out)
{
    for (int64_t i = 0; i < in->numel; i++)
        kept[i] = load(in, i);
    return square(user, in, out);
}

static int with_kept(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)out;
    for (int64_t i = 0; i < in->numel; i++)
        store(din, i, 2 * kept[i] * load(dout, i));
    return 0;
}

static int square_of_sorted(void *user, const th_buffer *in, th_buffer *out)
{
    return load(in, 0) > load(in, in->numel - 1) ? 7 : square(user, in, out);
}

START_TEST(a_second_forward_does_not_change_backward)
{
    const th_function function = square_with(keeping_square, with_kept);
    expect_wrong(check(&function), "backward uses values of the last forward");
    const double values[] = {-2, -1, 0.5, 1, 2, 3};
    th_port port = vector;
    port.values = values;
    th_function refuses = square_with(square_of_sorted, overwrites);
    refuses.inputs = &port;
    expect_right(check(&refuses));
}
END_TEST

/* -- repeated operands -- */

static int multiply(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < out->numel; i++)
        store(out, i, load(&in[0], i) * load(&in[1], i));
    return 0;
}

static int multiply_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout,
                             th_buffer *din)
{
    (void)out;
    const bool shared = in[0].data == in[1].data;
    for (int64_t i = 0; i < dout->numel; i++) {
        store(&din[0], i, load(&in[1], i) * load(dout, i));
        store(&din[1], i, user && shared ? 0 : load(&in[0], i) * load(dout, i));
    }
    return 0;
}

START_TEST(two_inputs_may_be_in_the_same_memory)
{
    int fails_if_shared = 1;
    th_function product = th_function_of("f", multiply, multiply_backward, NULL, 2, pair, 1, &vector);
    expect_right(check(&product));
    product.user = &fails_if_shared;
    expect_wrong(check(&product), "with the same memory as x and as y");
    th_function_options options = {.only_this_point = true};
    expect_right(th_check_function(&product, &options, &report));
}
END_TEST

/* -- random functions -- */

static uint64_t seed_in_use;

static void set_seed(void *user, uint64_t seed)
{
    seed_in_use = user ? 1 : seed;
}

static double mask(int64_t i)
{
    return seed_in_use >> (i + 20) & 1 ? 2 : 0;
}

static int drop(void *user, const th_buffer *in, th_buffer *out)
{
    (void)user;
    for (int64_t i = 0; i < in->numel; i++)
        store(out, i, mask(i) * load(in, i));
    return 0;
}

static int drop_backward(void *user, const th_buffer *in, const th_buffer *out, const th_buffer *dout, th_buffer *din)
{
    (void)user, (void)in, (void)out;
    for (int64_t i = 0; i < dout->numel; i++)
        store(din, i, mask(i) * load(dout, i));
    return 0;
}

START_TEST(another_seed_changes_a_random_function)
{
    th_function dropout = square_with(drop, drop_backward);
    dropout.set_seed = set_seed;
    expect_right(check(&dropout));
    int ignores_seed = 1;
    dropout.user = &ignores_seed;
    expect_wrong(check(&dropout), "set_seed does not change the outputs");
}
END_TEST

/* -- other points -- */

static double huber(double x)
{
    return fabs(x) <= 4 ? x * x / 2 : 4 * (fabs(x) - 2);
}

static double slope_without_branch(double x)
{
    return x;
}

static double huber_slope(double x)
{
    return fmax(-4, fmin(4, x));
}

static double small_is_linear(double x)
{
    return fabs(x) < 0.125 ? x : x + 0.25 * (x - copysign(0.125, x)) * (x - copysign(0.125, x));
}

static double slope_of_large(double x)
{
    return 1 + 0.5 * (x - copysign(0.125, x));
}

START_TEST(larger_and_smaller_inputs_show_other_branches)
{
    const th_port many = TH_PORT("x", TH_FLOAT64, 40);
    expect_right(check_elementwise(huber, huber_slope, &many));
    expect_wrong(check_elementwise(huber, slope_without_branch, &many), "random numbers in [-8, 8)");
    expect_wrong(check_elementwise(small_is_linear, slope_of_large, &many), "");
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("conditions of plain functions", NULL, NULL);
    tcase_add_test(tcase, backward_must_be_linear);
    tcase_add_test(tcase, a_forward_derivative_must_be_linear);
    tcase_add_test(tcase, a_rule_may_lose_digits_with_large_gradients);
    tcase_add_test(tcase, backward_accumulates_as_the_function_says);
    tcase_add_test(tcase, a_second_forward_does_not_change_backward);
    tcase_add_test(tcase, two_inputs_may_be_in_the_same_memory);
    tcase_add_test(tcase, another_seed_changes_a_random_function);
    tcase_add_test(tcase, larger_and_smaller_inputs_show_other_branches);
    return run_suites();
}
