/* Frequency scaling of rotary positions (rotary_scaling.h). The scaled frequency depends only on the frequency. Methods
 * that depend on the sequence's length, or that also scale the scores, are not supported. */
#include "ops/shared/rotary_scaling.h"

#include <math.h>
#include <stdio.h>

static bool positive(double value)
{
    return value > 0 && isfinite(value);
}

bool th_rotary_scaling_usable(const th_rotary_scaling *s, char trouble[TH_ROTARY_TROUBLE])
{
    const bool by_frequency = s->kind == TH_ROTARY_LLAMA3;
    if ((unsigned)s->kind > TH_ROTARY_LLAMA3)
        snprintf(trouble, TH_ROTARY_TROUBLE, "kind is %d, which is not a th_rotary_scaling_kind", (int)s->kind);
    else if (s->kind != TH_ROTARY_UNSCALED && !positive(s->factor))
        snprintf(trouble, TH_ROTARY_TROUBLE, "factor = %g must be a positive number", s->factor);
    else if (by_frequency && !(positive(s->low_freq_factor) && positive(s->high_freq_factor) &&
                               s->low_freq_factor < s->high_freq_factor))
        snprintf(trouble, TH_ROTARY_TROUBLE,
                 "low_freq_factor = %g must be positive and less than high_freq_factor = %g", s->low_freq_factor,
                 s->high_freq_factor);
    else if (by_frequency && s->original_length <= 0)
        snprintf(trouble, TH_ROTARY_TROUBLE, "original_length = %lld must be a number of positions",
                 (long long)s->original_length);
    else
        return true;
    return false;
}

/* Returns s of TH_ROTARY_LLAMA3: 1 for frequencies with many rotations in original_length positions, 0 for few. */
static double unscaled_share(const th_rotary_scaling *s, double frequency)
{
    static const double pi = 3.14159265358979323846;
    const double rotations = (double)s->original_length * frequency / (2 * pi);
    const double share = (rotations - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor);
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

double th_rotary_scaled(const th_rotary_scaling *s, double frequency)
{
    if (s->kind == TH_ROTARY_UNSCALED)
        return frequency;
    const double share = s->kind == TH_ROTARY_LLAMA3 ? unscaled_share(s, frequency) : 0;
    return share * frequency + (1 - share) * (frequency / s->factor);
}
