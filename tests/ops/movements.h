/* Operations that move elements without computing, compared with plain index arithmetic.
 *
 * The elements of a leaf are numbered. The operation's result then shows from which element each of its elements comes,
 * and so which gradient a cotangent must give. */
#ifndef TESTS_MOVEMENTS_H
#define TESTS_MOVEMENTS_H

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
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* Returns a leaf with the elements 0, 1, 2, ... */
static inline th_tensor *numbered(th_dtype dtype, th_shape shape)
{
    int64_t numel = 1;
    for (int i = 0; i < shape.ndim; i++)
        numel *= shape.size[i];
    th_tensor *leaf = th_empty(ctx, dtype, shape);
    ck_assert_ptr_nonnull(leaf);
    for (int64_t i = 0; i < numel; i++) {
        if (dtype == TH_FLOAT64)
            ((double *)th_data(leaf))[i] = (double)i;
        else if (dtype == TH_FLOAT32)
            ((float *)th_data(leaf))[i] = (float)i;
        else if (dtype == TH_INT64)
            ((int64_t *)th_data(leaf))[i] = i;
        else
            ((int32_t *)th_data(leaf))[i] = (int32_t)i;
    }
    return leaf;
}

static inline th_tensor *integers(th_shape shape, const int64_t *values)
{
    return th_from_data(ctx, TH_INT64, shape, values);
}

/* Returns all elements, row-major, as doubles. The caller frees them. */
static inline double *elements(th_tensor *t)
{
    const int64_t numel = th_numel(t);
    double *list = malloc((size_t)(numel + 1) * sizeof *list);
    th_tensor *wide = th_dtype_of(t) == TH_FLOAT64 ? t : th_cast(t, TH_FLOAT64);
    ck_assert_ptr_nonnull(wide);
    ck_assert_int_eq(th_copy_out(wide, list, (size_t)numel * sizeof *list), TH_OK);
    return list;
}

/* Checks the shape of t and its elements, row-major. */
static inline void assert_elements(th_tensor *t, th_shape shape, const double *expected)
{
    assert_shape(t, shape);
    double *found = elements(t);
    for (int64_t i = 0; i < th_numel(t); i++)
        ck_assert_msg(found[i] == expected[i], "element %lld is %g, not %g", (long long)i, found[i], expected[i]);
    free(found);
}
#define EXPECT(t, shape, ...) assert_elements((t), (shape), (const double[]){__VA_ARGS__})

typedef th_tensor *movement(th_tensor *leaf);

/* Checks the gradient of y = move(numbered leaf): dleaf_i = sum of the cotangents of all elements of y that come from
 * element i. It runs twice, so that the second backward has to accumulate. */
static inline void check_gradient(movement *move, th_dtype dtype, th_shape shape)
{
    th_tensor *leaf = th_set_requires_gradient(numbered(dtype, shape), true);
    const int64_t numel = th_numel(leaf);
    double *expected = calloc((size_t)(numel + 1), sizeof *expected);
    for (int round = 0; round < 2; round++) {
        th_tensor *y = move(leaf);
        ck_assert_msg(y != NULL, "%s", th_error_message(ctx));
        ck_assert(th_requires_gradient(y));
        double *from = elements(y);
        th_tensor *cotangent = th_cast(th_random_integers(ctx, TH_INT32, th_shape_of(y), -8, 8), dtype);
        double *numbers = elements(cotangent);
        for (int64_t i = 0; i < th_numel(y); i++)
            expected[(int64_t)from[i]] += numbers[i];
        ck_assert_msg(th_backward(y, &(th_backward_options){.cotangent = cotangent}) == TH_OK, "%s",
                      th_error_message(ctx));
        if (numel > 0)
            ck_assert_ptr_nonnull(th_gradient(leaf));
        double *gradient = numel > 0 ? elements(th_gradient(leaf)) : calloc(1, sizeof(double));
        for (int64_t i = 0; i < numel; i++)
            ck_assert_msg(gradient[i] == expected[i], "round %d: gradient %lld is %g, not %g", round, (long long)i,
                          gradient[i], expected[i]);
        free(from);
        free(numbers);
        free(gradient);
        th_tape_clear(ctx);
    }
    free(expected);
    th_tensor_free(leaf);
}

static inline void check_gradients(movement *move, th_shape shape)
{
    check_gradient(move, TH_FLOAT32, shape);
    check_gradient(move, TH_FLOAT64, shape);
}

#endif
