/* Checks the options of frequency scaling (rotary_scaling.h). rotary_frequencies.c has the formulas. */
#include "ops/shared/rotary_scaling.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static bool is_positive(double value)
{
    return value > 0 && isfinite(value);
}

static bool is_positive_or_default(double value)
{
    return value == 0 || is_positive(value);
}

/* Writes the reason and returns false. */
static bool write_reason(char *reason, const char *sentence, ...) TH_FORMAT(2, 3);
static bool write_reason(char *reason, const char *sentence, ...)
{
    va_list values;
    va_start(values, sentence);
    vsnprintf(reason, TH_ROTARY_REASON, sentence, values);
    va_end(values);
    return false;
}

static bool llama3_usable(const th_rotary_scaling *s, char *reason)
{
    if (is_positive(s->low_freq_factor) && is_positive(s->high_freq_factor) && s->low_freq_factor < s->high_freq_factor)
        return true;
    return write_reason(reason, "low_freq_factor = %g must be positive and less than high_freq_factor = %g",
                        s->low_freq_factor, s->high_freq_factor);
}

static bool attention_factor_usable(const th_rotary_scaling *s, char *reason)
{
    return is_positive_or_default(s->attention_factor) ||
           write_reason(reason, "attention_factor = %g must be a positive number, or 0 for the default",
                        s->attention_factor);
}

static bool yarn_usable(const th_rotary_scaling *s, double base, char *reason)
{
    const double fast = s->beta_fast == 0 ? 32 : s->beta_fast, slow = s->beta_slow == 0 ? 1 : s->beta_slow;
    if (!(base > 1))
        return write_reason(reason, "yarn needs a base above 1, it is %g", base);
    if (!(is_positive(fast) && is_positive(slow) && slow <= fast))
        return write_reason(reason, "beta_slow = %g must be positive and at most beta_fast = %g", slow, fast);
    if (!is_positive_or_default(s->mscale) || !is_positive_or_default(s->mscale_all_dim))
        return write_reason(reason, "mscale = %g and mscale_all_dim = %g must be positive numbers, or 0 for none",
                            s->mscale, s->mscale_all_dim);
    return attention_factor_usable(s, reason);
}

static bool factors_usable(const double *factors, const char *name, int64_t pairs, char *reason)
{
    for (int64_t i = 0; i < pairs; i++)
        if (!is_positive(factors[i]))
            return write_reason(reason, "%s[%lld] = %g must be a positive number", name, (long long)i, factors[i]);
    return true;
}

static bool longrope_usable(const th_rotary_scaling *s, int64_t width, char *reason)
{
    if (s->original_length < 2)
        return write_reason(reason, "longrope needs an original_length of at least 2");
    if (s->short_factor == NULL || s->long_factor == NULL)
        return write_reason(reason, "%s is NULL", s->short_factor ? "long_factor" : "short_factor");
    if (s->n_factors != width / 2)
        return write_reason(reason, "short_factor and long_factor have %lld numbers, but %lld pairs are rotated",
                            (long long)s->n_factors, (long long)(width / 2));
    return factors_usable(s->short_factor, "short_factor", s->n_factors, reason) &&
           factors_usable(s->long_factor, "long_factor", s->n_factors, reason) && attention_factor_usable(s, reason);
}

bool th_rotary_scaling_usable(const th_rotary_scaling *s, double base, int64_t width, char reason[TH_ROTARY_REASON])
{
    if ((unsigned)s->kind > TH_ROTARY_LONGROPE)
        return write_reason(reason, "kind is %d, which is not a th_rotary_scaling_kind", (int)s->kind);
    if (s->kind == TH_ROTARY_UNSCALED)
        return true;
    if (!is_positive(s->factor))
        return write_reason(reason, "factor = %g must be a positive number", s->factor);
    if (s->kind == TH_ROTARY_LLAMA3 && !llama3_usable(s, reason))
        return false;
    if (s->kind != TH_ROTARY_LINEAR && s->original_length <= 0)
        return write_reason(reason, "original_length = %lld must be a number of positions",
                            (long long)s->original_length);
    if (s->kind == TH_ROTARY_DYNAMIC && width == 2)
        return write_reason(reason, "dynamic scaling needs more than one pair");
    if (s->kind == TH_ROTARY_YARN)
        return yarn_usable(s, base, reason);
    return s->kind != TH_ROTARY_LONGROPE || longrope_usable(s, width, reason);
}

bool th_rotary_depends_on_length(const th_rotary_scaling *s)
{
    return s->kind == TH_ROTARY_DYNAMIC || s->kind == TH_ROTARY_LONGROPE;
}
