/* The model of reduced-precision products: its arithmetic is compared with the processor's, its parts with their
 * definition in bits, its products with integers. */
#include "tile_model.h"

#include <float.h>
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "bits.h"
#include "guarded.h"
#include "suite.h"

/* -- arithmetic -- */

enum { FLUSHING = 0x9fc0 }; /* exceptions masked, rounding to nearest, denormal operands and results are 0 */

/* The processor's result. The numbers are volatile, so that the compiler cannot move operations on them. */
__attribute__((target("fma"))) static float processor_fma(const volatile float *x)
{
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(FLUSHING);
    volatile float y = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(x[0]), _mm_set_ss(x[1]), _mm_set_ss(x[2])));
    _mm_setcsr(mode);
    return y;
}

static float processor_add(const volatile float *x)
{
    const unsigned mode = _mm_getcsr();
    _mm_setcsr(FLUSHING);
    volatile float y = x[0] + x[1];
    _mm_setcsr(mode);
    return y;
}

/* Any number, or one whose products with other such numbers are about FLT_MIN. */
static uint32_t any_bits(void)
{
    const uint32_t bits = (uint32_t)draw((int64_t)1 << 32);
    const uint32_t exponent = (uint32_t)(60 + draw(10));
    return draw(2) ? bits : (bits & 0x807fffff) | exponent << 23;
}

static void check_fma(float a, float b, float c)
{
    const float y = flushing_fma(a, b, c), expected = processor_fma((volatile float[]){a, b, c});
    if (!same_bits(y, expected))
        ck_abort_msg("fma(%a, %a, %a) is %a, by the processor %a", (double)a, (double)b, (double)c, (double)y,
                     (double)expected);
}

static void check_add(float a, float b)
{
    const float y = flushing_add(a, b), expected = processor_add((volatile float[]){a, b});
    if (!same_bits(y, expected))
        ck_abort_msg("%a + %a is %a, by the processor %a", (double)a, (double)b, (double)y, (double)expected);
}

START_TEST(test_arithmetic)
{
    if (!__builtin_cpu_supports("fma")) {
        puts("skipped: no fused multiply-add");
        return;
    }
    random_state = 1;
    for (int i = 0; i < 500000; i++) {
        const float a = float_of(any_bits() & 0xffff0000), b = float_of(any_bits() & 0xffff0000);
        float c = float_of(any_bits());
        if (draw(3) == 0) /* cancels most of the product, or is about FLT_MIN */
            c = float_of(bits_of(draw(2) ? -a * b : FLT_MIN) + (uint32_t)draw(9) - 4);
        check_fma(a, b, c);
        const float x = float_of(any_bits()), y = float_of(bits_of(-x) + (uint32_t)draw(9) - 4);
        check_add(a, c);
        check_add(x, y);
    }
    /* About the middle below FLT_MIN: FLT_MIN minus products from 2^-152 to 2^-150. */
    for (uint32_t fraction = 0; fraction < 1 << 14; fraction++)
        for (int sign = -1; sign <= 1; sign += 2)
            for (int scale = 152; scale >= 150; scale--) {
                const float a = 1 + (float)(fraction & 127) / 128, b = 1 + (float)(fraction >> 7) / 128;
                check_fma(ldexpf(a, -scale + 70), -(float)sign * ldexpf(b, -70), (float)sign * FLT_MIN);
            }
}
END_TEST

/* Two elements whose bits show the order of additions, and the effect of zeros. */
START_TEST(test_dot)
{
    enum { ONE = 0x3f80, TINY = 0x2000 /* 2^-63 */ };
    uint16_t a[32] = {0}, b[32] = {0};
    for (int k = 0; k < 4; k++)
        b[k] = ONE;
    a[0] = 0x4b80;     /* 2^24 */
    a[2] = ONE;        /* lost in the even sum */
    a[1] = a[3] = ONE; /* 2 in the odd one */
    ck_assert_float_eq(tile_dot(0, a, b, 32), 0x1p24f + 2);
    ck_assert_float_eq(tile_dot(1, a, b, 32), 0x1p24f + 4); /* 1 + (2^24 + 2), a tie: to even */
    memset(a, 0, sizeof a);
    memset(b, 0, sizeof b);
    a[0] = a[1] = TINY;
    b[0] = b[1] = TINY | 0x8000; /* products of -2^-126: FLT_MIN stays */
    ck_assert_float_eq(tile_dot(0, a, b, 2), -0x1p-125f);
    b[0] = b[1] = 0x8001; /* denormal, -0 */
    ck_assert(same_bits(tile_dot(-0.f, a, b, 2), 0.f));
    b[0] = b[1] = TINY - 0x80 + 0x8000; /* products of -2^-127 are flushed to -0 */
    ck_assert(same_bits(tile_dot(-0.f, a, b, 2), -0.f));
    ck_assert(same_bits(tile_dot(-0.f, a, b, 4), 0.f));
}
END_TEST

/* -- parts -- */

/* The definition in bits: adds half of the last kept bit, minus one if the kept bits are even. */
static uint16_t rounded_bits(uint32_t x)
{
    const uint32_t magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(x >> 16 | 0x40);
    if (magnitude < 0x00800000)
        return (uint16_t)(x >> 16 & 0x8000);
    if (magnitude >= 0x7f7f0000)
        return (uint16_t)(x >> 16);
    return (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
}

START_TEST(test_parts)
{
    static const struct {
        uint32_t x;
        uint16_t first, second;
    } known[] = {
        {0x3f800000, 0x3f80, 0},
        {0x3f808000, 0x3f80, 0x3b80}, /* 1 + 2^-8: a tie, to even */
        {0x3f818000, 0x3f82, 0xbb80},
        {0x3f808001, 0x3f81, 0xbb80}, /* the remainder, -32767 of 2^-23, is rounded */
        {0x7f7fffff, 0x7f7f, 0x7b80},
        {0xff7fffff, 0xff7f, 0xfb80}, /* the largest: truncated */
        {0x7f800000, 0x7f80, 0},
        {0xff800000, 0xff80, 0},
        {0x7f800001, 0x7fc0, 0},
        {0xffc00000, 0xffc0, 0},
        {0, 0, 0},
        {0x80000000, 0x8000, 0},
        {0x007fffff, 0, 0},
        {0x807fffff, 0x8000, 0x8000},
        {0x00800000, 0x0080, 0},
        {0x00808000, 0x0080, 0}, /* the remainder is a denormal */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert_uint_eq(model_part(float_of(known[i].x), 0), known[i].first);
        ck_assert_uint_eq(model_part(float_of(known[i].x), 1), known[i].second);
    }
    random_state = 2;
    for (int i = 0; i < 1000000; i++) {
        const uint32_t x = (uint32_t)draw((int64_t)1 << 32);
        const uint16_t first = model_part(float_of(x), 0), second = model_part(float_of(x), 1);
        const float rest = isfinite(float_of(x)) ? float_of(x) - bfloat16_value(first) : 0;
        if (first != rounded_bits(x) || second != rounded_bits(bits_of(rest)))
            ck_abort_msg("the terms of %08x are %04x and %04x", x, first, second);
    }
}
END_TEST

/* -- products -- */

/* Products of integers, small enough that every sum is exact. With one part, operands have 8 bits; with two, 16 bits,
 * and the definition ignores the product of their lower halves. Any strides, batches, and every beginning of the
 * sum. */
static int64_t lower(int64_t x, int parts)
{
    return parts == 1 ? 0 : x - (int64_t)bfloat16_value(model_part((float)x, 0));
}

START_TEST(test_integers)
{
    enum { M = 5, N = 7, K = 70, BATCH = 3 };
    static float a[BATCH][K][M], b[N][2 * K], c[M][BATCH][N], bias[N], residual[M][N + 1];
    const int parts = 1 + _i % 2, range = parts == 1 ? 128 : 512;
    random_state = (uint64_t)_i;
    for (int i = 0; i < BATCH * K * M; i++)
        (&a[0][0][0])[i] = (float)(draw(2 * range) - range);
    for (int i = 0; i < N * 2 * K; i++)
        (&b[0][0])[i] = (float)(draw(2 * range) - range);
    for (int i = 0; i < M * (N + 1); i++)
        (&residual[0][0])[i] = (float)draw(1000);
    for (int j = 0; j < N; j++)
        bias[j] = (float)draw(1000);
    for (int i = 0; i < M * BATCH * N; i++)
        (&c[0][0][0])[i] = (float)draw(1000);
    static float before[M][BATCH][N];
    memcpy(before, c, sizeof c);
    const int begin = _i / 2; /* 0: nothing, 1: add, 2: bias, 3: residual, 4: both */
    const bool biased = begin == 2 || begin == 4, residual_too = begin >= 3;
    const th_product p = {.m = M,
                          .n = N,
                          .k = K,
                          .a = a,
                          .a_row = 1,
                          .a_col = M,
                          .b = &b[0][2 * K - 2], /* every other element, backwards */
                          .b_row = -2,
                          .b_col = 2 * K,
                          .c = c,
                          .c_row = BATCH * N,
                          .c_col = 1,
                          .add = begin == 1,
                          .bias = biased ? bias : NULL,
                          .residual = residual_too ? residual : NULL,
                          .residual_row = residual_too ? N + 1 : 0,
                          .batch_dims = 1,
                          .batch = {BATCH},
                          .a_batch = {K * M},
                          .c_batch = {N}};
    model_product(&p, parts);
    for (int t = 0; t < BATCH; t++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                int64_t sum = begin == 1 ? (int64_t)before[i][t][j] : 0;
                sum += biased ? (int64_t)bias[j] : 0;
                sum += residual_too ? (int64_t)residual[i][j] : 0;
                for (int k = 0; k < K; k++) {
                    const int64_t x = (int64_t)a[t][k][i], y = (int64_t)b[j][2 * K - 2 - 2 * k];
                    sum += x * y - lower(x, parts) * lower(y, parts);
                }
                ck_assert_int_eq((int64_t)c[i][t][j], sum);
            }
}
END_TEST

/* Without steps C is the beginning of the sum. */
START_TEST(test_no_steps)
{
    float c = 3;
    const float bias = 0x1p-130f;
    th_product p = row_major_product(1, 1, 0, &c, &c, &c);
    p.add = true;
    model_product(&p, 2);
    ck_assert_float_eq(c, 3);
    p.add = false;
    p.bias = &bias;
    model_product(&p, 2);
    ck_assert_float_eq(c, bias);
    p.bias = NULL;
    model_product(&p, 1);
    ck_assert_float_eq(c, 0);
}
END_TEST

/* Infinity times a number whose second part is 0 is infinity, in its own block; sums that overflow are infinite. */
START_TEST(test_not_finite)
{
    enum { K = 1100 };
    static float a[K], b[K];
    float c;
    for (int k = 0; k < K; k++) {
        a[k] = 1.0f + 0x1p-12f;
        b[k] = 1;
    }
    const th_product p = row_major_product(1, 1, K, a, b, &c);
    model_product(&p, 2);
    ck_assert_float_eq(c, (float)K + (float)K * 0x1p-12f);
    a[600] = INFINITY;
    model_product(&p, 2);
    ck_assert(isinf(c) && c > 0);
    a[1] = -INFINITY;
    model_product(&p, 2);
    ck_assert(isnan(c));
    a[1] = a[600] = FLT_MAX;
    model_product(&p, 2);
    ck_assert(isinf(c) && c > 0);
    a[1] = NAN;
    model_product(&p, 1);
    ck_assert(isnan(c));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("model of tile products", NULL, NULL);
    tcase_add_test(tests, test_arithmetic);
    tcase_add_test(tests, test_dot);
    tcase_add_test(tests, test_parts);
    tcase_add_loop_test(tests, test_integers, 0, 10);
    tcase_add_test(tests, test_no_steps);
    tcase_add_test(tests, test_not_finite);
    return run_suites();
}
