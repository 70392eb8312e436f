/* Tests the cache of keys and values: a model that gets its tokens in pieces gives the same bits as for the whole
 * sequence. B sequences, T tokens, V vocabulary. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "nn/cache.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
    th_set_training(ctx, false);
}

enum { B = 3, T = 9, V = 13, CAPACITY = 40 };

static const th_language_model_options models[] = {
    {.vocabulary = V, .length = 12, .width = 24, .heads = 3, .layers = 2, .dropout = 0.5},
    {.vocabulary = V,
     .length = 12,
     .width = 24,
     .heads = 4,
     .layers = 2,
     .positions = TH_POSITIONS_SINUSOIDAL,
     .block = {.post_norm = true, .kv_heads = 2, .activation = TH_RELU}},
    {.vocabulary = V,
     .length = 12,
     .width = 24,
     .heads = 4,
     .layers = 2,
     .positions = TH_POSITIONS_NONE,
     .untied = true,
     .block = {.norm = TH_RMS_NORM,
               .gated = true,
               .activation = TH_SILU,
               .no_bias = true,
               .kv_heads = 2,
               .scores = {.rotary = true, .qk_norm = true, .window = 4}}},
    {.vocabulary = V,
     .length = 12,
     .width = 24,
     .heads = 3,
     .layers = 2,
     .positions = TH_POSITIONS_NONE,
     .block = {.recompute = true, .scores = {.alibi = true, .soft_cap = 3}}},
};
enum { MODELS = sizeof models / sizeof *models, PRECISIONS = TH_PRECISION_BFLOAT16 + 1 };

static th_tensor *tokens_new(int64_t rows, int64_t length)
{
    int32_t token[B * T];
    for (int i = 0; i < rows * length; i++)
        token[i] = (i * 7 + i / 4) % V;
    return th_from_data(ctx, TH_INT32, TH_SHAPE(rows, length), token);
}

/* The bits of OpenBLAS depend on the shape of a product; those of native products do not. */
static bool same_logits(const float *a, const float *b)
{
    if (strstr(th_build_info(ctx), "gemm=native"))
        return memcmp(a, b, V * sizeof *a) == 0;
    for (int i = 0; i < V; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5F))
            return false;
    return true;
}

static void copy_out(th_tensor *t, float *to, int64_t count)
{
    no_error();
    ck_assert_int_eq(th_numel(t), count);
    ck_assert_int_eq(th_copy_out(t, to, (size_t)count * sizeof *to), TH_OK);
}

/* Computes the logits of tokens [first, first + count) of every row of all. */
static void run_piece(th_module *model, th_cache *cache, const int32_t *all, int64_t rows, int64_t first, int64_t count,
                      th_dtype type, float *logits)
{
    int32_t token[B * T];
    int64_t position[B * T];
    for (int64_t b = 0; b < rows; b++)
        for (int64_t t = 0; t < count; t++) {
            token[b * count + t] = all[b * T + first + t];
            position[b * count + t] = first + t;
        }
    th_tensor *piece = th_from_data(ctx, TH_INT32, TH_SHAPE(rows, count), token);
    th_tensor *positions = th_cast(th_from_data(ctx, TH_INT64, TH_SHAPE(rows, count), position), type);
    th_language_model_logits_options options = {.cache = cache, .positions = first == 0 ? NULL : positions};
    copy_out(th_language_model_logits(model, piece, &options), logits, rows * count * V);
    th_tape_clear(ctx);
}

START_TEST(pieces_have_the_same_bits_as_the_whole_sequence)
{
    static const int64_t cuts[][T + 1] = {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {4, 1, 1, 1, 1, 1}, {5, 4}, {2, 3, 1, 3}, {9}};
    th_set_fusion(ctx, _i % 2 == 0);
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)(_i / (2 * MODELS))), TH_OK);
    th_module *model = th_language_model_new(ctx, &models[_i / 2 % MODELS]);
    th_tensor *tokens = tokens_new(B, T);
    static float whole[B * T * V], piece[B * T * V];
    th_no_grad_begin(ctx);
    copy_out(th_module_forward(model, tokens), whole, B * T * V);
    th_cache *cache = th_cache_new(model, B, CAPACITY);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        int64_t first = 0;
        for (int i = 0; cuts[c][i]; i++) {
            const int64_t count = cuts[c][i];
            run_piece(model, cache, th_data_const(tokens), B, first, count, c % 2 ? TH_INT32 : TH_INT64, piece);
            for (int64_t b = 0; b < B; b++)
                for (int64_t t = 0; t < count; t++)
                    ck_assert_msg(same_logits(&whole[(b * T + first + t) * V], &piece[(b * count + t) * V]),
                                  "way %zu, sequence %d, token %d", c, (int)b, (int)(first + t));
            first += count;
        }
        ck_assert_int_eq(first, T);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* Each sequence of a batch continues from its own length, and overwrites later positions. */
START_TEST(each_sequence_continues_from_its_end)
{
    static const int64_t lengths[B] = {5, 2, 7};
    th_module *model = th_language_model_new(ctx, &models[_i]);
    th_tensor *tokens = tokens_new(B, T);
    static float whole[B * T * V], piece[B * T * V];
    th_no_grad_begin(ctx);
    copy_out(th_module_forward(model, tokens), whole, B * T * V);
    th_cache *cache = th_cache_new(model, B, CAPACITY);
    run_piece(model, cache, th_data_const(tokens), B, 0, 7, TH_INT32, piece);
    for (int64_t repeat = 0; repeat < 2; repeat++) {
        int32_t token[B];
        int64_t position[B];
        for (int b = 0; b < B; b++) {
            position[b] = lengths[b] + repeat;
            token[b] = ((const int32_t *)th_data_const(tokens))[b * T + position[b]];
        }
        th_language_model_logits_options options = {.cache = cache,
                                                    .positions = th_from_data(ctx, TH_INT64, TH_SHAPE(B, 1), position),
                                                    .rows = th_zeros(ctx, TH_INT32, TH_SHAPE(B))};
        th_tensor *next = th_from_data(ctx, TH_INT32, TH_SHAPE(B, 1), token);
        th_tensor *logits = th_language_model_logits(model, next, &options);
        assert_shape(logits, TH_SHAPE(B, V));
        copy_out(logits, piece, B * V);
        for (int b = 0; b < B; b++)
            ck_assert(same_logits(&whole[(b * T + position[b]) * V], &piece[b * V]));
        th_tape_clear(ctx);
    }
    th_no_grad_end(ctx);
}
END_TEST

/* -- sequences that follow others -- */

/* Returns the numbers of a cached tensor (B, H, S, D) as the sequences that follow others should have them. */
static float *followed(const th_tensor_impl *t, const int64_t *source, const int64_t *first, const int64_t *end)
{
    const float *data = th_tensor_data(t);
    float *expected = malloc((size_t)th_tensor_numel(t) * sizeof *expected);
    for (int64_t i = 0; i < th_tensor_numel(t); i++) {
        const int64_t each = t->size[1] * t->size[2] * t->size[3], b = i / each, at = i / t->size[3] % t->size[2];
        expected[i] = data[at >= first[b] && at < end[b] ? source[b] * each + i % each : i];
    }
    return expected;
}

/* Ranges within a chunk of 16 positions, of several chunks, and empty ones; sequences that swap, and that several
 * follow. _i: the model. */
START_TEST(sequences_follow_others)
{
    static const int64_t ranges[][2] = {{0, 1},   {0, 15},        {0, 16}, {0, 17}, {0, 31}, {0, 32},
                                        {0, 33},  {0, CAPACITY},  {3, 18}, {3, 19}, {3, 20}, {5, 38},
                                        {16, 32}, {39, CAPACITY}, {7, 7},  {9, 2}};
    static const int64_t sources[][B] = {{1, 0, 2}, {2, 0, 1}, {0, 0, 0}, {0, 1, 2}, {1, 1, 1}, {2, 1, 1}};
    enum { RANGES = sizeof ranges / sizeof *ranges, SOURCES = sizeof sources / sizeof *sources };
    th_module *model = th_language_model_new(ctx, &models[_i]);
    th_no_grad_begin(ctx);
    th_cache *handle = th_cache_new(model, B, CAPACITY);
    const int64_t nothing[B] = {0};
    ck_assert_int_eq(th_cache_copy_sequences(handle, sources[0], nothing, nothing), TH_OK); /* the cache is empty */
    th_language_model_logits(model, tokens_new(B, T), &(th_language_model_logits_options){.cache = handle});
    th_tape_clear(ctx);
    th_cache_impl *cache = th_cache_of(handle, "test");
    for (int turn = 0; turn < SOURCES * RANGES; turn++) {
        int64_t first[B], end[B];
        const int64_t *source = sources[turn % SOURCES];
        float *expected[2][2];
        for (int64_t b = 0; b < B; b++) {
            first[b] = ranges[(turn / SOURCES + b * (turn % 5)) % RANGES][0];
            end[b] = ranges[(turn / SOURCES + b * (turn % 5)) % RANGES][1];
        }
        ck_assert_int_eq(th_set_threads(ctx, 1 + (_i + turn) % 4), TH_OK); /* the memory for copies grows */
        for (int l = 0; l < 2; l++)
            for (int v = 0; v < 2; v++) {
                th_tensor_impl *t = v ? cache->layer[l].values : cache->layer[l].keys;
                ck_assert_int_eq(th_fill_uniform(th_handle_of(t), -1, 1), TH_OK);
                expected[l][v] = followed(t, source, first, end);
            }
        ck_assert_int_eq(th_cache_copy_sequences(handle, source, first, end), TH_OK);
        for (int l = 0; l < 2; l++)
            for (int v = 0; v < 2; v++) {
                const th_tensor_impl *t = v ? cache->layer[l].values : cache->layer[l].keys;
                ck_assert_msg(memcmp(th_tensor_data(t), expected[l][v], (size_t)th_tensor_numel(t) * sizeof(float)) ==
                                  0,
                              "turn %d, layer %d, %s", turn, l, v ? "values" : "keys");
                free(expected[l][v]);
            }
    }
    th_no_grad_end(ctx);
}
END_TEST

START_TEST(memory_is_projected_once)
{
    th_module *model = th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = 7,
                                                                         .target_vocabulary = V,
                                                                         .length = 12,
                                                                         .width = 24,
                                                                         .heads = 3,
                                                                         .encoder_layers = 1,
                                                                         .decoder_layers = 2});
    const int32_t source[2 * 4] = {1, 2, 3, 4, 5, 6, 0, 0}, len[2] = {4, 2};
    th_no_grad_begin(ctx);
    th_cache *cache = th_cache_new(model, 2, CAPACITY);
    for (int repeat = 0; repeat < 2; repeat++) { /* another source after a reset */
        th_tensor *lengths = th_from_data(ctx, TH_INT32, TH_SHAPE(2), len);
        th_tensor *memory =
            th_keep(th_transformer_encode(model, th_from_data(ctx, TH_INT32, TH_SHAPE(2, 4 - repeat), source), NULL));
        th_tensor *target = tokens_new(2, 3), *other = th_zeros(ctx, TH_FLOAT32, th_shape_of(memory));
        float whole[2 * 3 * V], piece[2 * V];
        if (repeat)
            lengths = NULL;
        copy_out(
            th_transformer_decode(model, target, memory, &(th_transformer_decode_options){.memory_lengths = lengths}),
            whole, 2 * 3 * V);
        for (int64_t t = 0; t < 3; t++) {
            const th_transformer_decode_options options = {
                .memory_lengths = lengths, .cache = cache, .positions = th_full(ctx, TH_INT32, TH_SHAPE(1), (double)t)};
            th_tensor *token = th_contiguous(th_slice(target, 1, t, t + 1, 1));
            copy_out(th_transformer_decode(model, token, t == 0 ? memory : other, &options), piece, 2 * V);
            for (int b = 0; b < 2; b++)
                ck_assert(same_logits(&whole[(b * 3 + t) * V], &piece[b * V]));
        }
        ck_assert_uint_eq(th_cache_bytes(cache), 2 * 2 * 2 * 24 * (CAPACITY + 4 - (size_t)repeat) * sizeof(float));
        ck_assert_int_eq(th_cache_reset(cache), TH_OK);
        th_tape_clear(ctx);
    }
    th_cache_free(cache);
    th_no_grad_end(ctx);
}
END_TEST

/* Copies between sequences concern self-attention. The keys and values of the memory stay where they are. */
START_TEST(memory_does_not_follow)
{
    enum { SOURCE = 5 };
    static const int64_t source[2] = {1, 0}, first[2] = {0, 1}, end[2] = {SOURCE, SOURCE - 1};
    th_module *model = th_transformer_new(ctx, &(th_transformer_options){.source_vocabulary = V,
                                                                         .target_vocabulary = V,
                                                                         .length = 12,
                                                                         .width = 24,
                                                                         .heads = 3,
                                                                         .encoder_layers = 1,
                                                                         .decoder_layers = 1});
    th_no_grad_begin(ctx);
    th_cache *handle = th_cache_new(model, 2, CAPACITY);
    th_tensor *memory = th_transformer_encode(model, tokens_new(2, SOURCE), NULL);
    no_error();
    ck_assert_ptr_nonnull(
        th_transformer_decode(model, tokens_new(2, SOURCE), memory, &(th_transformer_decode_options){.cache = handle}));
    const th_cache_impl *cache = th_cache_of(handle, "test");
    th_tensor_impl *stored[2] = {NULL};
    for (int64_t l = 0; l < cache->layers; l++)
        if (cache->layer[l].holds_memory)
            stored[0] = cache->layer[l].keys, stored[1] = cache->layer[l].values;
    for (int v = 0; v < 2; v++) {
        float before[2 * SOURCE * 24];
        copy_out(th_handle_of(stored[v]), before, 2 * SOURCE * 24);
        ck_assert_mem_ne(before, before + SOURCE * 24, SOURCE * 24 * sizeof *before); /* the sequences differ */
        ck_assert_int_eq(th_cache_copy_sequences(handle, source, first, end), TH_OK);
        ck_assert_mem_eq(th_tensor_data(stored[v]), before, sizeof before);
    }
    th_no_grad_end(ctx);
}
END_TEST

START_TEST(misuse_of_a_cache_is_an_error)
{
    th_module *model = th_language_model_new(ctx, &models[0]), *other = th_language_model_new(ctx, &models[0]);
    assert_error(th_cache_new(model, 0, 3), TH_ERROR_ARGUMENT, "batch and capacity must be positive");
    assert_error(th_cache_new(th_dense_new(ctx, 2, 2, NULL), 1, 3), TH_ERROR_ARGUMENT, "has no attention");
    th_cache *cache = th_cache_new(model, 2, 4);
    th_language_model_logits_options options = {.cache = cache};
    assert_error(th_language_model_logits(model, tokens_new(2, 3), &options), TH_ERROR_STATE, "while recording");
    th_tape_clear(ctx);
    th_no_grad_begin(ctx);
    assert_error(th_language_model_logits(model, tokens_new(3, 3), &options), TH_ERROR_SHAPE, "holds 2 sequences");
    assert_error(th_language_model_logits(model, tokens_new(2, 4 + 1), &options), TH_ERROR_INDEX,
                 "5 tokens do not fit a cache of 4 positions");
    assert_error(th_language_model_logits(other, tokens_new(2, 3), &options), TH_ERROR_ARGUMENT, "another model");
    options.positions = th_full(ctx, TH_INT64, TH_SHAPE(2, 1), 4);
    assert_error(th_language_model_logits(model, tokens_new(2, 1), &options), TH_ERROR_INDEX,
                 "has position 4, but the cache has 4");
    options.positions = NULL;
    options.rows = th_zeros(ctx, TH_INT64, TH_SHAPE(3));
    assert_error(th_language_model_logits(model, tokens_new(2, 1), &options), TH_ERROR_SHAPE, "rows must be");
    options.rows = NULL;
    th_cache_free(cache);
    assert_error(th_language_model_logits(model, tokens_new(2, 1), &options), TH_ERROR_STATE, "has been freed");
    th_cache_free(NULL);
    th_no_grad_end(ctx);
}
END_TEST

/* After a cast, using the cache is an error until th_cache_reset; then it takes the new type. */
START_TEST(a_cache_after_a_cast)
{
    th_module *model = th_language_model_new(ctx, &models[0]);
    th_cache *cache = th_cache_new(model, 2, 6);
    th_tensor *position = th_full(ctx, TH_INT64, TH_SHAPE(2, 1), 3);
    const th_language_model_logits_options first = {.cache = cache}, next = {.cache = cache, .positions = position};
    th_no_grad_begin(ctx);
    th_language_model_logits(model, tokens_new(2, 3), &first);
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT64), TH_OK);
    assert_error(th_language_model_logits(model, tokens_new(2, 1), &next), TH_ERROR_STATE,
                 "the cache holds float32 numbers, but the layer was cast to float64: call th_cache_reset");
    th_tape_clear(ctx);
    /* casting back keeps all keys */
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT32), TH_OK);
    ck_assert_ptr_nonnull(th_language_model_logits(model, tokens_new(2, 1), &next));
    th_tape_clear(ctx);
    ck_assert_int_eq(th_module_cast(model, TH_FLOAT64), TH_OK);
    ck_assert_int_eq(th_cache_reset(cache), TH_OK);
    const size_t before = th_cache_bytes(cache);
    th_tensor *pieces = th_language_model_logits(model, tokens_new(2, 3), &first);
    th_tensor *whole = th_language_model_logits(model, tokens_new(2, 3), NULL);
    ck_assert(pieces && whole && th_dtype_of(pieces) == TH_FLOAT64);
    for (int64_t i = 0; i < V; i++)
        ck_assert_double_eq_tol(th_get(pieces, TH_INDEX(1, 2, i)), th_get(whole, TH_INDEX(1, 2, i)), 1e-12);
    ck_assert_uint_eq(th_cache_bytes(cache), 2 * before);
    th_no_grad_end(ctx);
    no_error();
}
END_TEST

/* To use a cache is an error after the cache, its model or its context was freed. */
START_TEST(a_stale_cache_is_an_error)
{
    th_context *brief = th_context_new(NULL);
    th_module *model = th_language_model_new(brief, &models[0]);
    th_cache *cache = th_cache_new(model, 2, 4);
    const th_language_model_logits_options given = {.cache = cache};
    ck_assert_ptr_nonnull(cache);
    th_context_free(brief);
    model = th_language_model_new(ctx, &models[0]);
    th_no_grad_begin(ctx);
    for (int repeat = 0; repeat < 2; repeat++) {
        ck_assert_int_eq(th_cache_reset(cache), TH_ERROR_STATE);
        expect_error(TH_ERROR_STATE, "the context of the cache has been freed");
        ck_assert_uint_eq(th_cache_bytes(cache), 0);
        expect_error(TH_ERROR_STATE, "the context of the cache has been freed");
        assert_error(th_language_model_logits(model, tokens_new(2, 1), &given), TH_ERROR_STATE,
                     "the context of the cache has been freed");
        th_cache_free(cache);
        no_error();
        brief = th_context_new(NULL); /* possibly at the address of the first */
        ck_assert_ptr_nonnull(th_cache_new(th_language_model_new(brief, &models[0]), 2, 4));
        th_cache *other = th_cache_new(model, 2, 4);
        th_context_free(brief);
        ck_assert_ptr_ne(other, cache);
        ck_assert_ptr_nonnull(th_zeros(ctx, TH_FLOAT32, TH_SHAPE(1))); /* makes ctx the context used last */
    }
    th_cache *freed = th_cache_new(model, 2, 4), *later;
    th_cache_free(freed);
    later = th_cache_new(model, 2, 4);
    ck_assert_ptr_ne(freed, later);
    ck_assert_int_eq(th_cache_reset(freed), TH_ERROR_STATE);
    expect_error(TH_ERROR_STATE, "the cache has been freed");
    th_cache_free(freed);
    expect_error(TH_ERROR_STATE, "has already been freed");
    /* the cache of a freed model */
    th_module_free(model);
    model = th_language_model_new(ctx, &models[0]);
    assert_error(th_language_model_logits(model, tokens_new(2, 1), &(th_language_model_logits_options){.cache = later}),
                 TH_ERROR_ARGUMENT, "another model");
    ck_assert_int_eq(th_cache_reset(later), TH_OK);
    th_cache_free(later);
    th_no_grad_end(ctx);
    no_error();
}
END_TEST

/* If an allocation of a cache fails, the result is an error without a leak. */
START_TEST(no_memory_for_a_cache)
{
    static test_memory memory;
    th_context_free(ctx);
    for (int64_t allowed = 0;; allowed++) {
        memory = (test_memory){0};
        ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
        th_module *model = th_language_model_new(ctx, &models[0]);
        memory.fail_at = memory.calls + allowed + 1;
        const th_cache *cache = th_cache_new(model, 2, 4);
        const bool done = cache != NULL;
        if (!done)
            expect_error(TH_ERROR_MEMORY, "memory");
        if (done)
            break;
        th_context_free(ctx);
        ck_assert_uint_eq(memory.bytes, 0);
    }
    no_error();
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("cache", setup, close_context);
    tcase_add_loop_test(tests, pieces_have_the_same_bits_as_the_whole_sequence, 0, PRECISIONS * 2 * MODELS);
    tcase_add_loop_test(tests, each_sequence_continues_from_its_end, 0, MODELS);
    tcase_add_loop_test(tests, sequences_follow_others, 0, MODELS);
    tcase_add_test(tests, memory_is_projected_once);
    tcase_add_test(tests, memory_does_not_follow);
    tcase_add_test(tests, misuse_of_a_cache_is_an_error);
    tcase_add_test(tests, a_cache_after_a_cast);
    tcase_add_test(tests, a_stale_cache_is_an_error);
    tcase_add_test(tests, no_memory_for_a_cache);
    return run_suites();
}
