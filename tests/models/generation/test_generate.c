/* Compares th_generate with a simple implementation that runs the whole sequence through the model for every token.
 * B sequences, V vocabulary. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/models.h"

#include "drawn_models.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

enum { B = 3, T = 5, V = 11, LENGTH = 16, MAX_NEW = 9 };

static const th_language_model_options gpt = {
    .vocabulary = V, .length = LENGTH, .width = 24, .heads = 3, .layers = 2, .dropout = 0.5};
static const th_language_model_options grouped = {.vocabulary = V,
                                                  .length = LENGTH,
                                                  .width = 24,
                                                  .heads = 4,
                                                  .layers = 2,
                                                  .positions = TH_POSITIONS_SINUSOIDAL,
                                                  .untied = true,
                                                  .block = {.kv_heads = 2, .norm = TH_RMS_NORM, .no_bias = true}};
static const th_transformer_options encoder_decoder = {.source_vocabulary = 7,
                                                       .target_vocabulary = V,
                                                       .length = LENGTH,
                                                       .width = 24,
                                                       .heads = 3,
                                                       .encoder_layers = 1,
                                                       .decoder_layers = 2};

static const int32_t prompt[B * T] = {1, 5, 2, 7, 3, 4, 9, -1, 99, 0, 6, 2, 8, 0, 1};
static const int64_t prompt_len[B] = {5, 2, 4};
static const int32_t source[B * 4] = {1, 2, 3, 4, 5, 6, 0, 1, 3, 3, 0, 5};
static const int32_t source_len[B] = {4, 2, 3};

static th_tensor *integers(int64_t rows, int64_t columns, const int32_t *data)
{
    return th_from_data(ctx, TH_INT32, columns ? TH_SHAPE(rows, columns) : TH_SHAPE(rows), data);
}

static th_generate_options prompted(void)
{
    return (th_generate_options){.prompts = integers(B, T, prompt),
                                 .lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), prompt_len),
                                 .max_new_tokens = MAX_NEW};
}

static th_generate_options sourced(void)
{
    return (th_generate_options){.source = integers(B, 4, source),
                                 .source_lengths = integers(B, 0, source_len),
                                 .start = 3,
                                 .max_new_tokens = MAX_NEW};
}

typedef struct tokens {
    int32_t token[B][MAX_NEW];
    int32_t length[B];
    double score[B];
} tokens;

static tokens generated_by(th_module *model, const th_generate_options *options)
{
    th_generated result;
    const th_status status = th_generate(model, options, &result);
    ck_assert_msg(status == TH_OK, "%s", th_error_message(ctx));
    const int64_t batch = th_size(result.tokens, 0);
    tokens t = {.length = {0}};
    ck_assert_int_le(batch * options->max_new_tokens, B * MAX_NEW);
    ck_assert_int_eq(th_dtype_of(result.tokens), TH_INT32);
    ck_assert_int_eq(th_size(result.tokens, 1), options->max_new_tokens);
    ck_assert_int_eq(th_copy_out(result.lengths, t.length, (size_t)batch * sizeof *t.length), TH_OK);
    const int32_t *data = th_data_const(result.tokens);
    for (int64_t b = 0; b < batch; b++)
        memcpy(t.token[b], data + b * options->max_new_tokens, (size_t)options->max_new_tokens * sizeof *data);
    ck_assert_int_eq(result.scores != NULL, options->beams > 1);
    if (result.scores)
        ck_assert_int_eq(th_copy_out(result.scores, t.score, (size_t)batch * sizeof *t.score), TH_OK);
    th_tensor_free(result.tokens);
    th_tensor_free(result.lengths);
    th_tensor_free(result.scores);
    no_error();
    return t;
}

static void assert_same(const tokens *a, const tokens *b)
{
    for (int i = 0; i < B; i++) {
        ck_assert_int_eq(a->length[i], b->length[i]);
        for (int t = 0; t < MAX_NEW; t++)
            ck_assert_msg(a->token[i][t] == b->token[i][t], "sequence %d, token %d: %d, not %d", i, t, a->token[i][t],
                          b->token[i][t]);
    }
}

/* Returns the logits of the last of n tokens, in evaluation mode. */
static void last_logits(th_module *model, int64_t b, int64_t n, const int32_t *token, double *logits)
{
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *y;
    if (th_language_model_options_of(model)) {
        y = th_module_forward(model, integers(1, n, token));
    } else {
        th_tensor *memory = th_transformer_encode(model, integers(1, source_len[b], source + b * 4), NULL);
        y = th_transformer_decode(model, integers(1, n, token), memory, NULL);
    }
    y = th_cast(th_select(y, 1, n - 1), TH_FLOAT64);
    no_error();
    ck_assert_int_eq(th_copy_out(th_reshape(y, TH_SHAPE(V)), logits, V * sizeof *logits), TH_OK);
    th_no_grad_end(ctx);
    th_set_training(ctx, true);
    th_tape_clear(ctx);
}

/* Greedy, with windows of the model's length. */
static tokens written_out(th_module *model, bool from_prompts, int64_t length)
{
    tokens t;
    for (int b = 0; b < B; b++) {
        int32_t all[T + MAX_NEW] = {3};
        int64_t n = 1, begin = 0;
        if (from_prompts) {
            n = prompt_len[b];
            memcpy(all, prompt + b * T, (size_t)n * sizeof *all);
        }
        t.length[b] = MAX_NEW;
        for (int i = 0; i < MAX_NEW; i++) {
            double logits[V];
            if (n - begin > length)
                begin = n - length / 2;
            last_logits(model, b, n - begin, all + begin, logits);
            int best = 0;
            for (int v = 1; v < V; v++)
                best = logits[v] > logits[best] ? v : best;
            t.token[b][i] = all[n++] = best;
        }
    }
    return t;
}

START_TEST(greedy_is_the_largest_logit_of_whole_sequences)
{
    const int kind = _i / 2 % 3;
    th_set_fusion(ctx, _i % 2 == 0);
    ck_assert_int_eq(th_set_precision(ctx, (th_precision)(_i / 6)), TH_OK);
    th_module *model = randomized(kind == 0   ? th_language_model_new(ctx, &gpt)
                                  : kind == 1 ? th_language_model_new(ctx, &grouped)
                                              : th_transformer_new(ctx, &encoder_decoder));
    const th_generate_options options = kind < 2 ? prompted() : sourced();
    const tokens expected = written_out(model, kind < 2, LENGTH), got = generated_by(model, &options);
    assert_same(&got, &expected);
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
}
END_TEST

static th_module *lively(void)
{
    return randomized(th_language_model_new(ctx, &gpt));
}

START_TEST(a_sequence_depends_on_nothing_else_in_its_batch)
{
    th_module *model = lively();
    th_generate_options options = prompted();
    options.temperature = 1.5;
    options.seed = 7;
    options.repetition_penalty = 1.2;
    const tokens all = generated_by(model, &options);
    ck_assert_int_eq(th_set_threads(ctx, 1), TH_OK);
    const tokens again = generated_by(model, &options);
    assert_same(&again, &all);

    int32_t others[B * T];
    memcpy(others, prompt, sizeof others);
    others[0] = 9, others[2 * T] = 2;
    options.prompts = integers(B, T, others);
    const tokens changed = generated_by(model, &options);
    ck_assert_mem_eq(changed.token[1], all.token[1], sizeof all.token[1]);
    options.prompts = integers(1, T, prompt);
    options.lengths = NULL;
    const tokens alone = generated_by(model, &options);
    ck_assert_mem_eq(alone.token[0], all.token[0], sizeof all.token[0]);

    options = prompted();
    options.temperature = 1.5;
    options.seed = 8;
    const tokens other_seed = generated_by(model, &options);
    ck_assert(memcmp(other_seed.token, all.token, sizeof all.token) != 0);
}
END_TEST

/* Generation between steps does not change the random numbers of a step's dropout or of the data stream. */
START_TEST(generating_does_not_change_training)
{
    th_module *model = lively();
    th_tensor *data = integers(1, T, prompt);
    double loss[2][2], data_drawn[2];
    float gradient[2][24 * V];
    for (int turn = 0; turn < 2; turn++) {
        th_set_seed(ctx, 5);
        th_set_step(ctx, 4);
        for (int i = 0; i < 2; i++) {
            th_tensor *l = th_language_model_loss(model, data, data, NULL);
            const th_generate_options options = {.prompts = data, .max_new_tokens = 3, .temperature = 1};
            if (turn)
                generated_by(model, &options);
            loss[turn][i] = th_item(l);
            ck_assert_int_eq(th_backward(l, NULL), TH_OK);
            th_tensor *dw = th_gradient(th_module_find_parameter(model, "embedding.weight"));
            ck_assert_int_eq(th_copy_out(dw, gradient[turn], sizeof gradient[turn]), TH_OK);
            th_empty_gradient(th_module_find_parameter(model, "embedding.weight"));
            th_tape_clear(ctx);
        }
        data_drawn[turn] = th_item(th_randn(ctx, TH_FLOAT64, TH_SHAPE(1)));
        for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
            th_empty_gradient(p.tensor);
    }
    ck_assert_mem_eq(loss[0], loss[1], sizeof loss[0]);
    ck_assert_mem_eq(gradient[0], gradient[1], sizeof gradient[0]);
    ck_assert_double_eq(data_drawn[0], data_drawn[1]);
}
END_TEST

typedef struct heard {
    th_context *ctx;
    int32_t token[B][MAX_NEW];
    int count[B], stop_after;
    size_t allocations, reserved;
    bool grew;
} heard;

static bool receive_line(void *user, int64_t sequence, int64_t token)
{
    heard *h = user;
    h->token[sequence][h->count[sequence]++] = (int32_t)token;
    const th_memory_usage memory = th_memory(h->ctx);
    if (h->count[0] > 2)
        h->grew |= memory.allocations != h->allocations || memory.reserved != h->reserved;
    h->allocations = memory.allocations;
    h->reserved = memory.reserved;
    return sequence != 1 || h->count[1] != h->stop_after;
}

START_TEST(tokens_are_streamed_and_emit_may_stop)
{
    th_module *model = lively();
    th_generate_options options = prompted();
    heard h = {.ctx = ctx, .stop_after = 4};
    options.emit = receive_line;
    options.user = &h;
    const tokens got = generated_by(model, &options);
    const tokens expected = written_out(model, true, LENGTH);
    ck_assert_int_eq(got.length[0], MAX_NEW);
    ck_assert_int_eq(got.length[1], 4);
    for (int b = 0; b < B; b++) {
        ck_assert_int_eq(h.count[b], got.length[b]);
        ck_assert_mem_eq(h.token[b], expected.token[b], (size_t)h.count[b] * sizeof(int32_t));
        for (int i = got.length[b]; i < MAX_NEW; i++)
            ck_assert_int_eq(got.token[b][i], 0);
    }
    ck_assert_msg(!h.grew, "a token has allocated");
}
END_TEST

START_TEST(an_end_token_ends)
{
    th_module *model = lively();
    const tokens whole = written_out(model, true, LENGTH);
    th_generate_options options = prompted();
    const int64_t ends[2] = {whole.token[0][3], whole.token[2][1]};
    options.end_tokens = ends;
    options.n_end_tokens = 2;
    const tokens got = generated_by(model, &options);
    for (int b = 0; b < B; b++) {
        int length = 0;
        while (length < MAX_NEW && whole.token[b][length] != ends[0] && whole.token[b][length] != ends[1])
            length++;
        length += length < MAX_NEW;
        ck_assert_int_eq(got.length[b], length);
        for (int i = 0; i < MAX_NEW; i++)
            ck_assert_int_eq(got.token[b][i], i < length ? whole.token[b][i] : (int32_t)ends[0]);
    }
}
END_TEST

START_TEST(a_window_slides_if_the_text_is_longer_than_the_model)
{
    th_language_model_options small = gpt;
    small.length = 6;
    th_module *model = randomized(th_language_model_new(ctx, &small));
    th_generate_options options = prompted();
    options.slide = true;
    const tokens got = generated_by(model, &options), expected = written_out(model, true, 6);
    assert_same(&got, &expected);
    options.slide = false;
    expect_status(th_generate(model, &options, NULL), TH_ERROR_SHAPE, "do not fit the model's length of 6");
}
END_TEST

/* -- beam search -- */

/* Returns the largest sum of log-probabilities of all sequences of `max` tokens, or of fewer that end with `end`. */
static double best_of_all(th_module *model, int64_t b, int32_t *token, int64_t n, int64_t max, int32_t end, double sum,
                          int32_t *best, int64_t *best_length, double best_sum, int64_t begin)
{
    if (n - begin == max || (n > begin && token[n - 1] == end)) {
        if (sum > best_sum) {
            best_sum = sum;
            *best_length = n - begin;
            memcpy(best, token + begin, (size_t)(n - begin) * sizeof *best);
        }
        return best_sum;
    }
    double logits[V], total = 0;
    last_logits(model, b, n, token, logits);
    for (int v = 0; v < V; v++)
        total += exp(logits[v]);
    for (int v = 0; v < V; v++) {
        token[n] = v;
        best_sum = best_of_all(model, b, token, n + 1, max, end, sum + logits[v] - log(total), best, best_length,
                               best_sum, begin);
    }
    return best_sum;
}

/* With as many beams as there are prefixes, beam search finds the best sequence. */
START_TEST(enough_beams_find_the_best_sequence)
{
    enum { SHORT = 3, END = 4 };
    const bool decoder_only = _i == 0;
    th_module *model = decoder_only ? lively() : randomized(th_transformer_new(ctx, &encoder_decoder));
    th_generate_options options = decoder_only ? prompted() : sourced();
    const int64_t end = END;
    options.max_new_tokens = SHORT;
    options.end_tokens = &end;
    options.n_end_tokens = 1;
    options.beams = V * V;
    options.no_length_penalty = true;
    const tokens got = generated_by(model, &options);
    for (int b = 0; b < B; b++) {
        int32_t token[T + SHORT] = {3}, best[SHORT] = {0};
        const int64_t n = decoder_only ? prompt_len[b] : 1;
        int64_t length = 0;
        if (decoder_only)
            memcpy(token, prompt + b * T, (size_t)n * sizeof *token);
        const double sum = best_of_all(model, b, token, n, SHORT, END, 0, best, &length, (double)-INFINITY, n);
        ck_assert_int_eq(got.length[b], length);
        for (int i = 0; i < length; i++)
            ck_assert_int_eq(got.token[b][i], best[i]);
        ck_assert_double_eq_tol(got.score[b], sum, 1e-4);
    }
}
END_TEST

/* Each sequence is searched independently. */
START_TEST(beams_of_a_sequence_depend_on_nothing_else)
{
    th_module *model = lively();
    th_generate_options options = prompted();
    const int64_t end = 4;
    options.end_tokens = &end;
    options.n_end_tokens = 1;
    options.beams = 3;
    options.repetition_penalty = 1.1;
    const tokens all = generated_by(model, &options);
    for (int b = 0; b < B; b++) {
        options.prompts = integers(1, prompt_len[b], prompt + b * T);
        options.lengths = NULL;
        const tokens alone = generated_by(model, &options);
        ck_assert_int_eq(alone.length[0], all.length[b]);
        ck_assert_mem_eq(alone.token[0], all.token[b], sizeof all.token[b]);
        ck_assert_double_eq(alone.score[0], all.score[b]);
    }
}
END_TEST

/* -- errors and memory -- */

START_TEST(invalid_options_are_errors)
{
    th_module *model = lively(), *dense = th_dense_new(ctx, 2, 2, NULL);
    const int64_t long_lens[B] = {5, 6, 1}, no_token[B] = {5, 1, 0}, end = V, negative = -1;
    int32_t strange[B * T];
    memcpy(strange, prompt, sizeof strange);
    strange[3] = V;
#define EXPECT(code, words, ...)                                                                                       \
    do {                                                                                                               \
        th_generate_options options = prompted();                                                                      \
        __VA_ARGS__;                                                                                                   \
        th_generated result = {.lengths = (th_tensor *)model};                                                         \
        expect_status(th_generate(model, &options, &result), code, words);                                             \
        ck_assert_ptr_null(result.lengths);                                                                            \
    } while (0)
    EXPECT(TH_ERROR_ARGUMENT, "prompts is NULL", options.prompts = NULL);
    EXPECT(TH_ERROR_ARGUMENT, "max_new_tokens must be positive", options.max_new_tokens = 0);
    EXPECT(TH_ERROR_SHAPE, "a prompt of 5 tokens and 13 more", options.max_new_tokens = 13);
    EXPECT(TH_ERROR_SHAPE, "do not fit", options.max_new_tokens = INT64_MAX);
    EXPECT(TH_ERROR_SHAPE, "overflows", options.max_new_tokens = INT64_MAX, options.slide = true);
    EXPECT(TH_ERROR_ARGUMENT, "temperature -1", options.temperature = -1);
    EXPECT(TH_ERROR_ARGUMENT, "top_p 1.5", options.top_p = 1.5);
    EXPECT(TH_ERROR_ARGUMENT, "top_p nan", options.top_p = (double)NAN);
    EXPECT(TH_ERROR_ARGUMENT, "repetition_penalty -1", options.repetition_penalty = -1);
    EXPECT(TH_ERROR_ARGUMENT, "does not sample", options.beams = 2, options.temperature = 1);
    EXPECT(TH_ERROR_ARGUMENT, "cannot slide", options.beams = 2, options.slide = true);
    EXPECT(TH_ERROR_ARGUMENT, "they are -1 and", options.beams = -1);
    EXPECT(TH_ERROR_INDEX, "end token 11 is outside", options.end_tokens = &end, options.n_end_tokens = 1);
    EXPECT(TH_ERROR_ARGUMENT, "temperature inf", options.temperature = (double)INFINITY);
    EXPECT(TH_ERROR_ARGUMENT, "top_k -1", options.top_k = -1);
    EXPECT(TH_ERROR_ARGUMENT, "top_p -0.5", options.top_p = -0.5);
    EXPECT(TH_ERROR_ARGUMENT, "repetition_penalty inf", options.repetition_penalty = (double)INFINITY);
    EXPECT(TH_ERROR_ARGUMENT, "they are 2147483648 and", options.beams = (int64_t)INT32_MAX + 1);
    EXPECT(TH_ERROR_ARGUMENT, "they are 2 and inf", options.beams = 2, options.length_penalty = (double)INFINITY);
    EXPECT(TH_ERROR_ARGUMENT, "n_end_tokens is 1 and end_tokens is NULL", options.n_end_tokens = 1);
    EXPECT(TH_ERROR_ARGUMENT, "n_end_tokens is -1 and end_tokens is given", options.n_end_tokens = -1,
           options.end_tokens = &end);
    EXPECT(TH_ERROR_SHAPE, "prompts must be (B, T) with T > 0", options.prompts = integers(B, 0, prompt));
    EXPECT(TH_ERROR_INDEX, "lengths[1] is 6, outside [1, 5]",
           options.lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), long_lens));
    EXPECT(TH_ERROR_INDEX, "token 3 of prompt 0 is 11", options.prompts = integers(B, T, strange));
    strange[3] = -1;
    EXPECT(TH_ERROR_INDEX, "token 3 of prompt 0 is -1", options.prompts = integers(B, T, strange));
    EXPECT(TH_ERROR_INDEX, "end token -1 is outside", options.end_tokens = &negative, options.n_end_tokens = 1);
    EXPECT(TH_ERROR_INDEX, "lengths[2] is 0, outside [1, 5]",
           options.lengths = th_from_data(ctx, TH_INT64, TH_SHAPE(B), no_token));
    EXPECT(TH_ERROR_TYPE, "prompts must be int32 or int64",
           options.prompts = th_zeros(ctx, TH_FLOAT32, TH_SHAPE(B, T)));
    EXPECT(TH_ERROR_SHAPE, "prompts must be (B, T)", options.prompts = integers(B * T, 0, prompt));
    EXPECT(TH_ERROR_SHAPE, "lengths must be (B) for the same B", options.lengths = integers(B - 1, 0, prompt));
    EXPECT(TH_ERROR_ARGUMENT, "has no source", options.source = options.prompts);
    EXPECT(TH_ERROR_ARGUMENT, "neither a language_model nor", model = dense);
#undef EXPECT
    expect_status(th_generate(NULL, NULL, NULL), TH_ERROR_ARGUMENT, "NULL");
}
END_TEST

START_TEST(invalid_sources_are_errors)
{
    static const int32_t too_long[B] = {4, 5, 1};
    th_module *model = th_transformer_new(ctx, &encoder_decoder);
#define EXPECT(code, words, ...)                                                                                       \
    do {                                                                                                               \
        th_generate_options options = sourced();                                                                       \
        __VA_ARGS__;                                                                                                   \
        expect_status(th_generate(model, &options, NULL), code, words);                                                \
    } while (0)
    EXPECT(TH_ERROR_ARGUMENT, "source is NULL", options.source = NULL);
    EXPECT(TH_ERROR_INDEX, "source_lengths[1] is 5, outside [1, 4]", options.source_lengths = integers(B, 0, too_long));
    EXPECT(TH_ERROR_ARGUMENT, "lengths are given, but prompts are not", options.lengths = options.source_lengths);
    EXPECT(TH_ERROR_INDEX, "start token -1 is outside the vocabulary of 11", options.start = -1);
    EXPECT(TH_ERROR_INDEX, "start token 11 is outside the vocabulary of 11", options.start = V);
    EXPECT(TH_ERROR_SHAPE, "prompts must be (B, T) with T > 0 for the same B",
           options.prompts = integers(1, T, prompt));
#undef EXPECT
    th_language_model_options sourceless = gpt;
    th_generate_options options = prompted();
    options.source_lengths = options.lengths;
    expect_status(th_generate(th_language_model_new(ctx, &sourceless), &options, NULL), TH_ERROR_ARGUMENT,
                  "a decoder-only model has no source");
    th_generated nothing;
    options = sourced(); /* no sequences: no tokens */
    options.source = th_zeros(ctx, TH_INT64, TH_SHAPE(0, 4));
    options.source_lengths = NULL;
    ck_assert_int_eq(th_generate(model, &options, &nothing), TH_OK);
    ck_assert(th_size(nothing.tokens, 0) == 0 && th_dtype_of(nothing.lengths) == TH_INT64);
}
END_TEST

/* The results have the type of the prompts. */
START_TEST(results_have_the_type_of_the_prompts)
{
    th_module *model = lively();
    th_generate_options options = prompted();
    const tokens expected = generated_by(model, &options);
    th_generated result;
    options.prompts = th_cast(options.prompts, TH_INT64);
    ck_assert_int_eq(th_generate(model, &options, &result), TH_OK);
    ck_assert(th_dtype_of(result.tokens) == TH_INT64 && th_dtype_of(result.lengths) == TH_INT64);
    for (int i = 0; i < B * MAX_NEW; i++)
        ck_assert_int_eq(((const int64_t *)th_data_const(result.tokens))[i], expected.token[i / MAX_NEW][i % MAX_NEW]);
    for (int b = 0; b < B; b++)
        ck_assert_int_eq(((const int64_t *)th_data_const(result.lengths))[b], expected.length[b]);
}
END_TEST

START_TEST(logits_that_are_not_numbers_are_an_error)
{
    th_module *model = lively();
    th_generate_options options = prompted();
    options.beams = _i ? 2 : 0;
    ck_assert_int_eq(th_set(th_module_find_parameter(model, "norm.bias"), TH_INDEX(0), (double)NAN), TH_OK);
    expect_status(th_generate(model, &options, NULL), TH_ERROR_VALUE, "token 0 of sequence 0");
    ck_assert_int_eq(th_set(th_module_find_parameter(model, "norm.bias"), TH_INDEX(0), 0), TH_OK);
    generated_by(model, &options);
}
END_TEST

/* Generates in a context, with shapes only or not. Returns the memory that it took. */
static th_memory_usage usage_of(bool shapes_only, test_memory *memory, bool beams, th_status *status)
{
    th_context *const outer = ctx;
    ctx = th_context_new(
        &(th_context_options){.seed = 3, .threads = 2, .shapes_only = shapes_only, .allocator = allocator_of(memory)});
    th_memory_usage usage = {0};
    *status = TH_ERROR_MEMORY;
    if (ctx) {
        th_module *model = beams ? th_transformer_new(ctx, &encoder_decoder) : th_language_model_new(ctx, &gpt);
        th_generate_options options = beams ? sourced() : prompted();
        options.lengths = options.source_lengths = NULL;
        if (!beams && !shapes_only) { /* whole prompts */
            int32_t whole[B * T] = {0};
            options.prompts = integers(B, T, whole);
        }
        options.beams = beams ? 3 : 0;
        th_generated result;
        *status = th_generate(model, &options, &result);
        usage = th_memory(ctx);
        th_context_free(ctx);
    }
    ctx = outer;
    return usage;
}

START_TEST(a_shapes_only_context_forecasts_the_memory)
{
    test_memory counted = {0}, forecast_memory = {0};
    th_status status;
    const th_memory_usage real = usage_of(false, &counted, _i, &status);
    ck_assert_int_eq(status, TH_OK);
    const th_memory_usage forecast = usage_of(true, &forecast_memory, _i, &status);
    ck_assert_int_eq(status, TH_OK);
    ck_assert_uint_eq(forecast.reserved_peak, real.reserved_peak);
    ck_assert_uint_eq(counted.bytes, 0);
}
END_TEST

START_TEST(running_out_of_memory_does_not_leak)
{
    th_status status = TH_ERROR_MEMORY;
    for (int64_t call = 1; status != TH_OK; call++) {
        test_memory memory = {.fail_at = call};
        usage_of(false, &memory, _i, &status);
        ck_assert(status == TH_OK || status == TH_ERROR_MEMORY);
        ck_assert_uint_eq(memory.bytes, 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("generate", setup, close_context);
    tcase_add_loop_test(tests, greedy_is_the_largest_logit_of_whole_sequences, 0, 6 * 3);
    tcase_add_test(tests, a_sequence_depends_on_nothing_else_in_its_batch);
    tcase_add_test(tests, generating_does_not_change_training);
    tcase_add_test(tests, tokens_are_streamed_and_emit_may_stop);
    tcase_add_test(tests, an_end_token_ends);
    tcase_add_test(tests, a_window_slides_if_the_text_is_longer_than_the_model);
    tcase_add_loop_test(tests, enough_beams_find_the_best_sequence, 0, 2);
    tcase_add_test(tests, beams_of_a_sequence_depend_on_nothing_else);
    tcase_add_test(tests, invalid_options_are_errors);
    tcase_add_test(tests, invalid_sources_are_errors);
    tcase_add_test(tests, results_have_the_type_of_the_prompts);
    tcase_add_loop_test(tests, logits_that_are_not_numbers_are_an_error, 0, 2);
    tcase_add_loop_test(tests, a_shapes_only_context_forecasts_the_memory, 0, 2);
    tcase_add_loop_test(tests, running_out_of_memory_does_not_leak, 0, 2);
    return run_suites();
}
