/* dense against plain products: layouts, planned memory, errors, and rows without a gradient, on which no bit may depend.
 */
#include "plain_products.h"

typedef struct dense_case {
    th_shape x;
    int64_t out;
} dense_case;

static const dense_case dense_cases[] = {
    {{2, {3, 2}}, 4},   {{3, {2, 3, 5}}, 4},    {{1, {3}}, 2},       {{8, {1, 2, 1, 2, 1, 2, 2, 3}}, 2},
    {{2, {700, 3}}, 5}, {{3, {2, 600, 3}}, 20}, {{3, {2, 3, 4}}, 1}, {{2, {0, 3}}, 2},
    {{2, {3, 0}}, 2},   {{2, {3, 2}}, 0},       {{3, {0, 3, 2}}, 2}, {{3, {40, 70, 33}}, 50},
};

/* Compares dense(x) with add(matmul(x, Wᵀ), b), and their gradients. */
typedef struct dense_result {
    numbers y, dx, dw, db;
} dense_result;

static dense_result run_dense(bool composed, th_tensor *x, th_tensor *w, th_tensor *b, th_tensor *cotangent, layout how)
{
    th_tensor *const xv = how == PLAIN || th_ndim(x) == 1 ? x : view_of(x, how), *const wv = view_of(w, how);
    th_tensor *const bv = b && how == GAPS ? th_slice(b, 0, 0, th_size(b, 0), 3) : b;
    th_tensor *y;
    if (composed) {
        y = th_matmul(xv, th_swap_axes(wv, 0, 1));
        y = bv ? th_add(y, bv) : y;
    } else {
        y = th_dense(xv, wv, &(th_dense_options){.bias = bv});
    }
    GOOD(y);
    dense_result r = {.y = read_numbers(y)};
    RUNS(th_backward(y, &(th_backward_options){.cotangent = cotangent}));
    if (th_numel(x))
        r.dx = read_numbers(th_gradient(x));
    if (th_numel(w))
        r.dw = read_numbers(th_gradient(w));
    if (b && th_numel(b))
        r.db = read_numbers(th_gradient(b));
    th_empty_gradient(x);
    th_empty_gradient(w);
    th_empty_gradient(b);
    th_tape_clear(ctx);
    return r;
}

static void free_dense(dense_result *r)
{
    free(r->y.at);
    free(r->dx.at);
    free(r->dw.at);
    free(r->db.at);
}

START_TEST(test_dense)
{
    const dense_case *c = &dense_cases[_i];
    for (int bias = 0; bias < 2; bias++)
        for (layout how = PLAIN; how < LAYOUTS; how++) {
            th_shape y_shape = c->x, w_shape = {2, {c->out, c->x.size[c->x.ndim - 1]}};
            y_shape.size[c->x.ndim - 1] = c->out;
            th_tensor *x = leaf_of(TH_FLOAT64, c->x, c->x.ndim == 1 ? PLAIN : how),
                      *w = leaf_of(TH_FLOAT64, w_shape, how);
            th_tensor *b = bias ? leaf_of(TH_FLOAT64, TH_SHAPE(how == GAPS ? 3 * c->out : c->out), PLAIN) : NULL;
            th_tensor *cotangent = th_uniform(ctx, TH_FLOAT64, y_shape, -1, 1);
            dense_result fused = run_dense(false, x, w, b, cotangent, how),
                         composed = run_dense(true, x, w, b, cotangent, how);
            assert_near(&fused.y, &composed.y, 1e-12, "y");
            assert_near(&fused.dx, &composed.dx, 1e-11, "dx");
            assert_near(&fused.dw, &composed.dw, 1e-11, "dW");
            assert_near(&fused.db, &composed.db, 1e-11, "db");
            free_dense(&fused);
            free_dense(&composed);
        }
}
END_TEST

START_TEST(test_dense_shapes)
{
    th_tensor *x = th_set_axes(filled(TH_SHAPE(2, 4, 3)), "BTE"), *w = th_set_axes(filled(TH_SHAPE(5, 3)), "VE");
    ck_assert_str_eq(th_axes_of(th_dense(x, w, NULL)), "BTV");
    assert_error(th_dense(x, filled(TH_SHAPE(3, 5)), NULL), TH_ERROR_SHAPE,
                 "dense: the last axis of x must match the weight's inputs: x is (B=2, T=4, E=3), the weight (out, in) "
                 "is (3, 5)");
    assert_error(th_dense(filled(TH_SCALAR), w, NULL), TH_ERROR_SHAPE, "x is ()");
    assert_error(th_dense(x, filled(TH_SHAPE(3)), NULL), TH_ERROR_SHAPE,
                 "the weight must have two dimensions, (out, in); it is (3)");
    assert_error(th_dense(x, w, &(th_dense_options){.bias = filled(TH_SHAPE(4))}), TH_ERROR_SHAPE, "bias is (4)");
    assert_error(th_dense(x, w, &(th_dense_options){.bias = filled(TH_SHAPE(1, 5))}), TH_ERROR_SHAPE, "bias is (1, 5)");
    assert_error(th_dense(x, w, &(th_dense_options){.bias = th_ones(ctx, TH_FLOAT64, TH_SHAPE(5))}), TH_ERROR_TYPE,
                 "float64");
    assert_error(th_dense(x, NULL, NULL), TH_ERROR_ARGUMENT, "dense");
    assert_error(th_dense(NULL, w, NULL), TH_ERROR_ARGUMENT, "dense");
}
END_TEST

/* With one output, a bias or residual changes how the product is split, even before it has memory. If the plan
 * ignored it, an expanded x would overrun the workspace (the sanitizer notices), or shapes_only would count other
 * bytes. */
START_TEST(test_dense_uses_the_planned_memory)
{
    const struct {
        int64_t batch, rows;
        bool expanded, bias, residual;
        th_precision precision;
    } cases[] = {{125, 7, true, true, false, TH_PRECISION_BFLOAT16},
                 {125, 7, true, true, false, TH_PRECISION_FLOAT32},
                 {3, 700, false, true, true, TH_PRECISION_FLOAT32},
                 {3, 700, false, false, true, TH_PRECISION_BFLOAT16X3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t peak[2];
        for (int shapes_only = 0; shapes_only < 2; shapes_only++) {
            th_context *own = th_context_new(
                &(th_context_options){.threads = 4, .shapes_only = shapes_only, .precision = cases[i].precision});
            const int64_t batch = cases[i].batch, rows = cases[i].rows;
            th_tensor *x = th_ones(own, TH_FLOAT32, TH_SHAPE(cases[i].expanded ? 1 : batch, rows, 512));
            th_tensor *w = th_ones(own, TH_FLOAT32, TH_SHAPE(1, 512)), *one = th_ones(own, TH_FLOAT32, TH_SHAPE(1));
            th_tensor *residual = th_ones(own, TH_FLOAT32, TH_SHAPE(batch, rows, 1));
            th_tensor *y = th_dense(th_expand(x, TH_SHAPE(batch, rows, 512)), w,
                                    &(th_dense_options){.bias = cases[i].bias ? one : NULL,
                                                        .residual = cases[i].residual ? residual : NULL});
            ck_assert_msg(y != NULL, "%s", th_error_message(own));
            peak[shapes_only] = th_memory(own).peak;
            if (!shapes_only)
                for (int64_t e = 0; e < batch * rows; e++)
                    ck_assert(((const float *)th_data(y))[e] == (float)(512 + cases[i].bias + cases[i].residual));
            th_context_free(own);
        }
        ck_assert_uint_eq(peak[0], peak[1]);
    }
}
END_TEST

/* A row of x whose output gradient is 0 must not reach dW, for every layout and number of rows. */
START_TEST(test_dense_ignores_rows_without_gradient)
{
    static const th_shape x_shapes[] = {{2, {5, 3}}, {2, {1300, 70}}, {3, {4, 300, 17}}, {3, {3, 600, 2}}};
    for (size_t s = 0; s < sizeof x_shapes / sizeof *x_shapes; s++)
        for (int transposed = 0; transposed < 2; transposed++) {
            th_shape x_shape = x_shapes[s], y_shape = x_shape;
            const int64_t in = x_shape.size[x_shape.ndim - 1], out = 9;
            y_shape.size[x_shape.ndim - 1] = out;
            th_tensor *w = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(out, in), -1, 1), true);
            th_tensor *x = th_uniform(ctx, TH_FLOAT32, x_shape, -1, 1),
                      *cotangent = th_uniform(ctx, TH_FLOAT32, y_shape, -1, 1);
            const int64_t rows = th_numel(x) / in;
            float *dy = th_data(cotangent), *numbers_of_x = th_data(x);
            for (int64_t i = 0; i < rows; i++)
                if (i % 3 == 1 && i != 4)
                    memset(dy + i * out, 0, (size_t)out * sizeof *dy);
            dy[out] = -0.0f; /* row 1; both signs of zero count as 0 */
            float *bits[2];
            for (int round = 0; round < 2; round++) {
                th_tensor *rows_first = x;
                if (transposed) /* column-major, or several leading dimensions */
                    rows_first = th_swap_axes(th_contiguous(th_swap_axes(x, 0, 1)), 0, 1);
                RUNS(th_backward(th_dense(rows_first, w, NULL), &(th_backward_options){.cotangent = cotangent}));
                bits[round] = malloc((size_t)(out * in) * sizeof **bits);
                RUNS(th_copy_out(th_gradient(w), bits[round], (size_t)(out * in) * sizeof **bits));
                th_empty_gradient(w);
                th_tape_clear(ctx);
                for (int64_t i = 0; i < rows; i++)
                    if (i % 3 == 1 && i != 4)
                        numbers_of_x[i * in + i % in] = i % 2 ? NAN : INFINITY;
            }
            for (int64_t i = 0; i < out * in; i++)
                ck_assert(isfinite(bits[0][i]));
            ck_assert_mem_eq(bits[0], bits[1], (size_t)(out * in) * sizeof **bits);
            free(bits[0]);
            free(bits[1]);

            numbers_of_x[4 * in] = NAN; /* NaN in a row that takes part does reach dW */
            RUNS(th_backward(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
            ck_assert(isnan(th_get(th_gradient(w), TH_INDEX(0, 0))));
            th_tape_clear(ctx);
            th_empty_gradient(w);
        }
}
END_TEST

START_TEST(test_dense_ignores_one_row_of_many)
{
    enum { ROWS = 2000, IN = 3, OUT = 600, IDLE = 1700 };
    th_tensor *w = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(OUT, IN), -1, 1), true);
    th_tensor *x = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ROWS, IN), -1, 1);
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(ROWS, OUT), -1, 1);
    memset((float *)th_data(cotangent) + IDLE * OUT, 0, OUT * sizeof(float));
    float *bits[3];
    for (int round = 0; round < 3; round++) {
        RUNS(th_set_threads(ctx, round + 1));
        RUNS(th_backward(th_dense(x, w, NULL), &(th_backward_options){.cotangent = cotangent}));
        bits[round] = read_bits(th_gradient(w));
        ((float *)th_data(x))[IDLE * IN] = NAN;
        th_empty_gradient(w);
        th_tape_clear(ctx);
    }
    for (int round = 1; round < 3; round++) {
        ck_assert_mem_eq(bits[0], bits[round], OUT * IN * sizeof(float));
        free(bits[round]);
    }
    free(bits[0]);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("dense", setup, close_context);
    tcase_add_loop_test(tests, test_dense, 0, (int)(sizeof dense_cases / sizeof *dense_cases));
    tcase_add_test(tests, test_dense_shapes);
    tcase_add_test(tests, test_dense_uses_the_planned_memory);
    tcase_add_test(tests, test_dense_ignores_rows_without_gradient);
    tcase_add_test(tests, test_dense_ignores_one_row_of_many);
    return run_suites();
}
