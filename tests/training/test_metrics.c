/* Metrics: the fixture has the values of scikit-learn, SciPy and seqeval (scripts/interop/metrics.py); pairs that do not count, ties,
 * errors. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/core.h"

#include "context.h"
#include "memory.h"

enum { MAX = 1000 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 1});
    ck_assert_ptr_nonnull(ctx);
}

static void read_numbers(FILE *file, int64_t count, double *x)
{
    ck_assert_int_le(count, MAX);
    for (int64_t i = 0; i < count; i++)
        ck_assert_int_eq(fscanf(file, "%lf", &x[i]), 1);
}

static void assert_value(double value, double expected)
{
    ck_assert_msg(isnan(expected) ? isnan(value) : fabs(value - expected) < 1e-12, "%.17g, not %.17g", value, expected);
}

static void assert_scores(FILE *file, const th_label_counts *counts, int64_t labels)
{
    for (int64_t l = -2; l < labels; l++) {
        double expected[3];
        read_numbers(file, 3, expected);
        const th_label_score score = l == -2   ? th_score_macro(counts, labels)
                                     : l == -1 ? th_score_micro(counts, labels)
                                               : th_score_label(counts[l]);
        assert_value(score.precision, expected[0]);
        assert_value(score.recall, expected[1]);
        assert_value(score.f1, expected[2]);
    }
}

static void compare_classes(FILE *file, int64_t count, int64_t classes)
{
    double x[2][MAX], expected[MAX];
    int32_t y[2][MAX];
    int64_t matrix[100];
    th_label_counts counts[10];
    for (int side = 0; side < 2; side++) {
        read_numbers(file, count, x[side]);
        for (int64_t i = 0; i < count; i++)
            y[side][i] = (int32_t)x[side][i];
    }
    th_confusion_matrix(y[0], y[1], count, classes, matrix);
    read_numbers(file, classes * classes, expected);
    for (int64_t i = 0; i < classes * classes; i++)
        ck_assert_int_eq(matrix[i], (int64_t)expected[i]);
    read_numbers(file, 1, expected);
    assert_value(th_accuracy(matrix, classes), expected[0]);
    th_count_classes(matrix, classes, counts);
    assert_scores(file, counts, classes);
}

static void read_flags(FILE *file, int64_t count, bool *flags)
{
    double x[MAX];
    read_numbers(file, count, x);
    for (int64_t i = 0; i < count; i++)
        flags[i] = x[i] != 0;
}

static void compare_labels(FILE *file, int64_t count, int64_t labels)
{
    bool y[2][MAX];
    th_label_counts counts[10];
    for (int side = 0; side < 2; side++)
        read_flags(file, count * labels, y[side]);
    th_count_labels(y[0], y[1], count, labels, counts);
    assert_scores(file, counts, labels);
}

static void compare_entities(FILE *file, int64_t count, int64_t labels)
{
    static const char *const names[] = {"O", "B-A", "I-A", "E-A", "S-A", "B-B-C", "I-B-C", "E-B-C", "B", "I"};
    double x[MAX];
    int32_t y[2][MAX];
    th_label_counts counts[10];
    for (int side = 0; side < 2; side++) {
        read_numbers(file, count, x);
        for (int64_t i = 0; i < count; i++)
            y[side][i] = (int32_t)x[i];
    }
    th_count_entities(names, labels, y[0], y[1], count, counts);
    assert_scores(file, counts, labels);
}

static void compare_numbers(FILE *file, int64_t count)
{
    double x[MAX], y[MAX], expected[2];
    read_numbers(file, count, x);
    read_numbers(file, count, y);
    read_numbers(file, 2, expected);
    assert_value(th_pearson(x, y, count), expected[0]);
    assert_value(th_spearman(ctx, x, y, count), expected[1]);
}

static void compare_roc(FILE *file, int64_t count)
{
    bool actual[MAX];
    double scores[MAX], expected;
    read_flags(file, count, actual);
    read_numbers(file, count, scores);
    read_numbers(file, 1, &expected);
    assert_value(th_roc_auc(ctx, actual, scores, count), expected);
}

static void compare_ranks(FILE *file, int64_t queries, int64_t candidates)
{
    bool relevant[MAX];
    double scores[MAX], expected;
    read_flags(file, queries * candidates, relevant);
    read_numbers(file, queries * candidates, scores);
    read_numbers(file, 1, &expected);
    assert_value(th_mean_reciprocal_rank(relevant, scores, queries, candidates), expected);
}

START_TEST(test_as_scikit_learn_and_scipy)
{
    FILE *file = fopen(FIXTURES "/metrics/cases.txt", "r");
    char kind[20];
    long long a, b;
    int cases = 0;
    ck_assert_ptr_nonnull(file);
    for (; fscanf(file, "%19s %lld %lld", kind, &a, &b) == 3; cases++) {
        if (strcmp(kind, "classes") == 0)
            compare_classes(file, a, b);
        else if (strcmp(kind, "labels") == 0)
            compare_labels(file, a, b);
        else if (strcmp(kind, "entities") == 0)
            compare_entities(file, a, b);
        else if (strcmp(kind, "numbers") == 0)
            compare_numbers(file, a);
        else if (strcmp(kind, "roc") == 0)
            compare_roc(file, a);
        else
            compare_ranks(file, a, b);
        no_error();
    }
    ck_assert_int_gt(cases, 20);
    fclose(file);
}
END_TEST

START_TEST(test_pairs_that_do_not_count)
{
    const int32_t actual[] = {0, -100, 1, 2, 1}, predicted[] = {0, 1, 1, 1, 7};
    int64_t matrix[4];
    th_label_counts counts[2];
    th_confusion_matrix(actual, predicted, 5, 2, matrix);
    const int64_t expected[] = {1, 0, 0, 1};
    ck_assert_int_eq(memcmp(matrix, expected, sizeof matrix), 0);
    th_confusion_matrix(actual, predicted, 0, 2, matrix);
    ck_assert(isnan(th_accuracy(matrix, 2)));
    th_count_classes(matrix, 2, counts);
    ck_assert(th_score_macro(counts, 2).f1 == 0 && th_score_micro(counts, 2).recall == 0);
}
END_TEST

START_TEST(test_several_relevant_candidates)
{
    const bool relevant[] = {0, 1, 1, 0, /**/ 0, 0, 0, 0, /**/ 0, 1, 0, 1};
    const double scores[] = {3, 2, 2, 2, /**/ 1, 2, 3, 4, /**/ 1, 9, 2, 3};
    assert_value(th_mean_reciprocal_rank(relevant, scores, 3, 4), (1. / 3 + 0 + 1) / 3);
}
END_TEST

START_TEST(test_no_value)
{
    const double x[] = {1, 2}, undefined[] = {1, NAN};
    const bool actual[] = {true, false};
    ck_assert(isnan(th_pearson(x, x, 1)) && isnan(th_spearman(ctx, x, x, 1)) && isnan(th_roc_auc(ctx, actual, x, 1)));
    ck_assert(isnan(th_spearman(ctx, undefined, x, 2)) && isnan(th_roc_auc(ctx, actual, undefined, 2)));
    ck_assert(isnan(th_mean_reciprocal_rank(actual, x, 0, 2)));
    no_error();
    test_memory own = {0};
    th_context *other = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&own)});
    own.fail_at = own.calls + 1;
    ck_assert(isnan(th_spearman(other, x, x, 2)) && th_error_code(other) == TH_ERROR_MEMORY);
    ck_assert(isnan(th_spearman(other, x, x, 2)));
    th_error_clear(other);
    own.fail_at = own.calls + 1;
    ck_assert(isnan(th_roc_auc(other, actual, x, 2)) && th_error_code(other) == TH_ERROR_MEMORY);
    th_context_free(other);
    ck_assert_uint_eq(own.bytes, 0);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("metrics", setup, close_context);
    tcase_add_test(tests, test_as_scikit_learn_and_scipy);
    tcase_add_test(tests, test_pairs_that_do_not_count);
    tcase_add_test(tests, test_several_relevant_candidates);
    tcase_add_test(tests, test_no_value);
    return run_suites();
}
