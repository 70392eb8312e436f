/* Learning rates as functions of the step, or of measurements; and the size of a step's batch. The caller passes the
 * rates to th_optimizer_set_learning_rate. */
#include <math.h>

#include "kernels/elementwise/scalar.h"
#include "tapehead/optimizer.h"

/* What the schedules with a warm-up and one decay share. */
typedef struct th_ramp {
    double peak, final_rate;
    double warmup, begin, end; /* steps: the end of the warm-up, the begin and the end of the decay */
} th_ramp;

/* Returns the part of peak - final_rate that is left. progress: of the decay, from 0 to 1. */
static double decay_factor(th_decay decay, double progress)
{
    const double pi = 3.14159265358979323846;
    return decay == TH_DECAY_LINEAR   ? 1 - progress
           : decay == TH_DECAY_SQRT   ? 1 - sqrt(progress)
           : decay == TH_DECAY_COSINE ? 0.5 * (1 + th_scalar_cos(pi * progress))
                                      : NAN;
}

static double rate_of(double n, const th_ramp *r, th_decay decay)
{
    if (n < r->warmup)
        return r->peak * (n + 1) / r->warmup;
    if (n < r->begin)
        return r->peak;
    if (n >= r->end)
        return r->final_rate;
    return r->final_rate + (r->peak - r->final_rate) * decay_factor(decay, (n - r->begin) / (r->end - r->begin));
}

double th_schedule_cosine(int64_t step, const th_cosine_schedule *schedule)
{
    if (schedule == NULL)
        return NAN;
    const double warmup = (double)schedule->warmup_steps, total = (double)schedule->total_steps;
    const th_ramp r = {schedule->peak, schedule->final_rate, warmup, warmup, total};
    return rate_of((double)step, &r, TH_DECAY_COSINE);
}

double th_schedule_linear(int64_t step, const th_linear_schedule *schedule)
{
    if (schedule == NULL)
        return NAN;
    const double warmup = (double)schedule->warmup_steps, total = (double)schedule->total_steps;
    const th_ramp r = {schedule->peak, schedule->final_rate, warmup, warmup, total};
    return rate_of((double)step, &r, TH_DECAY_LINEAR);
}

double th_schedule_wsd(int64_t step, const th_wsd_schedule *schedule)
{
    if (schedule == NULL || schedule->decay < TH_DECAY_LINEAR || schedule->decay > TH_DECAY_COSINE)
        return NAN;
    const double warmup = (double)schedule->warmup_steps, total = (double)schedule->total_steps;
    th_ramp r = {schedule->peak, schedule->final_rate, warmup, INFINITY, INFINITY};
    if (schedule->decay_steps > 0) {
        r.begin = fmax(warmup, total - (double)schedule->decay_steps);
        r.end = total;
    }
    return rate_of((double)step, &r, schedule->decay);
}

double th_schedule_noam(int64_t step, const th_noam_schedule *schedule)
{
    if (schedule == NULL)
        return NAN;
    const double n = (double)step + 1, warmup = (double)(schedule->warmup_steps > 0 ? schedule->warmup_steps : 1);
    const double factor = schedule->factor == 0 ? 1 : schedule->factor;
    return factor / sqrt((double)schedule->width) * fmin(1 / sqrt(n), n / (warmup * sqrt(warmup)));
}

int64_t th_schedule_batch(int64_t step, const th_batch_schedule *schedule)
{
    const th_batch_schedule s = schedule ? *schedule : (th_batch_schedule){0};
    const int64_t multiple = s.multiple == 0 ? 1 : s.multiple;
    if (step < 0 || multiple < 1 || s.first < 1 || s.last < s.first || s.growth_steps < 0 || s.first % multiple != 0 ||
        s.last % multiple != 0)
        return 0;
    if (step >= s.growth_steps)
        return s.last;
    const int64_t multiples = (s.last - s.first) / multiple;
    const double grown = (double)multiples * (double)step / (double)s.growth_steps;
    return grown < (double)multiples ? s.first + multiple * (int64_t)grown : s.last; /* (rounding can make it equal) */
}

/* -- plateau -- */

/* The options with their defaults. */
typedef struct th_plateau_options {
    double factor, threshold;
    int64_t patience;
} th_plateau_options;

static bool complete(const th_plateau_schedule *s, th_plateau_options *o)
{
    o->factor = s->factor == 0 ? 0.1 : s->factor;
    o->threshold = s->no_threshold ? 0 : s->threshold == 0 ? 1e-4 : s->threshold;
    o->patience = s->no_patience ? 0 : s->patience == 0 ? 10 : s->patience;
    return s->rate > 0 && isfinite(s->rate) && s->final_rate >= 0 && o->factor > 0 && o->factor < 1 &&
           o->threshold >= 0 && o->patience >= 0 && s->cooldown >= 0;
}

/* Returns whether a measurement is better than the best before it. No number is better than NaN, or worse. */
static bool is_good(double measurement, double best, const th_plateau_schedule *s, double threshold)
{
    const double sign = s->maximize ? 1 : -1;
    const double limit = s->absolute ? best + sign * threshold : best * (1 + sign * threshold);
    return s->maximize ? measurement > limit : measurement < limit;
}

double th_schedule_plateau(double measurement, const th_plateau_schedule *schedule, th_plateau_state *state)
{
    static const double least_decrease = 1e-8; /* (torch's eps) */
    th_plateau_options o;
    if (schedule == NULL || state == NULL || !complete(schedule, &o))
        return NAN;
    if (state->measurements == 0)
        *state = (th_plateau_state){.best = schedule->maximize ? -INFINITY : INFINITY, .rate = schedule->rate};
    const bool good = is_good(measurement, state->best, schedule, o.threshold);
    state->measurements++;
    state->bad = good ? 0 : state->bad + 1;
    if (good)
        state->best = measurement;
    if (state->cooldown > 0) {
        state->cooldown--;
        state->bad = 0;
    }
    if (state->bad <= o.patience)
        return state->rate;
    const double reduced = fmax(state->rate * o.factor, schedule->final_rate);
    if (state->rate - reduced > least_decrease)
        state->rate = reduced;
    state->cooldown = schedule->cooldown;
    state->bad = 0;
    return state->rate;
}
