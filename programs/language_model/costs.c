/* The costs of a run: what a step, an evaluation and a sample take on this machine, and how many steps a time has. */
#include <math.h>

#include "plan.h"

enum { MIN_RUNS = 3 }; /* to time */

/* Fills the batch with tokens, so that rows of the embedding are read as in a text. */
static void fill_batch(const trainer *t)
{
    int32_t *token = th_data(t->tokens), *target = th_data(t->targets);
    for (int64_t i = 0, n = th_numel(t->tokens); i < n; i++) {
        token[i] = (int32_t)(i * 7919 % chosen.model.vocabulary);
        target[i] = (int32_t)((i + 1) * 7919 % chosen.model.vocabulary);
    }
}

static trainer new_trial(const trainer *t)
{
    const th_context_options options = {
        .seed = (uint64_t)chosen.seed, .threads = th_team_size(t->ctx), .precision = th_precision_of(t->ctx)};
    trainer trial = {.ctx = th_context_new(&options)};
    make_model(&trial);
    make_batch(&trial);
    make_optimizer(&trial);
    fill_batch(&trial);
    return trial;
}

/* Returns the share of a step that one process computes. */
static double share_of_step(const trainer *t)
{
    const double shards = (double)chosen.shards;
    return ceil(shards / th_group_size(t->group)) / shards;
}

/* Returns the seconds of a part of a run, the mean of several after the first, which allocates memory. */
static double time_part(trainer *trial, th_status (*run_part)(trainer *trial), double seconds)
{
    require_ok(trial, run_part(trial));
    const double start = monotonic_seconds();
    int64_t runs = 0;
    do {
        require_ok(trial, run_part(trial));
        runs++;
    } while (runs < MIN_RUNS || monotonic_seconds() < start + seconds);
    return (monotonic_seconds() - start) / (double)runs;
}

run_costs measure_costs(const trainer *t, double seconds)
{
    static const double BYTES_PER_SECOND = 2e8, BYTES = 16; /* of a file; of a parameter with its moments, twice */
    trainer trial = new_trial(t);
    const run_costs costs = {.step = time_part(&trial, run_trial_step, seconds) * share_of_step(t),
                             .evaluation = time_part(&trial, run_trial_evaluation, seconds / 10),
                             .sample = time_part(&trial, run_trial_sample, 0),
                             .checkpoint = (double)th_module_count(trial.model) * BYTES / BYTES_PER_SECOND};
    th_context_free(trial.ctx);
    return costs;
}

double work_of_step(void)
{
    const th_language_model_options *m = &chosen.model;
    const th_transformer_block_options *b = &m->block;
    const double width = (double)m->width, length = (double)m->length;
    const double mlp = (double)(b->mlp_width > 0 ? b->mlp_width : 4 * m->width) * (b->gated ? 3 : 2);
    const double kv = (double)(b->kv_heads > 0 ? b->kv_heads : m->heads) / (double)m->heads;
    const double block = width * (width * (2 + 2 * kv) + mlp + length); /* multiplications of a token, with scores */
    const double token = (double)m->layers * block + width * (double)m->vocabulary;
    return 6 * token * (double)(chosen.batch * chosen.accumulate * chosen.length); /* backward takes twice as many */
}

int64_t steps_in(double seconds, const run_costs *costs, int64_t tokens, int64_t *eval_every)
{
    enum { MAX_EVALUATIONS = 10 };
    static const double MAX_SHARE = 0.05; /* of evaluations in the time */
    const double windows = ceil((double)tokens / (double)chosen.length);
    const double batches = ceil(windows * (double)chosen.shards / (double)chosen.batch);
    const double wanted = chosen.eval_batches > 0 ? (double)(chosen.eval_batches * chosen.shards) : batches;
    const double one_report = fmin(wanted, batches) * costs->evaluation + costs->sample + costs->checkpoint;
    const double left =
        fmax(0, seconds - batches * costs->evaluation - one_report); /* the first report, and the last */
    const double reports = fmax(1, fmin(MAX_EVALUATIONS, MAX_SHARE * left / one_report));
    double steps = *eval_every > 0 ? fmax(0, left - one_report) / (costs->step + one_report / (double)*eval_every)
                                   : fmax(0, left - floor(reports) * one_report) / costs->step;
    steps = fmin(fmax(1, floor(steps)), 1e9);
    if (*eval_every <= 0)
        *eval_every = (int64_t)ceil(steps / floor(reports));
    return (int64_t)steps;
}
