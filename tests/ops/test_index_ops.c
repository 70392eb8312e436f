/* Operations that index: gather, embedding, one_hot. */
#include "movements.h"

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

START_TEST(test_topk)
{
    const float data[] = {3, NAN, 3, -INFINITY, 5, /**/ 1, 2, 0, NAN, -1};
    th_tensor *x = th_from_data(ctx, TH_FLOAT32, TH_SHAPE(2, 5), data);
    for (int wide = 0; wide < 2; wide++, x = th_cast(x, TH_FLOAT64)) {
        EXPECT(th_topk(x, 1, 5), TH_SHAPE(2, 5), 1, 4, 0, 2, 3, 3, 1, 0, 2, 4);
        EXPECT(th_topk(x, -1, 2), TH_SHAPE(2, 2), 1, 4, 3, 1);
        EXPECT(th_topk(x, 0, 1), TH_SHAPE(1, 5), 0, 0, 0, 1, 0);
        EXPECT(th_topk(th_swap_axes(x, 0, 1), 0, 2), TH_SHAPE(2, 2), 1, 3, 4, 1);
        assert_shape(th_topk(x, 1, 0), TH_SHAPE(2, 0));
        EXPECT(th_argmin(th_slice(x, 1, 2, 5, 1), 1), TH_SHAPE(2), 1, 1);
    }
    /* of many elements: in the order of a sort */
    enum { MANY = 1000 };
    th_tensor *many = numbered(TH_INT64, TH_SHAPE(MANY));
    for (int64_t i = 0; i < MANY; i++)
        ((int64_t *)th_data(many))[i] = i * 7919 % 300;
    th_tensor *order = th_topk(th_cast(many, TH_FLOAT64), 0, 400);
    const int64_t *value = th_data_const(many), *index = th_data_const(order);
    for (int i = 1; i < 400; i++)
        ck_assert(value[index[i - 1]] > value[index[i]] ||
                  (value[index[i - 1]] == value[index[i]] && index[i - 1] < index[i]));
    int above = 0;
    for (int i = 0; i < MANY; i++)
        above += value[i] > value[index[399]];
    ck_assert_int_lt(above, 400);
    assert_error(th_topk(x, 1, 6), TH_ERROR_ARGUMENT, "topk: k must be in [0, 5], the size of axis 1; it is 6");
    assert_error(th_topk(x, 1, -1), TH_ERROR_ARGUMENT, "it is -1");
    assert_error(th_topk(many, 0, 1), TH_ERROR_TYPE, "topk");
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

int main(void)
{
    TCase *tests = new_suite("indexing", setup, close_context);
    tcase_add_test(tests, test_gather);
    tcase_add_test(tests, test_topk);
    tcase_add_test(tests, test_gather_gradient);
    tcase_add_test(tests, test_embedding);
    tcase_add_test(tests, test_embedding_gradient);
    tcase_add_test(tests, test_embedding_gradient_has_one_order);
    tcase_add_test(tests, test_one_hot);
    return run_suites();
}
