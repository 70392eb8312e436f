/* Options of th_generate: several sequences for a prompt, log-probabilities, n-grams that must not repeat, min_p. Also
 * models whose rotary positions depend on the length of a sequence. B prompts, V vocabulary. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "drawn_models.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

enum { B = 2, T = 4, V = 13, LENGTH = 48, MAX_NEW = 12, SEQUENCES = 3, ALL = B * SEQUENCES };

static const th_language_model_options gpt = {
    .vocabulary = V, .length = LENGTH, .width = 24, .heads = 2, .layers = 2, .dropout = 0.5};
static const th_transformer_options encoder_decoder = {.source_vocabulary = V,
                                                       .target_vocabulary = V,
                                                       .length = LENGTH,
                                                       .width = 24,
                                                       .heads = 2,
                                                       .encoder_layers = 1,
                                                       .decoder_layers = 1};

static th_tensor *integers(th_shape shape, const int32_t *data)
{
    return th_from_data(ctx, TH_INT32, shape, data);
}

static const int32_t prompt[B * T] = {1, 5, 2, 7, 3, 4, 9, 0}, lengths[B] = {4, 3};

typedef struct tokens {
    int64_t count;
    int32_t token[ALL][MAX_NEW];
    int32_t length[ALL];
    double score[ALL], log_probability[ALL][MAX_NEW];
} tokens;

static void copy(th_tensor *t, void *data, size_t element)
{
    if (t)
        ck_assert_int_eq(th_copy_out(t, data, (size_t)th_numel(t) * element), TH_OK);
    th_tensor_free(t);
}

static tokens generated_by(th_module *model, const th_generate_options *options)
{
    th_generated result;
    ck_assert_msg(th_generate(model, options, &result) == TH_OK, "%s", th_error_message(ctx));
    tokens t = {.count = th_size(result.tokens, 0)};
    ck_assert_int_le(t.count, ALL);
    ck_assert_int_eq(options->max_new_tokens, MAX_NEW);
    ck_assert_int_eq(result.log_probabilities != NULL, options->log_probabilities);
    copy(result.tokens, t.token, sizeof(int32_t));
    copy(result.lengths, t.length, sizeof(int32_t));
    copy(result.scores, t.score, sizeof(double));
    copy(result.log_probabilities, t.log_probability, sizeof(double));
    th_tape_clear(ctx);
    return t;
}

static th_generate_options prompted(void)
{
    return (th_generate_options){.prompts = integers(TH_SHAPE(B, T), prompt),
                                 .lengths = integers(TH_SHAPE(B), lengths),
                                 .max_new_tokens = MAX_NEW};
}

/* -- several sequences -- */

/* Several sequences of a prompt equal the sequences of a batch that repeats each prompt. _i: without or with an encoder. */
START_TEST(sequences_are_those_of_repeated_prompts)
{
    static const int32_t source_lengths[B] = {4, 2};
    th_module *model = randomized(_i ? th_transformer_new(ctx, &encoder_decoder) : th_language_model_new(ctx, &gpt));
    int32_t repeated[ALL * T], of_repeated[ALL], of_source[ALL];
    for (int i = 0; i < ALL; i++) {
        memcpy(repeated + i * T, prompt + i / SEQUENCES * T, T * sizeof *prompt);
        of_repeated[i] = lengths[i / SEQUENCES];
        of_source[i] = source_lengths[i / SEQUENCES];
    }
    th_generate_options o = prompted();
    o.temperature = 1;
    o.seed = 7;
    o.log_probabilities = true;
    th_generate_options whole = o;
    o.sequences = SEQUENCES;
    whole.prompts = integers(TH_SHAPE(ALL, T), repeated);
    whole.lengths = integers(TH_SHAPE(ALL), of_repeated);
    if (_i) {
        o.source = integers(TH_SHAPE(B, T), prompt);
        o.source_lengths = integers(TH_SHAPE(B), source_lengths);
        whole.source = integers(TH_SHAPE(ALL, T), repeated);
        whole.source_lengths = integers(TH_SHAPE(ALL), of_source);
    }
    const tokens several = generated_by(model, &o), batch = generated_by(model, &whole);
    ck_assert_int_eq(several.count, ALL);
    ck_assert_mem_eq(&several, &batch, sizeof batch);
    ck_assert_int_ne(memcmp(several.token[0], several.token[1], sizeof several.token[0]), 0);
}
END_TEST

typedef struct emitted {
    int count;
    int32_t token[ALL][MAX_NEW];
    int length[ALL];
} emitted;

static bool emit(void *user, int64_t sequence, int64_t token)
{
    emitted *e = user;
    ck_assert_int_lt(sequence, ALL);
    e->token[sequence][e->length[sequence]++] = (int32_t)token;
    e->count++;
    return true;
}

/* The best sequences of beam search, in descending order. The number of sequences does not change the search. */
START_TEST(beams_give_their_best_sequences)
{
    th_module *model = randomized(th_language_model_new(ctx, &gpt));
    th_generate_options o = prompted();
    const int64_t end = 4;
    emitted e = {0};
    o.beams = 4;
    o.end_tokens = &end;
    o.n_end_tokens = 1;
    const tokens best = generated_by(model, &o);
    ck_assert_int_eq(best.count, B);
    o.sequences = SEQUENCES;
    o.emit = emit;
    o.user = &e;
    const tokens several = generated_by(model, &o);
    ck_assert_int_eq(several.count, ALL);
    int total = 0;
    for (int i = 0; i < ALL; i++) {
        total += several.length[i];
        ck_assert_int_eq(several.length[i], e.length[i]);
        ck_assert_mem_eq(several.token[i], e.token[i], (size_t)e.length[i] * sizeof(int32_t));
        if (i % SEQUENCES == 0) {
            ck_assert_mem_eq(several.token[i], best.token[i / SEQUENCES], sizeof best.token[0]);
            ck_assert_double_eq(several.score[i], best.score[i / SEQUENCES]);
        } else {
            ck_assert_double_le(several.score[i], several.score[i - 1]);
            ck_assert_int_ne(memcmp(several.token[i], several.token[i - 1], sizeof best.token[0]), 0);
        }
    }
    ck_assert_int_eq(e.count, total);
}
END_TEST

/* -- log-probabilities -- */

/* The model's own log-probabilities do not depend on the options of the choice. _i: greedy, or sampled with every option. */
START_TEST(log_probabilities_are_those_of_the_model)
{
    th_module *model = randomized(th_language_model_new(ctx, &gpt));
    const int64_t end = 4;
    th_generate_options o = prompted();
    o.log_probabilities = true;
    o.end_tokens = &end;
    o.n_end_tokens = 1;
    if (_i) {
        o.temperature = 1.5;
        o.top_k = 9;
        o.top_p = 0.9;
        o.min_p = 0.02;
        o.repetition_penalty = 1.3;
        o.no_repeat_ngram_size = 2;
    }
    const tokens got = generated_by(model, &o);
    for (int b = 0; b < B; b++) {
        int32_t all[T + MAX_NEW];
        memcpy(all, prompt + b * T, (size_t)lengths[b] * sizeof *all);
        memcpy(all + lengths[b], got.token[b], (size_t)got.length[b] * sizeof *all);
        const int64_t n = lengths[b] + got.length[b];
        th_tensor *logits = th_module_evaluate(model, integers(TH_SHAPE(1, n), all));
        th_tensor *expected = th_log_softmax(th_cast(logits, TH_FLOAT64), -1);
        no_error();
        for (int i = 0; i < got.length[b]; i++)
            ck_assert_double_eq_tol(got.log_probability[b][i],
                                    th_get(expected, TH_INDEX(0, lengths[b] + i - 1, got.token[b][i])), 1e-12);
        for (int i = got.length[b]; i < MAX_NEW; i++)
            ck_assert_double_eq(got.log_probability[b][i], 0);
    }
}
END_TEST

/* -- n-grams -- */

static const double descending[V] = {12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};

/* Greedy after logits that prefer token 0, then 1 and so on. The prompts are {1, 5, 2, 7} and {3, 4, 9}. */
START_TEST(ngrams_do_not_repeat)
{
    static const struct {
        int64_t n;
        int32_t expected[B][MAX_NEW];
    } cases[] = {
        {1, {{0, 3, 4, 6, 8, 9, 10, 11, 12}, {0, 1, 2, 5, 6, 7, 8, 10, 11, 12}}},
        {2, {{0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}, {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}}},
        {3, {{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0}, {0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0}}},
        {20, {{0}, {0}}},
    };
    th_module *model = new_with_logits(&gpt, descending);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_generate_options o = prompted();
        o.no_repeat_ngram_size = cases[i].n;
        if (i == 0) { /* later every token would repeat */
            o.max_new_tokens = 9;
            th_generated result;
            ck_assert_int_eq(th_generate(model, &o, &result), TH_OK);
            for (int b = 0; b < B; b++)
                for (int t = 0; t < 9; t++)
                    ck_assert_int_eq((int)th_get(result.tokens, TH_INDEX(b, t)), cases[0].expected[b][t]);
            th_tensor_free(result.tokens);
            th_tensor_free(result.lengths);
            continue;
        }
        const tokens got = generated_by(model, &o);
        for (int b = 0; b < B; b++)
            for (int t = 0; t < MAX_NEW; t++)
                ck_assert_msg(got.token[b][t] == cases[i].expected[b][t], "n = %d, prompt %d, token %d: %d",
                              (int)cases[i].n, b, t, (int)got.token[b][t]);
    }
}
END_TEST

/* With beams no sequence repeats an n-gram either, and neither the prompt's. */
START_TEST(ngrams_do_not_repeat_in_beams)
{
    th_module *model = new_with_logits(&gpt, descending);
    th_generate_options o = prompted();
    o.beams = o.sequences = SEQUENCES;
    o.no_repeat_ngram_size = 2;
    const tokens got = generated_by(model, &o);
    for (int i = 0; i < ALL; i++) {
        const int b = i / SEQUENCES, n = lengths[b] + got.length[i];
        int32_t all[T + MAX_NEW];
        memcpy(all, prompt + b * T, (size_t)lengths[b] * sizeof *all);
        memcpy(all + lengths[b], got.token[i], (size_t)got.length[i] * sizeof *all);
        for (int s = 0; s + 1 < n; s++)
            for (int t = s + 1; t + 1 < n; t++)
                ck_assert_msg(all[s] != all[t] || all[s + 1] != all[t + 1], "%d %d repeats", all[s], all[s + 1]);
    }
}
END_TEST

/* _i: beams. */
START_TEST(a_sequence_in_which_every_token_repeats_is_an_error)
{
    th_generate_options o = prompted();
    o.no_repeat_ngram_size = 1;
    o.beams = _i;
    expect_status(th_generate(new_with_logits(&gpt, descending), &o, NULL), TH_ERROR_VALUE,
                  "or every token would repeat an n-gram");
    th_tape_clear(ctx);
}
END_TEST

/* -- min_p -- */

/* Only tokens 0 and 1 are at least e^-1.5 times as probable as the best one. Greedy choice ignores it. */
START_TEST(min_p_excludes_improbable_tokens)
{
    th_module *model = new_with_logits(&gpt, descending);
    th_generate_options o = prompted();
    o.temperature = 1;
    o.min_p = exp(-1.5);
    bool found[2] = {false, false};
    for (uint64_t seed = 0; seed < 4; seed++) {
        o.seed = seed;
        const tokens got = generated_by(model, &o);
        for (int i = 0; i < B * MAX_NEW; i++) {
            ck_assert_int_le(got.token[i / MAX_NEW][i % MAX_NEW], 1);
            found[got.token[i / MAX_NEW][i % MAX_NEW]] = true;
        }
    }
    ck_assert(found[0] && found[1]);
    o.min_p = 1;
    const tokens one = generated_by(model, &o);
    ck_assert_int_eq(one.token[0][0], 0);
}
END_TEST

/* -- positions that depend on the length -- */

static const double short_factor[6] = {1, 1, 1.25, 1.5, 2, 3}, long_factor[6] = {1.5, 2, 3, 5, 8, 12};

/* A Llama with LongRoPE, whose frequencies change after `original` positions, or with dynamic scaling. */
static th_module *scaled_model(int64_t original, bool dynamic)
{
    const th_language_model_options o = {
        .vocabulary = V,
        .length = LENGTH,
        .width = 24,
        .heads = 2,
        .layers = 2,
        .positions = TH_POSITIONS_NONE,
        .block = {.norm = TH_RMS_NORM,
                  .gated = true,
                  .scores = {.rotary = true,
                             .rotary_base = 100,
                             .rotary_scaling = {.kind = dynamic ? TH_ROTARY_DYNAMIC : TH_ROTARY_LONGROPE,
                                                .factor = 4,
                                                .original_length = original,
                                                .short_factor = short_factor,
                                                .long_factor = long_factor,
                                                .n_factors = 6}}}};
    return randomized(th_language_model_new(ctx, &o));
}

START_TEST(layers_with_different_original_lengths_are_an_error)
{
    static const bool second[2] = {false, true};
    th_language_model_options o = *th_language_model_options_of(scaled_model(8, false));
    o.other_layers = second;
    o.other_scores = o.block.scores;
    o.other_scores.rotary_scaling.original_length = 10;
    const th_generate_options options = prompted();
    th_generated result;
    ck_assert_int_ne(th_generate(randomized(th_language_model_new(ctx, &o)), &options, &result), TH_OK);
    expect_error(TH_ERROR_ARGUMENT, "layers with LongRoPE must have the same original_length; the model has 8 and 10");
}
END_TEST

/* Greedy tokens of one prompt, each from a forward over the whole sequence. */
static void written_out(th_module *model, const int32_t *begin, int64_t n, int32_t *expected)
{
    int32_t all[T + MAX_NEW];
    memcpy(all, begin, (size_t)n * sizeof *all);
    for (int i = 0; i < MAX_NEW; i++) {
        th_tensor *logits = th_module_evaluate(model, integers(TH_SHAPE(1, n), all));
        no_error();
        int32_t best = 0;
        for (int32_t v = 1; v < V; v++)
            if (th_get(logits, TH_INDEX(0, n - 1, v)) > th_get(logits, TH_INDEX(0, n - 1, best)))
                best = v;
        expected[i] = all[n++] = best;
    }
}

/* With LongRoPE, generation in a batch gives the same tokens as forwards over whole sequences. */
START_TEST(longrope_generates_as_without_a_cache)
{
    for (int64_t original = 2; original <= T + MAX_NEW; original++) {
        th_module *model = scaled_model(original, false);
        const th_generate_options o = prompted();
        const tokens got = generated_by(model, &o);
        for (int b = 0; b < B; b++) {
            int32_t expected[MAX_NEW];
            written_out(model, prompt + b * T, lengths[b], expected);
            for (int t = 0; t < MAX_NEW; t++)
                ck_assert_msg(got.token[b][t] == expected[t], "original length %d, prompt %d, token %d: %d, not %d",
                              (int)original, b, t, (int)got.token[b][t], (int)expected[t]);
        }
        th_module_free(model);
        th_tape_clear(ctx);
    }
}
END_TEST

/* A sequence in a batch is the same alone. _i: dynamic, or beams with LongRoPE. */
START_TEST(sequences_with_their_own_length_do_not_depend_on_the_batch)
{
    for (int64_t original = 2; original <= T + 4; original++) {
        th_module *model = scaled_model(original, _i == 0);
        th_generate_options o = prompted();
        o.beams = _i == 0 ? 0 : 3;
        const tokens together = generated_by(model, &o);
        for (int b = 0; b < B; b++) {
            o.prompts = integers(TH_SHAPE(1, lengths[b]), prompt + b * T);
            o.lengths = NULL;
            const tokens alone = generated_by(model, &o);
            ck_assert_mem_eq(alone.token[0], together.token[b], sizeof alone.token[0]);
            ck_assert_double_eq(alone.score[0], together.score[b]);
        }
        th_module_free(model);
    }
}
END_TEST

static size_t peak_of(bool shapes_only, int64_t original, bool with_lengths)
{
    th_context *const outer = ctx;
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2, .shapes_only = shapes_only});
    th_module *model = scaled_model(original, false);
    th_generate_options o = prompted();
    o.max_new_tokens = 40;
    if (!with_lengths)
        o.lengths = NULL;
    ck_assert_msg(th_generate(model, &o, NULL) == TH_OK, "%s", th_error_message(ctx));
    const size_t peak = th_memory(ctx).reserved_peak;
    th_context_free(ctx);
    ctx = outer;
    return peak;
}

/* The forecast counts the forward that runs all tokens again. With different lengths it is an upper bound. */
START_TEST(forecasts_count_the_change_of_frequencies)
{
    for (int64_t original = 2; original < 44; original += 5) {
        ck_assert_uint_eq(peak_of(true, original, false), peak_of(false, original, false));
        ck_assert_uint_ge(peak_of(true, original, true), peak_of(false, original, true));
    }
}
END_TEST

/* -- errors -- */

START_TEST(wrong_options_are_errors)
{
    static const struct {
        th_generate_options options;
        const char *words;
    } cases[] = {
        {{.min_p = -0.1}, "min_p -0.1 must be in [0, 1]"},
        {{.min_p = NAN}, "min_p nan"},
        {{.min_p = 1.5}, "min_p 1.5"},
        {{.no_repeat_ngram_size = -1}, "no_repeat_ngram_size -1 must not be negative"},
        {{.sequences = -1, .temperature = 1}, "sequences must be 0 to 2147483647; it is -1"},
        {{.sequences = 2}, "several sequences of one prompt would be equal"},
        {{.sequences = 3, .beams = 2}, "2 beams cannot give 3 sequences"},
        {{.beams = 2, .log_probabilities = true}, "log_probabilities are not available with beams"},
    };
    th_module *model = th_language_model_new(ctx, &gpt);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        th_generate_options o = cases[i].options;
        o.prompts = integers(TH_SHAPE(B, T), prompt);
        o.max_new_tokens = 2;
        expect_status(th_generate(model, &o, NULL), TH_ERROR_ARGUMENT, cases[i].words);
    }
    th_generate_options none = {
        .prompts = th_zeros(ctx, TH_INT32, TH_SHAPE(0, T)), .max_new_tokens = 2, .temperature = 1, .sequences = 3};
    th_generated result;
    ck_assert_int_eq(th_generate(model, &none, &result), TH_OK);
    assert_shape(result.tokens, TH_SHAPE(0, 2));
    th_tensor_free(result.tokens);
    th_tensor_free(result.lengths);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("generate options", setup, close_context);
    tcase_add_loop_test(tests, sequences_are_those_of_repeated_prompts, 0, 2);
    tcase_add_test(tests, beams_give_their_best_sequences);
    tcase_add_loop_test(tests, log_probabilities_are_those_of_the_model, 0, 2);
    tcase_add_test(tests, ngrams_do_not_repeat);
    tcase_add_test(tests, ngrams_do_not_repeat_in_beams);
    tcase_add_loop_test(tests, a_sequence_in_which_every_token_repeats_is_an_error, 1, 3);
    tcase_add_test(tests, min_p_excludes_improbable_tokens);
    tcase_add_test(tests, layers_with_different_original_lengths_are_an_error);
    tcase_add_test(tests, longrope_generates_as_without_a_cache);
    tcase_add_loop_test(tests, sequences_with_their_own_length_do_not_depend_on_the_batch, 0, 2);
    tcase_add_test(tests, forecasts_count_the_change_of_frequencies);
    tcase_add_test(tests, wrong_options_are_errors);
    return run_suites();
}
