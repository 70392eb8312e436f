/* Tests of multi-head attention layers, fused and composed: splitting of heads, narrow projections, cross attention, masks of large
 * numbers, parameters and errors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tapehead/tapehead.h"

#include "attention_layers.h"

/* -- heads -- */

START_TEST(heads_split_and_merge)
{
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
    th_tensor *split =
        th_reshape(th_transpose(th_reshape(x, TH_SHAPE(2, 4, 5, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(10, 4, 20));
    th_tensor *merged =
        th_reshape(th_transpose(th_reshape(split, TH_SHAPE(2, 5, 4, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(2, 4, 100));
    size_t size, again;
    void *a = bytes_of(x, &size), *b = bytes_of(merged, &again);
    ck_assert_uint_eq(size, again);
    ck_assert_int_eq(memcmp(a, b, size), 0);
    free(a);
    free(b);
}
END_TEST

/* Returns the multiply-adds of all recorded nodes, and counts the nodes of an operation. */
static int64_t multiply_adds(const char *operation, int *count)
{
    int64_t sum = 0;
    *count = 0;
    for (int64_t i = 0; i < th_tape_length(ctx); i++) {
        th_node_info info;
        ck_assert_int_eq(th_tape_node(ctx, i, &info), TH_OK);
        sum += info.multiply_adds;
        *count += strcmp(info.operation, operation) == 0;
    }
    return sum;
}

START_TEST(the_number_of_heads_does_not_change_multiply_adds)
{
    static const int64_t heads[] = {1, 2, 5, 20};
    int64_t expected = 0;
    for (int fusion = 0; fusion < 2; fusion++)
        for (int i = 0; i < 4; i++) {
            th_set_fusion(ctx, fusion);
            th_module *m = th_multi_head_attention_new(ctx, 100, heads[i], NULL);
            th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100));
            ck_assert_ptr_nonnull(th_attend(m, x, x, x, NULL));
            int products;
            const int64_t sum = multiply_adds("dense", &products);
            ck_assert_int_eq(products, 2); /* one for query, key and value, one for the output */
            if (expected == 0)
                expected = sum;
            ck_assert_int_eq(sum, expected);
            ck_assert_int_eq(sum, 2 * 4 * 100 * 400 + 2 * 2 * 4 * 4 * 100);
            th_tape_clear(ctx);
        }
}
END_TEST

START_TEST(heads_in_the_batch_give_the_same_result)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = lengths_layer();
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 4, 100)), *k = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 6, 100)),
              *v = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 6, 100));
    const int32_t lengths[2] = {3, 2}, repeated[10] = {3, 3, 3, 3, 3, 2, 2, 2, 2, 2};
    th_tensor *y = th_attend(
        m, q, k, v,
        &(th_attend_options){.mask = &(th_mask){.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), lengths)}});
    th_tensor *weight = th_module_find_parameter(m, "in_proj_weight");
    th_tensor *const x[3] = {q, k, v};
    th_tensor *folded[3];
    for (int i = 0; i < 3; i++) {
        const int64_t length = th_size(x[i], 1);
        th_tensor *p = th_dense(x[i], th_slice(weight, 0, 100 * i, 100 * (i + 1), 1), NULL);
        folded[i] = th_reshape(th_transpose(th_reshape(p, TH_SHAPE(2, length, 5, 20)), TH_AXES(0, 2, 1, 3)),
                               TH_SHAPE(10, length, 20));
    }
    const th_mask mask = {.valid_lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(10), repeated)};
    th_tensor *o =
        th_scaled_dot_product_attention(folded[0], folded[1], folded[2], &(th_attention_options){.mask = &mask});
    o = th_reshape(th_transpose(th_reshape(o, TH_SHAPE(2, 5, 4, 20)), TH_AXES(0, 2, 1, 3)), TH_SHAPE(2, 4, 100));
    o = th_dense(o, th_module_find_parameter(m, "out_proj.weight"), NULL);
    ck_assert_double_le(largest_difference(y, o), 1e-6);
}
END_TEST

/* Splitting and merging heads makes no copy, forward and backward. (The last product of the composition is (B, H, T, D)
 * in memory, so merging needs one copy.) */
START_TEST(heads_are_views)
{
    for (int fusion = 0; fusion < 2; fusion++) {
        th_set_fusion(ctx, fusion);
        th_module *m = th_multi_head_attention_new(ctx, 64, 4, NULL);
        th_tensor *x = leaf(TH_SHAPE(2, 5, 64)), *memory = leaf(TH_SHAPE(2, 7, 64));
        int copies, products;
        ck_assert_ptr_nonnull(th_attend(m, x, x, x, NULL));
        multiply_adds("contiguous", &copies);
        ck_assert_int_eq(copies, fusion ? 0 : 1);
        th_tape_clear(ctx);
        ck_assert_ptr_nonnull(th_attend(m, x, memory, memory, NULL));
        multiply_adds("contiguous", &copies);
        multiply_adds("dense", &products);
        ck_assert_int_eq(copies, fusion ? 0 : 1);
        ck_assert_int_eq(products, 3); /* query; key and value; output */
        th_tape_clear(ctx);
    }
}
END_TEST

/* -- narrow projections, cross attention, additive masks -- */

START_TEST(narrow_projections)
{
    const int64_t value_width = _i == 0 ? 64 : 48;
    th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(64, 5, 64));
    th_multi_head_attention_options o = {.query_input = 64,
                                         .key_input = 64,
                                         .value_input = 64,
                                         .key_width = 64,
                                         .value_width = value_width,
                                         .output_width = 512};
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, &o);
    assert_shape(th_module_find_parameter(m, "q_proj_weight"), TH_SHAPE(64, 64));
    assert_shape(th_module_find_parameter(m, "v_proj_weight"), TH_SHAPE(value_width, 64));
    assert_shape(th_module_find_parameter(m, "in_proj_bias"), TH_SHAPE(128 + value_width));
    assert_shape(th_module_find_parameter(m, "out_proj.weight"), TH_SHAPE(512, value_width));
    th_tensor *padding = th_full(ctx, TH_BOOL, TH_SHAPE(64, 1, 1, 5), 1);
    for (int64_t b = 0; b < 64; b++)
        for (int64_t s = 1 + b % 5; s < 5; s++)
            ck_assert_int_eq(th_set(padding, TH_INDEX(b, 0, 0, s), 0), TH_OK);
    const th_mask masks[3] = {{0}, {.causal = TH_CAUSAL_TOP_LEFT}, {.keep = padding}};
    o.scale = 0.125; /* 1 / sqrt(64), from the key width of all heads */
    th_module *scaled = th_multi_head_attention_new(ctx, 512, 8, &o);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        ck_assert_int_eq(th_copy_into(th_module_find_parameter(scaled, p.name), p.tensor), TH_OK);
    /* Larger queries and a smaller scale give the same scores. */
    th_tensor *wq = th_module_find_parameter(scaled, "q_proj_weight");
    ck_assert_int_eq(th_copy_into(wq, th_scale(wq, sqrt(8))), TH_OK);
    for (int i = 0; i < 3; i++) {
        th_tensor *y = th_attend(m, x, x, x, &(th_attend_options){.mask = &masks[i]});
        assert_shape(y, TH_SHAPE(64, 5, 512));
        ck_assert_double_le(largest_difference(y, th_attend(scaled, x, x, x, &(th_attend_options){.mask = &masks[i]})),
                            1e-5);
    }
}
END_TEST

START_TEST(cross_attention)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, NULL);
    draw_biases(m);
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 62, 512)),
              *kv = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 60, 512)), *weights = NULL;
    th_tensor *y = th_attend(m, q, kv, kv, &(th_attend_options){.weights = &weights});
    assert_shape(y, TH_SHAPE(1, 62, 512));
    assert_shape(weights, TH_SHAPE(1, 8, 62, 60));
    th_tensor *sums = th_sum(weights, TH_AXES(-1), NULL);
    ck_assert_double_le(largest_difference(sums, th_ones(ctx, TH_FLOAT32, TH_SHAPE(1, 8, 62))), 1e-5);
}
END_TEST

/* Positions rotate the queries of cross attention only: queries at 5, 6 and 7 give the rows 5, 6 and 7 of a longer
 * query. Keys from a cache too. */
START_TEST(positions_of_cross_attention)
{
    th_module *m =
        th_multi_head_attention_new(ctx, 12, 2, &(th_multi_head_attention_options){.scores = {.rotary = true}});
    th_tensor *query = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 8, 12)), *last = th_slice(query, 1, 5, 8, 1);
    th_tensor *memory = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 12)), *from = th_arange(ctx, TH_INT64, 5, 8, 1);
    th_no_grad_begin(ctx);
    th_cache *cache = th_cache_new(m, 2, 8);
    th_tensor *whole = th_slice(th_attend(m, query, memory, memory, NULL), 1, 5, 8, 1);
    ck_assert_double_gt(largest_difference(whole, th_attend(m, last, memory, memory, NULL)), 1e-3);
    for (int i = 0; i < 3; i++) {
        const th_attend_options given = {.positions = from, .cache = i == 0 ? NULL : cache};
        ck_assert_double_le(largest_difference(whole, th_attend(m, last, memory, memory, &given)), 1e-5);
    }
    th_no_grad_end(ctx);
}
END_TEST

START_TEST(an_additive_mask_of_large_numbers_hides)
{
    th_set_fusion(ctx, _i == 0);
    th_module *m = th_multi_head_attention_new(ctx, 512, 8, NULL);
    th_tensor *q = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 62, 512)),
              *kv = th_randn(ctx, TH_FLOAT32, TH_SHAPE(1, 60, 512));
    th_tensor *hidden = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1, 8, 62, 60)),
              *keep = th_zeros(ctx, TH_BOOL, TH_SHAPE(1, 8, 62, 60));
    float *number = th_data(hidden);
    bool *visible = th_data(keep);
    for (int64_t i = 0; i < 8 * 62 * 60; i++) {
        visible[i] = i % 60 == i / 60 % 60 || (i * 2654435761u >> 7) % 3 == 0; /* at least one in every row */
        number[i] = visible[i] ? 0 : 1;
    }
    th_tensor *by_number =
        th_attend(m, q, kv, kv, &(th_attend_options){.mask = &(th_mask){.additive = th_scale(hidden, -1e9)}});
    th_tensor *by_keep = th_attend(m, q, kv, kv, &(th_attend_options){.mask = &(th_mask){.keep = keep}});
    ck_assert_double_le(largest_difference(by_number, by_keep), 1e-6);
}
END_TEST

/* -- parameters, shapes and errors -- */

START_TEST(parameters_and_their_initialization)
{
    th_module *m = th_multi_head_attention_new(ctx, 64, 4, NULL);
    th_tensor *in = th_module_find_parameter(m, "in_proj_weight");
    assert_shape(in, TH_SHAPE(192, 64));
    assert_shape(th_module_find_parameter(m, "in_proj_bias"), TH_SHAPE(192));
    assert_shape(th_module_find_parameter(m, "out_proj.weight"), TH_SHAPE(64, 64));
    assert_shape(th_module_find_parameter(m, "out_proj.bias"), TH_SHAPE(64));
    ck_assert_int_eq(th_module_count(m), 4 * 64 * 64 + 4 * 64);
    /* Xavier uniform of the packed matrix: +-sqrt(6 / (64 + 192)); out: +-1 / sqrt(64); biases 0. */
    ck_assert_double_eq_tol(th_item(th_max(th_abs(in), TH_ALL_AXES, NULL)), sqrt(6.0 / 256), 1e-3);
    ck_assert_double_eq_tol(th_item(th_max(th_abs(th_module_find_parameter(m, "out_proj.weight")), TH_ALL_AXES, NULL)),
                            0.125, 1e-3);
    ck_assert(th_item(th_max(th_abs(th_module_find_parameter(m, "in_proj_bias")), TH_ALL_AXES, NULL)) == 0);
    ck_assert(th_item(th_max(th_abs(th_module_find_parameter(m, "out_proj.bias")), TH_ALL_AXES, NULL)) == 0);
    th_module *grouped = th_multi_head_attention_new(ctx, 64, 4, &(th_multi_head_attention_options){.kv_heads = 2});
    ck_assert_ptr_null(th_module_find_parameter(grouped, "in_proj_weight"));
    assert_shape(th_module_find_parameter(grouped, "k_proj_weight"), TH_SHAPE(32, 64));
    ck_assert_double_eq_tol(
        th_item(th_max(th_abs(th_module_find_parameter(grouped, "k_proj_weight")), TH_ALL_AXES, NULL)), sqrt(6.0 / 96),
        2e-3);
    assert_shape(th_module_find_parameter(grouped, "in_proj_bias"), TH_SHAPE(128));
}
END_TEST

START_TEST(any_leading_dimensions)
{
    for (int fusion = 0; fusion < 2; fusion++) {
        th_set_fusion(ctx, fusion);
        th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL);
        th_tensor *x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 3, 5, 12));
        th_tensor *four = th_attend(m, x, x, x, NULL);
        assert_shape(four, TH_SHAPE(2, 3, 5, 12));
        th_tensor *flat = th_reshape(x, TH_SHAPE(6, 5, 12)), *three = th_attend(m, flat, flat, flat, NULL);
        ck_assert_double_le(largest_difference(th_reshape(four, TH_SHAPE(6, 5, 12)), three), 0);
        th_tensor *one = th_select(flat, 0, 4), *two = th_attend(m, one, one, one, NULL);
        assert_shape(two, TH_SHAPE(5, 12));
        /* independent of the rest of the batch, except with OpenBLAS */
        const bool openblas = strstr(th_build_info(ctx), "gemm=openblas") != NULL;
        ck_assert_double_le(largest_difference(two, th_select(three, 0, 4)), openblas ? 1e-6 : 0);
        th_tensor *none = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(0, 5, 12));
        assert_shape(th_attend(m, none, none, none, NULL), TH_SHAPE(0, 5, 12));
    }
}
END_TEST

START_TEST(axes_have_letters)
{
    th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL);
    th_tensor *x = th_set_axes(th_randn(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 12)), "BTE"), *weights = NULL;
    th_tensor *y = th_attend(m, x, x, x, &(th_attend_options){.weights = &weights});
    ck_assert_str_eq(th_axes_of(y), "BTE");
    ck_assert_str_eq(th_axes_of(weights), "BHTS");
}
END_TEST

START_TEST(errors)
{
    th_module *m = th_multi_head_attention_new(ctx, 12, 3, NULL), *dense = th_dense_new(ctx, 12, 12, NULL);
    th_tensor *x = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 12)),
              *narrow = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(2, 5, 11));
    ck_assert_ptr_null(th_attend(m, narrow, x, x, NULL));
    expect_error(TH_ERROR_SHAPE, "the query is (2, 5, 11), but the layer takes (..., length, 12)");
    ck_assert_ptr_null(th_attend(m, x, x, narrow, NULL));
    expect_error(TH_ERROR_SHAPE, "the value is");
    ck_assert_ptr_null(th_attend(m, x, th_zeros(ctx, TH_FLOAT32, TH_SHAPE(12)), x, NULL));
    expect_error(TH_ERROR_SHAPE, "the key is (12)");
    ck_assert_ptr_null(th_attend(m, x, NULL, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "key is NULL");
    ck_assert_ptr_null(th_attend(NULL, x, x, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "the module is NULL");
    ck_assert_ptr_null(th_attend(dense, x, x, x, NULL));
    expect_error(TH_ERROR_ARGUMENT, "dense is not a multi_head_attention");
    ck_assert_ptr_null(th_module_forward(m, x));
    expect_error(TH_ERROR_ARGUMENT, "call th_attend");
    ck_assert_ptr_null(th_attend(m, x, th_slice(x, 1, 0, 4, 1), x, NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_SHAPE); /* four keys, five values */
    th_error_clear(ctx);
    ck_assert_ptr_null(th_attend(m, th_zeros(ctx, TH_FLOAT64, TH_SHAPE(2, 5, 12)), x, x, NULL));
    ck_assert_int_eq(th_error_code(ctx), TH_ERROR_TYPE);
    th_error_clear(ctx);
    static const struct {
        int64_t width, heads;
        th_multi_head_attention_options options;
        th_status code;
        const char *words;
    } bad[] = {
        {12, 5, {.dropout = 0}, TH_ERROR_SHAPE, "5 heads must divide the key width 12"},
        {12, 3, {.value_width = 10}, TH_ERROR_SHAPE, "value width 10"},
        {12, 3, {.kv_heads = 2}, TH_ERROR_SHAPE, "kv_heads = 2 must divide the 3 heads"},
        {12, 3, {.kv_heads = 6}, TH_ERROR_SHAPE, "kv_heads = 6"},
        {12, 3, {.dropout = 1}, TH_ERROR_ARGUMENT, "dropout must be in [0, 1)"},
        {12, 3, {.dropout = -0.5}, TH_ERROR_ARGUMENT, "dropout"},
        {0, 3, {.dropout = 0}, TH_ERROR_ARGUMENT, "must be positive"},
        {12, 0, {.dropout = 0}, TH_ERROR_ARGUMENT, "must be positive"},
        {12, 3, {.output_width = -4}, TH_ERROR_ARGUMENT, "no size negative"},
        {INT64_MAX, 1, {.dropout = 0}, TH_ERROR_ARGUMENT, "too large"},
        {9, 3, {.scores = {.rotary = true}}, TH_ERROR_SHAPE, "3 must be even and at most the 3 elements of a head"},
        {12, 3, {.scores = {.rotary = true, .rotary_width = 6}}, TH_ERROR_SHAPE, "6 must be even and at most the 4"},
        {12, 3, {.scores = {.rotary = true, .rotary_width = -2}}, TH_ERROR_SHAPE, "-2 must be even"},
        {12, 3, {.scores = {.rotary = true, .rotary_base = -1}}, TH_ERROR_ARGUMENT, "rotary_base = -1"},
        {12, 3, {.scores = {.rotary = true, .rotary_pairing = 2}}, TH_ERROR_ARGUMENT, "rotary_pairing is 2"},
        {12,
         3,
         {.scores = {.rotary = true, .rotary_scaling = {.kind = TH_ROTARY_LINEAR}}},
         TH_ERROR_ARGUMENT,
         "rotary_scaling: factor = 0"},
        {12, 3, {.scores = {.soft_cap = -1}}, TH_ERROR_ARGUMENT, "soft_cap = -1 must be a positive number"},
        {12, 3, {.scores = {.soft_cap = INFINITY}}, TH_ERROR_ARGUMENT, "soft_cap = inf"},
        {12, 3, {.scores = {.window = -1}}, TH_ERROR_ARGUMENT, "window = -1"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = NAN}}, TH_ERROR_ARGUMENT, "qk_norm_eps is nan"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = INFINITY}}, TH_ERROR_ARGUMENT, "qk_norm_eps is inf"},
        {12, 3, {.scores = {.qk_norm = true, .qk_norm_eps = -1}}, TH_ERROR_ARGUMENT, "qk_norm_eps is -1"},
        {12, 3, {.scores = {.rotary = true, .rotary_base = INFINITY}}, TH_ERROR_ARGUMENT, "rotary_base = inf"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_ptr_null(th_multi_head_attention_new(ctx, bad[i].width, bad[i].heads, &bad[i].options));
        ck_assert_ptr_eq(strstr(th_error_message(ctx), "multi_head_attention: "), th_error_message(ctx));
        expect_error(bad[i].code, bad[i].words);
    }
    th_module *windowed = th_multi_head_attention_new(
        ctx, 12, 3, &(th_multi_head_attention_options){.scores = {.rotary = true, .window = 2}});
    const th_mask causal = {.causal = TH_CAUSAL_TOP_LEFT};
    th_tensor *positions = th_zeros(ctx, TH_INT64, TH_SHAPE(3));
    ck_assert_ptr_null(th_attend(windowed, x, x, x, &(th_attend_options){.mask = &causal, .positions = positions}));
    expect_error(TH_ERROR_SHAPE, "positions is (3)");
    assert_shape(th_attend(m, x, x, x, NULL), TH_SHAPE(2, 5, 12)); /* the layer still works */
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("multi_head_attention", setup, close_context);
    tcase_add_test(tests, heads_split_and_merge);
    tcase_add_test(tests, the_number_of_heads_does_not_change_multiply_adds);
    tcase_add_loop_test(tests, heads_in_the_batch_give_the_same_result, 0, 2);
    tcase_add_test(tests, heads_are_views);
    tcase_add_loop_test(tests, narrow_projections, 0, 2);
    tcase_add_loop_test(tests, cross_attention, 0, 2);
    tcase_add_test(tests, positions_of_cross_attention);
    tcase_add_loop_test(tests, an_additive_mask_of_large_numbers_hides, 0, 2);
    tcase_add_test(tests, parameters_and_their_initialization);
    tcase_add_test(tests, any_leading_dimensions);
    tcase_add_test(tests, axes_have_letters);
    tcase_add_test(tests, errors);
    return run_suites();
}
