/* The learning rate and the batch of each step: see schedules.h. */
#include "schedules.h"

#include <math.h>
#include <string.h>

#include "settings.h"

typedef enum { COSINE, LINEAR, WSD, WSD_SQRT, PLATEAU, CONSTANT, SCHEDULES } schedule_kind;

static schedule_kind find_schedule(const char *name)
{
    static const char *const names[SCHEDULES] = {"cosine", "linear", "wsd", "wsd-sqrt", "plateau", "constant"};
    int kind = 0;
    while (kind < SCHEDULES && strcmp(names[kind], name) != 0)
        kind++;
    return (schedule_kind)kind;
}

bool is_schedule(const char *name)
{
    return find_schedule(name) < SCHEDULES;
}

/* -- contradictions -- */

void check_batch_from(void)
{
    char problem[200];
    if (chosen.batch_from > chosen.batch) {
        snprintf(problem, sizeof problem, "--batch-from %lld is more than --batch %lld; the batch can only grow",
                 (long long)chosen.batch_from, (long long)chosen.batch);
        refuse(PROGRAM, problem, "");
    }
    if (chosen.batch_from % chosen.shards != 0) {
        snprintf(problem, sizeof problem, "--shards %lld does not divide --batch-from %lld", (long long)chosen.shards,
                 (long long)chosen.batch_from);
        refuse(PROGRAM, problem, "");
    }
}

void refuse_schedule_contradictions(void)
{
    const schedule_kind kind = find_schedule(chosen.schedule);
    if (kind == SCHEDULES)
        refuse(PROGRAM, "--schedule must be cosine, linear, wsd, wsd-sqrt, plateau or constant, not ", chosen.schedule);
    if (was_given.decay && kind != WSD && kind != WSD_SQRT)
        refuse(PROGRAM, "--decay is for --schedule wsd or wsd-sqrt, not for --schedule ", chosen.schedule);
    if (was_given.plateau && kind != PLATEAU)
        refuse(PROGRAM, "--plateau-factor and --plateau-patience are for --schedule plateau, not for --schedule ",
               chosen.schedule);
    if (kind == CONSTANT && chosen.min_lr >= 0)
        refuse(PROGRAM, "--min-lr is the learning rate at the end: --schedule constant does not change the rate", "");
    if (was_given.batch_growth && chosen.batch_from == 0)
        refuse(PROGRAM, "--batch-growth needs --batch-from, the batch of the first step", "");
    if (chosen.batch_from > 0 && steps_depend_on_data())
        refuse(PROGRAM, "--batch-from needs --steps: --epochs counts steps of equal batches", "");
}

/* -- the learning rate -- */

bool has_plateau_schedule(void)
{
    return find_schedule(chosen.schedule) == PLATEAU;
}

th_plateau_schedule plateau_schedule(void)
{
    return (th_plateau_schedule){.rate = chosen.lr,
                                 .factor = chosen.plateau_factor,
                                 .final_rate = chosen.min_lr,
                                 .patience = chosen.plateau_patience,
                                 .no_patience = chosen.plateau_patience == 0};
}

double learning_rate_at(int64_t step, const th_plateau_state *plateau)
{
    const schedule_kind kind = find_schedule(chosen.schedule);
    const th_cosine_schedule cosine = {chosen.lr, chosen.warmup, chosen.steps, chosen.min_lr};
    const th_linear_schedule linear = {chosen.lr, chosen.warmup, chosen.steps, chosen.min_lr};
    const bool decays = kind == WSD || kind == WSD_SQRT;
    const th_wsd_schedule wsd = {.peak = kind == PLATEAU && plateau->measurements > 0 ? plateau->rate : chosen.lr,
                                 .warmup_steps = chosen.warmup,
                                 .total_steps = chosen.steps,
                                 .decay_steps = decays ? (int64_t)ceil(chosen.decay * (double)chosen.steps) : 0,
                                 .final_rate = chosen.min_lr,
                                 .decay = kind == WSD_SQRT ? TH_DECAY_SQRT : TH_DECAY_LINEAR};
    return kind == COSINE   ? th_schedule_cosine(step, &cosine)
           : kind == LINEAR ? th_schedule_linear(step, &linear)
                            : th_schedule_wsd(step, &wsd);
}

/* -- the batch -- */

int64_t batch_at(int64_t step)
{
    const th_batch_schedule schedule = {.first = chosen.batch_from,
                                        .last = chosen.batch,
                                        .growth_steps = (int64_t)ceil(chosen.batch_growth * (double)chosen.steps),
                                        .multiple = chosen.shards};
    return chosen.batch_from == 0 ? chosen.batch : th_schedule_batch(step, &schedule);
}

int64_t tokens_of_steps(int64_t begin, int64_t end)
{
    int64_t windows = 0;
    for (int64_t step = begin; step < end; step++)
        windows += batch_at(step);
    return windows * chosen.accumulate * chosen.length;
}
