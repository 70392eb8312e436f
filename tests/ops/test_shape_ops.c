/* Operations that copy elements to another shape: contiguous, cast, repeat, concat, stack, split. The registry of
 * operations. */
#include "movements.h"

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
    assert_error(th_cast(x, (th_dtype)77), TH_ERROR_TYPE, "77 is not an element type");

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
    tcase_add_test(tests, test_contiguous);
    tcase_add_test(tests, test_cast);
    tcase_add_test(tests, test_repeat);
    tcase_add_test(tests, test_repeat_gradient);
    tcase_add_test(tests, test_concat);
    tcase_add_test(tests, test_stack);
    tcase_add_test(tests, test_concat_gradient);
    tcase_add_test(tests, test_split);
    tcase_add_test(tests, test_split_gradient);
    tcase_add_test(tests, test_registry);
    return run_suites();
}
