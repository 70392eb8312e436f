/* th_generate against the same thing written out: whole sequences through the model for every token. B sequences, V
 * vocabulary. */
#include <math.h>
#include <string.h>

#include "memory.h"
#include "tapehead/tapehead.h"

#include "context.h"

static void setup(void)
{
    ctx = th_context_new(&(th_context_options){.seed = 3, .threads = 2});
    ck_assert_ptr_nonnull(ctx);
}

enum { B = 3, T = 5, V = 11, LENGTH = 16, MOST = 9 };

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

/* With numbers that make a lively distribution. */
static th_module *enlivened(th_module *m)
{
    no_error();
    for (th_parameter_iterator p = th_module_parameters(m); th_parameter_next(&p);)
        if (th_ndim(p.tensor) > 1)
            ck_assert_int_eq(th_fill_normal(p.tensor, 0, 0.4), TH_OK);
    return m;
}

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
                                 .lens = th_from_data(ctx, TH_INT64, TH_SHAPE(B), prompt_len),
                                 .most_tokens = MOST};
}

static th_generate_options sourced(void)
{
    return (th_generate_options){
        .source = integers(B, 4, source), .source_lens = integers(B, 0, source_len), .start = 3, .most_tokens = MOST};
}

typedef struct tokens {
    int32_t token[B][MOST];
    int32_t len[B];
    double score[B];
} tokens;

static tokens generated_by(th_module *model, const th_generate_options *options)
{
    th_generated result;
    const th_status status = th_generate(model, options, &result);
    ck_assert_msg(status == TH_OK, "%s", th_error_message(ctx));
    const int64_t batch = th_size(result.tokens, 0);
    tokens t = {.len = {0}};
    ck_assert_int_eq(th_dtype_of(result.tokens), TH_INT32);
    ck_assert_int_eq(th_size(result.tokens, 1), options->most_tokens);
    ck_assert_int_eq(th_copy_out(result.lens, t.len, (size_t)batch * sizeof *t.len), TH_OK);
    const int32_t *data = th_data_const(result.tokens);
    for (int64_t b = 0; b < batch; b++)
        memcpy(t.token[b], data + b * options->most_tokens, (size_t)options->most_tokens * sizeof *data);
    ck_assert_int_eq(result.scores != NULL, options->beams > 1);
    if (result.scores)
        ck_assert_int_eq(th_copy_out(result.scores, t.score, (size_t)batch * sizeof *t.score), TH_OK);
    th_tensor_free(result.tokens);
    th_tensor_free(result.lens);
    th_tensor_free(result.scores);
    no_error();
    return t;
}

static void assert_same(const tokens *a, const tokens *b)
{
    for (int i = 0; i < B; i++) {
        ck_assert_int_eq(a->len[i], b->len[i]);
        for (int t = 0; t < MOST; t++)
            ck_assert_msg(a->token[i][t] == b->token[i][t], "sequence %d, token %d: %d, not %d", i, t, a->token[i][t],
                          b->token[i][t]);
    }
}

/* The logits of the last of n tokens, in evaluation. */
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
        int32_t all[T + MOST] = {3};
        int64_t n = 1, begin = 0;
        if (from_prompts) {
            n = prompt_len[b];
            memcpy(all, prompt + b * T, (size_t)n * sizeof *all);
        }
        t.len[b] = MOST;
        for (int i = 0; i < MOST; i++) {
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
    th_set_fusion(ctx, _i % 2 == 0);
    th_module *model = enlivened(_i / 2 == 0   ? th_language_model_new(ctx, &gpt)
                                 : _i / 2 == 1 ? th_language_model_new(ctx, &grouped)
                                               : th_transformer_new(ctx, &encoder_decoder));
    const th_generate_options options = _i / 2 < 2 ? prompted() : sourced();
    const tokens expected = written_out(model, _i / 2 < 2, LENGTH), got = generated_by(model, &options);
    assert_same(&got, &expected);
    ck_assert(th_is_training(ctx) && th_is_recording(ctx));
}
END_TEST

int main(void)
{
    TCase *tests = new_suite("generate", setup, close_context);
    tcase_add_loop_test(tests, greedy_is_the_largest_logit_of_whole_sequences, 0, 6);
    return run_suites();
}
