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

/* -- freed layers, copies, misuse -- */

/* A freed layer is removed from every cache. The other layers keep their keys. */
START_TEST(a_freed_layer_is_forgotten)
{
    th_module *list = th_module_list_new(ctx), *each[3];
    for (int i = 0; i < 3; i++) {
        each[i] = th_multi_head_attention_new(ctx, WIDTH, H, NULL);
        th_module_list_add(list, each[i]);
    }
    th_cache *const caches[2] = {th_cache_new(list, B, CAPACITY), th_cache_new(list, B, CAPACITY)};
    no_error();
    th_module_free(each[1]);
    for (int i = 0; i < 2; i++) {
        const th_cache_impl *impl = th_cache_of(caches[i], "test");
        ck_assert_ptr_eq(impl->layer[0].module, each[0]);
        ck_assert_ptr_null(impl->layer[1].module);
        ck_assert_ptr_eq(impl->layer[2].module, each[2]);
        const th_attend_options given = {.cache = caches[i]};
        ck_assert_ptr_nonnull(th_attend(each[0], x, x, x, &given));
        ck_assert_ptr_nonnull(th_attend(each[2], x, x, x, &given));
        ck_assert(impl->layer[0].keys && impl->layer[1].keys == NULL && impl->layer[2].keys);
        assert_error(th_attend(layer, x, x, x, &given), TH_ERROR_ARGUMENT, "the cache was made for another model");
    }
}
END_TEST

/* The memory for copies has space for the widest rows of all layers, whether keys or values, and no more. */
START_TEST(copies_have_space_for_the_widest_rows)
{
    static const int64_t widths[][2] = {{4, 32}, {32, 4}, {4, 4}, {8, 16}}; /* of all heads: keys, values */
    const int64_t source[B] = {1, 1, 1}, first[B] = {0, 0, 0}, end[B] = {CAPACITY, CAPACITY, CAPACITY};
    for (int i = 0; i < 4; i++) {
        th_module *list = th_module_list_new(ctx);
        for (int l = 0; l < 2; l++) /* the second layer is narrower */
            th_module_list_add(
                list, th_multi_head_attention_new(ctx, WIDTH, H,
                                                  &(th_multi_head_attention_options){
                                                      .key_width = l ? widths[i][0] * 3 / 8 * 2 : widths[i][0],
                                                      .value_width = l ? widths[i][1] * 3 / 8 * 2 : widths[i][1]}));
        th_cache *wide = th_cache_new(list, B, CAPACITY);
        for (int l = 0; l < 2; l++)
            ck_assert_ptr_nonnull(th_attend(th_module_list_at(list, l), x, x, x, &(th_attend_options){.cache = wide}));
        ck_assert_int_eq(th_cache_copy_sequences(wide, source, first, end), TH_OK);
        const int64_t widest = (widths[i][0] > widths[i][1] ? widths[i][0] : widths[i][1]) / H;
        const th_cache_impl *impl = th_cache_of(wide, "test");
        ck_assert_uint_eq(impl->scratch_bytes, (size_t)(th_threads(ctx) * B * 16 * widest) * sizeof(float));
        const float *values = th_tensor_data(impl->layer[0].values), *keys = th_tensor_data(impl->layer[0].keys);
        const size_t numbers = (size_t)(CAPACITY * widths[i][1]), others = (size_t)(CAPACITY * widths[i][0]);
        for (size_t b = 0; b < B; b++) {
            ck_assert_mem_eq(values + b * numbers, values + numbers, numbers * sizeof *values);
            ck_assert_mem_eq(keys + b * others, keys + others, others * sizeof *keys);
        }
        th_tape_clear(ctx);
    }
}
END_TEST

START_TEST(no_cache_and_no_model)
{
    const int64_t nothing[B] = {0};
    assert_error(th_cache_new(NULL, B, CAPACITY), TH_ERROR_ARGUMENT, "cache_new: the module is NULL");
    assert_error(th_cache_new(layer, B, 0), TH_ERROR_ARGUMENT, "must be positive; they are 3 and 0");
    assert_error(th_cache_new(layer, -1, 5), TH_ERROR_ARGUMENT, "must be positive; they are -1 and 5");
    expect_status(th_cache_reset(NULL), TH_ERROR_ARGUMENT, "cache_reset: the cache is NULL");
    ck_assert_uint_eq(th_cache_bytes(NULL), 0);
    ck_assert_uint_eq(th_cache_bytes(cache), 0); /* nothing is stored */
    th_cache_free(cache);
    ck_assert_uint_eq(th_cache_bytes(cache), 0);
    expect_error(TH_ERROR_STATE, "cache_bytes: the cache has been freed");
    ck_assert_int_eq(th_cache_copy_sequences(cache, nothing, nothing, nothing), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "the cache has been freed");
    assert_error(attend(NULL), TH_ERROR_STATE, "the cache has been freed");
    /* positions of a tensor that ended, and keys of too few dimensions */
    cache = th_cache_new(layer, B, CAPACITY);
    th_tensor *ended = th_zeros(ctx, TH_INT64, TH_SHAPE(T));
    th_tensor_free(ended);
    assert_error(attend(ended), TH_ERROR_STATE, "positions");
    x = th_randn(ctx, TH_FLOAT32, TH_SHAPE(T, WIDTH));
    /* with an error pending, a reset changes nothing */
    ck_assert_ptr_null(attend(NULL));
    ck_assert_int_eq(th_cache_reset(cache), TH_ERROR_SHAPE);
    expect_error(TH_ERROR_SHAPE, "multi_head_attention: the cache holds 3 sequences: x must be (3, T, E)");
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
    tcase_add_test(tests, a_freed_layer_is_forgotten);
    tcase_add_test(tests, copies_have_space_for_the_widest_rows);
    tcase_add_test(tests, no_cache_and_no_model);
    tcase_add_test(tests, every_cast_needs_a_reset);
    return run_suites();
}
