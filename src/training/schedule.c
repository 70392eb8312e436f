/* Learning rates as functions of the step alone. The caller passes them to th_optimizer_set_learning_rate. */
#include <math.h>

#include "kernels/elementwise/scalar.h"
#include "tapehead/optimizer.h"

double th_schedule_cosine(int64_t step, const th_cosine_schedule *schedule)
{
    if (schedule == NULL)
        return NAN;
    const double n = (double)step, warmup = (double)schedule->warmup_steps, total = (double)schedule->total_steps;
    if (n < warmup)
        return schedule->peak * (n + 1) / warmup;
    if (n >= total)
        return schedule->final_rate;
    const double pi = 3.14159265358979323846;
    const double progress = (n - warmup) / (total - warmup);
    return schedule->final_rate + (schedule->peak - schedule->final_rate) * 0.5 * (1 + th_scalar_cos(pi * progress));
}

double th_schedule_noam(int64_t step, const th_noam_schedule *schedule)
{
    if (schedule == NULL)
        return NAN;
    const double n = (double)step + 1, warmup = (double)(schedule->warmup_steps > 0 ? schedule->warmup_steps : 1);
    const double factor = schedule->factor == 0 ? 1 : schedule->factor;
    return factor / sqrt((double)schedule->width) * fmin(1 / sqrt(n), n / (warmup * sqrt(warmup)));
}
