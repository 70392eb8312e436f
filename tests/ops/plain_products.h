/* Products of matrices as plain loops, and comparisons of operations with them in every layout of the operands. */
#ifndef TESTS_PLAIN_PRODUCTS_H
#define TESTS_PLAIN_PRODUCTS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static inline void setup(void)
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

static inline numbers read_numbers(th_tensor *t)
{
    GOOD(t);
    numbers n = {th_shape_of(t), th_numel(t), NULL};
    n.at = malloc((size_t)(n.count + 1) * sizeof *n.at);
    RUNS(th_copy_out(th_cast(t, TH_FLOAT64), n.at, (size_t)n.count * sizeof *n.at));
    return n;
}

static inline numbers zero_numbers(th_shape shape)
{
    numbers n = {shape, 1, NULL};
    for (int i = 0; i < shape.ndim; i++)
        n.count *= shape.size[i];
    n.at = calloc((size_t)(n.count + 1), sizeof *n.at);
    return n;
}

/* Returns the offset of an element of n. `index` is its index in a larger shape; n broadcasts to that shape. */
static inline int64_t offset_of(const numbers *n, int ndim, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < n->shape.ndim; i++) {
        const int64_t own = index[ndim - n->shape.ndim + i];
        at = at * n->shape.size[i] + (n->shape.size[i] == 1 ? 0 : own);
    }
    return at;
}

/* Advances to the next index of a shape; false after the last. */
static inline bool next(const th_shape *shape, int64_t *index)
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

static inline plain_product multiply_plainly(const numbers *a, const numbers *b, th_shape c_shape, const numbers *dc,
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

static inline void assert_near(const numbers *found, const numbers *expected, double tolerance, const char *what)
{
    ck_assert_int_eq(found->count, expected->count);
    for (int64_t i = 0; i < found->count; i++)
        ck_assert_msg(fabs(found->at[i] - expected->at[i]) <= tolerance, "%s: element %lld is %.17g, not %.17g", what,
                      (long long)i, found->at[i], expected->at[i]);
}

/* -- layouts: views of a leaf -- */

typedef enum layout { PLAIN, TURNED, GAPS, LAYOUTS } layout;

/* A leaf that requires a gradient, and its view, which is the operand. */
static inline th_tensor *leaf_of(th_dtype dtype, th_shape shape, layout how)
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

static inline th_tensor *view_of(th_tensor *leaf, layout how)
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
static inline numbers view_gradient(th_tensor *leaf, layout how)
{
    th_tensor *gradient = th_gradient(leaf);
    GOOD(gradient);
    return read_numbers(view_of(gradient, how));
}

static inline double sum_of_magnitudes(const numbers *n)
{
    double sum = 0;
    for (int64_t i = 0; i < n->count; i++)
        sum += fabs(n->at[i]);
    return sum;
}

/* Returns a and b as (.., m, k) and (.., k, n), for multiply_plainly. */
static inline numbers as_matrix(numbers n, bool column)
{
    if (n.shape.ndim == 1) {
        n.shape = column ? TH_SHAPE(n.shape.size[0], 1) : TH_SHAPE(1, n.shape.size[0]);
    }
    return n;
}

static inline th_shape product_shape(const numbers *a, const numbers *b)
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
static inline void add_up(numbers *total, numbers more)
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
static inline void check_leaf_gradient(th_tensor *leaf, layout how, const numbers *expected, double tolerance,
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
static inline void check_product(th_dtype dtype, const shapes *s, layout la, layout lb, const th_shape *keep_shape,
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

static inline void check_layouts(const shapes *s, const th_shape *keep_shape, th_mask_side side)
{
    for (layout la = PLAIN; la < LAYOUTS; la++)
        for (layout lb = PLAIN; lb < LAYOUTS; lb++) {
            check_product(TH_FLOAT32, s, la, lb, keep_shape, side);
            check_product(TH_FLOAT64, s, la, lb, keep_shape, side);
        }
}

static inline th_tensor *filled(th_shape shape)
{
    return th_ones(ctx, TH_FLOAT32, shape);
}

static inline float *read_bits(th_tensor *t)
{
    GOOD(t);
    const size_t bytes = (size_t)th_numel(t) * sizeof(float);
    float *list = malloc(bytes);
    RUNS(th_copy_out(t, list, bytes));
    return list;
}

#endif
