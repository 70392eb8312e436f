/* Random tensors: numbers as functions of (seed, stream, step, call, element), ranges and moments, and the scales of
 * the initializers. */
#include <math.h>
#include <string.h>

#include "kernels/random/philox.h"
#include "tapehead/tapehead.h"
#include "tensor/context.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 42});
    ck_assert_ptr_nonnull(ctx);
}

static bool equal(th_tensor *a, th_tensor *b)
{
    const size_t bytes = (size_t)th_numel(a) * th_dtype_size(th_dtype_of(a));
    ck_assert(a != b && th_numel(a) == th_numel(b));
    return memcmp(th_data_const(a), th_data_const(b), bytes) == 0;
}

START_TEST(test_repeatable)
{
    th_tensor *first = th_randn(ctx, TH_FLOAT32, TH_SHAPE(7, 9)), *second = th_randn(ctx, TH_FLOAT32, TH_SHAPE(7, 9));
    ck_assert(!equal(first, second));
    th_context *other = th_context_new(&(th_context_options){.seed = 42, .threads = 3});
    ck_assert(equal(first, th_randn(other, TH_FLOAT32, TH_SHAPE(7, 9))));
    ck_assert(equal(second, th_randn(other, TH_FLOAT32, TH_SHAPE(63))));
    th_set_seed(other, 42);
    ck_assert(equal(first, th_randn(other, TH_FLOAT32, TH_SHAPE(7, 9))));
    th_set_seed(other, 43);
    ck_assert(!equal(first, th_randn(other, TH_FLOAT32, TH_SHAPE(7, 9))));
    th_context_free(other);
    th_set_step(ctx, 1);
    th_tensor *next = th_randn(ctx, TH_FLOAT32, TH_SHAPE(7, 9));
    ck_assert(!equal(first, next) && !equal(second, next));
    th_set_step(ctx, 0);
    ck_assert(equal(first, th_randn(ctx, TH_FLOAT32, TH_SHAPE(7, 9))));
}
END_TEST

START_TEST(test_streams_are_independent)
{
    th_tensor *first = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(20), 0, 1);
    th_tensor *second = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(20), 0, 1);
    th_set_seed(ctx, 42);
    th_tensor *weight = th_empty(ctx, TH_FLOAT64, TH_SHAPE(20));
    ck_assert_int_eq(th_fill_uniform(weight, 0, 1), TH_OK);
    ck_assert(!equal(first, weight));
    ck_assert(equal(first, th_uniform(ctx, TH_FLOAT64, TH_SHAPE(20), 0, 1)));
    ck_assert_int_eq(th_fill_uniform(weight, 0, 1), TH_OK);
    ck_assert(equal(second, th_uniform(ctx, TH_FLOAT64, TH_SHAPE(20), 0, 1)));
    for (int a = 0; a < TH_STREAM_COUNT; a++)
        for (int b = 0; b < a; b++) {
            const th_random_call x = th_random_next_call(ctx, (th_stream)a), y = th_random_next_call(ctx, (th_stream)b);
            ck_assert(x.key[0] != y.key[0] && x.key[1] != y.key[1]);
        }
}
END_TEST

/* The numbers depend only on the Philox counter, not on the layout or the number of threads. */
START_TEST(test_numbers_of_the_counter)
{
    enum { N = 50001 };
    th_set_step(ctx, 5);
    const th_random_call call = th_random_next_call(ctx, TH_STREAM_DATA);
    ck_assert(call.call == 0 && call.step == 5);
    const th_philox random = {.key = {call.key[0], call.key[1]}, .call = 1, .step = 5};
    th_tensor *t = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3, N / 3), 0, 1);
    const float *y = th_data_const(t);
    for (int i = 0; i < N; i++) {
        uint32_t words[4];
        th_philox_block(&random, (uint32_t)i / 4, 0, words);
        ck_assert(y[i] == (float)(words[i % 4] >> 8) * 0x1p-24f);
    }
    th_philox second = random;
    second.call = 2;
    th_tensor *wide = th_random_integers(ctx, TH_INT64, TH_SHAPE(N), INT64_MIN, INT64_MAX);
    const int64_t *z = th_data_const(wide);
    for (int i = 0; i < N; i++) {
        uint32_t words[4];
        th_philox_block(&second, (uint32_t)i / 2, 0, words);
        const uint64_t u =
            (uint64_t)words[i % 2 * 2 + 1] << 32 | words[i % 2 * 2]; /* u (2^64 - 1) / 2^64 is u - 1 for u >= 1 */
        ck_assert(z[i] == (int64_t)((u ? u - 1 : 0) + (uint64_t)INT64_MIN));
    }
}
END_TEST

START_TEST(test_any_layout)
{
    th_tensor *plain = th_randn(ctx, TH_FLOAT64, TH_SHAPE(30, 50));
    th_tensor *drawn = th_empty(ctx, TH_FLOAT64, TH_SHAPE(50, 30));
    th_tensor *view = th_transpose(drawn, TH_AXES(1, 0));
    th_set_seed(ctx, 42);
    ck_assert_int_eq(th_fill_normal(view, 0, 1), TH_OK);
    th_set_seed(ctx, 42);
    ck_assert_int_eq(th_fill_normal(plain, 0, 1), TH_OK);
    for (int64_t i = 0; i < 30; i++)
        for (int64_t j = 0; j < 50; j++)
            ck_assert(th_get(plain, TH_INDEX(i, j)) == th_get(drawn, TH_INDEX(j, i)));
}
END_TEST

START_TEST(test_same_bits_on_any_team)
{
    enum { N = 100000 };
    th_tensor *first[3] = {NULL};
    for (int threads = 1; threads <= 4; threads++) {
        ck_assert_int_eq(th_set_threads(ctx, threads), TH_OK);
        th_set_seed(ctx, 7);
        th_tensor *drawn[3] = {th_randn(ctx, TH_FLOAT32, TH_SHAPE(N)), th_uniform(ctx, TH_FLOAT64, TH_SHAPE(N), -3, 9),
                               th_random_integers(ctx, TH_INT32, TH_SHAPE(N), -5, 5)};
        for (int i = 0; i < 3; i++) {
            if (threads > 1)
                ck_assert(equal(first[i], drawn[i]));
            first[i] = drawn[i];
        }
    }
}
END_TEST

typedef struct moments {
    double mean, deviation, lowest, highest;
} moments;

static moments moments_of(th_tensor *t)
{
    moments m = {0, 0, INFINITY, -INFINITY};
    const int64_t n = th_numel(t);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = th_dtype_of(t) == TH_FLOAT32 ? (double)((const float *)th_data_const(t))[i]
                                                      : ((const double *)th_data_const(t))[i];
        sum += x;
        squares += x * x;
        m.lowest = fmin(m.lowest, x);
        m.highest = fmax(m.highest, x);
    }
    m.mean = sum / (double)n;
    m.deviation = sqrt(squares / (double)n - m.mean * m.mean);
    return m;
}

START_TEST(test_ranges_and_moments)
{
    static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64};
    const double n = 200000, root = sqrt(n);
    for (int i = 0; i < 2; i++) {
        const moments u = moments_of(th_uniform(ctx, dtypes[i], TH_SHAPE(400, 500), -2, 6));
        ck_assert(u.lowest >= -2 && u.lowest < -1.99 && u.highest < 6 && u.highest > 5.99);
        ck_assert(fabs(u.mean - 2) < 5 * 8 / sqrt(12) / root && fabs(u.deviation - 8 / sqrt(12)) < 0.02);
        const moments g = moments_of(th_normal(ctx, dtypes[i], TH_SHAPE(400, 500), 3, 0.5));
        ck_assert(fabs(g.mean - 3) < 5 * 0.5 / root && fabs(g.deviation - 0.5) < 0.005 && g.lowest < 1.2 &&
                  g.highest > 4.8);
    }
    /* rounding would give the end of the range */
    const float end = 1 + 0x1p-20f;
    th_tensor *narrow = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(100000), 1, (double)end);
    const moments m = moments_of(narrow);
    ck_assert(m.lowest >= 1 && m.highest < (double)end);
    ck_assert(moments_of(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(100), 2, 2)).highest == 2);
    ck_assert(moments_of(th_normal(ctx, TH_FLOAT64, TH_SHAPE(100), 2, 0)).lowest == 2);
}
END_TEST

START_TEST(test_integers)
{
    th_tensor *t = th_random_integers(ctx, TH_INT32, TH_SHAPE(60000), -3, 3);
    int64_t counts[6] = {0};
    for (int64_t i = 0; i < 60000; i++) {
        const int32_t x = ((const int32_t *)th_data_const(t))[i];
        ck_assert(x >= -3 && x < 3);
        counts[x + 3]++;
    }
    for (int i = 0; i < 6; i++)
        ck_assert(llabs((long long)counts[i] - 10000) < 500);
    t = th_random_integers(ctx, TH_INT64, TH_SHAPE(1000), INT64_MAX - 1, INT64_MAX);
    for (int64_t i = 0; i < 1000; i++)
        ck_assert(((const int64_t *)th_data_const(t))[i] == INT64_MAX - 1);
    ck_assert_ptr_nonnull(th_random_integers(ctx, TH_INT32, TH_SHAPE(10), INT32_MIN, (int64_t)INT32_MAX + 1));
    ck_assert_ptr_nonnull(th_random_integers(ctx, TH_INT64, TH_SHAPE(0), 0, 1));
}
END_TEST

/* The scales of the papers: Glorot & Bengio (2010), He et al. (2015). */
START_TEST(test_initializers)
{
    const double n = 300 * 200 * 3, root = sqrt(n);
    th_tensor *t = th_empty(ctx, TH_FLOAT32, TH_SHAPE(300, 200, 3)); /* fan_in 600, fan_out 900 */
    ck_assert_int_eq(th_fill_xavier_uniform(t, 2), TH_OK);
    moments m = moments_of(t);
    double bound = 2 * sqrt(6.0 / 1500);
    ck_assert(m.highest <= bound * (1 + 1e-6) && m.highest > 0.999 * bound && m.lowest < -0.999 * bound &&
              fabs(m.mean) < 5 * bound / root);
    ck_assert_int_eq(th_fill_xavier_normal(t, 2), TH_OK);
    m = moments_of(t);
    double deviation = 2 * sqrt(2.0 / 1500);
    ck_assert(fabs(m.deviation / deviation - 1) < 0.01 && fabs(m.mean) < 5 * deviation / root);
    ck_assert_int_eq(th_fill_kaiming_uniform(t, sqrt(2)), TH_OK);
    m = moments_of(t);
    bound = sqrt(2) * sqrt(3.0 / 600);
    ck_assert(m.highest <= bound * (1 + 1e-6) && m.highest > 0.999 * bound && m.lowest < -0.999 * bound);
    ck_assert_int_eq(th_fill_kaiming_normal(t, sqrt(2)), TH_OK);
    m = moments_of(t);
    deviation = sqrt(2) / sqrt(600);
    ck_assert(fabs(m.deviation / deviation - 1) < 0.01);
    th_tensor *none = th_empty(ctx, TH_FLOAT32, TH_SHAPE(0, 0));
    ck_assert_int_eq(th_fill_xavier_uniform(none, 1), TH_OK);
    ck_assert_int_eq(th_fill_kaiming_normal(none, 1), TH_OK);
}
END_TEST

/* The widest ranges, and ranges of one number. */
START_TEST(test_ends_of_ranges)
{
    static const int64_t end = (int64_t)INT32_MAX + 1;
    th_tensor *t = th_random_integers(ctx, TH_INT32, TH_SHAPE(1000), -end, end);
    no_error();
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < 1000; i++) {
        const int64_t value = (int64_t)th_get(t, TH_INDEX(i));
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    ck_assert(low < -end / 10 * 9 && high > end / 10 * 9);
    t = th_random_integers(ctx, TH_INT64, TH_SHAPE(50), INT64_MAX - 1, INT64_MAX);
    for (int64_t i = 0; i < 50; i++)
        ck_assert_int_eq(((const int64_t *)th_data_const(t))[i], INT64_MAX - 1);
    t = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(50), 2.5, 2.5);
    th_tensor *same = th_normal(ctx, TH_FLOAT64, TH_SHAPE(50), -3, 0);
    no_error();
    for (int64_t i = 0; i < 50; i++)
        ck_assert(th_get(t, TH_INDEX(i)) == 2.5 && th_get(same, TH_INDEX(i)) == -3);
    ck_assert_int_eq(th_fill_xavier_normal(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2)), 0), TH_OK); /* a gain of 0 */
    /* the upper end is never drawn, even where rounding would give it */
    const double above = 1 + 0x1p-23;
    t = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(100), 1, above);
    th_tensor *wide = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(100), 1, 1 + 0x1p-52);
    for (int64_t i = 0; i < 100; i++)
        ck_assert(th_get(t, TH_INDEX(i)) == 1 && th_get(wide, TH_INDEX(i)) == 1);
}
END_TEST

/* A wrong call fails and does not advance the stream. */
START_TEST(test_errors)
{
    th_tensor *weight = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3)), *vector = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3));
    th_tensor *whole = th_zeros(ctx, TH_INT32, TH_SHAPE(2, 3));
    const size_t live = th_memory(ctx).live;
    uint32_t calls[TH_STREAM_COUNT];
    memcpy(calls, ctx->calls, sizeof calls);
    expect_failure(!th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3), 2, 1), TH_ERROR_ARGUMENT,
                   "uniform: 2 to 1 is not a range of float32 numbers; at test_random.c");
    expect_failure(!th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3), -3e38, 3e38), TH_ERROR_ARGUMENT, "is not a range");
    expect_failure(!th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3), 0, NAN), TH_ERROR_ARGUMENT, "is not a range");
    expect_failure(!th_uniform(ctx, TH_INT32, TH_SHAPE(3), 0, 1), TH_ERROR_TYPE,
                   "uniform: needs a floating type, not int32");
    expect_failure(!th_normal(ctx, TH_FLOAT64, TH_SHAPE(3), 0, -1), TH_ERROR_ARGUMENT, "standard deviation of -1");
    expect_failure(!th_randn(ctx, TH_BOOL, TH_SHAPE(3)), TH_ERROR_TYPE, "randn: needs a floating type, not bool");
    expect_failure(!th_randn(ctx, TH_FLOAT32, TH_SHAPE(-3)), TH_ERROR_SHAPE, "negative");
    expect_failure(!th_random_integers(ctx, TH_INT32, TH_SHAPE(3), 5, 5), TH_ERROR_ARGUMENT, "no integer in [5, 5)");
    expect_failure(!th_random_integers(ctx, TH_INT32, TH_SHAPE(3), 0, (int64_t)1 << 40), TH_ERROR_ARGUMENT,
                   "int32 cannot hold");
    static const int64_t end = (int64_t)INT32_MAX + 1;
    expect_failure(!th_random_integers(ctx, TH_INT32, TH_SHAPE(3), 0, end + 1), TH_ERROR_ARGUMENT, "int32 cannot hold");
    expect_failure(!th_random_integers(ctx, TH_INT32, TH_SHAPE(3), -end - 1, 0), TH_ERROR_ARGUMENT,
                   "int32 cannot hold all integers in [-2147483649, 0)");
    expect_failure(!th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3), -1e39, 1), TH_ERROR_ARGUMENT, "is not a range");
    expect_failure(!th_uniform(ctx, TH_FLOAT64, TH_SHAPE(3), 0, INFINITY), TH_ERROR_ARGUMENT, "of float64 numbers");
    static const double wrong[][2] = {{INFINITY, 1}, {1e39, 1}, {0, NAN}, {0, INFINITY}, {0, 1e39}, {0, -1e-9}};
    for (int i = 0; i < 6; i++)
        expect_failure(!th_normal(ctx, TH_FLOAT32, TH_SHAPE(3), wrong[i][0], wrong[i][1]), TH_ERROR_ARGUMENT,
                       "normal: a mean of ");
    th_status (*const fills[])(th_tensor *, double) = {th_fill_xavier_uniform, th_fill_xavier_normal,
                                                       th_fill_kaiming_uniform, th_fill_kaiming_normal};
    static const char *const fill_names[] = {"fill_xavier_uniform: the gain is ", "fill_xavier_normal: the gain is ",
                                             "fill_kaiming_uniform: the gain is ", "fill_kaiming_normal: the gain is "};
    for (int i = 0; i < 4; i++) {
        expect_status(fills[i](weight, INFINITY), TH_ERROR_ARGUMENT, fill_names[i]);
        expect_status(fills[i](weight, NAN), TH_ERROR_ARGUMENT, fill_names[i]);
        expect_status(fills[i](NULL, 1), TH_ERROR_ARGUMENT, "t is NULL");
    }
    expect_failure(!th_random_integers(ctx, TH_FLOAT32, TH_SHAPE(3), 0, 5), TH_ERROR_TYPE,
                   "int32 or int64, not float32");
    expect_failure(th_fill_uniform(whole, 0, 1), TH_ERROR_TYPE, "fill_uniform");
    expect_failure(th_fill_normal(weight, NAN, 1), TH_ERROR_ARGUMENT, "fill_normal");
    expect_failure(th_fill_xavier_uniform(vector, 1), TH_ERROR_SHAPE, "two or more dimensions, not (3)");
    expect_failure(th_fill_kaiming_normal(weight, -1), TH_ERROR_ARGUMENT, "gain is -1");
    expect_failure(th_fill_xavier_normal(NULL, 1), TH_ERROR_ARGUMENT, "t is NULL");
    ck_assert_mem_eq(calls, ctx->calls, sizeof calls);
    ck_assert_uint_eq(th_memory(ctx).live, live); /* the new tensor was freed */
}
END_TEST

/* Calls count without data too, so that a forecast has the same state. */
START_TEST(test_shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_tensor *t = th_randn(shapes, TH_FLOAT32, TH_SHAPE(1000, 1000));
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(th_fill_xavier_uniform(t, 1), TH_OK);
    ck_assert_uint_eq(shapes->calls[TH_STREAM_DATA], 1);
    ck_assert_uint_ge(th_memory(shapes).live, 4000000);
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("random", setup, close_context);
    tcase_add_test(tests, test_repeatable);
    tcase_add_test(tests, test_streams_are_independent);
    tcase_add_test(tests, test_numbers_of_the_counter);
    tcase_add_test(tests, test_any_layout);
    tcase_add_test(tests, test_same_bits_on_any_team);
    tcase_add_test(tests, test_ranges_and_moments);
    tcase_add_test(tests, test_integers);
    tcase_add_test(tests, test_initializers);
    tcase_add_test(tests, test_ends_of_ranges);
    tcase_add_test(tests, test_errors);
    tcase_add_test(tests, test_shapes_only);
    return run_suites();
}
