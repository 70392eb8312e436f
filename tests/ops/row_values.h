/* Reference values for row-wise operations (test_reductions.c, test_norms.c, test_losses.c, test_masks.c): tensors as
 * doubles, comparisons, and reductions as plain loops. */
#ifndef TESTS_ROW_VALUES_H
#define TESTS_ROW_VALUES_H

#include <math.h>
#include <string.h>

#include "suite.h"
#include "tapehead/context.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const th_dtype types[2] = {TH_FLOAT32, TH_FLOAT64};

static inline th_context *open_context(void)
{
    th_context *ctx = th_context_new(&(th_context_options){.seed = 7});
    ck_assert_ptr_nonnull(ctx);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
    return ctx;
}

/* Frees the context after a check that no error is pending. */
static inline void close_context(th_context *ctx)
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

/* Returns uniform numbers of this shape: contiguous, or a view with gaps and with its last two axes exchanged. */
static inline th_tensor *numbers(th_context *ctx, th_dtype dtype, th_shape shape, double low, double high, bool strided)
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

/* The elements of a tensor, row-major, as doubles. */
enum { MAX_VALUES = 4096 };
typedef struct values {
    int64_t count;
    double at[MAX_VALUES];
} values;

static inline void read_values(th_tensor *t, values *v)
{
    ck_assert_ptr_nonnull(t);
    v->count = th_numel(t);
    ck_assert_int_le(v->count, MAX_VALUES);
    if (v->count == 0)
        return;
    th_tensor *plain = th_contiguous(th_cast(t, TH_FLOAT64));
    const double *data = th_data_const(plain);
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; i < v->count; i++)
        v->at[i] = data[i];
}

static inline bool close_to(double a, double b, double tolerance)
{
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static inline double tolerance_of(th_dtype dtype)
{
    return dtype == TH_FLOAT32 ? 4e-6 : 1e-13;
}

static inline void assert_values(th_tensor *t, const values *expected, double tolerance, const char *what)
{
    values got;
    read_values(t, &got);
    ck_assert_msg(got.count == expected->count, "%s: %lld elements, not %lld", what, (long long)got.count,
                  (long long)expected->count);
    for (int64_t i = 0; i < got.count; i++)
        ck_assert_msg(close_to(got.at[i], expected->at[i], tolerance), "%s: element %lld is %.17g, not %.17g", what,
                      (long long)i, got.at[i], expected->at[i]);
}

/* The rows of a shape along a set of axes: the row of each element, and its index in this row. */
typedef struct row_layout {
    int64_t rows, length;
    int64_t row[MAX_VALUES], index[MAX_VALUES];
} row_layout;

static inline void find_rows(th_shape shape, uint32_t along, row_layout *rows)
{
    int64_t numel = 1;
    rows->rows = rows->length = 1;
    for (int i = 0; i < shape.ndim; i++) {
        numel *= shape.size[i];
        *(along >> i & 1 ? &rows->length : &rows->rows) *= shape.size[i];
    }
    for (int64_t e = 0; e < numel; e++) {
        int64_t element = e, row = 0, row_step = 1, index = 0, index_step = 1;
        for (int i = shape.ndim - 1; i >= 0; i--) {
            const int64_t at = element % shape.size[i];
            element /= shape.size[i];
            if (along >> i & 1) {
                index += at * index_step;
                index_step *= shape.size[i];
            } else {
                row += at * row_step;
                row_step *= shape.size[i];
            }
        }
        rows->row[e] = row;
        rows->index[e] = index;
    }
}

/* Copies the elements of row r of x to row, in order. Returns their number. */
static inline int64_t take_row(const row_layout *rows, const values *x, int64_t r, double *row)
{
    for (int64_t e = 0; e < x->count; e++)
        if (rows->row[e] == r)
            row[rows->index[e]] = x->at[e];
    return rows->length;
}

static inline double largest_of(int64_t n, const double *x)
{
    double m = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        m = isnan(x[j]) || x[j] > m ? x[j] : m;
    return m;
}

static inline double log_sum_exp_of(int64_t n, const double *x)
{
    const double m = largest_of(n, x);
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += exp(x[j] - m);
    return m + log(sum);
}

static inline double mean_of(int64_t n, const double *x)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += x[j];
    return sum / (double)n;
}

static inline double square_sum_of(int64_t n, const double *x, double around)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += (x[j] - around) * (x[j] - around);
    return sum;
}

static const th_shape shapes[] = {{2, {3, 19}}, {2, {5, 4}}, {3, {2, 4, 3}},  {4, {2, 3, 5, 17}},
                                  {1, {7}},     {2, {4, 1}}, {3, {1, 33, 2}}, {2, {70, 40}}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

#endif
