/* Philox: the scalar version and the vector kernels against Random123, word by word; fills and dropout against their
 * definitions and their statistics. */
#include <math.h>
#include <Random123/philox.h>
#include <stdlib.h>
#include <string.h>

#include "instances.h"
#include "kernels/random/philox.h"
#include "suite.h"

static const th_philox random_numbers = {.key = {0xa4093822, 0x299f31d0}, .call = 0x13198a2e, .step = 0x03707344};

/* Returns word `word` of counter (c0, c1, call, step), computed by Random123. */
static uint32_t reference(const th_philox *random, uint64_t c0, uint64_t c1, int word)
{
    const philox4x32_ctr_t counter = {{(uint32_t)c0, (uint32_t)c1, random->call, random->step}};
    const philox4x32_key_t key = {{random->key[0], random->key[1]}};
    return philox4x32_R(10, counter, key).v[word];
}

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
START_TEST(test_known_answers)
{
    uint32_t words[4];
    th_philox_block(&(th_philox){{0, 0}, 0, 0}, 0, 0, words);
    ck_assert(words[0] == 0x6627e8d5 && words[1] == 0xe169c58d && words[2] == 0xbc57ac4c && words[3] == 0x9b00dbd8);
    const uint32_t ones = UINT32_MAX;
    th_philox_block(&(th_philox){{ones, ones}, ones, ones}, ones, ones, words);
    ck_assert(words[0] == 0x408f276d && words[1] == 0x41c83b0e && words[2] == 0xa20bc7c6 && words[3] == 0x6d5451fd);
    th_philox_block(&random_numbers, 0x243f6a88, 0x85a308d3, words);
    ck_assert(words[0] == 0xd16cfe09 && words[1] == 0x94fdcceb && words[2] == 0x5001e420 && words[3] == 0x24126ea1);
}
END_TEST

/* Compares single counters with Random123: each bit of key and counter alone, and mixed words. */
START_TEST(test_block)
{
    uint32_t mixed[6] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0};
    for (int i = 0; i < 1000; i++) {
        uint32_t in[6] = {0};
        if (i < 6 * 32)
            in[i / 32] = UINT32_C(1) << i % 32;
        for (int j = 0; j < 6 && i >= 6 * 32; j++)
            in[j] = mixed[j] = mixed[j] * 1664525 + 1013904223;
        const th_philox random = {.key = {in[4], in[5]}, .call = in[2], .step = in[3]};
        uint32_t words[4];
        th_philox_block(&random, in[0], in[1], words);
        for (int word = 0; word < 4; word++)
            ck_assert_uint_eq(words[word], reference(&random, in[0], in[1], word));
    }
}
END_TEST

/* Fills depend only on the element's number: any start, any length, also beyond 2^32 counters. */
START_TEST(test_uniform)
{
    const int64_t starts[] = {0, 1, 3, 6, 63, 64, 129, ((int64_t)1 << 34) - 37, ((int64_t)5 << 34) + 2};
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++)
            for (int n = 0; n < 140; n += n % 7 + 1) {
                float y[141];
                double y64[141];
                y[n] = 7;
                y64[n] = 7;
                f32[isa]->random_uniform(n, y, starts[s], &random_numbers, 0, 1);
                f64[isa]->random_uniform(n, y64, starts[s], &random_numbers, 0, 1);
                ck_assert(y[n] == 7 && y64[n] == 7);
                for (int i = 0; i < n; i++) {
                    const uint64_t at = (uint64_t)(starts[s] + i);
                    const uint32_t word = reference(&random_numbers, at / 4, at / 4 >> 32, (int)(at % 4));
                    ck_assert(y[i] == (float)(word >> 8) * 0x1p-24f);
                    const uint32_t high = reference(&random_numbers, at / 2, at / 2 >> 32, (int)(at % 2 * 2));
                    const uint32_t low = reference(&random_numbers, at / 2, at / 2 >> 32, (int)(at % 2 * 2 + 1));
                    ck_assert(y64[i] == ((double)(high >> 5) * 0x1p26 + (double)(low >> 6)) * 0x1p-53);
                }
            }
}
END_TEST

START_TEST(test_normal)
{
    enum { N = 40000 };
    static float y[ISAS][N];
    static double y64[ISAS][N];
    for (int isa = 0; isa < ISAS && supported(isa); isa++) {
        f32[isa]->random_normal(N, y[isa], 0, &random_numbers, 0, 1);
        f64[isa]->random_normal(N, y64[isa], 0, &random_numbers, 0, 1);
        /* in pieces */
        float part[1000];
        for (int from = 5; from < 2000; from += 611) {
            f32[isa]->random_normal(1000, part, from, &random_numbers, 0, 1);
            ck_assert(memcmp(part, y[isa] + from, sizeof part) == 0);
        }
        double sum[2] = {0, 0}, square[2] = {0, 0}, fourth[2] = {0, 0}, pairs[2] = {0, 0};
        for (int i = 0; i < N; i++) {
            const double values[2] = {(double)y[isa][i], y64[isa][i]};
            const double next[2] = {(double)y[isa][i ^ 1], y64[isa][i ^ 1]};
            for (int k = 0; k < 2; k++) {
                ck_assert(fabs(values[k]) < 9);
                sum[k] += values[k];
                square[k] += values[k] * values[k];
                fourth[k] += pow(values[k], 4);
                pairs[k] += values[k] * next[k];
            }
            /* the definition, from two words */
            const uint64_t at = (uint64_t)i;
            const double u1 = 1 - (reference(&random_numbers, at / 4, 0, (int)(at % 4 / 2 * 2)) >> 8) * 0x1p-24;
            const double u2 = (reference(&random_numbers, at / 4, 0, (int)(at % 4 / 2 * 2 + 1)) >> 8) * 0x1p-24;
            const double angle = 2 * M_PI * u2, radius = sqrt(-2 * log(u1));
            ck_assert(fabs((double)y[isa][i] - radius * (at % 2 ? sin(angle) : cos(angle))) < 3e-6);
        }
        for (int k = 0; k < 2; k++) { /* five standard errors */
            const double n = N;
            ck_assert(fabs(sum[k] / n) < 5 / sqrt(n));
            ck_assert(fabs(square[k] / n - 1) < 5 * sqrt(2 / n));
            ck_assert(fabs(fourth[k] / n - 3) < 5 * sqrt(96 / n));
            ck_assert(fabs(pairs[k] / n) < 5 * sqrt(2 / n));
        }
        f32[isa]->random_normal(1000, part, 0, &random_numbers, 3, 0.5);
        for (int i = 0; i < 1000; i++)
            ck_assert(fabsf(part[i] - (3 + 0.5f * y[isa][i])) < 1e-6f);
    }
    for (int isa = FUSED + 1; isa < ISAS && supported(isa); isa++) {
        ck_assert(memcmp(y[FUSED], y[isa], sizeof y[0]) == 0);
        ck_assert(memcmp(y64[FUSED], y64[isa], sizeof y64[0]) == 0);
    }
}
END_TEST

/* Checks every element against the definition, in matrices of all widths, from any row; float64 has the same mask. */
START_TEST(test_dropout)
{
    const int widths[] = {1, 2, 3, 4, 5, 7, 16, 31, 64, 65, 100, 256, 1023, 1030, 2500};
    const double p = 0.3;
    const th_dropout_mask dropout = th_dropout_mask_make(random_numbers, p);
    for (int isa = 0; isa < ISAS && supported(isa); isa++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            const int columns = widths[w], rows = columns > 200 ? 3 : 37, n = rows * columns;
            const int64_t first_row = w % 2 ? 0 : 1000;
            float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)(n + 1) * sizeof *y);
            double *x64 = malloc((size_t)n * sizeof *x64);
            ck_assert(x && y && x64);
            for (int i = 0; i < n; i++)
                x64[i] = (double)(x[i] = (float)(i + 1));
            y[n] = 7;
            f32[isa]->dropout(rows, columns, x, NULL, y, first_row, &dropout);
            f64[isa]->dropout(rows, columns, x64, NULL, x64, first_row, &dropout); /* in place */
            ck_assert(y[n] == 7);
            for (int i = 0; i < n; i++) {
                const uint64_t row = (uint64_t)(first_row + i / columns), column = (uint64_t)(i % columns);
                const bool kept = reference(&random_numbers, column / 4, row, (int)(column % 4)) >= dropout.threshold;
                ck_assert(y[i] == (kept ? x[i] * (float)dropout.scale : 0));
                ck_assert(x64[i] == (kept ? (double)x[i] * dropout.scale : 0));
            }
            /* added to another operand */
            float *sum = malloc((size_t)n * sizeof *sum);
            ck_assert_ptr_nonnull(sum);
            for (int i = 0; i < n; i++)
                sum[i] = 0.1f * (float)i;
            f32[isa]->dropout(rows, columns, x, sum, sum, first_row, &dropout);
            for (int i = 0; i < n; i++)
                ck_assert(sum[i] == 0.1f * (float)i + y[i]);
            free(sum);
            /* dropped elements may be NaN */
            for (int i = 0; i < n; i++)
                if (y[i] == 0)
                    x[i] = NAN;
            f32[isa]->dropout(rows, columns, x, NULL, x, first_row, &dropout);
            ck_assert(memcmp(x, y, (size_t)n * sizeof *x) == 0);
            free(x);
            free(y);
            free(x64);
        }
}
END_TEST

START_TEST(test_dropout_share)
{
    enum { N = 100000 };
    static float x[N], y[N];
    for (int i = 0; i < N; i++)
        x[i] = 1;
    const double shares[] = {0, 0.1, 0.5, 0.9, 1 - 1e-12};
    for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
        const th_dropout_mask dropout = th_dropout_mask_make(random_numbers, shares[s]);
        f32[0]->dropout(1, N, x, NULL, y, 0, &dropout);
        int dropped = 0;
        for (int i = 0; i < N; i++)
            dropped += y[i] == 0;
        const double expected = (double)N * shares[s];
        ck_assert(fabs(dropped - expected) <= 5 * sqrt(expected * (1 - shares[s])) + 1e-3);
    }
    ck_assert(th_dropout_mask_make(random_numbers, 0.5).threshold == 0x80000000 &&
              th_dropout_mask_make(random_numbers, 0.5).scale == 2);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("philox", NULL, NULL);
    tcase_add_test(tests, test_known_answers);
    tcase_add_test(tests, test_block);
    tcase_add_test(tests, test_uniform);
    tcase_add_test(tests, test_normal);
    tcase_add_test(tests, test_dropout);
    tcase_add_test(tests, test_dropout_share);
    return run_suites();
}
