/* Compares generated tokens with those of forwards over the whole sequence, and a sequence with the same one alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kinds.h"

enum { NEW_TOKENS = 5, MAX_PROMPT = 40, BEAMS = 3 };

/* The prompts of a program for one of its models. */
typedef struct prompts {
    th_context *ctx;
    th_module *model;
    int64_t batch, tokens, count, vocabulary; /* tokens: of the longest prompt; count: new ones */
    int64_t length[MAX_BATCH];
    int64_t token[MAX_BATCH][MAX_PROMPT + NEW_TOKENS];
} prompts;

static prompts make_prompts(const program *p, run *r, int index)
{
    prompts q = {.ctx = r->ctx, .model = r->module[index], .batch = p->batch};
    const th_language_model_options *options = th_language_model_options_of(q.model);
    q.vocabulary = options->vocabulary;
    q.count = p->tokens < 4 ? 2 : NEW_TOKENS;
    q.tokens = p->tokens + 2 - q.count < MAX_PROMPT ? p->tokens + 2 - q.count : MAX_PROMPT;
    for (int b = 0; b < q.batch; b++) {
        q.length[b] = 1 + p->length[b] % q.tokens;
        for (int i = 0; i < q.tokens; i++)
            q.token[b][i] =
                (int64_t)((p->seed + 977u * (unsigned)b + 31u * (unsigned)i * (unsigned)i) % (unsigned)q.vocabulary);
    }
    return q;
}

/* Generates from all prompts, or from sequence b alone without its padding. Returns false after an error. */
static bool generate(const prompts *q, int64_t only, th_generate_options options, int64_t *tokens, double *scores)
{
    int64_t packed[MAX_BATCH * MAX_PROMPT];
    const int64_t first = only < 0 ? 0 : only, batch = only < 0 ? q->batch : 1;
    const int64_t columns = only < 0 ? q->tokens : q->length[only];
    for (int64_t b = 0; b < batch; b++)
        memcpy(&packed[b * columns], q->token[first + b], (size_t)columns * sizeof *packed);
    th_generated made = {0};
    th_step_begin(q->ctx);
    options.prompts = th_from_data(q->ctx, TH_INT64, TH_SHAPE(batch, columns), packed);
    options.lengths = th_from_data(q->ctx, TH_INT64, TH_SHAPE(batch), &q->length[first]);
    options.max_new_tokens = q->count;
    options.seed = 7;
    const bool ok = th_generate(q->model, &options, &made) == TH_OK &&
                    th_copy_out(made.tokens, tokens, (size_t)(batch * q->count) * sizeof *tokens) == TH_OK &&
                    (made.scores == NULL || th_copy_out(made.scores, scores, (size_t)batch * sizeof *scores) == TH_OK);
    th_tape_clear(q->ctx);
    return ok;
}

/* Returns the largest logit after `count` tokens, and adds the log-probability of token `next`. */
static int64_t whole_forward(const prompts *q, const int64_t *token, int64_t count, int64_t next, double *sum)
{
    th_step_begin(q->ctx);
    th_tensor *y = th_module_evaluate(q->model, th_from_data(q->ctx, TH_INT64, TH_SHAPE(1, count), token));
    y = th_cast(th_select(y, 1, -1), TH_FLOAT64);
    const int64_t best = (int64_t)th_item(th_argmax(y, 1));
    *sum += th_get(th_log_softmax(y, 1), TH_INDEX(0, next));
    th_tape_clear(q->ctx);
    return best;
}

/* Checks tokens that were generated for sequence b: greedy ones are the largest logits, and the score of beams is the
 * sum of the log-probabilities. */
static bool check_against_whole(prompts *q, int64_t b, const int64_t *tokens, const double *score, double tolerance,
                                finding *f)
{
    double sum = 0;
    for (int64_t i = 0; i < q->count; i++) {
        const int64_t best = whole_forward(q, q->token[b], q->length[b] + i, tokens[i], &sum);
        if (score == NULL && best != tokens[i])
            return report(f, "generation", "token %d of sequence %d is %d, and %d without a cache", (int)i, (int)b,
                          (int)tokens[i], (int)best);
        q->token[b][q->length[b] + i] = tokens[i];
    }
    if (score && !(fabs(sum / (double)q->count - *score) <= tolerance * (1 + fabs(*score))))
        return report(f, "generation", "the score of sequence %d is %.9g, and %.9g without a cache", (int)b, *score,
                      sum / (double)q->count);
    return true;
}

/* Compares a way to generate in a batch, alone, and without a cache. */
static bool check_way(const prompts *q, const th_generate_options *options, double tolerance, finding *f)
{
    int64_t batch[MAX_BATCH * NEW_TOKENS], alone[NEW_TOKENS];
    double scores[MAX_BATCH] = {0}, score = 0;
    const bool training = th_is_training(q->ctx);
    if (!generate(q, -1, *options, batch, scores) || th_is_training(q->ctx) != training)
        return report(f, "generation", "fails or changes the mode: %s", th_error_message(q->ctx));
    for (int64_t b = 0; b < q->batch; b++) {
        prompts copy = *q;
        if (options->temperature > 0 && b > 0) /* random numbers depend on the sequence's index */
            break;
        if (!generate(q, b, *options, alone, &score))
            return report(f, "generation", "sequence %d fails alone: %s", (int)b, th_error_message(q->ctx));
        if (memcmp(alone, &batch[b * q->count], (size_t)q->count * sizeof *alone) != 0 || score < scores[b] ||
            score > scores[b])
            return report(f, "generation", "%d beams: sequence %d has other tokens alone", (int)options->beams, (int)b);
        if (options->temperature <= 0 &&
            !check_against_whole(&copy, b, alone, options->beams > 1 ? &score : NULL, tolerance, f))
            return false;
    }
    return true;
}

bool check_generation(const program *p, finding *f)
{
    const th_generate_options ways[] = {
        {.beams = 1}, {.temperature = 0.8, .top_k = 3, .top_p = 0.9, .repetition_penalty = 1.3}, {.beams = BEAMS}};
    const setting s = {.name = "generation", .sequence = -1, .threads = p->threads, .composed = p->sequence_way == 1};
    outcome out = {.failed_line = -1};
    bool opened = false;
    run r = {.p = p, .s = &s, .out = &out};
    for (int i = 0; i < p->lines && !f->check[0] && out.status == TH_OK; i++) {
        if (p->line[i].dropped || !strstr(p->line[i].label, "language model") || strstr(p->line[i].label, "'s loss"))
            continue;
        if (!opened)
            run_open(&r);
        opened = true;
        prompts q = make_prompts(p, &r, i);
        for (int way = 0; way < 3 && !f->check[0]; way++)
            if (way < 2 || q.vocabulary >= BEAMS)
                check_way(&q, &ways[way], p->precision == TH_PRECISION_BFLOAT16 ? 0.05 : 2e-3, f);
    }
    if (opened)
        run_close(&r);
    return f->check[0] == 0;
}
