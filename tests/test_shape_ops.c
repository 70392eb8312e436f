/* Operations that move elements without computing: views, copies, and indexing. Each is compared with plain index
 * arithmetic.
 *
 * The elements of a leaf are numbered. The operation's result then shows from which element each of its elements comes,
 * and so which gradient a cotangent must give. */
#include <stdlib.h>
#include <string.h>

#include "tapehead/context.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 1});
    ck_assert_ptr_nonnull(ctx);
}

/* Returns a leaf with the elements 0, 1, 2, ... */
static th_tensor *numbered(th_dtype dtype, th_shape shape)
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

static th_tensor *integers(th_shape shape, const int64_t *values)
{
    return th_from_data(ctx, TH_INT64, shape, values);
}

/* Returns all elements, row-major, as doubles. The caller frees them. */
static double *elements(th_tensor *t)
{
    const int64_t numel = th_numel(t);
    double *list = malloc((size_t)(numel + 1) * sizeof *list);
    th_tensor *wide = th_dtype_of(t) == TH_FLOAT64 ? t : th_cast(t, TH_FLOAT64);
    ck_assert_ptr_nonnull(wide);
    ck_assert_int_eq(th_copy_out(wide, list, (size_t)numel * sizeof *list), TH_OK);
    return list;
}

/* Checks the shape of t and its elements, row-major. */
static void assert_elements(th_tensor *t, th_shape shape, const double *expected)
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
static void check_gradient(movement *move, th_dtype dtype, th_shape shape)
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

static void check_gradients(movement *move, th_shape shape)
{
    check_gradient(move, TH_FLOAT32, shape);
    check_gradient(move, TH_FLOAT64, shape);
}

/* -- views -- */

START_TEST(test_reshape)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 3, 4)), "BTE");
    th_tensor *y = th_reshape(x, TH_SHAPE(2, 3, 2, 2));
    assert_shape(y, TH_SHAPE(2, 3, 2, 2));
    ck_assert(th_shares_memory(x, y));
    ck_assert_str_eq(th_axes_of(y), "BT  ");
    ck_assert_str_eq(th_axes_of(th_reshape(x, TH_SHAPE(6, 4))), " E");
    ck_assert_str_eq(th_axes_of(th_reshape(x, TH_SHAPE(2, 1, 3, 4))), "B TE");
    ck_assert_str_eq(th_axes_of(th_reshape(x, TH_SHAPE(24))), "");
    assert_shape(th_reshape(x, TH_SHAPE(-1, 8)), TH_SHAPE(3, 8));
    assert_shape(th_reshape(x, TH_SHAPE(24, -1)), TH_SHAPE(24, 1));
    EXPECT(th_reshape(numbered(TH_INT32, TH_SHAPE(2, 2)), TH_SHAPE(4, 1)), TH_SHAPE(4, 1), 0, 1, 2, 3);
    assert_shape(th_reshape(numbered(TH_FLOAT32, TH_SHAPE(1, 1)), TH_SCALAR), TH_SCALAR);
    assert_shape(th_reshape(numbered(TH_FLOAT32, TH_SCALAR), TH_SHAPE(1, 1)), TH_SHAPE(1, 1));
    assert_shape(th_reshape(numbered(TH_FLOAT32, TH_SHAPE(3, 0)), TH_SHAPE(0, 5, 2)), TH_SHAPE(0, 5, 2));

    /* Splitting and merging heads: the merged axes are adjacent in memory, so both directions are views. */
    th_tensor *heads = th_transpose(y, TH_AXES(0, 2, 1, 3));
    ck_assert(th_shares_memory(x, th_reshape(heads, TH_SHAPE(2, 2, 3, 2, 1))));
    ck_assert(th_shares_memory(x, th_reshape(th_transpose(heads, TH_AXES(0, 2, 1, 3)), TH_SHAPE(2, 3, 4))));

    /* A view cannot merge exchanged axes: this copies. */
    th_tensor *transposed = th_reshape(th_transpose(numbered(TH_FLOAT32, TH_SHAPE(2, 3)), TH_AXES(1, 0)), TH_SHAPE(6));
    EXPECT(transposed, TH_SHAPE(6), 0, 3, 1, 4, 2, 5);
    EXPECT(th_reshape(th_expand(numbered(TH_FLOAT32, TH_SHAPE(2, 1)), TH_SHAPE(2, 3)), TH_SHAPE(3, 2)), TH_SHAPE(3, 2),
           0, 0, 0, 1, 1, 1);

    assert_error(th_reshape(x, TH_SHAPE(5, 5)), TH_ERROR_SHAPE,
                 "reshape: 24 elements do not fill the shape (5, 5); x is (B=2, T=3, E=4)");
    assert_error(th_reshape(x, TH_SHAPE(-1, 7)), TH_ERROR_SHAPE, "24 elements do not fill the shape (-1, 7)");
    assert_error(th_reshape(x, TH_SHAPE(-1, -1)), TH_ERROR_SHAPE, "only one size of (-1, -1) can be -1");
    assert_error(th_reshape(x, TH_SHAPE(-2, -12)), TH_ERROR_SHAPE, "negative size");
    assert_error(th_reshape(x, TH_SHAPE(-1, 0)), TH_ERROR_SHAPE, "do not fill");
    assert_error(th_reshape(x, TH_SHAPE(INT64_MAX, INT64_MAX)), TH_ERROR_SHAPE, "do not fill");
    assert_error(th_reshape(x, ((th_shape){9, {1}})), TH_ERROR_SHAPE, "0 to 8 dimensions, not 9");
    assert_error(th_reshape(x, ((th_shape){-1, {1}})), TH_ERROR_SHAPE, "0 to 8 dimensions, not -1");
    assert_error(th_reshape(NULL, TH_SHAPE(1)), TH_ERROR_ARGUMENT, "reshape");
}
END_TEST

static th_tensor *split_axis(th_tensor *x)
{
    return th_reshape(x, TH_SHAPE(3, 2, 2));
}
static th_tensor *merge_exchanged(th_tensor *x) /* a copy, a view, and views on top */
{
    return th_reshape(th_transpose(x, TH_AXES(1, 0)), TH_SHAPE(-1));
}
static th_tensor *merge_repeated(th_tensor *x) /* the values have stride 0, the gradient does not */
{
    return th_reshape(th_expand(th_unsqueeze(x, 0), TH_SHAPE(2, -1, -1)), TH_SHAPE(2, 12));
}
static th_tensor *merge_below_expand(th_tensor *x) /* contiguous values, a gradient with gaps: (3, 5, 4)[:, 2] */
{
    return th_reshape(th_select(th_expand(th_unsqueeze(x, 1), TH_SHAPE(3, 5, 4)), 1, 2), TH_SHAPE(12));
}

START_TEST(test_reshape_gradient)
{
    check_gradients(split_axis, TH_SHAPE(3, 4));
    check_gradients(merge_exchanged, TH_SHAPE(3, 4));
    check_gradients(merge_repeated, TH_SHAPE(3, 4));
    check_gradients(merge_below_expand, TH_SHAPE(3, 4));
}
END_TEST

START_TEST(test_transpose)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT64, TH_SHAPE(2, 3, 2)), "BTE");
    th_tensor *y = th_transpose(x, TH_AXES(2, 0, -2));
    EXPECT(y, TH_SHAPE(2, 2, 3), 0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11);
    ck_assert_str_eq(th_axes_of(y), "EBT");
    ck_assert(th_shares_memory(x, y));
    EXPECT(th_swap_axes(numbered(TH_INT64, TH_SHAPE(2, 3)), 0, -1), TH_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    assert_shape(th_swap_axes(x, 1, 1), TH_SHAPE(2, 3, 2));
    assert_shape(th_transpose(numbered(TH_FLOAT32, TH_SCALAR), TH_ALL_AXES), TH_SCALAR);
    assert_shape(th_swap_axes(numbered(TH_FLOAT32, TH_SHAPE(0, 3)), 0, 1), TH_SHAPE(3, 0));

    assert_error(th_transpose(x, TH_AXES(0, 1)), TH_ERROR_SHAPE,
                 "transpose: the order has 2 axes, but x is (B=2, T=3, E=2)");
    assert_error(th_transpose(x, TH_AXES(0, 1, 1)), TH_ERROR_SHAPE, "axis 1 appears twice in the order (0, 1, 1)");
    assert_error(th_transpose(x, TH_AXES(0, 1, 3)), TH_ERROR_SHAPE, "axis 3 in the order is outside [-3, 3)");
    assert_error(th_swap_axes(x, 0, 3), TH_ERROR_SHAPE, "axis 3");
    assert_error(th_swap_axes(NULL, 0, 1), TH_ERROR_ARGUMENT, "transpose");
}
END_TEST

static th_tensor *cycle(th_tensor *x)
{
    return th_transpose(x, TH_AXES(2, 0, 1));
}
static th_tensor *swap_and_back(th_tensor *x)
{
    return th_contiguous(th_swap_axes(th_slice(th_swap_axes(x, 0, 2), 0, 1, 4, 2), 1, 2));
}

START_TEST(test_transpose_gradient)
{
    check_gradients(cycle, TH_SHAPE(2, 3, 4));
    check_gradients(swap_and_back, TH_SHAPE(2, 3, 4));
}
END_TEST

/* The largest sizes that an empty tensor may have: UndefinedBehaviorSanitizer finds no overflow. */
START_TEST(test_empty_tensors)
{
    enum { HALF = sizeof(size_t) * 4 }; /* of a size's bits */
    static const th_shape shapes[] = {TH_SIZES(0, PTRDIFF_MAX / 24, 3), TH_SIZES(PTRDIFF_MAX / 16, 2, 0),
                                      TH_SIZES(0, (int64_t)1 << (HALF - 2), 1, (int64_t)1 << (HALF - 3))};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        th_tensor *x = th_zeros(ctx, TH_FLOAT32, shapes[i]);
        ck_assert_int_eq(th_numel(x), 0);
        ck_assert_int_eq(th_fill(x, 1), TH_OK);
        ck_assert_int_eq(th_fill(th_slice(th_swap_axes(x, 0, 2), 2, 0, th_size(x, 0), 2), 1), TH_OK);
        x = th_set_requires_gradient(x, true);
        ck_assert_int_eq(th_backward(th_sum(th_exp(th_swap_axes(x, 0, 1)), TH_ALL_AXES, NULL), NULL), TH_OK);
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(test_slice)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 5)), "BT");
    th_tensor *y = th_slice(x, 1, 1, 4, 1);
    EXPECT(y, TH_SHAPE(2, 3), 1, 2, 3, 6, 7, 8);
    ck_assert(th_shares_memory(x, y));
    ck_assert_str_eq(th_axes_of(y), "BT");
    EXPECT(th_slice(x, -1, 0, 5, 2), TH_SHAPE(2, 3), 0, 2, 4, 5, 7, 9);
    EXPECT(th_slice(x, 1, -2, 5, 1), TH_SHAPE(2, 2), 3, 4, 8, 9);
    EXPECT(th_slice(x, 1, -4, -1, 2), TH_SHAPE(2, 2), 1, 3, 6, 8);
    EXPECT(th_slice(x, 1, 3, 5, INT64_MAX), TH_SHAPE(2, 1), 3, 8);
    EXPECT(th_slice(th_slice(x, 1, 1, 5, 2), 1, 1, 2, 1), TH_SHAPE(2, 1), 3, 8);
    assert_shape(th_slice(x, 0, 2, 2, 1), TH_SHAPE(0, 5));
    assert_shape(th_slice(x, 1, 0, 0, 1), TH_SHAPE(2, 0));

    assert_error(th_slice(x, 2, 0, 1, 1), TH_ERROR_SHAPE, "slice: axis 2");
    assert_error(th_slice(x, 1, 6, 6, 1), TH_ERROR_INDEX, "slice: start 6 is outside axis 1 of x, (B=2, T=5)");
    assert_error(th_slice(x, 1, 0, 6, 1), TH_ERROR_INDEX, "stop 6 is outside axis 1");
    assert_error(th_slice(x, 1, -6, 2, 1), TH_ERROR_INDEX, "start -6 is outside");
    assert_error(th_slice(x, 1, INT64_MIN, 2, 1), TH_ERROR_INDEX, "is outside");
    assert_error(th_slice(x, 1, 3, 2, 1), TH_ERROR_INDEX, "start 3 is after stop 2");
    assert_error(th_slice(x, 1, 0, 2, 0), TH_ERROR_ARGUMENT, "the step must be at least 1, not 0");
    assert_error(th_slice(NULL, 1, 0, 2, 1), TH_ERROR_ARGUMENT, "slice");
}
END_TEST

START_TEST(test_select)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 3, 2)), "BTE");
    EXPECT(th_select(x, 1, 2), TH_SHAPE(2, 2), 4, 5, 10, 11);
    EXPECT(th_select(x, -1, -2), TH_SHAPE(2, 3), 0, 2, 4, 6, 8, 10);
    ck_assert_str_eq(th_axes_of(th_select(x, 1, 0)), "BE");
    EXPECT(th_select(numbered(TH_INT32, TH_SHAPE(4)), 0, 3), TH_SCALAR, 3);
    assert_error(th_select(x, 0, 2), TH_ERROR_INDEX, "select: index 2 is outside axis 0 of x, (B=2, T=3, E=2)");
    assert_error(th_select(x, 0, -3), TH_ERROR_INDEX, "index -3");
    assert_error(th_select(x, 3, 0), TH_ERROR_SHAPE, "axis 3");
    assert_error(th_select(numbered(TH_FLOAT32, TH_SHAPE(0)), 0, 0), TH_ERROR_INDEX, "index 0 is outside");
}
END_TEST

static th_tensor *middle(th_tensor *x)
{
    return th_slice(x, 1, 1, 4, 2);
}
static th_tensor *nothing(th_tensor *x)
{
    return th_slice(x, 0, 1, 1, 1);
}
static th_tensor *one_column(th_tensor *x)
{
    return th_select(x, 1, -2);
}
static th_tensor *overlapping_parts(th_tensor *x) /* three parts of one leaf: two overlap, one has gaps */
{
    th_tensor *parts[3] = {th_slice(x, 1, 0, 3, 1), th_slice(x, 1, 2, 4, 1), th_slice(x, 1, 3, 4, 1)};
    return th_concat(parts, 3, 1);
}

START_TEST(test_slice_gradient)
{
    check_gradients(middle, TH_SHAPE(3, 5));
    check_gradients(nothing, TH_SHAPE(3, 5));
    check_gradients(one_column, TH_SHAPE(3, 5));
    check_gradients(overlapping_parts, TH_SHAPE(3, 5));
}
END_TEST

START_TEST(test_expand)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 1)), "BT");
    th_tensor *y = th_expand(x, TH_SHAPE(2, 2, 3));
    EXPECT(y, TH_SHAPE(2, 2, 3), 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1);
    ck_assert(th_shares_memory(x, y));
    ck_assert_str_eq(th_axes_of(y), " BT");
    assert_shape(th_expand(x, TH_SHAPE(-1, 4)), TH_SHAPE(2, 4));
    assert_shape(th_expand(x, TH_SHAPE(-1, -1)), TH_SHAPE(2, 1));
    assert_shape(th_expand(x, TH_SHAPE(2, 0)), TH_SHAPE(2, 0));
    EXPECT(th_expand(numbered(TH_INT64, TH_SCALAR), TH_SHAPE(3)), TH_SHAPE(3), 0, 0, 0);
    assert_error(th_expand(x, TH_SHAPE(3, 1)), TH_ERROR_SHAPE, "expand: x, (B=2, T=1), does not broadcast to (3, 1)");
    assert_error(th_expand(x, TH_SHAPE(2)), TH_ERROR_SHAPE, "does not broadcast to (2)");
    assert_error(th_expand(x, TH_SHAPE(-1, 2, 2)), TH_ERROR_SHAPE, "does not broadcast");
    assert_error(th_expand(x, TH_SHAPE(2, -2)), TH_ERROR_SHAPE, "does not broadcast");
    assert_error(th_expand(x, TH_SHAPE(INT64_MAX, 2, 1)), TH_ERROR_SHAPE, "overflows");
}
END_TEST

static th_tensor *expand_rows(th_tensor *x)
{
    return th_expand(x, TH_SHAPE(2, 3, 4));
}
static th_tensor *expand_twice(th_tensor *x)
{
    return th_expand(th_slice(th_expand(th_unsqueeze(x, -1), TH_SHAPE(1, 4, 3)), 2, 0, 2, 1), TH_SHAPE(5, 4, 2));
}

START_TEST(test_expand_gradient)
{
    check_gradients(expand_rows, TH_SHAPE(1, 4));
    check_gradients(expand_rows, TH_SHAPE(3, 1));
    check_gradients(expand_rows, TH_SCALAR);
    check_gradients(expand_twice, TH_SHAPE(1, 4));
}
END_TEST

START_TEST(test_squeeze)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 1, 3)), "BTE");
    th_tensor *y = th_squeeze(x, 1);
    EXPECT(y, TH_SHAPE(2, 3), 0, 1, 2, 3, 4, 5);
    ck_assert(th_shares_memory(x, y));
    ck_assert_str_eq(th_axes_of(y), "BE");
    assert_shape(th_squeeze(x, -2), TH_SHAPE(2, 3));
    th_tensor *z = th_unsqueeze(y, 1);
    assert_shape(z, TH_SHAPE(2, 1, 3));
    ck_assert_str_eq(th_axes_of(z), "B E");
    assert_shape(th_unsqueeze(y, -1), TH_SHAPE(2, 3, 1));
    assert_shape(th_unsqueeze(y, -3), TH_SHAPE(1, 2, 3));
    assert_shape(th_unsqueeze(numbered(TH_INT32, TH_SCALAR), 0), TH_SHAPE(1));
    ck_assert(th_is_contiguous(th_unsqueeze(y, 0)));
    assert_error(th_squeeze(x, 0), TH_ERROR_SHAPE, "squeeze: axis 0 of x, (B=2, T=1, E=3), is not of size 1");
    assert_error(th_squeeze(x, 3), TH_ERROR_SHAPE, "axis 3");
    assert_error(th_unsqueeze(y, 3), TH_ERROR_SHAPE, "axis 3");
    assert_error(th_unsqueeze(numbered(TH_FLOAT32, TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 0), TH_ERROR_SHAPE,
                 "as many dimensions");
}
END_TEST

static th_tensor *squeeze_both(th_tensor *x)
{
    return th_squeeze(th_unsqueeze(th_squeeze(x, 1), 2), -1);
}

START_TEST(test_squeeze_gradient)
{
    check_gradients(squeeze_both, TH_SHAPE(2, 1, 3));
}
END_TEST

START_TEST(test_detach)
{
    th_tensor *x = th_set_requires_gradient(numbered(TH_FLOAT32, TH_SHAPE(2, 2)), true);
    th_tensor *y = th_detach(x);
    EXPECT(y, TH_SHAPE(2, 2), 0, 1, 2, 3);
    ck_assert(th_shares_memory(x, y));
    ck_assert(!th_requires_gradient(y));
    const int64_t nodes = th_tape_length(ctx);
    ck_assert(!th_requires_gradient(th_slice(y, 0, 0, 1, 1)));
    ck_assert_int_eq(th_tape_length(ctx), nodes);
}
END_TEST

/* -- copies -- */

START_TEST(test_contiguous)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 3)), "TE");
    ck_assert_ptr_eq(th_contiguous(x), x);
    th_tensor *y = th_contiguous(th_transpose(x, TH_AXES(1, 0)));
    EXPECT(y, TH_SHAPE(3, 2), 0, 3, 1, 4, 2, 5);
    ck_assert(th_is_contiguous(y));
    ck_assert(!th_shares_memory(x, y));
    ck_assert_str_eq(th_axes_of(y), "ET");
    EXPECT(th_contiguous(th_expand(numbered(TH_INT64, TH_SHAPE(2, 1)), TH_SHAPE(2, 2))), TH_SHAPE(2, 2), 0, 0, 1, 1);
    assert_error(th_contiguous(NULL), TH_ERROR_ARGUMENT, "contiguous");
}
END_TEST

START_TEST(test_cast)
{
    th_tensor *x = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(2, 2), (const double[]){1.75, -2.5, 0, 1e-300});
    ck_assert_ptr_eq(th_cast(x, TH_FLOAT64), x);
    ck_assert_int_eq(th_dtype_of(th_cast(x, TH_INT32)), TH_INT32);
    EXPECT(th_cast(x, TH_INT32), TH_SHAPE(2, 2), 1, -2, 0, 0);
    EXPECT(th_cast(x, TH_INT64), TH_SHAPE(2, 2), 1, -2, 0, 0);
    EXPECT(th_cast(x, TH_FLOAT32), TH_SHAPE(2, 2), 1.75, -2.5, 0, 0);
    EXPECT(th_cast(th_transpose(x, TH_AXES(1, 0)), TH_BOOL), TH_SHAPE(2, 2), 1, 0, 1, 1);
    assert_error(th_cast(x, (th_dtype)17), TH_ERROR_TYPE, "17 is not an element type");

    th_tensor *leaf =
        th_set_requires_gradient(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(3), (const float[]){1, 2, 3}), true);
    ck_assert(!th_requires_gradient(th_cast(leaf, TH_INT32)));
    ck_assert(!th_requires_gradient(th_cast(th_cast(leaf, TH_INT32), TH_FLOAT32)));
    th_tensor *wide = th_cast(leaf, TH_FLOAT64);
    ck_assert(th_requires_gradient(wide));
    th_tensor *cotangent = th_from_data(ctx, TH_FLOAT64, TH_SHAPE(3), (const double[]){0.1, 2, -3});
    for (int round = 1; round <= 2; round++) {
        ck_assert_int_eq(th_backward(th_cast(leaf, TH_FLOAT64), &(th_backward_options){.cotangent = cotangent}), TH_OK);
        EXPECT(th_gradient(leaf), TH_SHAPE(3), 0.1f * (float)round, 2 * round, -3 * round);
        ck_assert_int_eq(th_dtype_of(th_gradient(leaf)), TH_FLOAT32);
    }
}
END_TEST

START_TEST(test_repeat)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 2)), "TE");
    EXPECT(th_repeat(x, TH_SHAPE(2, 2)), TH_SHAPE(4, 4), 0, 1, 0, 1, 2, 3, 2, 3, 0, 1, 0, 1, 2, 3, 2, 3);
    EXPECT(th_repeat(x, TH_SHAPE(2)), TH_SHAPE(2, 4), 0, 1, 0, 1, 2, 3, 2, 3);
    EXPECT(th_repeat(x, TH_SHAPE(2, 1, 1)), TH_SHAPE(2, 2, 2), 0, 1, 2, 3, 0, 1, 2, 3);
    ck_assert_str_eq(th_axes_of(th_repeat(x, TH_SHAPE(2, 1, 1))), " TE");
    EXPECT(th_repeat(th_transpose(x, TH_AXES(1, 0)), TH_SHAPE(1, 2)), TH_SHAPE(2, 4), 0, 2, 0, 2, 1, 3, 1, 3);
    EXPECT(th_repeat(numbered(TH_INT64, TH_SHAPE(2)), TH_SHAPE(2, 1)), TH_SHAPE(2, 2), 0, 1, 0, 1);
    EXPECT(th_repeat(numbered(TH_FLOAT32, TH_SCALAR), TH_SHAPE(3)), TH_SHAPE(3), 0, 0, 0);
    EXPECT(th_repeat(numbered(TH_FLOAT32, TH_SCALAR), TH_ALL_AXES), TH_SCALAR, 0);
    assert_shape(th_repeat(x, TH_SHAPE(0, 3)), TH_SHAPE(0, 6));
    assert_shape(th_repeat(numbered(TH_FLOAT32, TH_SHAPE(2, 0)), TH_SHAPE(3, 3)), TH_SHAPE(6, 0));

    /* Copies over ten axes: five of tiles, five of elements. Element i of an axis of y is element i mod 2 in x. */
    th_tensor *deep = th_repeat(numbered(TH_FLOAT32, TH_SHAPE(2, 2, 2, 2, 2)), TH_SHAPE(2, 2, 2, 2, 2));
    assert_shape(deep, TH_SHAPE(4, 4, 4, 4, 4));
    double *found = elements(deep);
    for (int i = 0; i < 1024; i++) {
        int number = 0;
        for (int axis = 4; axis >= 0; axis--)
            number += (i >> (2 * axis)) % 2 << axis;
        ck_assert_int_eq((int)found[i], number);
    }
    free(found);

    assert_error(th_repeat(x, TH_SHAPE(-1, 1)), TH_ERROR_SHAPE,
                 "repeat: (-1, 1) repeats an axis a negative number of times");
    assert_error(th_repeat(x, TH_SHAPE(INT64_MAX, 1)), TH_ERROR_SHAPE, "overflows");
    assert_error(th_repeat(x, TH_SHAPE(INT64_MAX / 2, 1)), TH_ERROR_SHAPE, "overflows");
    assert_error(th_repeat(x, ((th_shape){9, {1, 1, 1, 1, 1, 1, 1, 1}})), TH_ERROR_SHAPE, "0 to 8 dimensions, not 9");
}
END_TEST

static th_tensor *repeat_both(th_tensor *x)
{
    return th_repeat(x, TH_SHAPE(3, 2));
}
static th_tensor *repeat_view(th_tensor *x)
{
    return th_repeat(th_slice(th_transpose(x, TH_AXES(1, 0)), 0, 0, 3, 2), TH_SHAPE(2, 2, 3));
}
static th_tensor *repeat_deep(th_tensor *x)
{
    return th_repeat(th_reshape(x, TH_SHAPE(2, 3, 2, 2, 2)), TH_SHAPE(2, 2, 1, 3, 2));
}
static th_tensor *repeat_never(th_tensor *x)
{
    return th_repeat(x, TH_SHAPE(0, 2));
}

START_TEST(test_repeat_gradient)
{
    check_gradients(repeat_both, TH_SHAPE(2, 3));
    check_gradients(repeat_both, TH_SHAPE(3));
    check_gradients(repeat_both, TH_SCALAR);
    check_gradients(repeat_view, TH_SHAPE(2, 3));
    check_gradients(repeat_deep, TH_SHAPE(2, 3, 8));
    check_gradients(repeat_never, TH_SHAPE(2, 3));
}
END_TEST

START_TEST(test_concat)
{
    th_tensor *a = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 2)), "TE"), *b = numbered(TH_FLOAT32, TH_SHAPE(1, 2));
    th_tensor *c = numbered(TH_FLOAT32, TH_SHAPE(2, 1));
    EXPECT(th_concat((th_tensor *[]){a, b}, 2, 0), TH_SHAPE(3, 2), 0, 1, 2, 3, 0, 1);
    EXPECT(th_concat((th_tensor *[]){c, a}, 2, -1), TH_SHAPE(2, 3), 0, 0, 1, 1, 2, 3);
    EXPECT(th_concat((th_tensor *[]){th_transpose(a, TH_AXES(1, 0)), b}, 2, 0), TH_SHAPE(3, 2), 0, 2, 1, 3, 0, 1);
    EXPECT(th_concat((th_tensor *[]){numbered(TH_INT32, TH_SHAPE(2)), numbered(TH_INT32, TH_SHAPE(0))}, 2, 0),
           TH_SHAPE(2), 0, 1);
    ck_assert_str_eq(th_axes_of(th_concat(&a, 1, 0)), "TE");
    assert_shape(
        th_concat((th_tensor *[]){numbered(TH_FLOAT32, TH_SHAPE(0, 2)), numbered(TH_FLOAT32, TH_SHAPE(0, 3))}, 2, 1),
        TH_SHAPE(0, 5));
    th_tensor *many[100];
    for (int i = 0; i < 100; i++)
        many[i] = b;
    assert_shape(th_concat(many, 100, 0), TH_SHAPE(100, 2));

    assert_error(th_concat((th_tensor *[]){a, c}, 2, 0), TH_ERROR_SHAPE,
                 "concat: sizes other than axis 0 differ: input 0 is (T=2, E=2), input 1 is (2, 1)");
    assert_error(th_concat((th_tensor *[]){a, numbered(TH_FLOAT32, TH_SHAPE(2))}, 2, 0), TH_ERROR_SHAPE,
                 "input 1 is (2)");
    assert_error(th_concat((th_tensor *[]){a, numbered(TH_INT32, TH_SHAPE(2, 2))}, 2, 0), TH_ERROR_TYPE,
                 "input 1 is int32, input 0 is float32");
    assert_error(th_concat((th_tensor *[]){a, b}, 2, 2), TH_ERROR_SHAPE, "axis 2");
    assert_error(th_concat((th_tensor *[]){numbered(TH_FLOAT32, TH_SCALAR)}, 1, 0), TH_ERROR_SHAPE, "axis 0");
    assert_error(th_concat(NULL, 2, 0), TH_ERROR_ARGUMENT, "concat: at least one tensor is needed");
    assert_error(th_concat(&a, 0, 0), TH_ERROR_ARGUMENT, "at least one tensor is needed, 0 given");
    assert_error(th_concat((th_tensor *[]){a, NULL}, 2, 0), TH_ERROR_ARGUMENT, "concat");
}
END_TEST

START_TEST(test_stack)
{
    th_tensor *a = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 2)), "TE"), *b = th_transpose(a, TH_AXES(1, 0));
    EXPECT(th_stack((th_tensor *[]){a, b}, 2, 0), TH_SHAPE(2, 2, 2), 0, 1, 2, 3, 0, 2, 1, 3);
    EXPECT(th_stack((th_tensor *[]){a, b}, 2, 1), TH_SHAPE(2, 2, 2), 0, 1, 0, 2, 2, 3, 1, 3);
    EXPECT(th_stack((th_tensor *[]){a, b}, 2, -1), TH_SHAPE(2, 2, 2), 0, 0, 1, 2, 2, 1, 3, 3);
    ck_assert_str_eq(th_axes_of(th_stack((th_tensor *[]){a, b}, 2, 1)), "T E");
    th_tensor *scalar = numbered(TH_INT64, TH_SCALAR);
    EXPECT(th_stack((th_tensor *[]){scalar, scalar, scalar}, 3, 0), TH_SHAPE(3), 0, 0, 0);
    th_tensor *empty = numbered(TH_FLOAT32, TH_SHAPE(0, 2));
    assert_shape(th_stack((th_tensor *[]){empty, empty}, 2, 1), TH_SHAPE(0, 2, 2));
    assert_error(th_stack((th_tensor *[]){a, numbered(TH_FLOAT32, TH_SHAPE(2, 1))}, 2, 0), TH_ERROR_SHAPE,
                 "stack: shapes differ: input 0 is (T=2, E=2), input 1 is (2, 1)");
    assert_error(th_stack((th_tensor *[]){a, numbered(TH_FLOAT64, TH_SHAPE(2, 2))}, 2, 0), TH_ERROR_TYPE,
                 "input 1 is float64");
    assert_error(th_stack((th_tensor *[]){a, b}, 2, 3), TH_ERROR_SHAPE, "axis 3");
    assert_error(th_stack(NULL, 0, 0), TH_ERROR_ARGUMENT, "at least one tensor");
}
END_TEST

static th_tensor *concat_thrice(th_tensor *x)
{
    return th_concat((th_tensor *[]){x, th_slice(x, 0, 1, 2, 1), x}, 3, 0);
}
static th_tensor *stack_thrice(th_tensor *x)
{
    return th_stack((th_tensor *[]){x, x, th_repeat(th_slice(x, 0, 0, 1, 1), TH_SHAPE(2, 1))}, 3, 1);
}
static th_tensor *concat_many(th_tensor *x) /* more inputs than a call stores inline */
{
    th_tensor *parts[20];
    for (int i = 0; i < 20; i++)
        parts[i] = th_slice(x, 1, i % 3, i % 3 + 1, 1);
    return th_concat(parts, 20, 1);
}

START_TEST(test_concat_gradient)
{
    check_gradients(concat_thrice, TH_SHAPE(2, 3));
    check_gradients(stack_thrice, TH_SHAPE(2, 3));
    check_gradients(concat_many, TH_SHAPE(2, 3));
}
END_TEST

START_TEST(test_split)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 4)), "BT"), *parts[3];
    ck_assert_int_eq(th_split(x, -1, 3, (const int64_t[]){1, 0, 3}, parts), TH_OK);
    EXPECT(parts[0], TH_SHAPE(2, 1), 0, 4);
    assert_shape(parts[1], TH_SHAPE(2, 0));
    EXPECT(parts[2], TH_SHAPE(2, 3), 1, 2, 3, 5, 6, 7);
    ck_assert(th_shares_memory(x, parts[2]));
    ck_assert_str_eq(th_axes_of(parts[0]), "BT");

    const int64_t sizes[2] = {1, 2}, negative[2] = {5, -1};
    ck_assert_int_eq(th_split(x, 1, 2, sizes, parts), TH_ERROR_SHAPE);
    assert_error(parts[0], TH_ERROR_SHAPE, "split: the sizes of the parts add up to 3, axis 1 of x is (B=2, T=4)");
    ck_assert_int_eq(th_split(x, 1, 2, negative, parts), TH_ERROR_SHAPE);
    assert_error(parts[1], TH_ERROR_SHAPE, "size -1 of part 1 is negative");
    ck_assert_int_eq(th_split(x, 1, 2, (const int64_t[]){INT64_MAX, INT64_MAX}, parts), TH_ERROR_SHAPE);
    assert_error(NULL, TH_ERROR_SHAPE, "overflows");
    ck_assert_int_eq(th_split(x, 2, 2, sizes, parts), TH_ERROR_SHAPE);
    assert_error(NULL, TH_ERROR_SHAPE, "axis 2 does not exist in x");
    ck_assert_int_ne(th_split(NULL, 1, 2, sizes, parts), TH_OK);
    assert_error(parts[0], TH_ERROR_ARGUMENT, "split: x is NULL");
    ck_assert_int_ne(th_split(x, 1, 0, sizes, parts), TH_OK);
    assert_error(NULL, TH_ERROR_ARGUMENT, "at least one part");
    ck_assert_int_ne(th_split(x, 1, 2, NULL, parts), TH_OK);
    assert_error(NULL, TH_ERROR_ARGUMENT, "split");
}
END_TEST

static th_tensor *split_and_shuffle(th_tensor *x)
{
    th_tensor *parts[3];
    ck_assert_int_eq(th_split(x, 1, 3, (const int64_t[]){1, 2, 1}, parts), TH_OK);
    return th_concat((th_tensor *[]){parts[2], parts[0], parts[2]}, 3, 1); /* the middle part is not used */
}

START_TEST(test_split_gradient)
{
    check_gradients(split_and_shuffle, TH_SHAPE(3, 4));
}
END_TEST

/* -- indexing -- */

START_TEST(test_gather)
{
    th_tensor *x = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(2, 3)), "TE");
    th_tensor *index = integers(TH_SHAPE(2, 4), (const int64_t[]){2, 0, 0, 1, 1, 1, 2, 0});
    EXPECT(th_gather(x, 1, index), TH_SHAPE(2, 4), 2, 0, 0, 1, 4, 4, 5, 3);
    EXPECT(th_gather(x, -1, th_cast(index, TH_INT32)), TH_SHAPE(2, 4), 2, 0, 0, 1, 4, 4, 5, 3);
    EXPECT(th_gather(x, 0, integers(TH_SHAPE(1, 2), (const int64_t[]){1, 0})), TH_SHAPE(1, 2), 3, 1);
    EXPECT(th_gather(numbered(TH_INT32, TH_SHAPE(2, 3)), 1, index), TH_SHAPE(2, 4), 2, 0, 0, 1, 4, 4, 5, 3);
    EXPECT(th_gather(th_cast(x, TH_BOOL), 1, index), TH_SHAPE(2, 4), 1, 0, 0, 1, 1, 1, 1, 1);
    EXPECT(th_gather(th_cast(x, TH_FLOAT64), 1, index), TH_SHAPE(2, 4), 2, 0, 0, 1, 4, 4, 5, 3);
    EXPECT(th_gather(th_transpose(numbered(TH_FLOAT32, TH_SHAPE(3, 2)), TH_AXES(1, 0)), 1, th_slice(index, 1, 0, 4, 2)),
           TH_SHAPE(2, 2), 4, 0, 3, 5);
    assert_shape(th_gather(x, 1, numbered(TH_INT64, TH_SHAPE(0, 9))), TH_SHAPE(0, 9));
    assert_shape(th_gather(x, 1, numbered(TH_INT64, TH_SHAPE(2, 0))), TH_SHAPE(2, 0));

    assert_error(th_gather(x, 0, index), TH_ERROR_SHAPE,
                 "gather: the index, (2, 4), is larger than x, (T=2, E=3), on an axis other than 0");
    assert_error(th_gather(x, 1, numbered(TH_INT64, TH_SHAPE(2))), TH_ERROR_SHAPE, "or has other dimensions");
    assert_error(th_gather(x, 1, x), TH_ERROR_TYPE, "int32 or int64");
    assert_error(th_gather(x, 2, index), TH_ERROR_SHAPE, "axis 2");
    assert_error(th_gather(x, 1, integers(TH_SHAPE(2, 2), (const int64_t[]){0, 1, 3, 0})), TH_ERROR_INDEX,
                 "gather: index[1, 0] = 3 is outside [0, 3)");
    assert_error(th_gather(x, 1, integers(TH_SHAPE(2, 2), (const int64_t[]){0, 1, 2, -1})), TH_ERROR_INDEX,
                 "index[1, 1] = -1");
    assert_error(th_gather(x, 1, NULL), TH_ERROR_ARGUMENT, "gather");
    ck_assert_ptr_nonnull(th_gather(x, 1, index));
}
END_TEST

static th_tensor *gather_columns(th_tensor *x)
{
    return th_gather(x, 1, integers(TH_SHAPE(2, 4), (const int64_t[]){2, 0, 0, 1, 1, 1, 2, 1}));
}
static th_tensor *gather_rows(th_tensor *x)
{
    return th_gather(th_transpose(x, TH_AXES(1, 0)), 0, integers(TH_SHAPE(4, 1), (const int64_t[]){2, 0, 2, 2}));
}

START_TEST(test_gather_gradient)
{
    check_gradients(gather_columns, TH_SHAPE(2, 3));
    check_gradients(gather_columns, TH_SHAPE(3, 3));
    check_gradients(gather_rows, TH_SHAPE(2, 3));
}
END_TEST

START_TEST(test_embedding)
{
    th_tensor *table = th_set_axes(numbered(TH_FLOAT32, TH_SHAPE(4, 2)), "VE");
    th_tensor *indices = th_set_axes(integers(TH_SHAPE(2, 2), (const int64_t[]){3, 0, 1, 3}), "BT");
    th_tensor *y = th_embedding(table, indices);
    EXPECT(y, TH_SHAPE(2, 2, 2), 6, 7, 0, 1, 2, 3, 6, 7);
    ck_assert_str_eq(th_axes_of(y), "BTE");
    EXPECT(th_embedding(table, th_cast(th_transpose(indices, TH_AXES(1, 0)), TH_INT32)), TH_SHAPE(2, 2, 2), 6, 7, 2, 3,
           0, 1, 6, 7);
    EXPECT(th_embedding(th_transpose(numbered(TH_FLOAT64, TH_SHAPE(2, 3)), TH_AXES(1, 0)),
                        integers(TH_SHAPE(2), (const int64_t[]){2, 1})),
           TH_SHAPE(2, 2), 2, 5, 1, 4);
    EXPECT(th_embedding(table, integers(TH_SCALAR, (const int64_t[]){1})), TH_SHAPE(2), 2, 3);
    assert_shape(th_embedding(table, numbered(TH_INT32, TH_SHAPE(3, 0))), TH_SHAPE(3, 0, 2));
    assert_shape(
        th_embedding(numbered(TH_FLOAT32, TH_SHAPE(3, 0)), indices = integers(TH_SHAPE(2), (const int64_t[]){2, 0})),
        TH_SHAPE(2, 0));

    assert_error(th_embedding(table, integers(TH_SHAPE(1, 3), (const int64_t[]){0, 4, -1})), TH_ERROR_INDEX,
                 "embedding: indices[0, 1] = 4 is outside [0, 4)");
    assert_error(th_embedding(table, integers(TH_SHAPE(1), (const int64_t[]){INT64_MIN})), TH_ERROR_INDEX,
                 "indices[0] = -9223372036854775808");
    assert_error(th_embedding(table, integers(TH_SCALAR, (const int64_t[]){7})), TH_ERROR_INDEX,
                 "indices = 7 is outside");
    assert_error(th_embedding(numbered(TH_FLOAT32, TH_SHAPE(4)), indices), TH_ERROR_SHAPE,
                 "two dimensions, (V, E); it is (4)");
    assert_error(th_embedding(table, table), TH_ERROR_TYPE, "int32 or int64");
    assert_error(th_embedding(indices, indices), TH_ERROR_TYPE, "float32 or float64");
}
END_TEST

static th_tensor *embed(th_tensor *table)
{
    return th_embedding(table, integers(TH_SHAPE(2, 3), (const int64_t[]){2, 0, 2, 1, 2, 0}));
}
static th_tensor *embed_transposed(th_tensor *table) /* a gradient whose rows are not contiguous */
{
    return th_transpose(
        th_embedding(th_transpose(table, TH_AXES(1, 0)), integers(TH_SHAPE(2, 3), (const int64_t[]){2, 0, 2, 1, 2, 0})),
        TH_AXES(2, 1, 0));
}
static th_tensor *embed_expanded(th_tensor *table)
{
    return th_embedding(table, th_expand(integers(TH_SHAPE(3, 1), (const int64_t[]){2, 0, 2}), TH_SHAPE(3, 4)));
}

START_TEST(test_embedding_gradient)
{
    check_gradients(embed, TH_SHAPE(4, 5));
    check_gradients(embed, TH_SHAPE(3, 40));
    check_gradients(embed, TH_SHAPE(3, 0));
    check_gradients(embed_transposed, TH_SHAPE(2, 3));
    check_gradients(embed_expanded, TH_SHAPE(3, 17));
}
END_TEST

/* Rows are added in their order. The bits of rounded sums equal the bits of a plain loop, for any number of threads. */
START_TEST(test_embedding_gradient_has_one_order)
{
    enum { ROWS = 7, WIDTH = 133, COUNT = 5000 };
    static float plain[ROWS][WIDTH], found[ROWS][WIDTH];
    th_tensor *indices = th_random_integers(ctx, TH_INT32, TH_SHAPE(COUNT), 0, ROWS);
    th_tensor *cotangent = th_randn(ctx, TH_FLOAT32, TH_SHAPE(COUNT, WIDTH));
    const int32_t *index = th_data_const(indices);
    const float *dy = th_data_const(cotangent);
    memset(plain, 0, sizeof plain);
    for (int n = 0; n < COUNT; n++)
        for (int e = 0; e < WIDTH; e++)
            plain[index[n]][e] += dy[n * WIDTH + e];
    for (int threads = 1; threads <= 4; threads++) {
        ck_assert_int_eq(th_set_threads(ctx, threads), TH_OK);
        th_tensor *table = th_set_requires_gradient(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(ROWS, WIDTH)), true);
        ck_assert_int_eq(th_backward(th_embedding(table, indices), &(th_backward_options){.cotangent = cotangent}),
                         TH_OK);
        ck_assert_int_eq(th_copy_out(th_gradient(table), found, sizeof found), TH_OK);
        ck_assert_mem_eq(found, plain, sizeof plain);
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(test_one_hot)
{
    th_tensor *indices = th_set_axes(integers(TH_SHAPE(1, 3), (const int64_t[]){1, 0, 1}), "BT");
    th_tensor *y = th_one_hot(indices, 2);
    EXPECT(y, TH_SHAPE(1, 3, 2), 0, 1, 1, 0, 0, 1);
    ck_assert_int_eq(th_dtype_of(y), TH_FLOAT32);
    ck_assert_str_eq(th_axes_of(y), "BT ");
    ck_assert_int_eq(th_set_default_dtype(ctx, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_dtype_of(th_one_hot(indices, 2)), TH_FLOAT64);
    EXPECT(th_one_hot(th_cast(th_transpose(indices, TH_AXES(1, 0)), TH_INT32), 3), TH_SHAPE(3, 1, 3), 0, 1, 0, 1, 0, 0,
           0, 1, 0);
    EXPECT(th_one_hot(integers(TH_SCALAR, (const int64_t[]){1}), 2), TH_SHAPE(2), 0, 1);
    assert_shape(th_one_hot(numbered(TH_INT32, TH_SHAPE(0)), 0), TH_SHAPE(0, 0));
    assert_error(th_one_hot(indices, 1), TH_ERROR_INDEX, "one_hot: indices[0, 0] = 1 is outside [0, 1)");
    assert_error(th_one_hot(indices, -1), TH_ERROR_ARGUMENT, "the number of classes must not be negative; it is -1");
    assert_error(th_one_hot(indices, INT64_MAX), TH_ERROR_SHAPE, "overflow");
    assert_error(th_one_hot(th_ones(ctx, TH_FLOAT32, TH_SHAPE(2)), 2), TH_ERROR_TYPE, "int32 or int64");
}
END_TEST

/* -- the registry -- */

START_TEST(test_registry)
{
    ck_assert_int_gt(th_op_count(), 0);
    for (int i = 0; i < th_op_count(); i++) {
        const th_op *op = th_op_at(i);
        ck_assert_ptr_eq(th_op_find(op->name), op);
        ck_assert_msg(op->value && (op->gradient || op->not_differentiable), "%s has no formulas", op->name);
        ck_assert_msg(op->samples && op->samples[0].name, "%s has no samples", op->name);
    }
    ck_assert_ptr_null(th_op_at(-1));
    ck_assert_ptr_null(th_op_at(th_op_count()));
    ck_assert_ptr_null(th_op_find("no such operation"));
    ck_assert_ptr_null(th_op_find(NULL));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("shape operations", setup, close_context);
    tcase_add_test(tests, test_reshape);
    tcase_add_test(tests, test_reshape_gradient);
    tcase_add_test(tests, test_transpose);
    tcase_add_test(tests, test_transpose_gradient);
    tcase_add_test(tests, test_empty_tensors);
    tcase_add_test(tests, test_slice);
    tcase_add_test(tests, test_select);
    tcase_add_test(tests, test_slice_gradient);
    tcase_add_test(tests, test_expand);
    tcase_add_test(tests, test_expand_gradient);
    tcase_add_test(tests, test_squeeze);
    tcase_add_test(tests, test_squeeze_gradient);
    tcase_add_test(tests, test_detach);
    tcase_add_test(tests, test_contiguous);
    tcase_add_test(tests, test_cast);
    tcase_add_test(tests, test_repeat);
    tcase_add_test(tests, test_repeat_gradient);
    tcase_add_test(tests, test_concat);
    tcase_add_test(tests, test_stack);
    tcase_add_test(tests, test_concat_gradient);
    tcase_add_test(tests, test_split);
    tcase_add_test(tests, test_split_gradient);
    tcase_add_test(tests, test_gather);
    tcase_add_test(tests, test_gather_gradient);
    tcase_add_test(tests, test_embedding);
    tcase_add_test(tests, test_embedding_gradient);
    tcase_add_test(tests, test_embedding_gradient_has_one_order);
    tcase_add_test(tests, test_one_hot);
    tcase_add_test(tests, test_registry);
    return run_suites();
}
