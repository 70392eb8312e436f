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
    tcase_add_test(tcase, backward_accumulates_as_the_function_says);
    tcase_add_test(tcase, a_second_forward_does_not_change_backward);
    tcase_add_test(tcase, two_inputs_may_be_in_the_same_memory);
    tcase_add_test(tcase, another_seed_changes_a_random_function);
    tcase_add_test(tcase, larger_and_smaller_inputs_show_other_branches);
    return run_suites();
}
