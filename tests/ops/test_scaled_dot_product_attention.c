/* Scaled dot-product attention: exact values, fused and composed, a batch of heads, gradients of saturated weights, the
 * effect of the scale, memory, and wrong operands. (test_gradients.c checks gradients on samples and compares fused
 * with composed; test_attention_kernel.c tests the tiles.) */
#include <math.h>
#include <stdlib.h>

#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 7});
}

static const double keys[4][3] = {{10, 0, 0}, {0, 10, 0}, {0, 0, 10}, {0, 0, 10}};
static const double values[4][2] = {{1, 0}, {10, 0}, {100, 5}, {1000, 6}};
static const double queries[3][3] = {{0, 0, 10}, {0, 10, 0}, {10, 10, 0}};
static const double weights[3][4] = {{0, 0, 0.5, 0.5}, {0, 1, 0, 0}, {0.5, 0.5, 0, 0}};
static const double outputs[3][2] = {{550, 5.5}, {10, 0}, {5.5, 0}};

/* Returns the same matrix for each of `heads` heads of `batch` sequences (without leading dimensions if batch is 0). */
static th_tensor *matrix(const double *data, int64_t rows, int64_t columns, int64_t batch, int64_t heads)
{
    th_tensor *t = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(rows, columns), data);
    th_tensor *narrow = th_cast(t, TH_FLOAT32);
    return batch ? th_expand(narrow, TH_SHAPE(batch, heads, rows, columns)) : narrow;
}

static void expect_rows(th_tensor *o, th_tensor *w, int first, int count)
{
    const int64_t items = th_numel(o) / (2 * count);
    o = th_reshape(o, TH_SHAPE(items, count, 2));
    w = w ? th_reshape(w, TH_SHAPE(items, count, 4)) : NULL;
    for (int64_t item = 0; item < items; item++)
        for (int t = 0; t < count; t++) {
            const double largest = outputs[first + t][0];
            for (int j = 0; j < 2; j++)
                ck_assert_double_eq_tol(th_get(o, TH_INDEX(item, t, j)), outputs[first + t][j], 1e-4 * largest);
            for (int s = 0; w && s < 4; s++)
                ck_assert_double_eq_tol(th_get(w, TH_INDEX(item, t, s)), weights[first + t][s], 1e-4);
        }
}

/* _i: fused or composed; each query alone, then all three, then in a batch of heads. */
START_TEST(row_exact_values)
{
    th_set_fusion(ctx, _i);
    for (int batch = 0; batch <= 2; batch += 2) {
        th_tensor *k = matrix(&keys[0][0], 4, 3, batch, 3), *v = matrix(&values[0][0], 4, 2, batch, 3);
        for (int t = 0; t < 3; t++) {
            th_tensor *q = matrix(queries[t], 1, 3, batch, 3);
            expect_rows(th_scaled_dot_product_attention(q, k, v, NULL), NULL, t, 1);
        }
        th_tensor *q = matrix(&queries[0][0], 3, 3, batch, 3), *w = NULL;
        expect_rows(th_scaled_dot_product_attention(q, k, v, NULL), NULL, 0, 3);
        th_tensor *o = th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.weights = &w});
        expect_rows(o, w, 0, 3);
    }
}
END_TEST

static double loss_of(th_tensor *const *x)
{
    th_no_grad_begin(ctx);
    th_tensor *o = th_scaled_dot_product_attention(x[0], x[1], x[2], NULL);
    const double loss = th_item(th_sum(th_mul(o, o), TH_ALL_AXES, NULL));
    th_no_grad_end(ctx);
    th_tape_clear(ctx);
    return loss;
}

START_TEST(row_gradient_of_the_sum_of_squares)
{
    th_set_fusion(ctx, _i);
    th_tensor *x[3] = {th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3, 3), queries),
                       th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 3), keys),
                       th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 2), values)};
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_nonnull(th_set_requires_gradient(x[i], true));
    th_tensor *o = th_scaled_dot_product_attention(x[0], x[1], x[2], NULL);
    ck_assert_int_eq(th_backward(th_sum(th_mul(o, o), TH_ALL_AXES, NULL), NULL), TH_OK);
    th_tape_clear(ctx);
    for (int i = 0; i < 3; i++) {
        const double *gradient = th_data_const(th_gradient(x[i]));
        double largest = 0;
        for (int64_t e = 0; e < th_numel(x[i]); e++)
            largest = fmax(largest, fabs(gradient[e]));
        for (int64_t e = 0; e < th_numel(x[i]); e++) {
            const double step = 3e-5, value = ((const double *)th_data_const(x[i]))[e];
            ((double *)th_data(x[i]))[e] = value + step;
            const double up = loss_of(x);
            ((double *)th_data(x[i]))[e] = value - step;
            const double down = loss_of(x);
            ((double *)th_data(x[i]))[e] = value;
            ck_assert_double_eq_tol(gradient[e], (up - down) / (2 * step), 1e-7 * largest);
        }
    }
}
END_TEST

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median over rows of the norm of the logits' gradient, for a random cotangent of the weights. */
static double median_gradient(th_tensor *logits, double scale)
{
    enum { ROWS = 200, S = 16 };
    th_tensor *scaled = th_keep_gradient(th_scale(th_set_requires_gradient(th_keep(logits), true), scale));
    ck_assert_int_eq(th_backward(th_softmax(scaled, -1),
                                 &(th_backward_options){.cotangent = th_randn(ctx, TH_FLOAT64, TH_SHAPE(ROWS, S))}),
                     TH_OK);
    double norm[ROWS];
    for (int r = 0; r < ROWS; r++) {
        norm[r] = 0;
        for (int s = 0; s < S; s++)
            norm[r] += pow(th_get(th_gradient(scaled), TH_INDEX(r, s)), 2);
        norm[r] = sqrt(norm[r]);
    }
    qsort(norm, ROWS, sizeof *norm, by_size);
    return norm[ROWS / 2];
}

START_TEST(row_effect_of_the_scale)
{
    const int64_t widths[] = {4, 64, 512};
    for (int i = 0; i < 3; i++) {
        const int64_t d = widths[i];
        th_tensor *q = th_randn(ctx, TH_FLOAT64, TH_SHAPE(200, d)),
                  *k = th_randn(ctx, TH_FLOAT64, TH_SHAPE(200, 16, d));
        th_tensor *logits = th_reshape(th_matmul(k, th_unsqueeze(q, -1)), TH_SHAPE(200, 16));
        const double variance = th_item(th_variance(logits, TH_ALL_AXES, NULL));
        ck_assert_double_eq_tol(variance / (double)d, 1, 0.3);
        const double scale = 1 / sqrt((double)d);
        ck_assert_double_eq_tol(th_item(th_variance(th_scale(logits, scale), TH_ALL_AXES, NULL)), 1, 0.3);
        if (d == 512)
            ck_assert_double_ge(median_gradient(logits, scale), 100 * median_gradient(logits, 1));
        th_tape_clear(ctx);
    }
}
END_TEST

/* _i: fused or composed. Heads may be none, even if k and v have one. */
START_TEST(no_query_heads)
{
    th_set_fusion(ctx, _i);
    th_tensor *q = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 0, 3, 4));
    th_tensor *k = th_set_requires_gradient(th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 1, 5, 4)), true);
    th_tensor *y = th_scaled_dot_product_attention(q, k, k, NULL);
    assert_shape(y, TH_SHAPE(2, 0, 3, 4));
    ck_assert_int_eq(th_backward(th_sum(y, TH_ALL_AXES, NULL), NULL), TH_OK);
    ck_assert_double_eq(th_item(th_sum(th_abs(th_gradient(k)), TH_ALL_AXES, NULL)), 0);
}
END_TEST

/* T = S = 4096, one head of 64: the score matrix alone would be 64 MiB. */
START_TEST(the_score_matrix_is_never_stored)
{
    th_context *c = th_context_new(&(th_context_options){.seed = 1, .threads = 2});
    th_tensor *x[3];
    for (int i = 0; i < 3; i++)
        x[i] = th_set_requires_gradient(th_randn(c, TH_FLOAT32, TH_SHAPE(1, 1, 4096, 64)), true);
    th_tensor *o = th_scaled_dot_product_attention(x[0], x[1], x[2], NULL);
    ck_assert_msg(th_backward(th_mean(th_mul(o, o), TH_ALL_AXES, NULL), NULL) == TH_OK, "%s", th_error_message(c));
    ck_assert_uint_lt(th_memory(c).peak, 32 << 20);
    ck_assert_uint_lt(th_memory(c).reserved, 32 << 20);
    th_context_free(c);
}
END_TEST

static th_tensor *real(th_shape shape)
{
    return th_ones(ctx, TH_FLOAT32, shape);
}

/* _i: whether fusion is on. */
START_TEST(wrong_operands_of_attention)
{
    th_set_fusion(ctx, _i);
    th_tensor *q = real(TH_SHAPE(4, 3, 2)), *k = real(TH_SHAPE(2, 5, 2)), *v = real(TH_SHAPE(2, 5, 7));
    assert_shape(th_scaled_dot_product_attention(q, k, v, NULL), TH_SHAPE(4, 3, 7));
    assert_error(th_scaled_dot_product_attention(q, real(TH_SHAPE(3, 5, 2)), real(TH_SHAPE(3, 5, 7)), NULL),
                 TH_ERROR_SHAPE, "leading dimensions differ: q is (4, 3, 2), k is (3, 5, 2), v is (3, 5, 7)");
    assert_error(th_scaled_dot_product_attention(q, k, real(TH_SHAPE(4, 5, 7)), NULL), TH_ERROR_SHAPE,
                 "leading dimensions differ: q is (4, 3, 2), k is (2, 5, 2), v is (4, 5, 7)");
    assert_error(th_scaled_dot_product_attention(q, real(TH_SHAPE(0, 5, 2)), real(TH_SHAPE(0, 5, 7)), NULL),
                 TH_ERROR_SHAPE, "leading dimensions differ: q is (4, 3, 2), k is (0, 5, 2), v is (0, 5, 7)");
    assert_error(th_scaled_dot_product_attention(real(TH_SHAPE(4, 1, 3, 2)), real(TH_SHAPE(2, 1, 5, 2)),
                                                 real(TH_SHAPE(2, 1, 5, 7)), NULL),
                 TH_ERROR_SHAPE, "leading dimensions differ"); /* only heads are shared */
    static const struct {
        th_shape q, k, v;
        const char *words;
    } ranks[] = {{{1, {2}}, {1, {2}}, {1, {2}}, "at least 2: q is (2), k is (2), v is (2)"},
                 {{2, {3, 2}}, {3, {1, 3, 2}}, {2, {3, 2}}, "at least 2: q is (3, 2), k is (1, 3, 2), v is (3, 2)"},
                 {{2, {3, 2}}, {2, {3, 2}}, {3, {1, 3, 2}}, "at least 2: q is (3, 2), k is (3, 2), v is (1, 3, 2)"},
                 {{3, {1, 3, 2}}, {2, {3, 2}}, {2, {3, 2}}, "at least 2: q is (1, 3, 2), k is (3, 2), v is (3, 2)"}};
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
        assert_error(th_scaled_dot_product_attention(real(ranks[i].q), real(ranks[i].k), real(ranks[i].v), NULL),
                     TH_ERROR_SHAPE, ranks[i].words);
    static const double dropouts[] = {1, -0.1, NAN};
    for (size_t i = 0; i < 3; i++)
        assert_error(th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.dropout = dropouts[i]}),
                     TH_ERROR_ARGUMENT, "scaled_dot_product_attention: dropout = ");
    static const double scales[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++)
        assert_error(th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.scale = scales[i]}),
                     TH_ERROR_ARGUMENT, "scaled_dot_product_attention: scale = ");
    assert_error(th_scaled_dot_product_attention(q, k, v, &(th_attention_options){.soft_cap = (double)INFINITY}),
                 TH_ERROR_ARGUMENT, "scaled_dot_product_attention: soft_cap = inf");
}
END_TEST

/* The composition drops weights too if the log-sum-exp is requested. _i: whether the weights are requested. */
START_TEST(dropout_with_the_log_sum_exp)
{
    th_tensor *q = th_randn(ctx, TH_FLOAT64, TH_SHAPE(2, 9, 4)), *results[2], *sums[2], *p;
    for (int i = 0; i < 2; i++) {
        th_set_fusion(ctx, _i && i);
        th_set_seed(ctx, 5);
        th_attention_options options = {.dropout = 0.5, .log_sum_exp = i ? &sums[1] : NULL};
        options.weights = _i ? &p : NULL;
        results[i] = th_scaled_dot_product_attention(q, q, q, &options);
        ck_assert_msg(results[i] != NULL, "%s", th_error_message(ctx));
    }
    th_set_fusion(ctx, true);
    ck_assert_ptr_nonnull(th_scaled_dot_product_attention(q, q, q, &(th_attention_options){.log_sum_exp = &sums[0]}));
    const double *a = th_data(th_contiguous(results[0])), *b = th_data(th_contiguous(results[1]));
    ck_assert_mem_eq(a, b, (size_t)th_numel(results[0]) * sizeof *a);
    ck_assert_mem_eq(th_data(sums[0]), th_data(sums[1]), (size_t)th_numel(sums[0]) * sizeof *a);
}
END_TEST

int main(void)
{
    TCase *tcase = new_suite("scaled dot-product attention", setup, close_context);
    tcase_add_loop_test(tcase, row_exact_values, 0, 2);
    tcase_add_loop_test(tcase, row_gradient_of_the_sum_of_squares, 0, 2);
    tcase_add_test(tcase, row_effect_of_the_scale);
    tcase_add_loop_test(tcase, no_query_heads, 0, 2);
    tcase_add_test(tcase, the_score_matrix_is_never_stored);
    tcase_add_loop_test(tcase, wrong_operands_of_attention, 0, 2);
    tcase_add_loop_test(tcase, dropout_with_the_log_sum_exp, 0, 2);
    return run_suites();
}
