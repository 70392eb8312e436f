/* matmul against plain loops: layouts, broadcasting, zero sizes, accumulation, errors. The bits and the counts of all
 * products. */
#include "plain_products.h"

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
    tcase_add_test(tests, test_bits_do_not_depend_on_the_team);
    tcase_add_test(tests, test_multiply_adds);
    return run_suites();
}
