/* Tensors outside the tape: creation, shape queries, access to elements, copies, axis letters, and the error messages
 * of wrong calls. */
#include <math.h>
#include <string.h>

#include "tapehead/tapehead.h"
#include "tensor/shape.h"
#include "tensor/strided_iterator.h"
#include "tensor/tensor.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

static const th_dtype dtypes[] = {TH_FLOAT32, TH_FLOAT64, TH_INT32, TH_INT64, TH_BOOL};

static void assert_all(th_tensor *t, double value)
{
    ck_assert_msg(t != NULL, "%s", th_error_message(ctx));
    const size_t element = th_dtype_size(th_dtype_of(t));
    const char *data = th_data_const(t);
    ck_assert(((uintptr_t)data & 63) == 0);
    for (int64_t i = 0; i < th_numel(t); i++) {
        const char *at = data + (size_t)i * element;
        switch (th_dtype_of(t)) {
        case TH_FLOAT32:
            ck_assert(*(const float *)at == (float)value);
            break;
        case TH_FLOAT64:
            ck_assert(*(const double *)at == value);
            break;
        case TH_INT32:
            ck_assert(*(const int32_t *)at == (int32_t)value);
            break;
        case TH_INT64:
            ck_assert(*(const int64_t *)at == (int64_t)value);
            break;
        default:
            ck_assert(*(const bool *)at == (value != 0));
        }
    }
}

START_TEST(test_element_types)
{
    static const char *const names[] = {"float32", "float64", "int32", "int64", "bool"};
    static const size_t sizes[] = {4, 8, 4, 8, 1};
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(th_dtype_name(dtypes[i]), names[i]);
        ck_assert_uint_eq(th_dtype_size(dtypes[i]), sizes[i]);
    }
    ck_assert_str_eq(th_dtype_name(TH_DTYPE_COUNT), "?");
    ck_assert_str_eq(th_dtype_name((th_dtype)-1), "?");
    ck_assert_uint_eq(th_dtype_size((th_dtype)99), 0);
}
END_TEST

START_TEST(test_creation)
{
    for (int i = 0; i < 5; i++) {
        assert_all(th_zeros(ctx, dtypes[i], TH_SHAPE(3, 5)), 0);
        assert_all(th_ones(ctx, dtypes[i], TH_SHAPE(1, 1, 1, 1, 1, 1, 1, 2)), 1);
        assert_all(th_full(ctx, dtypes[i], TH_SHAPE(301, 99), -7), -7);
        assert_all(th_full(ctx, dtypes[i], TH_SCALAR, 2), 2);
        assert_all(th_zeros(ctx, dtypes[i], TH_SHAPE(3, 0, 4)), 0);
    }
    assert_all(th_full(ctx, TH_FLOAT64, TH_SHAPE(70000), 0.1), 0.1);
    th_tensor *t = th_full(ctx, TH_FLOAT32, TH_SHAPE(2), NAN);
    ck_assert(isnan(th_get(t, TH_INDEX(1))));
    const int32_t data[6] = {1, 2, 3, 4, 5, 6};
    t = th_from_data(ctx, TH_INT32, TH_SHAPE(2, 3), data);
    ck_assert_mem_eq(th_data_const(t), data, sizeof data);
    ck_assert_ptr_nonnull(th_from_data(ctx, TH_INT32, TH_SHAPE(2, 0), NULL));
    t = th_empty(ctx, TH_FLOAT32, TH_SHAPE(PTRDIFF_MAX / 8, 0, 1));
    ck_assert(t && th_numel(t) == 0 && th_is_contiguous(t));
}
END_TEST

START_TEST(test_arange)
{
    th_tensor *t = th_arange(ctx, TH_INT64, 3, 10, 2);
    ck_assert_mem_eq(th_data_const(t), ((int64_t[]){3, 5, 7, 9}), 32);
    ck_assert_int_eq(th_numel(t), 4);
    t = th_arange(ctx, TH_FLOAT32, 1, 0, -0.25);
    ck_assert_int_eq(th_numel(t), 4);
    ck_assert_mem_eq(th_data_const(t), ((float[]){1, 0.75f, 0.5f, 0.25f}), 16);
    ck_assert_int_eq(th_numel(th_arange(ctx, TH_FLOAT64, 0, 1, 0.1)), 10);
    t = th_arange(ctx, TH_FLOAT64, 0, 1000, 0.1); /* rounding errors do not accumulate */
    for (int64_t i = 0; i < 10000; i++)
        ck_assert(th_get(t, TH_INDEX(i)) == (double)i * 0.1);
    ck_assert_int_eq(th_numel(th_arange(ctx, TH_INT32, 5, 5, 1)), 0);
    ck_assert_int_eq(th_numel(th_arange(ctx, TH_INT32, 5, 1, 1)), 0);
    expect_failure(!th_arange(ctx, TH_INT32, 0, 5, 0), TH_ERROR_ARGUMENT,
                   "arange: cannot count from 0 to 5 in steps of 0; at test_tensor.c");
    expect_failure(!th_arange(ctx, TH_INT32, 0, INFINITY, 1), TH_ERROR_ARGUMENT, "cannot count");
    expect_failure(!th_arange(ctx, TH_INT32, NAN, 1, 1), TH_ERROR_ARGUMENT, "cannot count");
    expect_failure(!th_arange(ctx, TH_INT32, 0, 1e300, 1), TH_ERROR_ARGUMENT, "cannot count");
    expect_failure(!th_arange(ctx, TH_INT32, 2147483640, 2147483700, 10), TH_ERROR_ARGUMENT, "int32 cannot hold");
    if (sizeof(size_t) == 8) /* its size needs 64 bits */
        expect_failure(!th_arange(ctx, TH_FLOAT64, 0, 1e18, 1), TH_ERROR_MEMORY, "out of memory");
    expect_failure(!th_arange(ctx, TH_BOOL, 0, 2, 1), TH_ERROR_TYPE, "bool is not supported");
}
END_TEST

START_TEST(test_creation_errors)
{
    expect_failure(!th_zeros(ctx, (th_dtype)77, TH_SHAPE(2)), TH_ERROR_TYPE,
                   "zeros: 77 is not an element type; at test_tensor.c");
    expect_failure(!th_empty(ctx, TH_FLOAT32, TH_SHAPE(2, -3)), TH_ERROR_SHAPE,
                   "empty: size -3 of axis 1 of (2, -3) is negative");
    /* also if another size is 0 */
    expect_failure(!th_empty(ctx, TH_FLOAT32, TH_SHAPE(INT64_MAX, 0, 2)), TH_ERROR_SHAPE, "overflows");
    expect_failure(!th_ones(ctx, TH_FLOAT32, TH_SHAPE(INT64_MAX, 2)), TH_ERROR_SHAPE,
                   "ones: the size of float32 (9223372036854775807, 2) in bytes overflows");
    expect_failure(!th_empty(ctx, TH_FLOAT64, TH_SHAPE(PTRDIFF_MAX / 8 + 1)), TH_ERROR_SHAPE, "overflows");
    expect_failure(!th_empty(ctx, TH_FLOAT64, TH_SHAPE(PTRDIFF_MAX / 8 - 8)), TH_ERROR_MEMORY, "out of memory");
    expect_failure(!th_empty(ctx, TH_FLOAT32, ((th_shape){9, {0}})), TH_ERROR_SHAPE, "0 to 8 dimensions, not 9");
    expect_failure(!th_empty(ctx, TH_FLOAT32, ((th_shape){-1, {0}})), TH_ERROR_SHAPE, "0 to 8 dimensions, not -1");
    expect_failure(!th_full(ctx, TH_INT32, TH_SHAPE(2), 3e9), TH_ERROR_ARGUMENT, "full: int32 cannot hold 3e+09");
    expect_failure(!th_full(ctx, TH_INT64, TH_SHAPE(2), NAN), TH_ERROR_ARGUMENT, "full: int64 cannot hold nan");
    expect_failure(!th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2), NULL), TH_ERROR_ARGUMENT, "from_data: data is NULL");
    expect_failure(!th_zeros(NULL, TH_FLOAT32, TH_SHAPE(2)), TH_ERROR_ARGUMENT,
                   "zeros: the context is NULL"); /* stored in the context used last */
    /* while an error is pending, nothing is created and the first error stays */
    ck_assert_ptr_null(th_empty(ctx, TH_FLOAT32, TH_SHAPE(-1)));
    ck_assert_ptr_null(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2)));
    ck_assert_ptr_null(th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2), NULL));
    expect_failure(!th_arange(ctx, TH_INT32, 0, 5, 0), TH_ERROR_SHAPE, "size -1 of axis 0 of (-1) is negative");
    th_context *limited = th_context_new(&(th_context_options){.memory_limit = 1 << 20});
    ck_assert_ptr_null(th_zeros(limited, TH_FLOAT32, TH_SHAPE(1 << 20)));
    ck_assert_int_eq(th_error_code(limited), TH_ERROR_MEMORY);
    ck_assert(strstr(th_error_message(limited), "more bytes would exceed the context's limit of 1048576"));
    th_context_free(limited);
}
END_TEST

START_TEST(test_shapes)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 3, 4));
    const th_shape shape = th_shape_of(t);
    ck_assert(shape.ndim == 3 && shape.size[0] == 2 && shape.size[1] == 3 && shape.size[2] == 4);
    ck_assert(th_context_of(t) == ctx && th_dtype_of(t) == TH_FLOAT64 && th_ndim(t) == 3 && th_numel(t) == 24);
    ck_assert(th_size(t, 0) == 2 && th_size(t, -1) == 4 && th_stride(t, 0) == 12 && th_stride(t, -3) == 12 &&
              th_stride(t, 2) == 1);
    expect_failure(th_size(t, 3) == -1, TH_ERROR_SHAPE, "size: axis 3 is outside a tensor (2, 3, 4)");
    expect_failure(th_stride(t, -4) == -1, TH_ERROR_SHAPE, "stride: axis -4 is outside");
    ck_assert(th_context_of(NULL) == NULL && th_dtype_of(NULL) == TH_FLOAT32 && th_ndim(NULL) == 0 &&
              th_numel(NULL) == 0);
    ck_assert(th_size(NULL, 5) == 0 && th_stride(NULL, 5) == 0 && th_shape_of(NULL).ndim == 0 &&
              !th_is_contiguous(NULL));
    th_tensor *view = th_transpose(t, TH_AXES(2, 0, 1));
    ck_assert(!th_is_contiguous(view) && th_shares_memory(t, view) && th_stride(view, 0) == 1);
    ck_assert(!th_shares_memory(t, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(1))) && !th_shares_memory(t, NULL));
    ck_assert(th_is_contiguous(th_transpose(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, 5)), TH_AXES(1, 0))));
}
END_TEST

START_TEST(test_axis_letters)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 3));
    char text[TH_SHAPE_TEXT];
    ck_assert_str_eq(th_axes_of(t), "");
    ck_assert_ptr_eq(th_set_axes(t, "B "), t);
    ck_assert_str_eq(th_axes_of(t), "B ");
    th_array array = th_tensor_array(th_tensor_impl_of(t));
    ck_assert_str_eq(th_array_text(&array, text), "(B=2, 3)");
    ck_assert_ptr_eq(th_set_axes(t, NULL), t);
    ck_assert_str_eq(th_axes_of(t), "");
    expect_failure(!th_set_axes(t, "BTE"), TH_ERROR_ARGUMENT, "set_axes: \"BTE\" has 3 letters for 2 dimensions");
    expect_failure(!th_set_axes(NULL, "B"), TH_ERROR_ARGUMENT, "set_axes: t is NULL");
    array = (th_array){.ndim = 8, .axes = "ABCDEFGH"};
    for (int i = 0; i < 8; i++)
        array.size[i] = INT64_MAX;
    ck_assert_uint_lt(strlen(th_array_text(&array, text)), TH_SHAPE_TEXT);
    ck_assert(strncmp(text, "(A=9223372036854775807, B=92", 28) == 0 && strcmp(text + strlen(text) - 4, "...)") == 0);
    array.ndim = 0;
    ck_assert_str_eq(th_array_text(&array, text), "()");
}
END_TEST

START_TEST(test_broadcast_rules)
{
    static const struct {
        int a_ndim, b_ndim, ndim; /* ndim -1: they do not broadcast */
        int64_t a[8], b[8], size[8];
    } cases[] = {
        {2, 1, 2, {3, 4}, {4}, {3, 4}},
        {2, 2, 2, {3, 1}, {1, 5}, {3, 5}},
        {0, 3, 3, {0}, {2, 3, 4}, {2, 3, 4}},
        {2, 1, -1, {3, 4}, {3}, {0}},
        {1, 1, 1, {0}, {1}, {0}},
        {1, 1, -1, {0}, {2}, {0}},
        {3, 2, 3, {2, 1, 5}, {7, 1}, {2, 7, 5}},
        {4, 4, -1, {1, 2, 3, 4}, {1, 2, 2, 4}, {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int ndim = 0;
        int64_t size[TH_MAX_DIMS];
        for (int swapped = 0; swapped < 2; swapped++) {
            const bool fits =
                swapped ? th_broadcast_sizes(cases[i].b_ndim, cases[i].b, cases[i].a_ndim, cases[i].a, &ndim, size)
                        : th_broadcast_sizes(cases[i].a_ndim, cases[i].a, cases[i].b_ndim, cases[i].b, &ndim, size);
            ck_assert(fits == (cases[i].ndim >= 0));
            ck_assert(!fits ||
                      (ndim == cases[i].ndim && memcmp(size, cases[i].size, (size_t)ndim * sizeof *size) == 0));
        }
    }
    int axis = -2;
    ck_assert(th_normalize_axis(&axis, 3) && axis == 1);
    ck_assert(!th_normalize_axis(&(int){3}, 3) && !th_normalize_axis(&(int){-4}, 3) &&
              !th_normalize_axis(&(int){0}, 0));
}
END_TEST

START_TEST(test_single_elements)
{
    for (int i = 0; i < 5; i++) {
        th_tensor *t = th_zeros(ctx, dtypes[i], TH_SHAPE(2, 3));
        ck_assert_int_eq(th_set(t, TH_INDEX(1, 2), 1), TH_OK);
        ck_assert_int_eq(th_set(t, TH_INDEX(-2, -3), 1), TH_OK);
        ck_assert(th_get(t, TH_INDEX(1, 2)) == 1 && th_get(t, TH_INDEX(-1, -1)) == 1 && th_get(t, TH_INDEX(0, 0)) == 1);
        ck_assert(th_get(t, TH_INDEX(0, 1)) == 0 && th_get(t, TH_INDEX(1, 1)) == 0);
        ck_assert(th_item(th_full(ctx, dtypes[i], TH_SCALAR, 1)) == 1);
        ck_assert(th_item(th_full(ctx, dtypes[i], TH_SHAPE(1, 1), 1)) == 1);
    }
    th_tensor *t = th_arange(ctx, TH_INT32, 0, 6, 1),
              *view = th_transpose(th_reshape(t, TH_SHAPE(2, 3)), TH_AXES(1, 0));
    ck_assert(th_get(view, TH_INDEX(2, 1)) == 5 && th_get(view, TH_INDEX(1, 0)) == 1);
    ck_assert_int_eq(th_set(view, TH_INDEX(0, 1), -3.9), TH_OK); /* toward 0, as in C */
    ck_assert(th_get(t, TH_INDEX(3)) == -3);
    expect_failure(isnan(th_get(view, TH_INDEX(0, 2))), TH_ERROR_INDEX,
                   "get: index 2 is outside axis 1 of (3, 2); at test_tensor.c");
    expect_failure(isnan(th_get(view, TH_INDEX(-4, 0))), TH_ERROR_INDEX, "get: index -4 is outside axis 0");
    expect_failure(isnan(th_get(view, TH_INDEX(0))), TH_ERROR_INDEX, "get: 1 indices given for a tensor (3, 2)");
    expect_failure(th_set(view, TH_INDEX(3, 0), 1), TH_ERROR_INDEX, "set: index 3 is outside");
    expect_failure(th_set(t, TH_INDEX(0), 1e10), TH_ERROR_ARGUMENT, "set: int32 cannot hold 1e+10");
    expect_failure(th_set(NULL, TH_INDEX(0), 1), TH_ERROR_ARGUMENT, "set: t is NULL");
    expect_failure(isnan(th_item(t)), TH_ERROR_SHAPE, "item: needs a tensor of one element, not (6)");
    expect_failure(isnan(th_item(NULL)), TH_ERROR_ARGUMENT, "item: t is NULL");
    expect_failure(isnan(th_item(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0)))), TH_ERROR_SHAPE, "not (0)");
}
END_TEST

START_TEST(test_data_in_and_out)
{
    th_tensor *t = th_arange(ctx, TH_FLOAT32, 0, 6, 1),
              *view = th_transpose(th_reshape(t, TH_SHAPE(2, 3)), TH_AXES(1, 0));
    float data[6];
    ck_assert_int_eq(th_copy_out(view, data, sizeof data), TH_OK);
    ck_assert_mem_eq(data, ((float[]){0, 3, 1, 4, 2, 5}), sizeof data);
    ck_assert_int_eq(th_copy_in(view, (float[]){10, 11, 12, 13, 14, 15}, sizeof data), TH_OK);
    ck_assert_mem_eq(th_data(t), ((float[]){10, 12, 14, 11, 13, 15}), sizeof data);
    ck_assert_ptr_eq(th_data(t), th_data_const(t));
    ((float *)th_data(t))[5] = 2;
    ck_assert(th_get(view, TH_INDEX(2, 1)) == 2);
    ck_assert_int_eq(th_copy_out(th_zeros(ctx, TH_BOOL, TH_SHAPE(0, 5)), NULL, 0), TH_OK);
    expect_failure(!th_data(view), TH_ERROR_STATE, "data: a tensor (3, 2) that is not contiguous");
    expect_failure(!th_data_const(view), TH_ERROR_STATE, "data_const: a tensor (3, 2)");
    expect_failure(!th_data(NULL), TH_ERROR_ARGUMENT, "data: t is NULL");
    expect_failure(th_copy_out(t, data, 20), TH_ERROR_SHAPE,
                   "copy_out: float32 (6) is 24 bytes, not 20; at test_tensor.c");
    expect_failure(th_copy_in(t, data, 48), TH_ERROR_SHAPE, "copy_in: float32 (6) is 24 bytes, not 48");
    expect_failure(th_copy_in(t, NULL, 24), TH_ERROR_ARGUMENT, "copy_in: data is NULL");
    expect_failure(th_copy_out(NULL, data, 24), TH_ERROR_ARGUMENT, "copy_out: t is NULL");
}
END_TEST

START_TEST(test_copy_into)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 3)), *row = th_arange(ctx, TH_INT32, 1, 4, 1);
    ck_assert_int_eq(th_copy_into(t, row), TH_OK);
    ck_assert_mem_eq(th_data_const(t), ((double[]){1, 2, 3, 1, 2, 3}), 48);
    ck_assert_int_eq(th_copy_into(t, th_full(ctx, TH_BOOL, TH_SCALAR, 1)), TH_OK);
    assert_all(t, 1);
    /* the source is a view of the same memory: its elements before the copy count */
    th_tensor *square = th_arange(ctx, TH_FLOAT32, 0, 9, 1), *matrix = th_reshape(square, TH_SHAPE(3, 3));
    ck_assert_int_eq(th_copy_into(matrix, th_transpose(matrix, TH_AXES(1, 0))), TH_OK);
    ck_assert_mem_eq(th_data_const(square), ((float[]){0, 3, 6, 1, 4, 7, 2, 5, 8}), 36);
    ck_assert_int_eq(th_copy_into(th_slice(square, 0, 1, 9, 1), th_slice(square, 0, 0, 8, 1)), TH_OK);
    ck_assert_mem_eq(th_data_const(square), ((float[]){0, 0, 3, 6, 1, 4, 7, 2, 5}), 36);
    ck_assert_int_eq(th_copy_into(matrix, th_slice(matrix, 0, 2, 3, 1)), TH_OK);
    ck_assert_mem_eq(th_data_const(square), ((float[]){7, 2, 5, 7, 2, 5, 7, 2, 5}), 36);
    ck_assert_int_eq(th_copy_into(square, square), TH_OK);
    ck_assert_mem_eq(th_data_const(square), ((float[]){7, 2, 5, 7, 2, 5, 7, 2, 5}), 36);
    expect_failure(th_copy_into(row, t), TH_ERROR_SHAPE,
                   "copy_into: the source (2, 3) does not broadcast to the destination (3)");
    expect_failure(th_copy_into(NULL, t), TH_ERROR_ARGUMENT, "copy_into: destination is NULL");
    expect_failure(th_copy_into(t, NULL), TH_ERROR_ARGUMENT, "copy_into: source is NULL");
    th_context *other = th_context_new(NULL);
    expect_failure(th_copy_into(t, th_zeros(other, TH_FLOAT64, TH_SHAPE(3))), TH_ERROR_ARGUMENT,
                   "source is a tensor of another context");
    th_context_free(other);
}
END_TEST

/* In an expanded view many elements share memory. If several threads wrote it, any of their values could remain. */
START_TEST(test_writing_to_repeated_elements)
{
    th_tensor *row = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, 50)), *many = th_expand(row, TH_SHAPE(1000, 50));
    th_tensor *different = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1000, 50));
    static const float numbers[1000 * 50];
    const char *const sentence = ": elements of (1000, 50) overlap in memory, as in an expanded view";
    expect_failure(th_copy_into(many, different), TH_ERROR_STATE, sentence);
    expect_failure(th_copy_into(th_swap_axes(many, 0, 1), th_swap_axes(different, 0, 1)), TH_ERROR_STATE,
                   "copy_into: elements of (50, 1000) overlap in memory");
    expect_failure(th_copy_into(many, many), TH_ERROR_STATE, sentence);
    expect_failure(th_copy_in(many, numbers, sizeof numbers), TH_ERROR_STATE, sentence);
    expect_failure(th_fill(many, 1), TH_ERROR_STATE, sentence);
    expect_failure(th_fill_uniform(many, 0, 1), TH_ERROR_STATE, sentence);
    expect_failure(th_fill_xavier_normal(many, 1), TH_ERROR_STATE, sentence);
    assert_all(row, 0);
    /* Expanded by 1 or to no elements, no elements share memory. */
    ck_assert_int_eq(th_fill(th_expand(row, TH_SHAPE(1, 50)), 3), TH_OK);
    ck_assert_int_eq(th_fill(th_expand(row, TH_SHAPE(2, 0, 1, 50)), 4), TH_OK);
    assert_all(row, 3);
    ck_assert_int_eq(th_set(many, TH_INDEX(999, 7), 5), TH_OK);
    ck_assert_double_eq(th_get(many, TH_INDEX(0, 7)), 5);
}
END_TEST

START_TEST(test_fill)
{
    for (int i = 0; i < 5; i++) {
        th_tensor *t = th_zeros(ctx, dtypes[i], TH_SHAPE(7, 5));
        ck_assert_int_eq(th_fill(t, 1), TH_OK);
        assert_all(t, 1);
        ck_assert_int_eq(th_fill(th_slice(t, 1, 1, 5, 3), 0), TH_OK);
        for (int64_t r = 0; r < 7; r++)
            for (int64_t c = 0; c < 5; c++)
                ck_assert(th_get(t, TH_INDEX(r, c)) == (c != 1 && c != 4));
    }
    expect_failure(th_fill(th_zeros(ctx, TH_INT32, TH_SHAPE(1)), INFINITY), TH_ERROR_ARGUMENT,
                   "fill: int32 cannot hold inf");
    expect_failure(th_fill(NULL, 1), TH_ERROR_ARGUMENT, "fill: t is NULL");
}
END_TEST

/* Each of these calls increments the version of the storage, for a view as for its base. So backward detects that a
 * saved value changed. */
START_TEST(test_changes_are_counted)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(4)), *view = th_slice(t, 0, 0, 2, 1);
    float data[4] = {0};
    const th_storage *storage = th_tensor_impl_of(t)->storage;
    uint32_t version = storage->version;
#define ASSERT_COUNTED(change)                                                                                         \
    do {                                                                                                               \
        ck_assert(change);                                                                                             \
        ck_assert_uint_eq(storage->version, ++version);                                                                \
        ck_assert(strstr(storage->changed_file, "test_tensor.c") && storage->changed_line == __LINE__);                \
    } while (0)
    ASSERT_COUNTED(th_data(t) != NULL);
    ASSERT_COUNTED(th_set(view, TH_INDEX(0), 1) == TH_OK);
    ASSERT_COUNTED(th_copy_in(t, data, sizeof data) == TH_OK);
    ASSERT_COUNTED(th_copy_into(view, th_slice(t, 0, 2, 4, 1)) == TH_OK);
    ASSERT_COUNTED(th_fill(view, 1) == TH_OK);
    ASSERT_COUNTED(th_fill_uniform(t, 0, 1) == TH_OK);
    ck_assert_ptr_nonnull(th_data_const(t));
    ck_assert_int_eq(th_copy_out(t, data, sizeof data), TH_OK);
    th_get(t, TH_INDEX(0));
    ck_assert_uint_eq(storage->version, version);
    th_error_clear(ctx);
}
END_TEST

START_TEST(test_keep)
{
    th_scope_begin(ctx, "scope");
    th_tensor *made = th_arange(ctx, TH_FLOAT64, 0, 6, 1);
    th_tensor *view = th_set_axes(th_transpose(th_reshape(made, TH_SHAPE(2, 3)), TH_AXES(1, 0)), "TE");
    th_tensor *kept = th_keep(view);
    th_scope_end(ctx, NULL);
    th_tape_clear(ctx);
    ck_assert(th_is_contiguous(kept) && !th_requires_gradient(kept) && strcmp(th_axes_of(kept), "TE") == 0);
    ck_assert_mem_eq(th_data_const(kept), ((double[]){0, 3, 1, 4, 2, 5}), 48);
    expect_failure(isnan(th_get(made, TH_INDEX(0))), TH_ERROR_STATE, "get: t ");
    expect_failure(!th_keep(NULL), TH_ERROR_ARGUMENT, "keep: t is NULL");
    const size_t live = th_memory(ctx).live;
    th_tensor *copy = th_keep(kept);
    ck_assert(!th_shares_memory(copy, kept));
    th_tensor_free(copy);
    ck_assert_uint_eq(th_memory(ctx).live, live);
    expect_failure(!th_keep(copy), TH_ERROR_STATE, "keep: t has been freed");
}
END_TEST

/* The tape owns tensors that are created in a scope, the user owns all others. */
START_TEST(test_ownership)
{
    th_tensor *owned = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    th_scope_begin(ctx, NULL);
    th_tensor *of_the_tape = th_ones(ctx, TH_FLOAT32, TH_SHAPE(2));
    ck_assert_ptr_eq(th_scope_end(ctx, of_the_tape), of_the_tape);
    ck_assert(th_get(of_the_tape, TH_INDEX(0)) == 1);
    th_tape_clear(ctx);
    expect_failure(isnan(th_get(of_the_tape, TH_INDEX(0))), TH_ERROR_STATE, "th_tape_clear");
    ck_assert(th_get(owned, TH_INDEX(0)) == 1);
    th_tensor_free(owned);
    expect_failure(isnan(th_get(owned, TH_INDEX(0))), TH_ERROR_STATE, "has been freed");
    th_tensor_free(NULL);
}
END_TEST

/* The smallest and the largest numbers that a type holds. */
START_TEST(test_ends_of_types)
{
    static const struct {
        th_dtype dtype;
        double value;
        bool fits;
    } cases[] = {{TH_INT32, 2147483647, true},   {TH_INT32, 2147483648, false}, {TH_INT32, -2147483648, true},
                 {TH_INT32, -2147483649, false}, {TH_INT64, -0x1p63, true},     {TH_INT64, 0x1p63, false},
                 {TH_INT64, -0x1.1p63, false},   {TH_INT64, 0x1p62, true},      {TH_INT32, INFINITY, false},
                 {TH_INT32, -INFINITY, false},   {TH_INT64, NAN, false},        {TH_FLOAT32, -INFINITY, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_tensor *t = th_full(ctx, cases[i].dtype, TH_SHAPE(1), cases[i].value);
        if (!cases[i].fits)
            expect_failure(t == NULL, TH_ERROR_ARGUMENT, "cannot hold");
        else
            ck_assert_msg(th_item(t) == cases[i].value, "%zu", i);
    }
    expect_failure(!th_arange(ctx, TH_FLOAT64, -INFINITY, 5, 1), TH_ERROR_ARGUMENT, "cannot count from -inf");
    /* also where the first number is behind the end */
    expect_failure(!th_arange(ctx, TH_FLOAT64, INFINITY, 5, 1), TH_ERROR_ARGUMENT, "cannot count from inf");
    expect_failure(!th_arange(ctx, TH_FLOAT64, 5, -INFINITY, 1), TH_ERROR_ARGUMENT, "cannot count from 5 to -inf");
    expect_failure(!th_arange(ctx, TH_FLOAT64, 5, 0, 0), TH_ERROR_ARGUMENT, "in steps of 0");
    expect_failure(!th_arange(ctx, TH_FLOAT64, 0, 5, INFINITY), TH_ERROR_ARGUMENT, "in steps of inf");
    expect_failure(!th_arange(ctx, TH_FLOAT64, 0, 5, NAN), TH_ERROR_ARGUMENT, "in steps of ");
    expect_failure(!th_arange(ctx, TH_INT32, -2147483649.0, -2147483640, 1), TH_ERROR_ARGUMENT, "int32 cannot hold");
    ck_assert_int_eq(th_numel(th_arange(ctx, TH_INT32, 2147483640, 2147483648, 1)), 8);
    ck_assert_int_eq(th_numel(th_arange(ctx, TH_INT32, -2147483648, -2147483640, 8)), 1);
    expect_failure(!th_arange(NULL, TH_INT32, 0, 5, 1), TH_ERROR_ARGUMENT, "arange: the context is NULL");
}
END_TEST

/* One element is written 0 to 300 times, densely, with gaps, and from elements with gaps. No other byte changes. */
START_TEST(test_runs_of_elements)
{
    static const int64_t elements[] = {1, 2, 4, 8};
    enum { LARGEST = 300 };
    static char from[LARGEST * 8 * 3], to[LARGEST * 8 * 3], expected[LARGEST * 8 * 3];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (char)(i * 37 + i / 256);
    for (int e = 0; e < 4; e++)
        for (int to_step = 1; to_step <= 3; to_step++)
            for (int from_step = 0; from_step <= 3; from_step++)
                for (int64_t n = 0; n <= LARGEST; n += n < 20 || (n * elements[e] & 63) > 60 ? 1 : 3) {
                    const int64_t size = elements[e];
                    memset(to, '#', sizeof to);
                    memset(expected, '#', sizeof expected);
                    for (int64_t i = 0; i < n * size; i++)
                        expected[i / size * size * to_step + i % size] = from[i / size * size * from_step + i % size];
                    th_copy_strided(n, size, to, size * to_step, from, size * from_step);
                    ck_assert_msg(memcmp(to, expected, sizeof to) == 0, "%d elements of %d bytes, steps %d and %d",
                                  (int)n, (int)size, to_step, from_step);
                }
}
END_TEST

START_TEST(test_shapes_only)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_tensor *t = th_full(shapes, TH_FLOAT32, TH_SHAPE(1 << 20, 1 << 10), 2),
              *one = th_zeros(shapes, TH_INT64, TH_SCALAR);
    float data[2] = {0};
    th_tensor *two = th_from_data(shapes, TH_FLOAT32, TH_SHAPE(2), data);
    ck_assert(t && one && two && (double)th_memory(shapes).live > 0x1p32);
    ck_assert(isnan(th_item(one)) && th_error_code(shapes) == TH_OK);
    ck_assert(th_fill(t, 1) == TH_OK && th_copy_in(two, data, sizeof data) == TH_OK && th_copy_into(t, one) == TH_OK &&
              th_set(two, TH_INDEX(1), 1) == TH_OK && th_keep(two) && th_arange(shapes, TH_INT32, 0, 5, 1));
    ck_assert_int_eq(th_copy_out(two, data, sizeof data), TH_ERROR_STATE);
    th_error_clear(shapes);
    ck_assert(isnan(th_get(two, TH_INDEX(0))) && th_error_code(shapes) == TH_ERROR_STATE);
    th_error_clear(shapes);
    ck_assert(th_data(two) == NULL && strstr(th_error_message(shapes), "a shapes-only context has no values"));
    th_context_free(shapes);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("tensor", setup, close_context);
    tcase_add_test(tests, test_element_types);
    tcase_add_test(tests, test_creation);
    tcase_add_test(tests, test_arange);
    tcase_add_test(tests, test_creation_errors);
    tcase_add_test(tests, test_shapes);
    tcase_add_test(tests, test_axis_letters);
    tcase_add_test(tests, test_broadcast_rules);
    tcase_add_test(tests, test_single_elements);
    tcase_add_test(tests, test_data_in_and_out);
    tcase_add_test(tests, test_copy_into);
    tcase_add_test(tests, test_fill);
    tcase_add_test(tests, test_writing_to_repeated_elements);
    tcase_add_test(tests, test_changes_are_counted);
    tcase_add_test(tests, test_keep);
    tcase_add_test(tests, test_ownership);
    tcase_add_test(tests, test_ends_of_types);
    tcase_add_test(tests, test_runs_of_elements);
    if (sizeof(size_t) == 8) /* its sizes need 64 bits */
        tcase_add_test(tests, test_shapes_only);
    return run_suites();
}
