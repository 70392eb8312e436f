/* Chooses a token from logits (sampling.h). */
#include "models/generation/sampling.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "models/core/context.h"

/* -- memory -- */

size_t th_sampling_bytes(int64_t vocabulary)
{
    const size_t n = (size_t)vocabulary;
    return th_aligned(n * sizeof(double)) + th_aligned(n * sizeof(th_ranked)) + th_aligned(n * sizeof(int64_t)) +
           th_aligned(n * sizeof(double));
}

th_sampling_space th_sampling_space_at(void *memory, int64_t vocabulary)
{
    const size_t n = (size_t)vocabulary, numbers = th_aligned(n * sizeof(double));
    char *score = memory, *best = score + numbers, *token = best + th_aligned(n * sizeof(th_ranked)),
         *weight = token + th_aligned(n * sizeof(int64_t));
    return (th_sampling_space){.score = (double *)(void *)score,
                               .best = (th_ranked *)(void *)best,
                               .choices = {.token = (int64_t *)(void *)token, .weight = (double *)(void *)weight}};
}

/* -- scores -- */

static double logit_at(const th_logits_row *row, int64_t i)
{
    return row->dtype == TH_FLOAT64 ? ((const double *)row->logits)[i] : (double)((const float *)row->logits)[i];
}

/* Copies the logits as float64. Returns false if no token can be chosen. */
static bool load_logits(const th_logits_row *row, double *score)
{
    double largest = -INFINITY;
    bool usable = true;
    for (int64_t i = 0; i < row->vocabulary; i++) {
        const double x = logit_at(row, i);
        score[i] = x;
        usable &= x < INFINITY; /* false for NaN */
        largest = x > largest ? x : largest;
    }
    return usable && largest > -INFINITY;
}

static double largest_of(int64_t n, const double *score)
{
    double largest = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        largest = score[i] > largest ? score[i] : largest;
    return largest;
}

/* Makes tokens of the history less probable. Each score is computed from the logit, so that a token counts once,
 * however often it occurs. shift was subtracted from all logits. A score that overflows becomes the largest finite
 * number, so that differences of scores are never NaN. */
static void penalize(const th_sampling *s, const th_logits_row *row, double shift, double *score)
{
    const double penalty = s->repetition_penalty;
    if (penalty == 0 || penalty == 1)
        return;
    for (int64_t i = 0; i < row->length; i++) {
        const int64_t token = row->history[i];
        const double x = logit_at(row, token) - shift, penalized = x < 0 ? x * penalty : x / penalty;
        score[token] = isinf(x) ? x : fmax(-DBL_MAX, fmin(penalized, DBL_MAX));
    }
}

/* Excludes the tokens that would complete an n-gram which the history contains. */
static void exclude_repeats(const th_sampling *s, const th_logits_row *row, double *score)
{
    const int64_t n = s->no_repeat_ngram_size;
    if (n <= 0 || row->length < n)
        return;
    const int64_t *last = row->history + row->length - (n - 1);
    for (int64_t i = 0; i + n <= row->length; i++)
        if (memcmp(row->history + i, last, (size_t)(n - 1) * sizeof *last) == 0)
            score[row->history[i + n - 1]] = -INFINITY;
}

/* Divides by the temperature. If the largest quotient would overflow, it first subtracts the largest score. The
 * distribution is the same; for the smallest temperatures it is the greedy choice. */
static void divide_by_temperature(double temperature, int64_t n, double *score)
{
    const double largest = largest_of(n, score), shift = isfinite(largest / temperature) ? 0 : largest;
    for (int64_t i = 0; i < n; i++)
        score[i] = (score[i] - shift) / temperature;
}

/* Replaces each weight by exp(weight - largest). Returns their sum, added in order. */
static double exponentiate(const th_kernels *kernels, int64_t n, double largest, double *weight)
{
    for (int64_t i = 0; i < n; i++)
        weight[i] -= largest;
    kernels->exp(n, (void *const[]){weight, weight}, NULL);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight[i];
    return sum;
}

/* -- filters -- */

/* Keeps the tokens whose score is at least the k-th best: more than k if several are equal to it. */
static void keep_top_k(int64_t top_k, int64_t vocabulary, th_sampling_space *space)
{
    th_choices *c = &space->choices;
    double least = -INFINITY;
    if (top_k > 0 && top_k < vocabulary) {
        th_select_best(vocabulary, space->score, top_k, space->best);
        least = space->best[top_k - 1].score;
    }
    c->count = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        if (space->score[i] >= least) {
            c->token[c->count] = i;
            c->weight[c->count++] = space->score[i];
        }
}

/* Keeps the fewest most probable tokens that have the fraction p of the whole weight. */
static void keep_top_p(double p, double sum, th_sampling_space *space)
{
    th_choices *c = &space->choices;
    for (int64_t i = 0; i < c->count; i++)
        space->best[i] = (th_ranked){c->weight[i], c->token[i]};
    c->count = th_move_mass_to_front(c->count, space->best, p * sum);
    for (int64_t i = 0; i < c->count; i++) {
        c->token[i] = space->best[i].index;
        c->weight[i] = space->best[i].score;
    }
}

/* Keeps the tokens that are at least p times as probable as the most probable one, which has the weight 1. */
static void keep_min_p(double p, th_choices *c)
{
    int64_t count = 0;
    for (int64_t i = 0; i < c->count; i++)
        if (c->weight[i] >= p) {
            c->token[count] = c->token[i];
            c->weight[count++] = c->weight[i];
        }
    c->count = count;
}

/* Writes the scores of the logits with all penalties. Returns false if no token can be chosen. */
static bool write_penalized_scores(const th_sampling *s, const th_logits_row *row, double *score)
{
    if (!load_logits(row, score))
        return false;
    penalize(s, row, 0, score);
    exclude_repeats(s, row, score);
    return s->no_repeat_ngram_size <= 0 || largest_of(row->vocabulary, score) > -INFINITY;
}

bool th_sampling_choices(const th_sampling *s, const th_logits_row *row, th_sampling_space *space)
{
    if (!write_penalized_scores(s, row, space->score))
        return false;
    divide_by_temperature(s->temperature, row->vocabulary, space->score);
    keep_top_k(s->top_k, row->vocabulary, space);
    th_choices *c = &space->choices;
    const double sum = exponentiate(s->kernels, c->count, largest_of(c->count, c->weight), c->weight);
    if (s->top_p > 0 && s->top_p < 1)
        keep_top_p(s->top_p, sum, space);
    if (s->min_p > 0)
        keep_min_p(s->min_p, c);
    return true;
}

/* -- the token -- */

static int64_t draw_choice(const th_choices *c, double u)
{
    double sum = 0, before = 0;
    for (int64_t i = 0; i < c->count; i++)
        sum += c->weight[i];
    int64_t last = 0; /* the last token with a positive weight */
    for (int64_t i = 0; i < c->count; i++) {
        if (!(c->weight[i] > 0))
            continue;
        last = i;
        before += c->weight[i];
        if (u * sum < before)
            break;
    }
    return c->token[last];
}

int64_t th_sampling_token(const th_sampling *s, const th_logits_row *row, double u, th_sampling_space *space)
{
    if (s->temperature > 0)
        return th_sampling_choices(s, row, space) ? draw_choice(&space->choices, u) : -1;
    if (!write_penalized_scores(s, row, space->score))
        return -1;
    int64_t best = 0;
    for (int64_t i = 1; i < row->vocabulary; i++)
        best = space->score[i] > space->score[best] ? i : best;
    return best;
}

/* -- log-probabilities -- */

/* Returns log(sum(exp(score))). Uses the weights of the space. */
static double log_sum(const th_sampling *s, int64_t n, th_sampling_space *space)
{
    const double largest = largest_of(n, space->score);
    memcpy(space->choices.weight, space->score, (size_t)n * sizeof *space->score);
    double sum = exponentiate(s->kernels, n, largest, space->choices.weight), logarithm;
    s->kernels->log(1, (void *const[]){&logarithm, &sum}, NULL);
    return largest + logarithm;
}

double th_log_probability(const th_sampling *s, const th_logits_row *row, int64_t token, th_sampling_space *space)
{
    (void)load_logits(row, space->score);
    return space->score[token] - log_sum(s, row->vocabulary, space);
}

bool th_log_probabilities(const th_sampling *s, const th_logits_row *row, th_sampling_space *space)
{
    if (!load_logits(row, space->score))
        return false;
    const double shift = log_sum(s, row->vocabulary, space);
    for (int64_t i = 0; i < row->vocabulary; i++)
        space->score[i] -= shift;
    penalize(s, row, shift, space->score);
    exclude_repeats(s, row, space->score);
    return true;
}
