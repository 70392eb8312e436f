/* masked_matmul against plain loops, and masked elements, on which no bit may depend. */
#include "bits.h"
#include "plain_products.h"

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

int main(void)
{
    TCase *tests = new_suite("masked products", setup, close_context);
    tcase_add_loop_test(tests, test_masked_matmul, 0, (int)(sizeof masked_cases / sizeof *masked_cases));
    tcase_add_loop_test(tests, test_masked_matmul_hides, 0, 2);
    tcase_add_test(tests, test_masked_matmul_without_hidden_pairs);
    tcase_add_loop_test(tests, test_masked_matmul_without_keep, 0, 24);
    tcase_add_test(tests, test_masked_matmul_shapes);
    return run_suites();
}
