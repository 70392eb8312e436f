/* matmul, dense and masked_matmul against plain loops: layouts, broadcasting, zero sizes, accumulation, errors, and
 * masked elements, on which no bit may depend. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bits.h"
#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 7});
    ck_assert_ptr_nonnull(ctx);
    ck_assert_msg(th_error_code(ctx) == TH_OK, "%s", th_error_message(ctx));
}

#define GOOD(tensor) ck_assert_msg((tensor) != NULL, "%s", th_error_message(ctx))
#define RUNS(status) ck_assert_msg((status) == TH_OK, "%s", th_error_message(ctx))

/* The elements of a tensor, row-major, as doubles, with its shape. The caller frees them. */
typedef struct numbers {
    th_shape shape;
    int64_t count;
    double *at;
} numbers;

static numbers read_numbers(th_tensor *t)
{
    GOOD(t);
    numbers n = {th_shape_of(t), th_numel(t), NULL};
    n.at = malloc((size_t)(n.count + 1) * sizeof *n.at);
    RUNS(th_copy_out(th_cast(t, TH_FLOAT64), n.at, (size_t)n.count * sizeof *n.at));
    return n;
}

static numbers zero_numbers(th_shape shape)
{
    numbers n = {shape, 1, NULL};
    for (int i = 0; i < shape.ndim; i++)
        n.count *= shape.size[i];
    n.at = calloc((size_t)(n.count + 1), sizeof *n.at);
    return n;
}

/* Returns the offset of an element of n. `index` is its index in a larger shape; n broadcasts to that shape. */
static int64_t offset_of(const numbers *n, int ndim, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < n->shape.ndim; i++) {
        const int64_t own = index[ndim - n->shape.ndim + i];
        at = at * n->shape.size[i] + (n->shape.size[i] == 1 ? 0 : own);
    }
    return at;
}

/* Advances to the next index of a shape; false after the last. */
static bool next(const th_shape *shape, int64_t *index)
{
    for (int i = shape->ndim - 1; i >= 0; i--) {
        if (++index[i] < shape->size[i])
            return true;
        index[i] = 0;
    }
    return false;
}

/* Computes c (N, m, n) = a b and the gradients of a cotangent dc, for operands of two or more dimensions. keep
 * (NULL: all visible) masks pairs of the result or elements of the left operand. */
typedef struct plain_product {
    numbers c, da, db;
} plain_product;

static plain_product multiply_plainly(const numbers *a, const numbers *b, th_shape c_shape, const numbers *dc,
                                      const numbers *keep, th_mask_side side)
{
    plain_product p = {zero_numbers(c_shape), zero_numbers(a->shape), zero_numbers(b->shape)};
    if (p.c.count == 0)
        return p;
    const int ndim = c_shape.ndim;
    const int64_t inner = a->shape.size[a->shape.ndim - 1];
    int64_t index[TH_MAX_DIMS] = {0};
    do {
        const int64_t at_c = offset_of(&p.c, ndim, index);
        for (int64_t k = 0; k < inner; k++) {
            int64_t in_a[TH_MAX_DIMS], in_b[TH_MAX_DIMS];
            memcpy(in_a, index, sizeof in_a);
            memcpy(in_b, index, sizeof in_b);
            in_a[ndim - 1] = in_b[ndim - 2] = k;
            if (keep && keep->at[offset_of(keep, ndim, side == TH_MASK_LEFT ? in_a : index)] == 0)
                continue;
            const int64_t at_a = offset_of(a, ndim, in_a), at_b = offset_of(b, ndim, in_b);
            p.c.at[at_c] += a->at[at_a] * b->at[at_b];
            p.da.at[at_a] += dc->at[at_c] * b->at[at_b];
            p.db.at[at_b] += dc->at[at_c] * a->at[at_a];
        }
    } while (next(&c_shape, index));
    return p;
}

static void assert_near(const numbers *found, const numbers *expected, double tolerance, const char *what)
{
    ck_assert_int_eq(found->count, expected->count);
    for (int64_t i = 0; i < found->count; i++)
        ck_assert_msg(fabs(found->at[i] - expected->at[i]) <= tolerance, "%s: element %lld is %.17g, not %.17g", what,
                      (long long)i, found->at[i], expected->at[i]);
}

/* -- layouts: views of a leaf -- */

typedef enum layout { PLAIN, TURNED, GAPS, LAYOUTS } layout;

/* A leaf that requires a gradient, and its view, which is the operand. */
static th_tensor *leaf_of(th_dtype dtype, th_shape shape, layout how)
{
    const int n = shape.ndim;
    if (how == TURNED && n > 1) {
        const int64_t last = shape.size[n - 1];
        shape.size[n - 1] = shape.size[n - 2];
        shape.size[n - 2] = last;
    } else if (how == GAPS) {
        shape.size[0] = 2 * shape.size[0] + 1;
        shape.size[n - 1] *= 3;
    }
    return th_set_requires_gradient(th_uniform(ctx, dtype, shape, -1, 1), true);
}

static th_tensor *view_of(th_tensor *leaf, layout how)
{
    const int n = th_ndim(leaf);
    if (how == TURNED && n > 1)
        return th_swap_axes(leaf, n - 1, n - 2);
    if (how == GAPS) {
        const int64_t first = th_size(leaf, 0), last = th_size(leaf, n - 1);
        return n == 1 ? th_slice(leaf, 0, 1, first / 6 * 6, 6)
                      : th_slice(th_slice(leaf, 0, 1, first, 2), n - 1, 0, last, 3);
    }
    return leaf;
}

/* The gradient of a view is the same view of the leaf's gradient. All other elements of the leaf's gradient are 0. */
static numbers view_gradient(th_tensor *leaf, layout how)
{
    th_tensor *gradient = th_gradient(leaf);
    GOOD(gradient);
    return read_numbers(view_of(gradient, how));
}

static double sum_of_magnitudes(const numbers *n)
{
    double sum = 0;
    for (int64_t i = 0; i < n->count; i++)
        sum += fabs(n->at[i]);
    return sum;
}

/* Returns a and b as (.., m, k) and (.., k, n), for multiply_plainly. */
static numbers as_matrix(numbers n, bool column)
{
    if (n.shape.ndim == 1) {
        n.shape = column ? TH_SHAPE(n.shape.size[0], 1) : TH_SHAPE(1, n.shape.size[0]);
    }
    return n;
}

static th_shape product_shape(const numbers *a, const numbers *b)
{
    const int na = a->shape.ndim, nb = b->shape.ndim, n = na > nb ? na : nb;
    th_shape c = {n, {0}};
    for (int i = 0; i < n - 2; i++) {
        const int64_t sa = i - n + na >= 0 ? a->shape.size[i - n + na] : 1,
                      sb = i - n + nb >= 0 ? b->shape.size[i - n + nb] : 1;
        c.size[i] = sa == 1 ? sb : sa;
    }
    c.size[n - 2] = a->shape.size[na - 2];
    c.size[n - 1] = b->shape.size[nb - 1];
    return c;
}

typedef struct shapes {
    th_shape a, b;
} shapes;

/* Adds the gradient of another backward to the expected gradient. Takes ownership of `more`. */
static void add_up(numbers *total, numbers more)
{
    if (total->at == NULL) {
        *total = more;
        return;
    }
    for (int64_t i = 0; i < total->count; i++)
        total->at[i] += more.at[i];
    free(more.at);
}

/* Checks that the leaf's gradient is this in its view and 0 elsewhere. */
static void check_leaf_gradient(th_tensor *leaf, layout how, const numbers *expected, double tolerance,
                                const char *what)
{
    if (expected->count == 0)
        return;
    numbers found = view_gradient(leaf, how), whole = read_numbers(th_gradient(leaf));
    assert_near(&found, expected, tolerance, what);
    ck_assert_double_eq_tol(sum_of_magnitudes(&whole), sum_of_magnitudes(&found), 1e-9);
    free(found.at);
    free(whole.at);
}

/* Checks one product in one layout: forward once, backward twice. */
static void check_product(th_dtype dtype, const shapes *s, layout la, layout lb, const th_shape *keep_shape,
                          th_mask_side side)
{
    const double tolerance = dtype == TH_FLOAT64 ? 1e-12 : 2e-4;
    if ((la == GAPS && s->a.ndim == 1) || (lb == GAPS && s->b.ndim == 1))
        return;
    th_tensor *leaf_a = leaf_of(dtype, s->a, la), *leaf_b = leaf_of(dtype, s->b, lb);
    th_tensor *keep = keep_shape ? th_cast(th_random_integers(ctx, TH_INT32, *keep_shape, 0, 2), TH_BOOL) : NULL;
    keep = keep ? th_keep(keep) : NULL;
    numbers hidden = {0};
    if (keep)
        hidden = read_numbers(keep);
    numbers total_a = {0}, total_b = {0};
    for (int round = 0; round < 2; round++) {
        th_tensor *a = view_of(leaf_a, la), *b = view_of(leaf_b, lb);
        th_tensor *c = keep ? th_masked_matmul(a, b, keep, side) : th_matmul(a, b);
        GOOD(c);
        ck_assert(th_is_contiguous(c));
        th_tensor *cotangent = th_uniform(ctx, dtype, th_shape_of(c), -1, 1);
        numbers na = as_matrix(read_numbers(a), false), nb = as_matrix(read_numbers(b), true), nc = read_numbers(c);
        numbers dc = read_numbers(cotangent);
        const th_shape shape = product_shape(&na, &nb);
        dc.shape = nc.shape = shape;
        plain_product expected = multiply_plainly(&na, &nb, shape, &dc, keep ? &hidden : NULL, side);
        assert_near(&nc, &expected.c, tolerance, "c");
        RUNS(th_backward(c, &(th_backward_options){.cotangent = cotangent}));
        add_up(&total_a, expected.da);
        add_up(&total_b, expected.db);
        check_leaf_gradient(leaf_a, la, &total_a, tolerance, "da");
        check_leaf_gradient(leaf_b, lb, &total_b, tolerance, "db");
        free(expected.c.at);
        free(na.at);
        free(nb.at);
        free(nc.at);
        free(dc.at);
        th_tape_clear(ctx);
    }
    free(total_a.at);
    free(total_b.at);
    free(hidden.at);
    th_tensor_free(leaf_a);
    th_tensor_free(leaf_b);
    th_tensor_free(keep);
}

static void check_layouts(const shapes *s, const th_shape *keep_shape, th_mask_side side)
{
    for (layout la = PLAIN; la < LAYOUTS; la++)
        for (layout lb = PLAIN; lb < LAYOUTS; lb++) {
            check_product(TH_FLOAT32, s, la, lb, keep_shape, side);
            check_product(TH_FLOAT64, s, la, lb, keep_shape, side);
        }
}

static th_tensor *filled(th_shape shape)
{
    return th_ones(ctx, TH_FLOAT32, shape);
}

/* -- matmul -- */

static const shapes product_shapes[] = {
    {{2, {2, 3}}, {2, {3, 4}}},
    {{2, {17, 33}}, {2, {33, 29}}},
    {{3, {3, 5, 2}}, {3, {3, 2, 4}}},
    {{3, {3, 5, 2}}, {2, {2, 4}}},          /* b shared by the batch: one product for all rows */
    {{2, {5, 2}}, {3, {3, 2, 4}}},          /* a shared by the batch */
    {{4, {2, 1, 3, 2}}, {3, {3, 2, 4}}},    /* both broadcast */
    {{4, {2, 3, 1, 2}}, {4, {1, 3, 2, 1}}}, /* rows of one, columns of one */
    {{5, {2, 1, 3, 2, 3}}, {5, {1, 2, 1, 3, 2}}},
    {{8, {2, 1, 2, 1, 2, 1, 2, 3}}, {8, {1, 2, 1, 2, 1, 2, 3, 2}}},
    {{1, {3}}, {2, {3, 4}}},
    {{2, {4, 3}}, {1, {3}}},
    {{1, {5}}, {1, {5}}},
    {{1, {3}}, {3, {2, 3, 4}}},
    {{3, {2, 4, 3}}, {1, {3}}},
    {{2, {3, 1100}}, {2, {1100, 2}}}, /* several blocks of k */
    {{2, {2, 0}}, {2, {0, 3}}},
    {{2, {0, 2}}, {2, {2, 3}}},
    {{2, {2, 3}}, {2, {3, 0}}},
    {{3, {0, 2, 3}}, {2, {3, 2}}}, /* an empty sum over the batch */
    {{3, {4, 2, 0}}, {2, {0, 2}}},
};

START_TEST(test_matmul)
{
    check_layouts(&product_shapes[_i], NULL, TH_MASK_RESULT);
}
END_TEST

START_TEST(test_matmul_expanded)
{
    /* Operands with strides of 0: on the left, on the right, in rows and in columns. */
    for (int side = 0; side < 2; side++) {
        th_tensor *leaf = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT64, TH_SHAPE(1, 4), -1, 1), true);
        th_tensor *other = th_uniform(ctx, TH_FLOAT64, TH_SHAPE(2, 4, 4), -1, 1);
        th_tensor *spread = th_expand(leaf, TH_SHAPE(2, 4, 4));
        th_tensor *c = side ? th_matmul(spread, other) : th_matmul(other, spread);
        th_tensor *cotangent = th_uniform(ctx, TH_FLOAT64, th_shape_of(c), -1, 1);
        numbers a = read_numbers(side ? spread : other), b = read_numbers(side ? other : spread),
                dc = read_numbers(cotangent);
        plain_product expected = multiply_plainly(&a, &b, TH_SHAPE(2, 4, 4), &dc, NULL, TH_MASK_RESULT);
        numbers found = read_numbers(c), sum = zero_numbers(TH_SHAPE(1, 4));
        assert_near(&found, &expected.c, 1e-12, "c");
        const numbers *whole = side ? &expected.da : &expected.db;
        for (int64_t i = 0; i < whole->count; i++)
            sum.at[i % 4] += whole->at[i];
        RUNS(th_backward(c, &(th_backward_options){.cotangent = cotangent}));
        numbers gradient = read_numbers(th_gradient(leaf));
        assert_near(&gradient, &sum, 1e-12, "gradient");
        double *const lists[] = {a.at,           b.at,     dc.at,  expected.c.at, expected.da.at,
                                 expected.db.at, found.at, sum.at, gradient.at};
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            free(lists[i]);
    }
}
END_TEST

START_TEST(test_matmul_shapes)
{
    th_tensor *a = th_set_axes(filled(TH_SHAPE(2, 4, 3)), "BTE"), *w = th_set_axes(filled(TH_SHAPE(3, 5)), "EV");
    ck_assert_str_eq(th_axes_of(th_matmul(a, w)), "BTV");
    ck_assert_str_eq(th_axes_of(th_matmul(w, filled(TH_SHAPE(5)))), "E");
    ck_assert_int_eq(th_ndim(th_matmul(filled(TH_SHAPE(3)), filled(TH_SHAPE(3)))), 0);
    ck_assert(th_item(th_matmul(filled(TH_SHAPE(3)), filled(TH_SHAPE(3)))) == 3);
    assert_error(th_matmul(a, filled(TH_SHAPE(2, 5, 2))), TH_ERROR_SHAPE,
                 "matmul: inner sizes differ: a is (B=2, T=4, E=3), b is (2, 5, 2); at test_product_ops.c:");
    assert_error(th_matmul(a, filled(TH_SHAPE(3, 3, 2))), TH_ERROR_SHAPE,
                 "leading dimensions do not broadcast: a is (B=2, T=4, E=3)");
    assert_error(th_matmul(a, filled(TH_SCALAR)), TH_ERROR_SHAPE, "both operands need a dimension");
    assert_error(th_matmul(a, th_ones(ctx, TH_FLOAT64, TH_SHAPE(3, 2))), TH_ERROR_TYPE, "float64");
    assert_error(th_matmul(a, th_ones(ctx, TH_INT32, TH_SHAPE(3, 2))), TH_ERROR_TYPE, "int32");
    assert_error(th_matmul(a, NULL), TH_ERROR_ARGUMENT, "matmul");
}
END_TEST

/* -- dense -- */

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

static float *read_bits(th_tensor *t)
{
    GOOD(t);
    const size_t bytes = (size_t)th_numel(t) * sizeof(float);
    float *list = malloc(bytes);
    RUNS(th_copy_out(t, list, bytes));
    return list;
}

/* The team searches a large dy for the row. */
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

/* -- masked_matmul -- */

typedef struct masked_case {
    shapes of;
    th_shape keep;
    th_mask_side side;
} masked_case;

static const masked_case masked_cases[] = {
    {{{2, {3, 4}}, {2, {4, 5}}}, {2, {3, 5}}, TH_MASK_RESULT},
    {{{2, {3, 4}}, {2, {4, 5}}}, {2, {3, 4}}, TH_MASK_LEFT},
    {{{3, {2, 3, 4}}, {3, {2, 4, 5}}}, {3, {2, 1, 5}}, TH_MASK_RESULT},
    {{{3, {2, 3, 4}}, {3, {2, 4, 5}}}, {3, {2, 1, 4}}, TH_MASK_LEFT},
    {{{4, {2, 2, 3, 4}}, {4, {2, 2, 4, 3}}}, {2, {3, 3}}, TH_MASK_RESULT},
    {{{4, {2, 2, 3, 3}}, {4, {2, 2, 3, 4}}}, {2, {3, 3}}, TH_MASK_LEFT},
    {{{3, {2, 3, 4}}, {2, {4, 5}}}, {3, {2, 3, 5}}, TH_MASK_RESULT}, /* b shared by the batch */
    {{{3, {2, 3, 4}}, {2, {4, 5}}}, {3, {2, 3, 4}}, TH_MASK_LEFT},
    {{{2, {3, 4}}, {3, {2, 4, 5}}}, {3, {2, 3, 5}}, TH_MASK_RESULT}, /* a shared by the batch, its masks not */
    {{{2, {3, 4}}, {3, {2, 4, 5}}}, {2, {1, 4}}, TH_MASK_LEFT},
    {{{2, {3, 4}}, {2, {4, 5}}}, {0, {0}}, TH_MASK_RESULT},
    {{{2, {20, 600}}, {2, {600, 17}}}, {2, {20, 600}}, TH_MASK_LEFT},
    {{{2, {2, 0}}, {2, {0, 3}}}, {2, {2, 3}}, TH_MASK_RESULT},
    {{{2, {2, 0}}, {2, {0, 3}}}, {2, {2, 0}}, TH_MASK_LEFT},
    {{{2, {0, 2}}, {2, {2, 3}}}, {2, {0, 3}}, TH_MASK_RESULT},
};

START_TEST(test_masked_matmul)
{
    const masked_case *c = &masked_cases[_i];
    check_layouts(&c->of, &c->keep, c->side);
}
END_TEST

/* The bits of the results and gradients of one masked product. */
typedef struct bits {
    float *c, *da, *db;
} bits;

static bits run_masked(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side, th_tensor *cotangent)
{
    th_tensor *c = th_masked_matmul(a, b, keep, side);
    bits found = {.c = read_bits(c)};
    RUNS(th_backward(c, &(th_backward_options){.cotangent = cotangent}));
    found.da = read_bits(th_gradient(a));
    found.db = read_bits(th_gradient(b));
    th_empty_gradient(a);
    th_empty_gradient(b);
    th_tape_clear(ctx);
    return found;
}

/* The two products of attention: masked scores = q kᵀ, and weights v with masked weights. In each item some keys are
 * masked for all queries, and some queries have no visible keys. NaN and infinity in masked keys, values, queries,
 * gradients of scores, and weights change no bit. */
START_TEST(test_masked_matmul_hides)
{
    enum { B = 3, T = 37, S = 530, D = 9 };
    const th_mask_side side = _i ? TH_MASK_LEFT : TH_MASK_RESULT;
    th_tensor *a = th_set_requires_gradient(
        th_uniform(ctx, TH_FLOAT32, side == TH_MASK_LEFT ? TH_SHAPE(B, T, S) : TH_SHAPE(B, T, D), -1, 1), true);
    th_tensor *b = th_set_requires_gradient(
        th_uniform(ctx, TH_FLOAT32, side == TH_MASK_LEFT ? TH_SHAPE(B, S, D) : TH_SHAPE(B, D, S), -1, 1), true);
    th_tensor *cotangent =
        th_uniform(ctx, TH_FLOAT32, side == TH_MASK_LEFT ? TH_SHAPE(B, T, D) : TH_SHAPE(B, T, S), -1, 1);
    th_tensor *keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(B, T, S));
    bool *pair = th_data(keep);
#define MASKED_KEY(item, s) ((s) > 500 - 100 * (item) && (s) % 7 != 0)
#define LONE_QUERY(t) ((t) % 10 == 3)
    for (int item = 0; item < B; item++)
        for (int t = 0; t < T; t++)
            for (int s = 0; s < S; s++)
                pair[(item * T + t) * S + s] = !MASKED_KEY(item, s) && !LONE_QUERY(t) && s <= t * 20;
    bits plain = run_masked(a, b, keep, side, cotangent);

    float *left = th_data(a), *right = th_data(b), *dy = th_data(cotangent);
    for (int item = 0; item < B; item++) {
        for (int s = 0; s < S; s++)
            for (int d = 0; d < D && MASKED_KEY(item, s); d++) /* key s, or value s */
                right[side == TH_MASK_LEFT ? (item * S + s) * D + d : (item * D + d) * S + s] = d % 2 ? NAN : -INFINITY;
        for (int t = 0; t < T; t++) {
            for (int d = 0; d < D && LONE_QUERY(t); d++) /* query t, or the gradient of output t */
                (side == TH_MASK_LEFT ? dy : left)[(item * T + t) * D + d] = d % 2 ? NAN : INFINITY;
            for (int s = 0; s < S; s++) /* masked weights, or masked gradients of scores */
                if (!pair[(item * T + t) * S + s])
                    (side == TH_MASK_LEFT ? left : dy)[(item * T + t) * S + s] = NAN;
        }
    }
    bits planted = run_masked(a, b, keep, side, cotangent);
    ck_assert_mem_eq(plain.c, planted.c, (size_t)th_numel(cotangent) * sizeof(float));
    ck_assert_mem_eq(plain.da, planted.da, (size_t)th_numel(a) * sizeof(float));
    ck_assert_mem_eq(plain.db, planted.db, (size_t)th_numel(b) * sizeof(float));
    for (int64_t i = 0; i < th_numel(a); i++)
        ck_assert(isfinite(planted.da[i]));

    /* Masked elements give 0 and have a gradient of 0. */
    for (int64_t i = 0; i < (int64_t)B * T * S; i++)
        if (!pair[i])
            ck_assert((side == TH_MASK_LEFT ? planted.da : planted.c)[i] == 0);
    for (int item = 0; item < B; item++)
        for (int t = 0; t < T; t++)
            for (int d = 0; d < D && LONE_QUERY(t); d++)
                ck_assert((side == TH_MASK_LEFT ? planted.c : planted.da)[(item * T + t) * D + d] == 0);

    /* Visible elements do have an effect: key 5 of item 1 reaches exactly the queries that see it. */
    const int64_t at = side == TH_MASK_LEFT ? (1 * S + 5) * D + 2 : (1 * D + 2) * S + 5;
    right[at] = NAN;
    bits visible = run_masked(a, b, keep, side, cotangent);
    for (int t = 0; t < T; t++) {
        const bool sees = pair[(1 * T + t) * S + 5];
        const float reached = side == TH_MASK_LEFT ? visible.c[(1 * T + t) * D + 2] : visible.c[(1 * T + t) * S + 5];
        const float beside = side == TH_MASK_LEFT ? visible.c[(1 * T + t) * D + 3] : visible.c[(1 * T + t) * S + 6];
        ck_assert_msg(isnan(reached) == sees, "query %d", t);
        ck_assert(isfinite(beside));
    }
    bits *const all[] = {&plain, &planted, &visible};
    for (int i = 0; i < 3; i++) {
        free(all[i]->c);
        free(all[i]->da);
        free(all[i]->db);
    }
}
END_TEST

/* If everything is visible, the bits equal the bits of a product without a mask. */
START_TEST(test_masked_matmul_without_hidden_pairs)
{
    th_tensor *a = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(2, 30, 700), -1, 1),
              *b = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(2, 700, 40), -1, 1);
    th_tensor *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(1));
    float *plain = read_bits(th_matmul(a, b));
    for (int side = 0; side < 2; side++) {
        float *masked = read_bits(th_masked_matmul(a, b, keep, side ? TH_MASK_LEFT : TH_MASK_RESULT));
        ck_assert_mem_eq(plain, masked, 2 * 30 * 40 * sizeof(float));
        free(masked);
    }
    free(plain);
}
END_TEST

/* Without a keep, the bits are the same as with a keep that is true everywhere. This includes views, infinite numbers,
 * and a b whose gradient is a sum over the batch. */
START_TEST(test_masked_matmul_without_keep)
{
    const th_mask_side side = _i % 2 ? TH_MASK_LEFT : TH_MASK_RESULT;
    const bool views = _i / 2 % 2, infinite = _i / 4 % 2;
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)(_i / 8)), TH_OK);
    th_tensor *base = th_uniform(ctx, TH_FLOAT32, views ? TH_SHAPE(5, 3, 40) : TH_SHAPE(3, 5, 40), -1, 1);
    if (infinite)
        ((float *)th_data(base))[77] = INFINITY;
    th_tensor *a = th_set_requires_gradient(base, true);
    th_tensor *b = th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(40, 7), -1, 1), true);
    if (infinite)
        ((float *)th_data(b))[5] = -INFINITY;
    th_tensor *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(1));
    th_tensor *cotangent = th_uniform(ctx, TH_FLOAT32, TH_SHAPE(3, 5, 7), -1, 1);
    float *found[2][3];
    for (int i = 0; i < 2; i++) {
        th_tensor *view = views ? th_swap_axes(a, 0, 1) : a;
        th_tensor *c = th_masked_matmul(view, b, i ? keep : NULL, side);
        found[i][0] = read_bits(c);
        RUNS(th_backward(c, &(th_backward_options){.cotangent = cotangent}));
        found[i][1] = read_bits(th_gradient(a));
        found[i][2] = read_bits(th_gradient(b));
        th_empty_gradient(a);
        th_empty_gradient(b);
        th_tape_clear(ctx);
    }
    const size_t count[3] = {3 * 5 * 7, 3 * 5 * 40, 40 * 7};
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j < count[i]; j++)
            ck_assert_msg(same_bits(found[0][i][j], found[1][i][j]), "array %d, element %zu: %.9g and %.9g", i, j,
                          (double)found[0][i][j], (double)found[1][i][j]);
        free(found[0][i]);
        free(found[1][i]);
    }
}
END_TEST

START_TEST(test_masked_matmul_shapes)
{
    th_tensor *a = th_set_axes(filled(TH_SHAPE(2, 4, 3)), "BTE"), *b = th_set_axes(filled(TH_SHAPE(2, 3, 5)), "BES");
    th_tensor *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(4, 5));
    ck_assert_str_eq(th_axes_of(th_masked_matmul(a, b, keep, TH_MASK_RESULT)), "BTS");
    assert_error(th_masked_matmul(a, b, keep, TH_MASK_LEFT), TH_ERROR_SHAPE,
                 "masked_matmul: keep, (4, 5), does not broadcast to a, (B=2, T=4, E=3)");
    assert_error(th_masked_matmul(a, b, th_ones(ctx, TH_BOOL, TH_SHAPE(4, 4)), TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "keep, (4, 4), does not broadcast to the result, (2, 4, 5)");
    assert_error(th_masked_matmul(a, b, th_ones(ctx, TH_BOOL, TH_SHAPE(3, 1, 4, 5)), TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "does not broadcast");
    assert_error(th_masked_matmul(a, b, filled(TH_SHAPE(4, 5)), TH_MASK_RESULT), TH_ERROR_TYPE, "bool");
    assert_error(th_masked_matmul(a, a, keep, TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "inner sizes differ: a is (B=2, T=4, E=3)");
    assert_error(th_masked_matmul(a, filled(TH_SHAPE(3)), keep, TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "both operands need two dimensions");
    assert_error(th_masked_matmul(a, filled(TH_SHAPE(3, 3, 5)), keep, TH_MASK_RESULT), TH_ERROR_SHAPE,
                 "do not broadcast");
    assert_error(th_masked_matmul(a, b, keep, (th_mask_side)2), TH_ERROR_ARGUMENT, "unknown side of a mask: 2");
    assert_error(th_masked_matmul(a, NULL, keep, TH_MASK_RESULT), TH_ERROR_ARGUMENT, "masked_matmul");
    ck_assert_str_eq(th_axes_of(th_masked_matmul(a, b, NULL, TH_MASK_RESULT)), "BTS");
}
END_TEST

/* -- the same bits for every number of threads -- */

static void collect(th_tensor *loss, th_tensor *const *leaves, int count, float **lists)
{
    RUNS(th_backward(loss, &(th_backward_options){.cotangent = th_ones(ctx, TH_FLOAT32, th_shape_of(loss))}));
    for (int i = 0; i < count; i++) {
        lists[i] = read_bits(th_gradient(leaves[i]));
        th_empty_gradient(leaves[i]);
    }
    th_tape_clear(ctx);
}

START_TEST(test_bits_do_not_depend_on_the_team)
{
    enum { LEAVES = 3 };
    th_tensor *leaves[LEAVES] = {
        th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(6, 150, 90), -1, 1), true),
        th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(120, 90), -1, 1), true),
        th_set_requires_gradient(th_uniform(ctx, TH_FLOAT32, TH_SHAPE(120), -1, 1), true),
    };
    th_tensor *keep = th_cast(th_random_integers(ctx, TH_INT32, TH_SHAPE(150, 150), 0, 2), TH_BOOL);
    keep = th_keep(keep);
    float *first[LEAVES];
    for (int threads = 1; threads <= 4; threads++) {
        RUNS(th_set_threads(ctx, threads));
        th_tensor *h = th_dense(leaves[0], leaves[1], &(th_dense_options){.bias = leaves[2]});
        th_tensor *scores = th_masked_matmul(h, th_swap_axes(h, 1, 2), keep, TH_MASK_RESULT);
        th_tensor *y = th_matmul(th_masked_matmul(scores, h, keep, TH_MASK_LEFT), leaves[1]);
        float *found[LEAVES];
        collect(y, leaves, LEAVES, found);
        for (int i = 0; i < LEAVES; i++) {
            if (threads == 1) {
                first[i] = found[i];
            } else {
                ck_assert_mem_eq(first[i], found[i], (size_t)th_numel(leaves[i]) * sizeof(float));
                free(found[i]);
            }
        }
    }
    for (int i = 0; i < LEAVES; i++)
        free(first[i]);
}
END_TEST

START_TEST(test_multiply_adds)
{
    th_tensor *x = th_set_requires_gradient(filled(TH_SHAPE(2, 4, 3)), true), *w = filled(TH_SHAPE(5, 3));
    th_tensor *keep = th_ones(ctx, TH_BOOL, TH_SHAPE(1));
    ck_assert_int_eq(th_op_find("matmul")->n_inputs, 2);
    GOOD(th_dense(x, w, NULL));
    GOOD(th_matmul(x, th_swap_axes(w, 0, 1)));
    GOOD(th_masked_matmul(x, th_swap_axes(w, 0, 1), keep, TH_MASK_LEFT));
    int products = 0;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        th_node_info info;
        RUNS(th_tape_node(ctx, i, &info));
        if (info.multiply_adds > 0) {
            ck_assert_int_eq(info.multiply_adds, 2 * 4 * 3 * 5);
            products++;
        }
    }
    ck_assert_int_eq(products, 3);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("products", setup, close_context);
    tcase_add_loop_test(tests, test_matmul, 0, (int)(sizeof product_shapes / sizeof *product_shapes));
    tcase_add_test(tests, test_matmul_expanded);
    tcase_add_test(tests, test_matmul_shapes);
    tcase_add_loop_test(tests, test_dense, 0, (int)(sizeof dense_cases / sizeof *dense_cases));
    tcase_add_test(tests, test_dense_shapes);
    tcase_add_test(tests, test_dense_uses_the_planned_memory);
    tcase_add_test(tests, test_dense_ignores_rows_without_gradient);
    tcase_add_test(tests, test_dense_ignores_one_row_of_many);
    tcase_add_loop_test(tests, test_masked_matmul, 0, (int)(sizeof masked_cases / sizeof *masked_cases));
    tcase_add_loop_test(tests, test_masked_matmul_hides, 0, 2);
    tcase_add_test(tests, test_masked_matmul_without_hidden_pairs);
    tcase_add_loop_test(tests, test_masked_matmul_without_keep, 0, 24);
    tcase_add_test(tests, test_masked_matmul_shapes);
    tcase_add_test(tests, test_bits_do_not_depend_on_the_team);
    tcase_add_test(tests, test_multiply_adds);
    return run_suites();
}
