/* Where a cache stores keys and values, and which positions, types and contexts it rejects. B sequences, T tokens, H
 * heads, D elements of a head. */
#include <string.h>

#include "nn/cache.h"
#include "tapehead/tapehead.h"

#include "context.h"

enum { B = 3, T = 4, H = 2, D = 3, WIDTH = H * D, CAPACITY = 7 };

static th_module *layer;
static th_cache *cache;
static th_tensor *x;

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    layer = th_multi_head_attention_new(ctx, WIDTH, H, NULL);
    cache = th_cache_new(layer, B, CAPACITY);
    x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, T, WIDTH));
    no_error();
    th_no_grad_begin(ctx);
    th_tape_clear(ctx); /* a step that fails later does not switch recording on */
}

static void teardown(void)
{
    th_no_grad_end(ctx);
    close_context();
}

static th_tensor *attend(th_tensor *positions)
{
    return th_attend(layer, x, x, x, &(th_attend_options){.positions = positions, .cache = cache});
}

/* -- stored keys and values -- */

/* Keys and values with any strides get to their positions, and nothing else changes. */
START_TEST(keys_of_any_strides_are_stored)
{
    static const int64_t positions[B * T] = {0, 1, 2, 3, 6, 4, 5, 0, 2, 3, 1, 6};
    static const int axes[][4] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {3, 2, 1, 0}, {2, 0, 1, 3}, {1, 3, 0, 2}};
    static const int64_t size[4] = {B, H, T, D};
    th_cache_impl *impl = th_cache_of(cache, "test");
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        th_tensor *given[2], *stored[2];
        for (int v = 0; v < 2; v++) {
            int64_t memory[4];
            for (int d = 0; d < 4; d++)
                memory[axes[i][d]] = size[d];
            th_tensor *all = th_randn(ctx, TH_FLOAT32, TH_SHAPE(memory[0], memory[1], memory[2], memory[3]));
            given[v] = stored[v] = th_transpose(all, TH_AXES(axes[i][0], axes[i][1], axes[i][2], axes[i][3]));
            assert_shape(given[v], TH_SHAPE(B, H, T, D));
        }
        for (int l = 0; i > 0 && l < 2; l++)
            ck_assert_int_eq(th_fill(th_handle_of(l ? impl->layer[0].values : impl->layer[0].keys), 0), TH_OK);
        th_tensor *at = th_from_data(ctx, TH_INT64, TH_SHAPE(B, T), positions);
        ck_assert_int_eq(th_cache_store(impl, layer, at, &stored[0], &stored[1]), TH_OK);
        for (int v = 0; v < 2; v++) {
            double expected[B][H][CAPACITY][D] = {0};
            assert_shape(stored[v], TH_SHAPE(B, H, CAPACITY, D));
            for (int n = 0; n < B * H * T * D; n++) {
                const int b = n / (H * T * D), h = n / (T * D) % H, t = n / D % T, d = n % D;
                expected[b][h][positions[b * T + t]][d] = th_get(given[v], TH_INDEX(b, h, t, d));
            }
            for (int n = 0; n < B * H * CAPACITY * D; n++) {
                const int b = n / (H * CAPACITY * D), h = n / (CAPACITY * D) % H, t = n / D % CAPACITY, d = n % D;
                ck_assert_msg(th_get(stored[v], TH_INDEX(b, h, t, d)) == expected[b][h][t][d],
                              "strides %zu, sequence %d, head %d, position %d, element %d", i, b, h, t, d);
            }
        }
    }
}
END_TEST

/* -- errors -- */

/* Every position is checked; the error names its token and sequence. */
START_TEST(positions_outside_the_cache_are_errors)
{
    static const int64_t outside[] = {-1, CAPACITY, INT32_MIN, INT32_MAX};
    char words[96];
    for (int64_t i = 0; i < B * T; i++)
        for (int k = 0; k < 4; k++)
            for (int type = 0; type < 2; type++) {
                th_tensor *positions = th_full(ctx, type ? TH_INT64 : TH_INT32, TH_SHAPE(B, T), CAPACITY - 1);
                ck_assert_msg(attend(positions) != NULL, "%s", th_error_message(ctx)); /* the last one is inside */
                ck_assert_int_eq(th_set(positions, TH_INDEX(i / T, i % T), (double)outside[k]), TH_OK);
                snprintf(words, sizeof words,
                         "token %d of sequence %d has position %lld, but the cache has 7 positions", (int)(i % T),
                         (int)(i / T), (long long)outside[k]);
                assert_error(attend(positions), TH_ERROR_INDEX, words);
                th_tape_clear(ctx);
            }
    th_tensor *alike = th_zeros(ctx, TH_INT32, TH_SHAPE(T));
    ck_assert_int_eq(th_set(alike, TH_INDEX(T - 1), CAPACITY), TH_OK);
    assert_error(attend(alike), TH_ERROR_INDEX, "token 3 of sequence 0 has position 7");
}
END_TEST

START_TEST(positions_of_another_shape_or_type_are_errors)
{
    const th_shape wrong[] = {TH_SCALAR,          TH_SHAPE(T - 1),    TH_SHAPE(T + 1),    TH_SHAPE(1),
                              TH_SHAPE(B, T - 1), TH_SHAPE(B, T + 1), TH_SHAPE(B - 1, T), TH_SHAPE(B + 1, T),
                              TH_SHAPE(1, T),     TH_SHAPE(B, 1),     TH_SHAPE(T, B),     TH_SHAPE(1, B, T)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_error(attend(th_zeros(ctx, TH_INT64, wrong[i])), TH_ERROR_SHAPE,
                     "positions must be (T) or (B, T), that is (4) or (3, 4); they are");
    assert_error(attend(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(B, T))), TH_ERROR_TYPE,
                 "positions must be int32 or int64; they are float32");
    assert_error(attend(th_zeros(ctx, TH_BOOL, TH_SHAPE(B, T))), TH_ERROR_TYPE, "they are bool");
    ck_assert_ptr_nonnull(attend(th_zeros(ctx, TH_INT64, TH_SHAPE(T))));
    ck_assert_ptr_nonnull(attend(NULL));
}
END_TEST

/* Without positions as many tokens fit as the cache has positions. */
START_TEST(tokens_that_do_not_fit_are_errors)
{
    x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, CAPACITY, WIDTH));
    ck_assert_ptr_nonnull(attend(NULL));
    x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(B, CAPACITY + 1, WIDTH));
    assert_error(attend(NULL), TH_ERROR_INDEX, "8 tokens do not fit a cache of 7 positions");
    for (int64_t batch = B - 1; batch <= B + 1; batch += 2) {
        x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(batch, T, WIDTH));
        assert_error(attend(NULL), TH_ERROR_SHAPE, "the cache holds 3 sequences");
    }
}
END_TEST

START_TEST(a_cache_of_another_context_is_an_error)
{
    th_context *other = th_context_new(NULL);
    th_cache *own = cache;
    cache = th_cache_new(th_multi_head_attention_new(other, WIDTH, H, NULL), B, CAPACITY);
    assert_error(attend(NULL), TH_ERROR_ARGUMENT, "the cache belongs to another context");
    cache = own;
    ck_assert_ptr_nonnull(attend(NULL));
    th_context_free(other);
}
END_TEST

/* After a reset the type may change until something is stored; then a cast is an error again. */
START_TEST(every_cast_needs_a_reset)
{
    ck_assert_ptr_nonnull(attend(NULL));
    for (int i = 0; i < 4; i++) {
        const th_dtype type = i % 2 ? TH_FLOAT32 : TH_FLOAT64;
        ck_assert_int_eq(th_module_cast(layer, type), TH_OK);
        x = th_randn(ctx, type, TH_SHAPE(B, T, WIDTH));
        for (int again = 0; again < 2; again++)
            assert_error(attend(NULL), TH_ERROR_STATE, "call th_cache_reset");
        ck_assert_int_eq(th_cache_reset(cache), TH_OK);
        for (int again = 0; again < 2; again++)
            ck_assert_ptr_nonnull(attend(NULL));
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("cache_positions", setup, teardown);
    tcase_add_test(tests, keys_of_any_strides_are_stored);
    tcase_add_test(tests, positions_outside_the_cache_are_errors);
    tcase_add_test(tests, positions_of_another_shape_or_type_are_errors);
    tcase_add_test(tests, tokens_that_do_not_fit_are_errors);
    tcase_add_test(tests, a_cache_of_another_context_is_an_error);
    tcase_add_test(tests, every_cast_needs_a_reset);
    return run_suites();
}
