/* How long sequences of th_generate become: sliding in models of any length, sequences of a batch that end at different
 * times, and the memory of both. B sequences, T tokens of a prompt, V vocabulary. */
#include <string.h>

#include "tapehead/models.h"

#include "memory.h"

#include "context.h"

enum { B = 3, T = 4, V = 9, MAX_NEW = 14 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

static const int32_t prompt[B * T] = {1, 5, 2, 7, 3, 0, 0, 0, 4, 8, 6, 0};
static const int32_t prompt_length[B] = {4, 1, 3};

static th_tensor *integers(th_shape shape, const int32_t *data)
{
    return th_from_data(ctx, TH_INT32, shape, data);
}

/* Returns a model of this length whose tokens vary. */
static th_module *model_new(int64_t length)
{
    th_module *m = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = V, .length = length, .width = 8, .heads = 2, .layers = 2});
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.6), TH_OK);
    no_error();
    return m;
}

typedef struct tokens {
    int32_t token[B][MAX_NEW], length[B];
} tokens;

static tokens generated_by(th_module *model, const th_generate_options *options)
{
    th_generated result;
    tokens t = {.length = {0}};
    ck_assert_msg(th_generate(model, options, &result) == TH_OK, "%s", th_error_message(ctx));
    const size_t batch = (size_t)th_size(result.tokens, 0);
    ck_assert_int_eq(th_size(result.tokens, 1), MAX_NEW);
    memcpy(t.token, th_data_const(result.tokens), batch * sizeof t.token[0]);
    memcpy(t.length, th_data_const(result.lengths), batch * sizeof t.length[0]);
    th_tensor_free(result.tokens);
    th_tensor_free(result.lengths);
    th_tensor_free(result.scores);
    th_tape_clear(ctx);
    return t;
}

/* -- sliding -- */

/* Returns the token with the largest logit after these. */
static int32_t next_token(th_module *model, const int32_t *token, int64_t n)
{
    th_no_grad_begin(ctx);
    th_tensor *y = th_module_forward(model, integers(TH_SHAPE(1, n), token));
    no_error();
    int32_t best = 0;
    for (int32_t v = 1; v < V; v++)
        if (th_get(y, TH_INDEX(0, n - 1, v)) > th_get(y, TH_INDEX(0, n - 1, best)))
            best = v;
    th_no_grad_end(ctx);
    th_tape_clear(ctx);
    return best;
}

/* A sequence that is longer than the model begins again with its last half, or with one token if the model's length is
 * 1. _i: the model's length - T. Shorter models get prompts that fit. */
START_TEST(a_sequence_slides_in_a_model_of_any_length)
{
    const int64_t length = 1 + _i, longest = length < T ? length : T;
    th_module *model = model_new(length);
    th_tensor *all = integers(TH_SHAPE(B, T), prompt);
    int32_t lengths[B];
    for (int b = 0; b < B; b++)
        lengths[b] = prompt_length[b] < longest ? prompt_length[b] : (int32_t)longest;
    const tokens got = generated_by(model, &(th_generate_options){.prompts = th_slice(all, 1, 0, longest, 1),
                                                                  .lengths = integers(TH_SHAPE(B), lengths),
                                                                  .max_new_tokens = MAX_NEW,
                                                                  .slide = true});
    for (int b = 0; b < B; b++) {
        int32_t token[T + MAX_NEW];
        int64_t n = lengths[b], begin = 0;
        memcpy(token, prompt + (size_t)b * T, (size_t)n * sizeof *token);
        for (int t = 0; t < MAX_NEW; t++, n++) {
            if (n - begin > length)
                begin = n - (length == 1 ? 1 : length / 2);
            token[n] = next_token(model, token + begin, n - begin);
            ck_assert_msg(got.token[b][t] == token[n], "length %d, sequence %d, token %d: %d, not %d", (int)length, b,
                          t, (int)got.token[b][t], (int)token[n]);
        }
        ck_assert_int_eq(got.length[b], MAX_NEW);
    }
}
END_TEST

/* -- sequences that end at different times -- */

/* Sequences of a batch end at different times, and each is the same as alone. _i: greedy, with beams, and with beams
 * that stop early. */
START_TEST(sequences_that_end_do_not_change_others)
{
    th_module *model = model_new(T + MAX_NEW);
    int different = 0;
    for (int64_t end = 0; end < V; end++) {
        th_generate_options options = {.prompts = integers(TH_SHAPE(B, T), prompt),
                                       .lengths = integers(TH_SHAPE(B), prompt_length),
                                       .max_new_tokens = MAX_NEW,
                                       .end_tokens = &end,
                                       .n_end_tokens = 1,
                                       .beams = _i ? 3 : 0,
                                       .early_stopping = _i == 2};
        const tokens all = generated_by(model, &options);
        different += all.length[0] != all.length[1] || all.length[1] != all.length[2];
        options.lengths = NULL;
        for (int b = 0; b < B; b++) {
            options.prompts = integers(TH_SHAPE(1, prompt_length[b]), prompt + (size_t)b * T);
            const tokens alone = generated_by(model, &options);
            ck_assert_int_eq(alone.length[0], all.length[b]);
            ck_assert_mem_eq(alone.token[0], all.token[b], sizeof all.token[b]);
            for (int t = 0; t < MAX_NEW; t++)
                ck_assert(t < all.length[b] - 1 ? all.token[b][t] != end : t < all.length[b] || all.token[b][t] == end);
        }
    }
    ck_assert_int_gt(different, 1);
}
END_TEST

/* Eight rows of one token fill a cache line exactly. */
START_TEST(any_number_of_sequences_gives_the_same_tokens)
{
    enum { MAX_BATCH = 17 };
    th_module *model = model_new(T + MAX_NEW);
    int32_t many[MAX_BATCH * T], expected[MAX_BATCH][MAX_NEW];
    for (int i = 0; i < MAX_BATCH * T; i++)
        many[i] = (i * i + i / 5) % V;
    for (int b = 0; b < MAX_BATCH; b++) {
        const tokens alone =
            generated_by(model, &(th_generate_options){.prompts = integers(TH_SHAPE(1, T), many + (size_t)b * T),
                                                       .max_new_tokens = MAX_NEW});
        memcpy(expected[b], alone.token[0], sizeof expected[b]);
    }
    for (int64_t batch = 7; batch <= MAX_BATCH; batch++) {
        th_generated result;
        const th_generate_options o = {.prompts = integers(TH_SHAPE(batch, T), many), .max_new_tokens = MAX_NEW};
        ck_assert_int_eq(th_generate(model, &o, &result), TH_OK);
        ck_assert_msg(memcmp(th_data_const(result.tokens), expected, (size_t)batch * sizeof expected[0]) == 0,
                      "%d sequences", (int)batch);
        th_tensor_free(result.tokens);
        th_tensor_free(result.lengths);
        th_tape_clear(ctx);
    }
}
END_TEST

/* -- memory -- */

static size_t peak_of(bool shapes_only, int64_t length, bool slide, const int32_t *lengths)
{
    th_context *const outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2, .shapes_only = shapes_only});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = V, .length = length, .width = 64, .heads = 2, .layers = 2});
    const th_generate_options options = {.prompts = th_zeros(ctx, TH_INT32, TH_SHAPE(B, T)),
                                         .lengths = lengths ? integers(TH_SHAPE(B), lengths) : NULL,
                                         .max_new_tokens = 60,
                                         .slide = slide};
    th_generated result;
    const th_status status = th_generate(model, &options, &result);
    ck_assert_msg(status == TH_OK, "%s", th_error_message(ctx));
    const size_t peak = th_memory(ctx).reserved_peak;
    th_context_free(ctx);
    ctx = outer;
    return peak;
}

/* A run of shapes only takes the memory of generation, also where that runs a part of the tokens again. Prompts of one
 * length slide together. Of others, one slides while the next has as many tokens as the model. */
START_TEST(a_shapes_only_context_forecasts_sliding)
{
    static const int64_t lengths[] = {1, 2, T - 1, T, T + 1, 20, 40, 61, T + 58, T + 59, T + 60};
    static const int32_t different[B] = {T, T - 1, T};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 2; kind++) {
            const int32_t *prompts = kind ? different : NULL;
            const size_t forecast = peak_of(true, lengths[i], true, prompts),
                         real = peak_of(false, lengths[i], true, prompts);
            ck_assert_msg(forecast == real, "length %d, %s prompts: %zu, not %zu", (int)lengths[i],
                          kind ? "different" : "equal", forecast, real);
        }
    ck_assert_uint_eq(peak_of(true, T + 59, false, NULL), peak_of(false, T + 59, false, NULL));
}
END_TEST

/* The cache has as many positions as the tokens need, not as many as the model has. */
START_TEST(memory_does_not_grow_with_the_length_of_the_model)
{
    size_t peak[2];
    for (int i = 0; i < 2; i++) {
        th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
        th_module *model = th_language_model_new(shapes, &(th_language_model_options){.vocabulary = V,
                                                                                      .length = i ? 1 << 20 : 64,
                                                                                      .width = 64,
                                                                                      .heads = 2,
                                                                                      .layers = 2,
                                                                                      .positions = TH_POSITIONS_NONE});
        th_tensor *prompts = th_zeros(shapes, TH_INT32, TH_SHAPE(B, T));
        ck_assert_int_eq(th_generate(model, &(th_generate_options){.prompts = prompts, .max_new_tokens = 10}, NULL),
                         TH_OK);
        peak[i] = th_memory(shapes).peak;
        th_context_free(shapes);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
}
END_TEST

/* A prompt of shapes only counts as one that has only token 0, which every vocabulary has. */
START_TEST(a_forecast_works_with_one_token)
{
    th_context *shapes = th_context_new(&(th_context_options){.shapes_only = true});
    th_module *model = th_language_model_new(
        shapes, &(th_language_model_options){.vocabulary = 1, .length = 8, .width = 8, .heads = 2, .layers = 1});
    th_tensor *prompts = th_zeros(shapes, TH_INT32, TH_SHAPE(B, T));
    ck_assert_int_eq(th_generate(model, &(th_generate_options){.prompts = prompts, .max_new_tokens = 2}, NULL), TH_OK);
    th_context_free(shapes);
}
END_TEST

static bool stop(void *user, int64_t sequence, int64_t token)
{
    (void)user, (void)sequence, (void)token;
    return false;
}

/* If the memory for one of the results runs out, the others are released. _i: the tokens, the lengths, or the
 * scores of beams take most of it. */
START_TEST(results_are_released_if_one_cannot_be_made)
{
    test_memory memory = {0};
    th_context *const outer = ctx;
    ctx = th_context_new(&(th_context_options){.threads = 1, .allocator = allocator_of(&memory)});
    th_module *model = th_language_model_new(
        ctx, &(th_language_model_options){.vocabulary = 2, .length = 4, .width = 2, .heads = 1, .layers = 1});
    no_error();
    const int64_t batch = _i == 0 ? 1 : _i == 1 ? 1 << 16 : 1 << 15;
    const th_generate_options o = {.prompts = th_zeros(ctx, TH_INT32, TH_SHAPE(batch, 1)),
                                   .max_new_tokens = _i ? 1 : 1 << 18,
                                   .slide = _i == 0,
                                   .beams = _i == 2 ? 2 : 0,
                                   .emit = stop};
    ck_assert_int_eq(th_generate(model, &o, NULL), TH_OK); /* takes the memory that the context keeps */
    const th_memory_usage before = th_memory(ctx);
    for (int64_t after = 1, done = 0; !done; after++) {
        th_generated result;
        memory.fail_at = memory.calls + after;
        memory.forever = true;
        done = th_generate(model, &o, &result) == TH_OK;
        memory.fail_at = 0;
        if (done)
            break;
        ck_assert(result.tokens == NULL && result.lengths == NULL && result.scores == NULL);
        expect_error(TH_ERROR_MEMORY, "memory");
        ck_assert_uint_eq(th_memory(ctx).live, before.live);
        ck_assert_uint_eq(th_memory(ctx).owned, before.owned);
    }
    th_context_free(ctx);
    ctx = outer;
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("generate_lengths", setup, close_context);
    tcase_add_loop_test(tests, a_sequence_slides_in_a_model_of_any_length, 0, 9);
    tcase_add_loop_test(tests, sequences_that_end_do_not_change_others, 0, 3);
    tcase_add_test(tests, any_number_of_sequences_gives_the_same_tokens);
    tcase_add_test(tests, a_shapes_only_context_forecasts_sliding);
    tcase_add_test(tests, memory_does_not_grow_with_the_length_of_the_model);
    tcase_add_test(tests, a_forecast_works_with_one_token);
    tcase_add_loop_test(tests, results_are_released_if_one_cannot_be_made, 0, 3);
    return run_suites();
}
