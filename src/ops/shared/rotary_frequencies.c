/* The formulas of frequency scaling (th_rotary_scaling_kind). They use float64 and the library's own functions, so that
 * the bits are the same on every processor. */
#include <math.h>

#include "kernels/elementwise/scalar.h"
#include "ops/shared/rotary_scaling.h"

static const double pi = 3.14159265358979323846;

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* -- Llama 3 -- */

/* Returns 1 for frequencies with many rotations in original_length positions, 0 for few. */
static double unscaled_share(const th_rotary_scaling *s, double frequency)
{
    const double rotations = (double)s->original_length * frequency / (2 * pi);
    return clamp((rotations - s->low_freq_factor) / (s->high_freq_factor - s->low_freq_factor), 0, 1);
}

/* -- YaRN -- */

/* Pairs before `first` keep their frequency; pairs from `last` on are scaled. */
typedef struct ramp {
    double first, last;
} ramp;

/* Returns the pair that makes this number of rotations in original_length positions, as a real number. */
static double pair_with_rotations(const th_rotary_scaling *s, double rotations, double base, int64_t width)
{
    return (double)width * th_scalar_log((double)s->original_length / (rotations * 2 * pi)) / (2 * th_scalar_log(base));
}

static ramp yarn_ramp(const th_rotary_scaling *s, double base, int64_t width)
{
    double first = pair_with_rotations(s, s->beta_fast == 0 ? 32 : s->beta_fast, base, width),
           last = pair_with_rotations(s, s->beta_slow == 0 ? 1 : s->beta_slow, base, width);
    if (!s->no_truncate) {
        first = floor(first);
        last = ceil(last);
    }
    first = first > 0 ? first : 0;
    last = last < (double)(width - 1) ? last : (double)(width - 1);
    return (ramp){first, first == last ? last + 0.001 : last};
}

/* Returns m(scale), the logarithmic growth of the attention factor. */
static double yarn_growth(double factor, double scale)
{
    return factor <= 1 ? 1 : 0.1 * scale * th_scalar_log(factor) + 1;
}

double th_rotary_attention_factor(const th_rotary_scaling *s)
{
    if (s->kind != TH_ROTARY_YARN && s->kind != TH_ROTARY_LONGROPE)
        return 1;
    if (s->attention_factor > 0)
        return s->attention_factor;
    if (s->kind == TH_ROTARY_LONGROPE)
        return s->factor <= 1 ? 1 : sqrt(1 + th_scalar_log(s->factor) / th_scalar_log((double)s->original_length));
    const bool both = s->mscale != 0 && s->mscale_all_dim != 0;
    return both ? yarn_growth(s->factor, s->mscale) / yarn_growth(s->factor, s->mscale_all_dim)
                : yarn_growth(s->factor, 1);
}

/* -- all kinds -- */

/* Returns the base for a sequence that is longer than the original length. */
static double dynamic_base(const th_rotary_scaling *s, double base, int64_t width, double length)
{
    const double stretch = s->factor * length / (double)s->original_length - (s->factor - 1);
    return base * th_scalar_pow(stretch, (double)width / (double)(width - 2));
}

/* Returns the scaled frequency of pair i. */
static double scaled_frequency(const th_rotary_scaling *s, const ramp *yarn, double length, int64_t i, double frequency)
{
    double share = 0; /* of the frequency that stays */
    switch (s->kind) {
    case TH_ROTARY_UNSCALED:
    case TH_ROTARY_DYNAMIC:
        return frequency;
    case TH_ROTARY_LONGROPE:
        return frequency / (length > (double)s->original_length ? s->long_factor : s->short_factor)[i];
    case TH_ROTARY_LLAMA3:
        share = unscaled_share(s, frequency);
        break;
    case TH_ROTARY_YARN:
        share = 1 - clamp(((double)i - yarn->first) / (yarn->last - yarn->first), 0, 1);
        break;
    case TH_ROTARY_LINEAR:
        break;
    }
    return share * frequency + (1 - share) * (frequency / s->factor);
}

void th_rotary_frequencies(const th_rotary_scaling *s, double base, int64_t width, double length, double *frequency)
{
    const ramp yarn = s->kind == TH_ROTARY_YARN ? yarn_ramp(s, base, width) : (ramp){0, 1};
    if (s->kind == TH_ROTARY_DYNAMIC && length > (double)s->original_length)
        base = dynamic_base(s, base, width, length);
    for (int64_t i = 0; i < width / 2; i++)
        frequency[i] = scaled_frequency(s, &yarn, length, i, th_scalar_pow(base, -2.0 * (double)i / (double)width));
}
