/* What each token of th_generate is chosen from: its random number, and the history that repetition_penalty sees. Most
 * models here give the same logits after any tokens, so that every choice can be computed. Also the modes of the
 * context after th_generate, and long searches with beams. B sequences, V vocabulary. */
#include <math.h>
#include <string.h>

#include "tapehead/models.h"

#include "drawn_models.h"

enum { B = 4, T = 6, V = 8, LENGTH = 64, MAX_NEW = 40 };

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

static const th_language_model_options small = {
    .vocabulary = V, .length = LENGTH, .width = 8, .heads = 2, .layers = 1, .dropout = 0.5};

static th_tensor *integers(th_shape shape, const int32_t *data)
{
    return th_from_data(ctx, TH_INT32, shape, data);
}

typedef struct tokens {
    int32_t token[B][MAX_NEW];
    double score[B];
} tokens;

static tokens generated_by(th_module *model, const th_generate_options *options)
{
    th_generated result;
    tokens t = {.score = {0}};
    ck_assert_msg(th_generate(model, options, &result) == TH_OK, "%s", th_error_message(ctx));
    const int32_t *data = th_data_const(result.tokens);
    for (int64_t b = 0; b < th_size(result.tokens, 0); b++) {
        memcpy(t.token[b], data + b * options->max_new_tokens, (size_t)options->max_new_tokens * sizeof *data);
        ck_assert_int_eq((int64_t)th_get(result.lengths, TH_INDEX(b)), options->max_new_tokens);
        t.score[b] = result.scores ? th_get(result.scores, TH_INDEX(b)) : 0;
    }
    th_tensor_free(result.tokens);
    th_tensor_free(result.lengths);
    th_tensor_free(result.scores);
    th_tape_clear(ctx);
    return t;
}

/* -- random numbers -- */

static const double equal[V] = {0};

/* The draws of B sequences from equal logits, after prompts of these lengths. */
static tokens drawn(th_module *model, uint64_t seed, const int32_t *lengths)
{
    static const int32_t prompt[B * T] = {1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0};
    return generated_by(model, &(th_generate_options){.prompts = integers(TH_SHAPE(B, T), prompt),
                                                      .lengths = integers(TH_SHAPE(B), lengths),
                                                      .max_new_tokens = MAX_NEW,
                                                      .temperature = 1,
                                                      .seed = seed});
}

/* The number is a function of (seed, sequence, token): not of the prompt's length. */
START_TEST(draws_count_from_the_first_generated_token)
{
    static const int32_t lengths[][B] = {{1, 1, 1, 1}, {6, 6, 6, 6}, {1, 2, 3, 4}, {5, 1, 6, 2}};
    th_module *model = new_with_logits(&small, equal);
    for (uint64_t seed = 0; seed < 4; seed++) {
        const tokens first = drawn(model, seed, lengths[0]);
        for (int i = 1; i < 4; i++) {
            const tokens other = drawn(model, seed, lengths[i]);
            ck_assert_mem_eq(other.token, first.token, sizeof first.token);
        }
    }
}
END_TEST

static int equal_tokens(const int32_t *a, const int32_t *b, int n)
{
    int same = 0;
    for (int i = 0; i < n; i++)
        same += a[i] == b[i];
    return same;
}

/* Sequences with equal prompts, and tokens, and seeds draw different numbers: of N pairs about N / V are equal. */
START_TEST(every_draw_has_its_own_number)
{
    static const int32_t lengths[B] = {3, 3, 3, 3};
    enum { HALF = MAX_NEW / 2, SEEDS = 5 };
    th_module *model = new_with_logits(&small, equal);
    tokens of[SEEDS];
    int count[V] = {0}, shifted = 0;
    for (int s = 0; s < SEEDS; s++) {
        of[s] = drawn(model, s < 3 ? (uint64_t)s : (uint64_t)s << 32, lengths);
        for (int b = 0; b < B; b++) {
            for (int t = 0; t < MAX_NEW; t++)
                count[of[s].token[b][t]]++;
            for (int other = 0; other < b; other++)
                ck_assert_int_le(equal_tokens(of[s].token[b], of[s].token[other], MAX_NEW), HALF);
            for (int other = 0; other < s; other++)
                ck_assert_int_le(equal_tokens(of[s].token[b], of[other].token[b], MAX_NEW), HALF);
            shifted += equal_tokens(of[s].token[b], of[s].token[b] + 1, MAX_NEW - 1);
            for (int other = 0; other < b; other++) /* the number depends on more than the sum of the indices */
                ck_assert_int_le(equal_tokens(of[s].token[b], of[s].token[other] + b - other, MAX_NEW - b + other),
                                 HALF);
        }
    }
    ck_assert_int_lt(shifted, SEEDS * B * MAX_NEW / 3);
    for (int v = 0; v < V; v++) /* 100 are expected */
        ck_assert(count[v] > 60 && count[v] < 140);
}
END_TEST

/* -- the repetition penalty -- */

static int largest(const double *score)
{
    int best = 0;
    for (int v = 1; v < V; v++)
        best = score[v] > score[best] ? v : best;
    return best;
}

static double penalized(double logit, double penalty)
{
    return logit < 0 ? logit * penalty : logit / penalty;
}

static const double penalties[] = {0.5, 1, 1.1, 1.5, 4};
static const double uneven[][V] = {{5, 4.75, 4, 2, 1.5, 1, -1, -2}, {-1, -1.25, -1.5, -2, -2.5, -3, -3.5, -8}};

/* Every token of the prompt and every generated token is penalized, once. _i: the penalty, times the logits. */
START_TEST(the_penalty_sees_the_prompt_and_what_was_generated)
{
    static const int32_t prompt[B * T] = {0, 0, 0, 0, 0, 0, 7, 6, 0, 0, 0, 0, 3, 1, 2, 7, 7, 7, 0, 1, 0, 1, 2, 5};
    static const int32_t lengths[B] = {1, 2, 3, 6};
    const double penalty = penalties[_i / 2], *logits = uneven[_i % 2];
    const tokens got = generated_by(new_with_logits(&small, logits),
                                    &(th_generate_options){.prompts = integers(TH_SHAPE(B, T), prompt),
                                                           .lengths = integers(TH_SHAPE(B), lengths),
                                                           .max_new_tokens = MAX_NEW,
                                                           .repetition_penalty = penalty});
    for (int b = 0; b < B; b++) {
        double score[V];
        memcpy(score, logits, sizeof score);
        for (int t = 0; t < lengths[b]; t++)
            score[prompt[b * T + t]] = penalized(logits[prompt[b * T + t]], penalty);
        for (int t = 0; t < MAX_NEW; t++) {
            const int token = largest(score);
            ck_assert_msg(got.token[b][t] == token, "sequence %d, token %d: %d, not %d", b, t, (int)got.token[b][t],
                          token);
            score[token] = penalized(logits[token], penalty);
        }
    }
}
END_TEST

/* -- beams -- */

enum { BEAMS = 3 };

/* A beam of the reference: all its tokens, and the sum of their penalized log-probabilities. */
typedef struct beam {
    int32_t token[T + MAX_NEW];
    double score;
} beam;

/* Computes the log-probabilities after n tokens, without a cache. */
static void log_probabilities(th_module *model, const beam *of, int n, double penalty, double *score)
{
    double total = 0;
    th_set_training(ctx, false);
    th_no_grad_begin(ctx);
    th_tensor *y = th_module_forward(model, integers(TH_SHAPE(1, n), of->token));
    no_error();
    for (int64_t v = 0; v < V; v++)
        total += exp(score[v] = th_get(y, TH_INDEX(0, n - 1, v)));
    for (int v = 0; v < V; v++)
        score[v] -= log(total);
    double repeated[V];
    memcpy(repeated, score, sizeof repeated);
    for (int t = 0; t < n; t++)
        score[of->token[t]] = penalized(repeated[of->token[t]], penalty);
    for (int v = 0; v < V; v++)
        score[v] += of->score;
    th_no_grad_end(ctx);
    th_set_training(ctx, true);
    th_tape_clear(ctx);
}

/* Replaces the beams after n tokens by the best BEAMS continuations. */
static void continue_beams(th_module *model, beam *beams, int n, double penalty)
{
    double score[BEAMS][V];
    beam next[BEAMS];
    for (int i = 0; i < BEAMS; i++)
        log_probabilities(model, &beams[i], n, penalty, score[i]);
    for (int i = 0; i < BEAMS; i++) {
        int from = 0, token = 0;
        for (int k = 0; k < BEAMS * V; k++)
            if (score[k / V][k % V] > score[from][token])
                from = k / V, token = k % V;
        next[i] = beams[from];
        next[i].token[n] = token;
        next[i].score = score[from][token];
        score[from][token] = -INFINITY;
    }
    memcpy(beams, next, sizeof next);
}

/* Searches over more positions than the cache moves at a time. _i: without a penalty, with a penalty, or with bigrams
 * and layers that read the first one. */
START_TEST(a_long_beam_search_is_that_of_whole_sequences)
{
    static const int32_t prompt[B * T] = {0, 5, 2, 1, 1, 4, 7, 0, 0, 0, 0, 0, 3, 1, 2, 7, 0, 0, 6, 6, 0, 0, 0, 0};
    static const int32_t lengths[B] = {6, 1, 4, 2};
    const double penalty = _i == 1 ? 1.2 : 1;
    th_language_model_options o = small;
    o.bigram_rows = _i == 2 ? V * V + 1 : 0;
    o.block.value_residual = o.block.embedding_skip = _i == 2;
    const bool native = strstr(th_build_info(ctx), "gemm=native") != NULL; /* a cache then changes no bit */
    th_module *model = th_language_model_new(ctx, &o);
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    const tokens got = generated_by(model, &(th_generate_options){.prompts = integers(TH_SHAPE(B, T), prompt),
                                                                  .lengths = integers(TH_SHAPE(B), lengths),
                                                                  .max_new_tokens = MAX_NEW,
                                                                  .repetition_penalty = penalty,
                                                                  .no_length_penalty = true,
                                                                  .beams = BEAMS});
    for (int b = 0; b < B; b++) {
        const int n = lengths[b];
        beam beams[BEAMS] = {{.score = 0}, {.score = -INFINITY}, {.score = -INFINITY}}; /* at first only one */
        for (int i = 0; i < BEAMS; i++)
            memcpy(beams[i].token, prompt + b * T, (size_t)n * sizeof *prompt);
        for (int t = 0; t < MAX_NEW; t++)
            continue_beams(model, beams, n + t, penalty);
        for (int t = 0; t < MAX_NEW; t++)
            ck_assert_msg(got.token[b][t] == beams[0].token[n + t], "sequence %d, token %d: %d, not %d", b, t,
                          (int)got.token[b][t], (int)beams[0].token[n + t]);
        ck_assert_double_eq_tol(got.score[b], beams[0].score, native ? 1e-9 : 1e-4);
    }
}
END_TEST

/* A model whose tokens depend on all tokens before. */
static th_module *varied_model(bool untied)
{
    th_language_model_options o = small;
    o.untied = untied;
    th_module *m = th_language_model_new(ctx, &o);
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    no_error();
    return m;
}

typedef struct passed {
    int count[B];
    int64_t token[B][MAX_NEW];
} passed;

/* Stops sequence 1 after two tokens. */
static bool pass(void *user, int64_t sequence, int64_t token)
{
    passed *p = user;
    ck_assert(p->count[sequence] < MAX_NEW);
    p->token[sequence][p->count[sequence]++] = token;
    return sequence != 1 || p->count[1] < 2;
}

/* emit gets exactly the tokens of each result: not of other beams, and none after its end. _i: the end token. */
START_TEST(beams_pass_the_tokens_of_their_results)
{
    static const int32_t prompt[B * T] = {0, 5, 2, 1, 1, 4, 7, 0, 0, 0, 0, 0, 3, 1, 2, 7, 0, 0, 6, 6, 0, 0, 0, 0};
    static const int32_t lengths[B] = {6, 1, 4, 2};
    const int64_t end = _i;
    passed p = {.count = {0}};
    th_generated result;
    const th_generate_options o = {.prompts = integers(TH_SHAPE(B, T), prompt),
                                   .lengths = integers(TH_SHAPE(B), lengths),
                                   .max_new_tokens = 12,
                                   .end_tokens = &end,
                                   .n_end_tokens = 1,
                                   .beams = BEAMS,
                                   .emit = pass,
                                   .user = &p};
    ck_assert_int_eq(th_generate(varied_model(false), &o, &result), TH_OK);
    for (int b = 0; b < B; b++) {
        const int length = (int)th_get(result.lengths, TH_INDEX(b));
        ck_assert_int_eq(p.count[b], b == 1 && length > 2 ? 2 : length);
        for (int t = 0; t < p.count[b]; t++)
            ck_assert_int_eq(p.token[b][t], (int64_t)th_get(result.tokens, TH_INDEX(b, t)));
    }
}
END_TEST

/* An error names the sequence and the token without a choice. _i: without or with beams. */
START_TEST(a_sequence_without_a_choice_is_named)
{
    static const int32_t prompt[3 * 2] = {1, 2, 3, 7, 1, 7};
    th_module *model = varied_model(true);
    th_tensor *rows = th_module_find_parameter(model, "embedding.weight");
    th_generate_options o = {.prompts = integers(TH_SHAPE(3, 2), prompt), .max_new_tokens = 5, .beams = _i ? BEAMS : 0};
    ck_assert_int_eq(th_set(rows, TH_INDEX(7, 0), (double)NAN), TH_OK);
    expect_status(th_generate(model, &o, NULL), TH_ERROR_VALUE, "the logits for token 0 of sequence 1 contain NaN");
    ck_assert_int_eq(th_set(rows, TH_INDEX(7, 0), 0), TH_OK);
    /* a sequence has no choice as soon as its own first token is one whose embedding is not a number */
    o.prompts = integers(TH_SHAPE(1, 1), prompt);
    o.beams = 0;
    th_generated result;
    ck_assert_int_eq(th_generate(model, &o, &result), TH_OK);
    const int64_t chosen = (int64_t)th_get(result.tokens, TH_INDEX(0, 0));
    ck_assert_int_ne(chosen, prompt[0]);
    ck_assert_int_eq(th_set(rows, TH_INDEX(chosen, 0), (double)NAN), TH_OK);
    expect_status(th_generate(model, &o, NULL), TH_ERROR_VALUE, "the logits for token 1 of sequence 0 contain NaN");
}
END_TEST

/* -- the modes of the context -- */

static bool modes_are(bool training, bool recording)
{
    return th_is_training(ctx) == training && th_is_recording(ctx) == recording;
}

static bool expected_training, expected_recording;

static bool check_modes(void *user, int64_t sequence, int64_t token)
{
    (void)user, (void)sequence, (void)token;
    return modes_are(expected_training, expected_recording);
}

/* The context has the caller's modes after success, after each kind of error, and while emit runs. _i: training mode,
 * times recording, times three ways to choose, times the kind of model. */
START_TEST(generating_restores_the_modes)
{
    const bool training = _i % 2, recording = _i / 2 % 2, decoder_only = _i / 12;
    const int way = _i / 4 % 3;
    static const int32_t prompt[2] = {1, 2};
    const th_transformer_options pair = {.source_vocabulary = V,
                                         .target_vocabulary = V,
                                         .length = LENGTH,
                                         .width = 8,
                                         .heads = 2,
                                         .encoder_layers = 1,
                                         .decoder_layers = 1,
                                         .dropout = 0.5};
    th_module *model = decoder_only ? th_language_model_new(ctx, &small) : th_transformer_new(ctx, &pair);
    th_tensor *bias = th_module_find_parameter(model, decoder_only ? "norm.bias" : "decoder.norm.bias");
    th_generate_options options = {.max_new_tokens = 5, .emit = check_modes};
    *(decoder_only ? &options.prompts : &options.source) = integers(TH_SHAPE(1, 2), prompt);
    options.temperature = way == 1 ? 1 : 0;
    options.beams = way == 2 ? 2 : 0;
    ck_assert_ptr_nonnull(bias);
    th_set_training(ctx, training);
    if (!recording)
        th_no_grad_begin(ctx);
    expected_training = training, expected_recording = recording;
    for (int wrong = 0; wrong < 4; wrong++) {
        th_generate_options o = options;
        ck_assert_int_eq(th_set(bias, TH_INDEX(0), wrong == 1 ? (double)NAN : 0), TH_OK); /* while choosing */
        o.max_new_tokens = wrong == 2 ? LENGTH + 1 : 5;                                   /* before anything runs */
        const int64_t length = th_tape_length(ctx);
        if (wrong)
            ck_assert_int_ne(th_generate(model, &o, NULL), TH_OK);
        else
            generated_by(model, &o); /* (a stopped sequence fails its check of lengths) */
        ck_assert(modes_are(training, recording));
        if (wrong == 3)
            expect_error(TH_ERROR_VALUE, "NaN");
        th_error_clear(ctx);
        ck_assert(modes_are(training, recording) && th_tape_length(ctx) <= length);
        if (wrong == 2) /* in the encoder, or in the first forward */
            ck_assert_int_eq(
                th_set(th_module_find_parameter(model, decoder_only ? "embedding.weight" : "source_embedding.weight"),
                       TH_INDEX(1, 0), (double)NAN),
                TH_OK);
    }
    if (!recording)
        th_no_grad_end(ctx);
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("generate_choices", setup, close_context);
    tcase_add_test(tests, draws_count_from_the_first_generated_token);
    tcase_add_test(tests, every_draw_has_its_own_number);
    tcase_add_loop_test(tests, the_penalty_sees_the_prompt_and_what_was_generated, 0,
                        2 * sizeof penalties / sizeof *penalties);
    tcase_add_loop_test(tests, a_long_beam_search_is_that_of_whole_sequences, 0, 3);
    tcase_add_loop_test(tests, beams_pass_the_tokens_of_their_results, 0, V);
    tcase_add_loop_test(tests, a_sequence_without_a_choice_is_named, 0, 2);
    tcase_add_loop_test(tests, generating_restores_the_modes, 0, 2 * 2 * 3 * 2);
    return run_suites();
}
