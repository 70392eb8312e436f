/* The operations along axes against plain double loops: values on every axis and layout, huge logits, NaN and infinity,
 * empty axes, masks, and the same bits from every team and instruction set. Their gradients are checked on their
 * samples, with all other operations. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "tapehead/context.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const th_dtype types[2] = {TH_FLOAT32, TH_FLOAT64};

static th_context *open_context(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 7});
    ck_assert_ptr_nonnull(ctx);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    return ctx;
}

/* Closes it, with no error pending. */
static void close_context(th_context *ctx)
{
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    th_context_free(ctx);
}

#define ASSERT_ERROR(ctx, result, code, sentence)                                                                      \
    do {                                                                                                               \
        ck_assert_ptr_null(result);                                                                                    \
        ck_assert_int_eq(th_error_code(ctx), code);                                                                    \
        ck_assert_msg(strstr(th_error_message(ctx), sentence) != NULL, "%s", th_error_message(ctx));                   \
        th_error_clear(ctx);                                                                                           \
    } while (0)

/* Uniform numbers of this shape: contiguous, or a view with gaps whose last two axes are exchanged. */
static th_tensor *numbers(th_context *ctx, th_dtype dtype, th_shape shape, double low, double high, bool strided)
{
    const int n = shape.ndim;
    if (!strided || n == 0)
        return th_uniform(ctx, dtype, shape, low, high);
    if (n > 1) {
        const int64_t last = shape.size[n - 1];
        shape.size[n - 1] = shape.size[n - 2];
        shape.size[n - 2] = last;
    }
    shape.size[n - 1] *= 2;
    th_tensor *view = th_slice(th_uniform(ctx, dtype, shape, low, high), -1, 0, shape.size[n - 1], 2);
    return n > 1 ? th_swap_axes(view, -1, -2) : view;
}

/* The elements, row-major, as doubles; at most MOST. */
enum { MOST = 4096 };
typedef struct values {
    int64_t count;
    double at[MOST];
} values;

static void read_values(th_tensor *t, values *v)
{
    ck_assert_ptr_nonnull(t);
    v->count = th_numel(t);
    ck_assert_int_le(v->count, MOST);
    if (v->count == 0)
        return;
    th_tensor *plain = th_contiguous(th_cast(t, TH_FLOAT64));
    const double *data = th_data_const(plain);
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < v->count; i++)
        v->at[i] = data[i];
}

static bool close_to(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static double tolerance_of(th_dtype dtype)
{
    return dtype == TH_FLOAT32 ? 4e-6 : 1e-13;
}

static void assert_values(th_tensor *t, const values *wanted, double tolerance, const char *what)
{
    values got;
    read_values(t, &got);
    ck_assert_msg(got.count == wanted->count, "%s: %lld elements, not %lld", what, (long long)got.count,
                  (long long)wanted->count);
    for (int64_t i = 0; i < got.count; i++)
        ck_assert_msg(close_to(got.at[i], wanted->at[i], tolerance), "%s: element %lld is %.17g, not %.17g", what,
                      (long long)i, got.at[i], wanted->at[i]);
}

/* The rows of a shape along a set of axes: element j of row r is element row_element(...) of the row-major array. */
typedef struct row_map {
    int64_t rows, length;
    int64_t row[MOST], place[MOST]; /* of each element: its row, its place in it */
} row_map;

static void map_rows(th_shape shape, uint32_t along, row_map *map)
{
    int64_t numel = 1;
    map->rows = map->length = 1;
    for (int i = 0; i < shape.ndim; i++) {
        numel *= shape.size[i];
        *(along >> i & 1 ? &map->length : &map->rows) *= shape.size[i];
    }
    for (int64_t e = 0; e < numel; e++) {
        int64_t rest = e, row = 0, row_step = 1, place = 0, place_step = 1;
        for (int i = shape.ndim - 1; i >= 0; i--) {
            const int64_t index = rest % shape.size[i];
            rest /= shape.size[i];
            if (along >> i & 1) {
                place += index * place_step;
                place_step *= shape.size[i];
            } else {
                row += index * row_step;
                row_step *= shape.size[i];
            }
        }
        map->row[e] = row;
        map->place[e] = place;
    }
}

/* row[j] = the elements of row r, in order; returns how many. */
static int64_t take_row(const row_map *map, const values *x, int64_t r, double *row)
{
    for (int64_t e = 0; e < x->count; e++)
        if (map->row[e] == r)
            row[map->place[e]] = x->at[e];
    return map->length;
}

static double largest_of(int64_t n, const double *x)
{
    double m = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        m = isnan(x[j]) || x[j] > m ? x[j] : m;
    return m;
}

static double log_sum_exp_of(int64_t n, const double *x)
{
    const double m = largest_of(n, x);
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += exp(x[j] - m);
    return m + log(sum);
}

static double mean_of(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j];
    return sum / (double)n;
}

static double square_sum_of(int64_t n, const double *x, double around)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (x[j] - around) * (x[j] - around);
    return sum;
}

static const th_shape shapes[] = {{2, {3, 19}}, {2, {5, 4}}, {3, {2, 4, 3}},  {4, {2, 3, 5, 17}},
                                  {1, {7}},     {2, {4, 1}}, {3, {1, 33, 2}}, {2, {70, 40}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

START_TEST(test_softmax_values)
{
    static values x, y, log_y;
    static row_map map;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        for (int axis = 0; axis < shape.ndim; axis++) {
            th_tensor *t = numbers(ctx, dtype, shape, -4, 4, which / SHAPES / 2);
            read_values(t, &x);
            map_rows(shape, 1u << axis, &map);
            y.count = log_y.count = x.count;
            for (int64_t e = 0; e < x.count; e++) {
                double row[MOST];
                log_y.at[e] = x.at[e] - log_sum_exp_of(take_row(&map, &x, map.row[e], row), row);
                y.at[e] = exp(log_y.at[e]);
            }
            assert_values(th_softmax(t, axis), &y, tolerance_of(dtype), "softmax");
            assert_values(th_softmax(t, axis - shape.ndim), &y, tolerance_of(dtype), "softmax, negative axis");
            assert_values(th_log_softmax(t, axis), &log_y, tolerance_of(dtype), "log_softmax");
        }
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_reduction_values)
{
    static values x, sum, mean, variance, corrected, largest, log_sum;
    static row_map map;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        const double tolerance = tolerance_of(dtype);
        th_tensor *t = numbers(ctx, dtype, shape, -1, 3, which / SHAPES / 2);
        read_values(t, &x);
        for (uint32_t along = 1; along < 1u << shape.ndim; along++) {
            th_shape axes = {0};
            for (int i = shape.ndim - 1; i >= 0; i--) /* in no particular order, some negative */
                if (along >> i & 1)
                    axes.size[axes.ndim++] = i % 2 ? i - shape.ndim : i;
            map_rows(shape, along, &map);
            sum.count = mean.count = variance.count = corrected.count = largest.count = log_sum.count = map.rows;
            for (int64_t r = 0; r < map.rows; r++) {
                double row[MOST];
                const int64_t n = take_row(&map, &x, r, row);
                mean.at[r] = mean_of(n, row);
                sum.at[r] = mean.at[r] * (double)n;
                const double squares = square_sum_of(n, row, mean.at[r]);
                variance.at[r] = squares / (double)n;
                corrected.at[r] = n > 1 ? squares / (double)(n - 1) : NAN;
                largest.at[r] = largest_of(n, row);
                log_sum.at[r] = log_sum_exp_of(n, row);
            }
            const th_reduce_options kept = {.keep_axes = true}, correction = {.correction = 1};
            assert_values(th_sum(t, axes, NULL), &sum, tolerance * 8, "sum");
            assert_values(th_mean(t, axes, NULL), &mean, tolerance, "mean");
            assert_values(th_variance(t, axes, NULL), &variance, tolerance, "variance");
            assert_values(th_variance(t, axes, &correction), &corrected, tolerance, "corrected variance");
            assert_values(th_max(t, axes, NULL), &largest, 0, "max");
            assert_values(th_log_sum_exp(t, axes, &kept), &log_sum, tolerance, "log_sum_exp, kept");
            th_tensor *with_axes = th_mean(t, axes, &kept);
            ck_assert_int_eq(th_ndim(with_axes), shape.ndim);
            for (int i = 0; i < shape.ndim; i++)
                ck_assert_int_eq(th_size(with_axes, i), along >> i & 1 ? 1 : shape.size[i]);
            ck_assert_int_eq(th_ndim(th_mean(t, axes, NULL)), shape.ndim - axes.ndim);
        }
        map_rows(shape, (1u << shape.ndim) - 1, &map);
        sum.count = 1;
        sum.at[0] = mean_of(x.count, x.at) * (double)x.count;
        assert_values(th_sum(t, TH_ALL_AXES, NULL), &sum, tolerance * 8, "sum of everything");
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_huge_logits)
{
    th_context *ctx = open_context();
    const float logits[] = {FLT_MAX, -FLT_MAX, FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX, 88, -FLT_MAX, 1e30f};
    th_tensor *x = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3, 3), logits), true);
    const values softmax = {9, {0.5, 0, 0.5, 1 / 3., 1 / 3., 1 / 3., 0, 0, 1}};
    assert_values(th_softmax(x, -1), &softmax, 1e-7, "softmax");
    const values log_sum = {3, {FLT_MAX, -FLT_MAX, 1e30f}};
    assert_values(th_log_sum_exp(x, TH_AXES(1), NULL), &log_sum, 1e-7, "log_sum_exp");
    const values log_softmax = {9, {-log(2), -INFINITY, -log(2), -log(3), -log(3), -log(3), -1e30, -FLT_MAX, 0}};
    assert_values(th_log_softmax(x, -1), &log_softmax, 1e-6, "log_softmax");

    /* The first row's loss is 2 FLT_MAX, which no float holds; a third of the mean of all does. */
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(3), (int32_t[]){1, 0, 2});
    th_tensor *loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = 4});
    ck_assert_double_eq_tol(th_item(loss), FLT_MAX / 2.0, 1e-6 * FLT_MAX);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const values gradient = {9, {0.125, -0.25, 0.125, 1 / 12. - 0.25, 1 / 12., 1 / 12., 0, 0, 0}};
    assert_values(th_gradient(x), &gradient, 1e-7, "gradient");
    loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = 9, .label_smoothing = 0.5});
    ck_assert(isfinite(th_item(loss)));
    close_context(ctx);
}
END_TEST

START_TEST(test_not_finite)
{
    th_context *ctx = open_context();
    const double inf = INFINITY, nan = NAN;
    const double rows[] = {1, inf, 2, 1, nan, 2, -inf, -inf, -inf, 0, -inf, 0};
    th_tensor *x = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 3), rows);
    for (int i = 0; i < 2; i++) {
        const values softmax = {12, {nan, nan, nan, nan, nan, nan, nan, nan, nan, 0.5, 0, 0.5}};
        assert_values(th_softmax(x, 1), &softmax, 1e-6, "softmax");
        assert_values(th_log_sum_exp(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, log(2)}}, 1e-6, "log_sum_exp");
        assert_values(th_max(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, 0}}, 0, "max");
        assert_values(th_argmax(x, 1), &(values){4, {1, 1, 0, 0}}, 0, "argmax");
        assert_values(th_sum(x, TH_AXES(1), NULL), &(values){4, {inf, nan, -inf, -inf}}, 0, "sum");
        x = th_cast(x, TH_FLOAT32);
    }
    /* A softmax of -inf alone is NaN, but its log-sum-exp is -inf with gradient 0. */
    th_tensor *leaf = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT64, TH_SHAPE(4, 3), rows), true);
    th_tensor *part = th_slice(th_log_sum_exp(leaf, TH_AXES(1), NULL), 0, 2, 4, 1);
    ck_assert_int_eq(th_backward(part, &(th_backward_options){.cotangent = th_ones(ctx, TH_FLOAT64, TH_SHAPE(2))}),
                     TH_OK);
    values gradient;
    read_values(th_gradient(leaf), &gradient);
    for (int j = 0; j < 3; j++) {
        ck_assert_double_eq(gradient.at[6 + j], 0);
        ck_assert_double_eq_tol(gradient.at[9 + j], j == 1 ? 0 : 0.5, 1e-15);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_ties_and_first_of_equals)
{
    th_context *ctx = open_context();
    const float data[] = {3, 1, 3, 3, NAN, 5, NAN, 0};
    th_tensor *x = th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 4), data), true);
    th_tensor *y = th_max(x, TH_AXES(-1), NULL);
    ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), 6)}),
                     TH_OK);
    assert_values(th_gradient(x), &(values){8, {2, 0, 2, 2, 3, 0, 3, 0}}, 0, "gradient of max");
    assert_values(th_argmax(x, 1), &(values){2, {0, 0}}, 0, "argmax");
    assert_values(th_argmax(x, 0), &(values){4, {1, 1, 1, 0}}, 0, "argmax");
    ck_assert_int_eq(th_dtype_of(th_argmax(x, 0)), TH_INT64);
    close_context(ctx);
}
END_TEST

START_TEST(test_nothing)
{
    th_context *ctx = open_context();
    th_tensor *rows = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 0)), *none = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(0, 3));
    ck_assert_int_eq(th_numel(th_softmax(rows, 1)), 0);
    ck_assert_int_eq(th_numel(th_softmax(rows, 0)), 0);
    ck_assert_int_eq(th_numel(th_log_softmax(none, 1)), 0);
    assert_values(th_sum(rows, TH_AXES(1), NULL), &(values){2, {0, 0}}, 0, "sum of nothing");
    assert_values(th_mean(rows, TH_AXES(1), NULL), &(values){2, {NAN, NAN}}, 0, "mean of nothing");
    assert_values(th_variance(rows, TH_AXES(1), NULL), &(values){2, {NAN, NAN}}, 0, "variance of nothing");
    assert_values(th_log_sum_exp(rows, TH_AXES(1), NULL), &(values){2, {-INFINITY, -INFINITY}}, 0,
                  "log_sum_exp of nothing");
    assert_values(th_sum(none, TH_ALL_AXES, NULL), &(values){1, {0}}, 0, "sum of nothing");
    ck_assert_int_eq(th_numel(th_max(none, TH_AXES(1), NULL)), 0);
    ck_assert_int_eq(th_numel(th_argmax(none, -1)), 0);
    ck_assert_int_eq(th_numel(th_layer_norm(none, NULL)), 0);
    ck_assert_int_eq(th_numel(th_rms_norm(rows, NULL)), 0);
    ck_assert_int_eq(th_numel(th_masked_softmax(rows, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT})), 0);
    assert_values(th_mse(none, none), &(values){1, {NAN}}, 0, "mse of nothing");
    th_tensor *targets = th_zeros(ctx, TH_INT64, TH_SHAPE(0));
    assert_values(th_cross_entropy(none, targets, NULL), &(values){1, {0}}, 0, "cross entropy of nothing");
    ASSERT_ERROR(ctx, th_max(rows, TH_AXES(1), NULL), TH_ERROR_SHAPE,
                 "max: an empty axis has no largest element: x is (2, 0)");
    ASSERT_ERROR(ctx, th_argmax(rows, 1), TH_ERROR_SHAPE, "argmax: an empty axis has no largest element");
    ASSERT_ERROR(ctx, th_cross_entropy(rows, th_zeros(ctx, TH_INT32, TH_SHAPE(2)), NULL), TH_ERROR_SHAPE,
                 "have no classes");
    /* gradients of nothing */
    th_tensor *leaf = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 4)), true);
    th_tensor *weight = th_set_requires_gradient(th_ones(ctx, TH_FLOAT32, TH_SHAPE(4)), true);
    ck_assert_int_eq(
        th_backward(th_sum(th_layer_norm(th_softmax(leaf, 1), &(th_norm_options){.weight = weight}), TH_ALL_AXES, NULL),
                    NULL),
        TH_OK);
    assert_values(th_gradient(weight), &(values){4, {0, 0, 0, 0}}, 0, "gradient of a weight that met no row");
    close_context(ctx);
}
END_TEST

/* -- norms -- */

static void norm_reference(const values *x, int64_t n, bool centerd, double eps, const double *weight,
                           const double *bias, values *y)
{
    y->count = x->count;
    for (int64_t at = 0; at < x->count; at += n) {
        const double mean = centerd ? mean_of(n, x->at + at) : 0;
        const double scale = 1 / sqrt(square_sum_of(n, x->at + at, mean) / (double)n + eps);
        for (int64_t j = 0; j < n; j++)
            y->at[at + j] = (x->at[at + j] - mean) * scale * (weight ? weight[j] : 1) + (bias ? bias[j] : 0);
    }
}

START_TEST(test_norm_values)
{
    static values x, y, w, b;
    th_context *ctx = open_context();
    for (int which = 0; which < 4 * SHAPES; which++) {
        const th_shape shape = shapes[which % SHAPES];
        const th_dtype dtype = types[which / SHAPES % 2];
        const bool strided = which / SHAPES / 2;
        const int64_t n = shape.size[shape.ndim - 1];
        th_tensor *t = numbers(ctx, dtype, shape, -1, 3, strided);
        th_tensor *weight = numbers(ctx, dtype, TH_SHAPE(n), -1, 1, strided),
                  *bias = numbers(ctx, dtype, TH_SHAPE(n), -1, 1, strided);
        read_values(t, &x);
        read_values(weight, &w);
        read_values(bias, &b);
        const double tolerance = 4 * tolerance_of(dtype);
        norm_reference(&x, n, true, 1e-5, w.at, b.at, &y);
        assert_values(th_layer_norm(t, &(th_norm_options){.weight = weight, .bias = bias}), &y, tolerance,
                      "layer_norm");
        norm_reference(&x, n, true, 0.5, NULL, b.at, &y);
        assert_values(th_layer_norm(t, &(th_norm_options){.bias = bias, .eps = 0.5}), &y, tolerance,
                      "layer_norm without weight");
        norm_reference(&x, n, true, 1e-5, NULL, NULL, &y);
        assert_values(th_layer_norm(t, NULL), &y, tolerance, "layer_norm alone");
        norm_reference(&x, n, false, 1e-5, w.at, NULL, &y);
        assert_values(th_rms_norm(t, &(th_norm_options){.weight = weight}), &y, tolerance, "rms_norm");
        norm_reference(&x, n, false, 0.1, NULL, NULL, &y);
        assert_values(th_rms_norm(t, &(th_norm_options){.eps = 0.1}), &y, tolerance, "rms_norm alone");
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

/* Rows of numbers up to 1e17 in float32, long enough that a plain sum of squares would overflow. */
START_TEST(test_norms_of_large_numbers)
{
    static values large, small;
    th_context *ctx = open_context();
    th_tensor *base = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(1, 30000), -1, 1), true);
    th_tensor *x = th_set_requires_gradient(th_keep(th_scale(base, 1e17)), true);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(1, 30000), -1, 1);
    for (int i = 0; i < 2; i++) {
        th_tensor *big = i ? th_rms_norm(x, NULL) : th_layer_norm(x, NULL);
        th_tensor *unit = i ? th_rms_norm(base, &(th_norm_options){.eps = 1e-30})
                            : th_layer_norm(base, &(th_norm_options){.eps = 1e-30});
        read_values(th_slice(big, 1, 0, MOST, 1), &large);
        read_values(th_slice(unit, 1, 0, MOST, 1), &small);
        assert_values(th_slice(big, 1, 0, MOST, 1), &small, 1e-5, "norm of large numbers");
        ck_assert_int_eq(th_backward(big, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        ck_assert_int_eq(th_backward(unit, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        read_values(th_slice(th_gradient(base), 1, 0, MOST, 1), &small);
        assert_values(th_slice(th_scale(th_gradient(x), 1e17), 1, 0, MOST, 1), &small, 1e-5, "its gradient");
        th_empty_gradient(x);
        th_empty_gradient(base);
    }
    close_context(ctx);
}
END_TEST

/* Many rows: the weight's gradient is summed in blocks. Some rows have no gradient, and NaN in them must reach nothing.
 */
START_TEST(test_norm_rows_without_gradient)
{
    enum { ROWS = 700, WIDTH = 21 };
    th_context *ctx = open_context();
    th_tensor *clean = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(ROWS, WIDTH), -2, 2);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(ROWS, WIDTH), -1, 1);
    double *data = th_data(clean), *dy = th_data(cotangent);
    double dweight[WIDTH] = {0}, dbias[WIDTH] = {0};
    for (int r = 0; r < ROWS; r++) {
        if (r % 5 == 3)
            memset(dy + r * WIDTH, 0, WIDTH * sizeof *dy);
        const double mean = mean_of(WIDTH, data + r * WIDTH);
        const double scale = 1 / sqrt(square_sum_of(WIDTH, data + r * WIDTH, mean) / (double)WIDTH + 1e-5);
        for (int j = 0; j < WIDTH; j++) {
            dweight[j] += dy[r * WIDTH + j] * (data[r * WIDTH + j] - mean) * scale;
            dbias[j] += dy[r * WIDTH + j];
        }
    }
    th_tensor *x = th_set_requires_gradient(th_keep(clean), true);
    double *dirty = th_data(x);
    for (int r = 3; r < ROWS; r += 5)
        dirty[r * WIDTH + r % WIDTH] = r % 2 ? NAN : INFINITY;
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(WIDTH), -1, 1), true);
    th_tensor *bias = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(WIDTH), -1, 1), true);
    values wanted = {.count = WIDTH};
    for (int twice = 1; twice <= 2; twice++) { /* the second time gradients add up */
        th_tensor *y = th_layer_norm(x, &(th_norm_options){.weight = weight, .bias = bias});
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        for (int j = 0; j < WIDTH; j++)
            wanted.at[j] = twice * dweight[j];
        assert_values(th_gradient(weight), &wanted, 1e-12, "gradient of the weight");
        for (int j = 0; j < WIDTH; j++)
            wanted.at[j] = twice * dbias[j];
        assert_values(th_gradient(bias), &wanted, 1e-12, "gradient of the bias");
        const double *dx = th_data_const(th_gradient(x));
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < WIDTH; j++)
                ck_assert(r % 5 == 3 ? dx[r * WIDTH + j] == 0 : isfinite(dx[r * WIDTH + j]));
        th_tape_clear(ctx);
    }
    close_context(ctx);
}
END_TEST

/* A norm's result is not kept for those who save it: what is recomputed must be the same. */
START_TEST(test_norms_are_computed_again)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(6, 21), -1, 1), true);
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(21), -1, 1), true);
    float gradient[2][2][6 * 21];
    memset(gradient, 0, sizeof gradient);
    for (int kept = 0; kept < 2; kept++) {
        th_keep_values(ctx, kept);
        for (int i = 0; i < 2; i++) {
            const th_norm_options options = {.weight = weight};
            th_scope_begin(ctx, "norm");
            th_tensor *y = i ? th_rms_norm(x, &options) : th_layer_norm(x, &options);
            th_tensor *square = th_scope_end(ctx, th_mul(y, y));
            ck_assert_int_eq(th_backward(th_sum(square, TH_ALL_AXES, NULL), NULL), TH_OK);
            th_tape_clear(ctx);
        }
        ck_assert_int_eq(th_copy_out(th_gradient(x), gradient[kept][0], sizeof gradient[0][0]), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(weight), gradient[kept][1], 21 * sizeof(float)), TH_OK);
        th_empty_gradient(x);
        th_empty_gradient(weight);
    }
    ck_assert(memcmp(gradient[0], gradient[1], sizeof gradient[0]) == 0);
    close_context(ctx);
}
END_TEST

START_TEST(test_norm_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2, 4)), *short_weight = th_ones(ctx, TH_FLOAT32, TH_SHAPE(3));
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.weight = short_weight}), TH_ERROR_SHAPE,
                 "layer_norm: weight is (3), but the last axis of x (2, 4) has 4 elements");
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.eps = -1}), TH_ERROR_ARGUMENT, "eps is -1");
    ASSERT_ERROR(ctx, th_layer_norm(x, &(th_norm_options){.bias = th_ones(ctx, TH_FLOAT64, TH_SHAPE(4))}),
                 TH_ERROR_TYPE, "float64");
    ASSERT_ERROR(ctx, th_rms_norm(x, &(th_norm_options){.bias = th_ones(ctx, TH_FLOAT32, TH_SHAPE(4))}),
                 TH_ERROR_ARGUMENT, "no bias");
    ASSERT_ERROR(ctx, th_layer_norm(th_ones(ctx, TH_FLOAT32, TH_SCALAR), NULL), TH_ERROR_SHAPE,
                 "no axis to normalize along");
    ASSERT_ERROR(ctx, th_softmax(x, 2), TH_ERROR_SHAPE, "axis 2");
    ASSERT_ERROR(ctx, th_sum(x, TH_AXES(0, -2), NULL), TH_ERROR_SHAPE, "axis 0 is given twice");
    ASSERT_ERROR(ctx, th_sum(x, TH_AXES(-3), NULL), TH_ERROR_SHAPE, "axis -3");
    ASSERT_ERROR(ctx, th_sum(th_zeros(ctx, TH_BOOL, TH_SHAPE(2)), TH_ALL_AXES, NULL), TH_ERROR_TYPE, "bool");
    ASSERT_ERROR(ctx, th_variance(x, TH_ALL_AXES, &(th_reduce_options){.correction = NAN}), TH_ERROR_ARGUMENT,
                 "correction");
    close_context(ctx);
}
END_TEST

/* -- losses -- */

START_TEST(test_cross_entropy_values)
{
    th_context *ctx = open_context();
    for (int which = 0; which < 8; which++) {
        const th_dtype dtype = types[which % 2];
        const double smoothing = which / 4 ? 0.2 : 0;
        values x;
        th_tensor *logits = numbers(ctx, dtype, TH_SHAPE(2, 3, 21), -4, 4, which / 2 % 2);
        read_values(logits, &x);
        const int64_t target[6] = {20, -100, 0, 7, 7, -100};
        th_tensor *targets =
            th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(2, 3), target), which % 2 ? TH_INT32 : TH_INT64);
        double sum = 0;
        for (int r = 0; r < 6; r++) {
            const double *row = x.at + r * 21;
            if (target[r] >= 0)
                sum += log_sum_exp_of(21, row) - (1 - smoothing) * row[target[r]] - smoothing * mean_of(21, row);
        }
        const th_cross_entropy_options mean = {TH_IGNORE(-100), .label_smoothing = smoothing};
        const th_cross_entropy_options shared = {TH_IGNORE(-100), .label_smoothing = smoothing, .normalizer = 9};
        assert_values(th_cross_entropy(logits, targets, &mean), &(values){1, {sum / 4}}, tolerance_of(dtype),
                      "cross_entropy");
        assert_values(th_cross_entropy(logits, targets, &shared), &(values){1, {sum / 9}}, tolerance_of(dtype),
                      "cross_entropy with a normalizer");
        ck_assert_int_eq(th_target_count(targets, &mean), 4);
        ck_assert_int_eq(th_target_count(targets, NULL), 6);
    }
    close_context(ctx);
}
END_TEST

START_TEST(test_ignored_rows_reach_nothing)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(4, 18), -1, 1), true);
    float *data = th_data(x);
    for (int j = 0; j < 18; j++)
        data[18 + j] = NAN;
    data[3 * 18 + 2] = INFINITY;
    th_tensor *targets = th_from_data(ctx, TH_INT64, TH_SHAPE(4), (int64_t[]){3, 5, 17, 5});
    th_tensor *loss = th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(5)});
    ck_assert(isfinite(th_item(loss)));
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    const float *gradient = th_data_const(th_gradient(x));
    for (int i = 0; i < 4 * 18; i++)
        ck_assert(i / 18 % 2 ? gradient[i] == 0 : isfinite(gradient[i]) && gradient[i] != 0);

    /* nothing counts: loss 0, gradient 0 */
    th_tape_clear(ctx);
    th_empty_gradient(x);
    th_tensor *fives = th_full(ctx, TH_INT32, TH_SHAPE(4), 5);
    loss = th_cross_entropy(x, fives, &(th_cross_entropy_options){TH_IGNORE(5)});
    ck_assert_double_eq(th_item(loss), 0);
    ck_assert_int_eq(th_target_count(fives, &(th_cross_entropy_options){TH_IGNORE(5)}), 0);
    ck_assert_int_eq(th_backward(loss, NULL), TH_OK);
    gradient = th_data_const(th_gradient(x));
    for (int i = 0; i < 4 * 18; i++)
        ck_assert(gradient[i] == 0);
    close_context(ctx);
}
END_TEST

/* Two micro-batches with the whole count as normalizer add up to the gradient of the whole batch. */
START_TEST(test_normalizer_accumulates)
{
    th_context *ctx = open_context();
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(6, 5), -1, 1), true);
    th_tensor *targets = th_from_data(ctx, TH_INT64, TH_SHAPE(6), (int64_t[]){0, 4, -1, 2, -1, 3});
    values whole;
    ck_assert_int_eq(th_backward(th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(-1)}), NULL),
                     TH_OK);
    read_values(th_gradient(x), &whole);
    th_empty_gradient(x);
    const double count = (double)th_target_count(targets, &(th_cross_entropy_options){TH_IGNORE(-1)});
    ck_assert_double_eq(count, 4);
    for (int part = 0; part < 2; part++) {
        th_tensor *rows = th_slice(x, 0, 3 * part, 3 * part + 3, 1),
                  *some = th_slice(targets, 0, 3 * part, 3 * part + 3, 1);
        ck_assert_int_eq(
            th_backward(th_cross_entropy(rows, some, &(th_cross_entropy_options){TH_IGNORE(-1), .normalizer = count}),
                        NULL),
            TH_OK);
    }
    assert_values(th_gradient(x), &whole, 1e-15, "accumulated gradient");
    close_context(ctx);
}
END_TEST

START_TEST(test_loss_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2, 26));
    th_tensor *targets = th_from_data(ctx, TH_INT32, TH_SHAPE(2, 2), (int32_t[]){0, 25, -100, 26});
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){TH_IGNORE(-100)}), TH_ERROR_INDEX,
                 "cross_entropy: target[1, 1] = 26 is outside [0, 26)");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, NULL), TH_ERROR_INDEX, "target[1, 0] = -100 is outside [0, 26)");
    th_tensor *flat = th_reshape(x, TH_SHAPE(4, 26));
    ASSERT_ERROR(ctx,
                 th_cross_entropy(flat, th_reshape(targets, TH_SHAPE(4)), &(th_cross_entropy_options){TH_IGNORE(-100)}),
                 TH_ERROR_INDEX, "target[3] = 26 is outside [0, 26)");
    ASSERT_ERROR(ctx, th_cross_entropy(flat, targets, NULL), TH_ERROR_SHAPE, "logits are (4, 26), targets (2, 2)");
    ASSERT_ERROR(ctx, th_cross_entropy(x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 2)), NULL), TH_ERROR_TYPE, "float32");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){.label_smoothing = 1.5}),
                 TH_ERROR_ARGUMENT, "label_smoothing is 1.5");
    ASSERT_ERROR(ctx, th_cross_entropy(x, targets, &(th_cross_entropy_options){.normalizer = -1}), TH_ERROR_ARGUMENT,
                 "normalizer is -1");
    ck_assert_int_eq(th_target_count(x, NULL), 0);
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_TYPE);
    th_error_clear(ctx);
    ASSERT_ERROR(ctx, th_mse(x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))), TH_ERROR_SHAPE, "mse");
    close_context(ctx);
}
END_TEST

START_TEST(test_mse_values)
{
    th_context *ctx = open_context();
    for (int which = 0; which < 4; which++) {
        values a, b;
        th_tensor *x = numbers(ctx, types[which % 2], TH_SHAPE(5, 7), -1, 1, which / 2),
                  *y = numbers(ctx, types[which % 2], TH_SHAPE(7), -1, 1, which / 2);
        read_values(x, &a);
        read_values(y, &b);
        double sum = 0;
        for (int i = 0; i < 35; i++)
            sum += (a.at[i] - b.at[i % 7]) * (a.at[i] - b.at[i % 7]);
        assert_values(th_mse(x, y), &(values){1, {sum / 35}}, tolerance_of(types[which % 2]), "mse");
        assert_values(th_mse(y, x), &(values){1, {sum / 35}}, tolerance_of(types[which % 2]), "mse");
    }
    close_context(ctx);
}
END_TEST

/* -- masks -- */

/* A mask of every kind over scores (B, H, T, S) = (2, 2, 3, 20), and what it means, pair by pair. */
enum { B = 2, H = 2, T = 3, S = 20, SCORES = B * H * T * S, MASKS = 12 };

typedef struct example {
    th_mask mask;
    bool hidden[SCORES];
    double term[SCORES]; /* of the additive mask */
} example;

static void make_example(th_context *ctx, int which, th_dtype dtype, example *e)
{
    *e = (example){.mask = {0}};
    const int64_t lengths[B] = {5, 17}, lens_each[B * T] = {1, 0, 20, 16, 17, 2};
    th_tensor *keep =
        th_less(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(B, 1, T, S), 0, 1), th_full(ctx, TH_FLOAT64, TH_SCALAR, 0.6));
    th_tensor *additive = th_uniform(ctx, dtype, TH_SHAPE(H, 1, S), -2, 2);
    if (which % 2 && th_set(additive, TH_INDEX(1, 0, 4), -INFINITY))
        ck_abort();
    const bool causal = which == 1 || which == 9, bottom = which == 2 || which == 10,
               window = which == 3 || which == 10, low = which == 4 || which == 9, each = which == 5,
               kept = which == 6 || which >= 10, added = which == 7 || which == 8 || which == 9 || which == 11;
    e->mask.causal = causal ? TH_CAUSAL_TOP_LEFT : bottom ? TH_CAUSAL_BOTTOM_RIGHT : TH_CAUSAL_NONE;
    if (window)
        e->mask.window = TH_WINDOW(16, which == 3 ? 1 : -1);
    if (low)
        e->mask.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), lengths);
    if (each)
        e->mask.valid_lengths = th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), lens_each), TH_INT32);
    if (kept)
        e->mask.keep = keep;
    if (added)
        e->mask.additive = additive;
    for (int i = 0; i < SCORES; i++) {
        const int b = i / (H * T * S), h = i / (T * S) % H, t = i / S % T, s = i % S;
        const int at = bottom ? t + S - T : t;
        e->hidden[i] = ((causal || bottom) && s > at) || (window && (s < at - 16 || (which == 3 && s > at + 1))) ||
                       (low && s >= lengths[b]) || (each && s >= lens_each[b * T + t]) ||
                       (kept && th_get(keep, TH_INDEX(b, 0, t, s)) == 0);
        if (added) {
            e->term[i] = th_get(additive, TH_INDEX(h, 0, s));
            e->hidden[i] |= e->term[i] == -INFINITY;
        }
    }
}

static void masked_reference(const values *x, const example *e, values *y)
{
    y->count = x->count;
    for (int row = 0; row < x->count; row += S) {
        double largest = -INFINITY, sum = 0;
        for (int i = row; i < row + S; i++)
            if (!e->hidden[i])
                largest = fmax(largest, x->at[i] + e->term[i]);
        for (int i = row; i < row + S; i++) {
            y->at[i] = e->hidden[i] ? 0 : exp(x->at[i] + e->term[i] - largest);
            sum += y->at[i];
        }
        for (int i = row; i < row + S; i++)
            y->at[i] = e->hidden[i] ? 0 : y->at[i] / sum;
    }
}

START_TEST(test_masked_softmax)
{
    static example e;
    static values x, y, got;
    th_context *ctx = open_context();
    for (int variant = 0; variant < 4; variant++) {
        const th_dtype dtype = types[variant % 2];
        th_tensor *scores = numbers(ctx, dtype, TH_SHAPE(B, H, T, S), -4, 4, variant / 2);
        read_values(scores, &x);
        make_example(ctx, _i, dtype, &e);
        masked_reference(&x, &e, &y);
        th_tensor *weights = th_masked_softmax(scores, &e.mask);
        assert_values(weights, &y, tolerance_of(dtype), "masked_softmax");
        read_values(weights, &got);
        bool any = false;
        th_tensor *keep = th_mask_keep(ctx, &e.mask, TH_SHAPE(B, H, T, S));
        ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
        for (int i = 0; i < SCORES; i++) {
            ck_assert(!e.hidden[i] || got.at[i] == 0);
            any |= e.hidden[i];
            const th_shape index = TH_INDEX(i / (H * T * S), i / (T * S) % H, i / S % T, i % S);
            ck_assert(!keep || th_get(keep, index) == !e.hidden[i]);
            char text[256];
            ck_assert_int_eq(th_mask_explain(ctx, &e.mask, TH_SHAPE(B, H, T, S), index, text, sizeof text), TH_OK);
            ck_assert_msg((strstr(text, "no rule masks it") == NULL) == e.hidden[i], "%s", text);
        }
        ck_assert((keep != NULL) == any);
    }
    close_context(ctx);
}
END_TEST

/* The gradients of scores and additive term, and whatever is planted behind the mask. */
START_TEST(test_nothing_passes_a_mask)
{
    static example e;
    th_context *ctx = open_context();
    make_example(ctx, _i, TH_FLOAT32, &e);
    th_tensor *scores = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(B, H, T, S), -4, 4), true);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(B, H, T, S), -1, 1);
    if (e.mask.additive)
        th_set_requires_gradient(e.mask.additive, true);
    float first[3][SCORES], second[3][SCORES];
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    for (int planted = 0; planted < 2; planted++) {
        float(*result)[SCORES] = planted ? second : first;
        if (planted)
            for (int i = 0; i < SCORES; i++)
                if (e.hidden[i])
                    ((float *)th_data(scores))[i] = ((float *)th_data(cotangent))[i] = i % 2 ? NAN : INFINITY;
        th_tensor *y = th_masked_softmax(scores, &e.mask);
        ck_assert_int_eq(th_copy_out(y, result[0], sizeof first[0]), TH_OK);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(scores), result[1], sizeof first[1]), TH_OK);
        if (e.mask.additive) {
            th_tensor *gradient = th_gradient(e.mask.additive);
            ck_assert_int_eq(th_copy_out(gradient, result[2], (size_t)th_numel(gradient) * sizeof(float)), TH_OK);
            th_empty_gradient(e.mask.additive);
        }
        th_empty_gradient(scores);
        for (int i = 0; i < SCORES; i++)
            ck_assert(e.hidden[i] ? result[0][i] == 0 && result[1][i] == 0
                                  : isfinite(result[0][i]) && isfinite(result[1][i]));
        if (!planted && e.mask.additive) { /* the sum over what the term was broadcast along */
            double sum[H * S] = {0};
            for (int i = 0; i < SCORES; i++)
                sum[i / (T * S) % H * S + i % S] += (double)result[1][i];
            for (int i = 0; i < H * S; i++)
                ck_assert(close_to((double)result[2][i], sum[i], 1e-6));
        }
    }
    ck_assert(memcmp(first, second, sizeof first) == 0);
    close_context(ctx);
}
END_TEST

/* One mask in several forms gives the same bits. */
START_TEST(test_forms_of_a_mask)
{
    th_context *ctx = open_context();
    th_tensor *scores = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(2, 40, 40), -4, 4);
    int64_t lengths[2 * 40];
    bool keep[40 * 40];
    float term[40 * 40];
    for (int t = 0; t < 40; t++) {
        lengths[t] = lengths[40 + t] = t + 1;
        for (int s = 0; s < 40; s++) {
            keep[t * 40 + s] = s <= t;
            term[t * 40 + s] = s <= t ? 0 : -INFINITY;
        }
    }
    const th_mask forms[] = {{.causal = TH_CAUSAL_TOP_LEFT},
                             {.causal = TH_CAUSAL_BOTTOM_RIGHT},
                             {.window = TH_WINDOW(-1, 0)},
                             {.window = TH_WINDOW(INT64_MAX, 0)},
                             {.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(2, 40), lengths)},
                             {.keep = th_from_data(ctx, TH_BOOL, TH_SHAPE(40, 40), keep)},
                             {.additive = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(40, 40), term)}};
    static float first[3200], other[3200];
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        ck_assert_int_eq(th_copy_out(th_masked_softmax(scores, &forms[i]), i ? other : first, sizeof first), TH_OK);
        ck_assert_msg(i == 0 || memcmp(first, other, sizeof first) == 0, "form %zu", i);
    }
    /* without a mask: softmax */
    ck_assert_int_eq(th_copy_out(th_masked_softmax(scores, NULL), first, sizeof first), TH_OK);
    ck_assert_int_eq(th_copy_out(th_softmax(scores, -1), other, sizeof first), TH_OK);
    ck_assert(memcmp(first, other, sizeof first) == 0);
    /* two dimensions: lengths of one query each, or one for all */
    th_tensor *one = th_select(scores, 0, 0);
    ck_assert_int_eq(th_copy_out(th_masked_softmax(one, &forms[0]), first, 1600 * sizeof(float)), TH_OK);
    const th_mask each = {.valid_lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(40), lengths)};
    ck_assert_int_eq(th_copy_out(th_masked_softmax(one, &each), other, 1600 * sizeof(float)), TH_OK);
    ck_assert(memcmp(first, other, 1600 * sizeof(float)) == 0);
    th_tensor *weights = th_masked_softmax(one, &(th_mask){.valid_lengths = th_full(ctx, TH_INT32, TH_SCALAR, 7)});
    for (int s = 0; s < 40; s++)
        ck_assert((th_get(weights, TH_INDEX(11, s)) > 0) == (s < 7));
    close_context(ctx);
}
END_TEST

START_TEST(test_visible_scores_that_are_not_finite)
{
    th_context *ctx = open_context();
    const float inf = INFINITY, nan = NAN;
    const float scores[] = {inf, 1, 2, nan, 1, 2, -inf, -inf, 2, 1, -inf, 2};
    th_tensor *x = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(4, 3), scores);
    const values wanted = {12, {nan, nan, 0, nan, nan, 0, nan, nan, 0, 1, 0, 0}};
    assert_values(th_masked_softmax(x, &(th_mask){.valid_lengths = th_full(ctx, TH_INT64, TH_SCALAR, 2)}), &wanted, 0,
                  "masked_softmax");
    close_context(ctx);
}
END_TEST

static void assert_explained(th_context *ctx, const th_mask *mask, int64_t b, int64_t t, int64_t s, const char *wanted)
{
    char text[256];
    ck_assert_int_eq(th_mask_explain(ctx, mask, TH_SHAPE(2, 2, 3, 6), TH_INDEX(b, 1, t, s), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, wanted);
}

START_TEST(test_mask_explain)
{
    th_context *ctx = open_context();
    th_tensor *lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), (int32_t[]){6, 3});
    assert_explained(ctx, &(th_mask){.valid_lengths = lengths}, 1, 0, 5, "key 5 is past valid_lengths[1] = 3");
    assert_explained(ctx, &(th_mask){.valid_lengths = lengths}, 0, 2, 5, "query 2 sees key 5: no rule masks it");
    th_tensor *each = th_from_data(ctx, TH_INT64, TH_SHAPE(2, 3), (int64_t[]){6, 6, 6, 0, 1, 2});
    assert_explained(ctx, &(th_mask){.valid_lengths = each}, 1, 2, 2, "key 2 is past valid_lengths[1, 2] = 2");
    assert_explained(ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}, 0, 1, 2,
                     "key 2 is after query 1 (causal, top left)");
    assert_explained(ctx, &(th_mask){.causal = TH_CAUSAL_BOTTOM_RIGHT}, 0, 1, 5,
                     "key 5 is after query 1, which stands at 4 (causal, bottom right)");
    assert_explained(ctx, &(th_mask){.window = TH_WINDOW(1, 2)}, 0, 2, 0,
                     "key 0 is more than 1 before query 2 (window)");
    assert_explained(ctx, &(th_mask){.window = TH_WINDOW(1, 2)}, 0, 2, 5,
                     "key 5 is more than 2 after query 2 (window)");
    th_tensor *keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(2, 1, 1, 6)),
              *additive = th_full(ctx, TH_FLOAT64, TH_SHAPE(3, 1), -INFINITY);
    assert_explained(ctx, &(th_mask){.keep = keep}, 1, 2, 4, "keep[1, 0, 0, 4] is false");
    assert_explained(ctx, &(th_mask){.additive = additive}, 1, 2, 4, "additive[2, 0] is -inf");
    assert_explained(
        ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .valid_lengths = lengths, .keep = keep}, 1, 1, 3,
        "key 3 is after query 1 (causal, top left); key 3 is past valid_lengths[1] = 3; keep[1, 0, 0, 3] is false");
    char text[12];
    ck_assert_int_eq(th_mask_explain(ctx, NULL, TH_SHAPE(3, 6), TH_INDEX(1, 2), text, sizeof text), TH_OK);
    ck_assert_str_eq(text, "query 1 see"); /* cut, never overrun */
    close_context(ctx);
}
END_TEST

START_TEST(test_mask_errors)
{
    th_context *ctx = open_context();
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 6));
    th_tensor *lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), (int32_t[]){6, 9});
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = lengths}), TH_ERROR_INDEX,
                 "masked_softmax: valid_lengths[1] = 9 is outside [0, 6]");
    ASSERT_ERROR(ctx, th_mask_keep(ctx, &(th_mask){.valid_lengths = lengths}, TH_SHAPE(2, 4, 6)), TH_ERROR_INDEX,
                 "mask_keep: valid_lengths[1] = 9 is outside [0, 6]");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = th_zeros(ctx, TH_INT32, TH_SHAPE(4))}),
                 TH_ERROR_SHAPE, "valid_lengths is (4), but scores (2, 4, 6) take lengths of shape (B) or (B, T)");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.valid_lengths = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2))}),
                 TH_ERROR_TYPE, "valid_lengths is float32, but lengths are int32 or int64");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.keep = x}), TH_ERROR_TYPE,
                 "keep is float32, but it must be bool");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(2, 6))}), TH_ERROR_SHAPE,
                 "keep is (2, 6), which does not broadcast to scores (2, 4, 6)");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.additive = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(6))}),
                 TH_ERROR_TYPE, "additive is float64, but the scores are float32");
    ASSERT_ERROR(ctx, th_masked_softmax(x, &(th_mask){.causal = (th_causal)9}), TH_ERROR_ARGUMENT, "causal is 9");
    ASSERT_ERROR(ctx, th_masked_softmax(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(6)), NULL), TH_ERROR_SHAPE,
                 "a mask needs at least (T, S)");
    ASSERT_ERROR(ctx, th_mask_keep(ctx, NULL, TH_SHAPE(-2, 3)), TH_ERROR_SHAPE, "mask_keep");
    char text[64];
    ck_assert_int_eq(th_mask_explain(ctx, NULL, TH_SHAPE(2, 3), TH_INDEX(2, 0), text, sizeof text), TH_ERROR_INDEX);
    ASSERT_ERROR(ctx, NULL, TH_ERROR_INDEX, "mask_explain: index 2 of dimension 0 is outside [0, 2)");
    ck_assert_ptr_null(th_mask_keep(ctx, &(th_mask){.window = TH_WINDOW(-1, -1)}, TH_SHAPE(2, 3)));
    /* what hides nothing wherever it stands is known without data */
    static const struct {
        th_mask mask;
        int64_t queries, keys;
        bool hides;
    } bands[] = {
        {{.causal = TH_CAUSAL_TOP_LEFT}, 1, 1, false},
        {{.causal = TH_CAUSAL_TOP_LEFT}, 2, 1, false},
        {{.causal = TH_CAUSAL_TOP_LEFT}, 1, 2, true},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT}, 1, 2, false},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT}, 2, 2, true},
        {{.window = {true, 2, 1}}, 3, 2, false},
        {{.window = {true, 1, 1}}, 3, 2, true},
        {{.window = {true, 2, 0}}, 3, 2, true},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = {true, 2, -1}}, 1, 3, false},
        {{.causal = TH_CAUSAL_BOTTOM_RIGHT, .window = {true, 1, -1}}, 1, 3, true},
    };
    th_context *forecast = th_context_new(&(th_context_options){.shapes_only = true});
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
        const th_shape scores = TH_SHAPE(bands[i].queries, bands[i].keys);
        ck_assert_int_eq(th_mask_keep(ctx, &bands[i].mask, scores) != NULL, bands[i].hides);
        ck_assert_int_eq(th_mask_keep(forecast, &bands[i].mask, scores) != NULL, bands[i].hides);
    }
    th_context_free(forecast);
    ck_assert_ptr_null(
        th_mask_keep(ctx, &(th_mask){.additive = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(3))}, TH_SHAPE(2, 3)));
    close_context(ctx);
}
END_TEST

/* -- bits -- */

/* A CRC-like number over everything these operations compute, forward and backward. */
static uint64_t digest_of(th_tensor *t, uint64_t digest)
{
    th_tensor *plain = th_contiguous(t);
    const unsigned char *data = th_data_const(plain);
    ck_assert_ptr_nonnull(data);
    const int64_t bytes = th_numel(plain) * (int64_t)th_dtype_size(th_dtype_of(plain));
    for (int64_t i = 0; i < bytes; i++)
        digest = (digest ^ data[i]) * 0x100000001b3u;
    return digest;
}

static uint64_t digest_of_everything(th_context *ctx)
{
    uint64_t digest = 0xcbf29ce484222325u;
    th_tensor *x = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3, 70, 333), -3, 3), true);
    th_tensor *weight = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(333), -1, 1), true);
    th_tensor *bias = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(333), -1, 1), true);
    th_tensor *additive = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(70, 333), -1, 1), true);
    th_tensor *targets = th_random_integers(ctx, TH_INT32, TH_SHAPE(3, 70), 0, 333);
    for (int which = 0; which < 15; which++) {
        th_tensor *y = NULL;
        switch (which) {
        case 0:
            y = th_softmax(x, -1);
            break;
        case 1:
            y = th_softmax(x, 1);
            break;
        case 2:
            y = th_log_softmax(x, 0);
            break;
        case 3:
            y = th_masked_softmax(x, &(th_mask){.causal = TH_CAUSAL_BOTTOM_RIGHT, .additive = additive});
            break;
        case 4:
            y = th_layer_norm(x, &(th_norm_options){.weight = weight, .bias = bias});
            break;
        case 5:
            y = th_rms_norm(x, &(th_norm_options){.weight = weight});
            break;
        case 6:
            y = th_cross_entropy(x, targets, &(th_cross_entropy_options){.label_smoothing = 0.1});
            break;
        case 7:
            y = th_mse(x, weight);
            break;
        case 8:
            y = th_sum(x, TH_AXES(0, 2), NULL);
            break;
        case 9:
            y = th_mean(x, TH_AXES(1), NULL);
            break;
        case 10:
            y = th_variance(x, TH_AXES(2), NULL);
            break;
        case 11:
            y = th_variance(x, TH_ALL_AXES, NULL);
            break;
        case 12:
            y = th_max(x, TH_AXES(0, 1), NULL);
            break;
        case 13:
            y = th_log_sum_exp(x, TH_AXES(2, 1), NULL);
            break;
        default:
            y = th_sum(x, TH_ALL_AXES, NULL);
        }
        ck_assert_msg(y != NULL, "%s", th_error_message(ctx));
        digest = digest_of(y, digest);
        th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, th_shape_of(y), -1, 1);
        ck_assert_int_eq(th_backward(y, &(th_backward_options){.cotangent = cotangent}), TH_OK);
        digest = digest_of(th_gradient(x), digest);
        th_tensor_free(cotangent);
        th_tape_clear(ctx);
    }
    th_tensor *leaves[] = {weight, bias, additive};
    for (int i = 0; i < 3; i++)
        digest = digest_of(th_gradient(leaves[i]), digest);
    return digest;
}

START_TEST(test_bits_do_not_depend_on_team_or_instruction_set)
{
    static const char *const sets[] = {NULL, "avx2", "avx512"}; /* NULL: as the suite runs */
    uint64_t digests[3][3];
    bool ran[3] = {false};
    for (int set = 0; set < 3; set++) {
        ck_assert(!sets[set] || setenv("TAPEHEAD_ISA", sets[set], 1) == 0);
        for (int threads = 1; threads <= 3; threads++) {
            th_context *ctx = th_context_new(&(th_context_options){.seed = 3, .threads = threads});
            ck_assert_ptr_nonnull(ctx);
            ran[set] = th_error_code(ctx) == TH_OK;
            if (ran[set])
                digests[set][threads - 1] = digest_of_everything(ctx);
            else
                printf("skipped: %s\n", th_error_message(ctx));
            th_context_free(ctx);
            ck_assert_msg(!ran[set] || digests[set][threads - 1] == digests[set][0], "%d threads", threads);
        }
    }
    ck_assert(ran[0]);
    ck_assert_msg(!ran[1] || !ran[2] || digests[1][0] == digests[2][0], "avx2 and avx512 differ");
}
END_TEST

/* What comes out for a row does not depend on the rows beside it. */
START_TEST(test_row_does_not_depend_on_its_batch)
{
    th_context *ctx = open_context();
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(50, 37), -3, 3);
    static float all[2][50 * 37], one[37];
    th_tensor *whole[2] = {th_softmax(x, 1), th_layer_norm(x, NULL)};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(th_copy_out(whole[i], all[i], sizeof all[i]), TH_OK);
    for (int r = 0; r < 50; r += 7) {
        th_tensor *row = th_slice(x, 0, r, r + 1, 1);
        th_tensor *single[2] = {th_softmax(row, 1), th_layer_norm(row, NULL)};
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(th_copy_out(single[i], one, sizeof one), TH_OK);
            ck_assert(memcmp(one, all[i] + r * 37, sizeof one) == 0);
        }
    }
    close_context(ctx);
}
END_TEST

int main(void)
{
    TCase *values_case = new_suite("rows: values", NULL, NULL);
    tcase_add_test(values_case, test_softmax_values);
    tcase_add_test(values_case, test_reduction_values);
    tcase_add_test(values_case, test_huge_logits);
    tcase_add_test(values_case, test_not_finite);
    tcase_add_test(values_case, test_ties_and_first_of_equals);
    tcase_add_test(values_case, test_nothing);
    TCase *norms = new_suite("rows: norms", NULL, NULL);
    tcase_add_test(norms, test_norm_values);
    tcase_add_test(norms, test_norms_of_large_numbers);
    tcase_add_test(norms, test_norm_rows_without_gradient);
    tcase_add_test(norms, test_norms_are_computed_again);
    tcase_add_test(norms, test_norm_errors);
    TCase *losses = new_suite("rows: losses", NULL, NULL);
    tcase_add_test(losses, test_cross_entropy_values);
    tcase_add_test(losses, test_ignored_rows_reach_nothing);
    tcase_add_test(losses, test_normalizer_accumulates);
    tcase_add_test(losses, test_loss_errors);
    tcase_add_test(losses, test_mse_values);
    TCase *masks = new_suite("rows: masks", NULL, NULL);
    tcase_add_loop_test(masks, test_masked_softmax, 0, MASKS);
    tcase_add_loop_test(masks, test_nothing_passes_a_mask, 0, MASKS);
    tcase_add_test(masks, test_forms_of_a_mask);
    tcase_add_test(masks, test_visible_scores_that_are_not_finite);
    tcase_add_test(masks, test_mask_explain);
    tcase_add_test(masks, test_mask_errors);
    TCase *bits = new_suite("rows: bits", NULL, NULL);
    tcase_add_test(bits, test_bits_do_not_depend_on_team_or_instruction_set);
    tcase_add_test(bits, test_row_does_not_depend_on_its_batch);
    return run_suites();
}
