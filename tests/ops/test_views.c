/* Operations that return views: reshape, transpose, slice, select, expand, squeeze, detach. */
#include "movements.h"

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

int main(void)
{
    TCase *tests = new_suite("views", setup, close_context);
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
    return run_suites();
}
