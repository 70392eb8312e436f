/* The verdict on one derivative (verdict.h).
 *
 * The usual step decides most derivatives: both numbers agree within the tolerance or the rounding error. Otherwise
 * there are three cases. The step is too long, because the function bends or has a kink nearby. Or the step is too
 * short, and the rounding error is large. Or the derivative is wrong. Longer and shorter steps tell these cases apart.
 * Neighboring steps differ by a fixed factor, so truncation and rounding errors change by known factors. A quotient
 * that does not change from step to step is the derivative. */
#include "checker/engine/verdict.h"

#include <math.h>

/* The order in which steps are tried, as distances from the usual one. */
static const int usual_order[TH_STEPS] = {0,  -1, 1,  -2,  2,   -3,  3,   -4,  4,   -5,  5,   -6,
                                          -7, -8, -9, -10, -11, -12, -13, -14, -15, -16, -17, -18};
static const int upward_order[TH_UPWARD_STEPS] = {0, 1, 2, 3, 4};

static double relative_tolerance(const th_engine *engine)
{
    const double given = engine->options.relative_tolerance;
    return given > 0 ? given : th_limits.relative[engine->kind];
}

static double visible_fraction(const th_engine *engine)
{
    const double relative = relative_tolerance(engine), default_visible = th_limits.visible[engine->kind];
    return fmin(200 * relative, fmax(default_visible, relative));
}

/* Returns the number of doubles that take the memory of so many verdicts. */
static int64_t numbers_of_verdicts(int64_t count)
{
    return count * (int64_t)((sizeof(th_verdict) + sizeof(double) - 1) / sizeof(double));
}

bool th_comparison_init(th_comparison *comparison, th_engine *engine, const double *cotangent, int64_t count)
{
    *comparison = (th_comparison){.verdict = NULL};
    if (!th_quotients_init(&comparison->quotients, engine, cotangent, count))
        return false;
    comparison->memory = engine->calls->allocate(engine, numbers_of_verdicts(count));
    comparison->verdict = (th_verdict *)comparison->memory;
    return comparison->verdict != NULL;
}

void th_comparison_free(th_comparison *comparison)
{
    const th_quotients *quotients = &comparison->quotients;
    if (comparison->memory)
        quotients->engine->calls->release(quotients->engine, comparison->memory, numbers_of_verdicts(quotients->count));
    th_quotients_free(&comparison->quotients);
}

/* -- one derivative, and the results of step k for it -- */

typedef struct derivative {
    const th_quotients *quotients;
    th_number_kind kind;
    int64_t j; /* its index in [quotients->count] */
    double analytic, term_norm, relative_tolerance, absolute_tolerance;
    double visible;            /* a mistake of this fraction of the derivative must be found */
    double largest_derivative; /* of the variable; rounding may hide a derivative that is small beside it */
    double unit_of_one;        /* the slope that rounding may show for an output of 1 */
    double unit;               /* the slope that rounding may show for this output */
    double hidden;             /* the assumed rounding inside the function, as a change of an output */
    double gradient_error;     /* the error that rounding may have in the analytic derivative */
    double noise;              /* the measured rounding inside the function; 0: not measured */
} derivative;

static bool is_known(const derivative *d, int k)
{
    return k >= 0 && k < TH_STEPS && d->quotients->length[k] > 0 && isfinite(th_quotients_of(d->quotients, k)[d->j]);
}

static double quotient(const derivative *d, int k)
{
    return th_quotients_of(d->quotients, k)[d->j];
}

static double bend(const derivative *d, int k)
{
    return fabs(th_bends_of(d->quotients, k)[d->j]);
}

static double rounding(const derivative *d, int k)
{
    return TH_ROUNDING_SAFETY * th_roundings_of(d->quotients, k)[d->j];
}

static double distance(const derivative *d, int k)
{
    return fabs(d->analytic - quotient(d, k));
}

static double size(const derivative *d, int k)
{
    return fmax(fmax(fabs(d->analytic), fabs(quotient(d, k))), d->term_norm);
}

static bool is_within_tolerance(const derivative *d, int k)
{
    const double rounded = fmin(d->gradient_error, d->visible * fmax(d->largest_derivative, d->term_norm));
    return distance(d, k) <= d->absolute_tolerance + d->relative_tolerance * size(d, k) + rounded;
}

/* Returns whether the rounding error is a small fraction of the derivative. */
static bool is_visible(const derivative *d, int k)
{
    return rounding(d, k) <= TH_VISIBLE_FACTOR * d->visible * size(d, k);
}

/* Returns whether the distance is within the error of the quotient, and the error is too small to hide a mistake. */
static bool is_close(const derivative *d, int k, double error)
{
    return distance(d, k) <= error && error <= TH_VISIBLE_FACTOR * d->visible * size(d, k) &&
           distance(d, k) + error / TH_ROUNDING_SAFETY <= d->visible * size(d, k);
}

static bool agrees(const derivative *d, int k)
{
    return is_within_tolerance(d, k) || is_close(d, k, rounding(d, k));
}

static double difference(const derivative *d, int k, int other)
{
    return is_known(d, other) ? fabs(quotient(d, k) - quotient(d, other)) : INFINITY;
}

static th_verdict make_verdict(const derivative *d, th_verdict_kind kind, int k, double error)
{
    return (th_verdict){.kind = kind, .numeric = quotient(d, k), .error = error};
}

/* -- right, by the usual step or by two steps -- */

static th_verdict judge_usual_step(const derivative *d)
{
    const int k = TH_USUAL_STEP;
    if (!is_known(d, k) || !isfinite(d->analytic))
        return (th_verdict){.kind = TH_NO_VERDICT};
    return make_verdict(d, agrees(d, k) ? TH_RIGHT : TH_NO_VERDICT, k, rounding(d, k));
}

/* Returns whether quotient n shows that the truncation error of quotient k is small. This error grows with the square
 * of the step. If step n is shorter, the error is nearly the whole difference of the two quotients. If step n is
 * longer, the error is a hundredth of the difference. */
static bool confirms_quotient(const derivative *d, int k, int n)
{
    return is_known(d, n) && rounding(d, n) <= TH_VISIBLE_FACTOR * d->visible * size(d, k) &&
           difference(d, k, n) <= fmin(d->visible, (n > k ? 100 : 10) * d->relative_tolerance) * size(d, k) +
                                      rounding(d, k) + rounding(d, n);
}

/* Returns whether step k agrees with the analytic derivative, and a neighbor confirms it. */
static bool is_confirmed(const derivative *d, int k)
{
    return is_visible(d, k) && agrees(d, k) && (confirms_quotient(d, k, k - 1) || confirms_quotient(d, k, k + 1));
}

/* -- wrong, by three steps -- */

/* Returns whether step k sees no kink or jump. A bend is compared with the larger slope of this and the next longer
 * step. */
static bool is_smooth(const derivative *d, int k)
{
    const double longer = is_known(d, k + 1) ? bend(d, k + 1) : 0;
    return bend(d, k) <= fmax(fabs(quotient(d, k)), longer) / 2 + 2 * rounding(d, k);
}

/* Returns whether the outputs change clearly less over step k than over the next longer step. This holds for a function
 * that is smooth at the scale of these steps. */
static bool change_shrinks(const derivative *d, int k)
{
    const double *length = d->quotients->length;
    const double shorter = length[k] * (fabs(quotient(d, k)) + bend(d, k) / 2),
                 longer = length[k + 1] * (fabs(quotient(d, k + 1)) + bend(d, k + 1) / 2);
    return shorter <= longer / 4 + 2 * rounding(d, k) * length[k];
}

/* The outputs change much less than the analytic derivative says. Either the derivative is wrong, or the outputs
 * oscillate within a step, and only short steps show the change. Returns whether enough steps were tried, and none
 * shows an oscillation. */
static bool change_shrinks_everywhere(const derivative *d)
{
    int steps = 0;
    for (int k = 0; k < TH_STEPS; k++) {
        steps += is_known(d, k);
        if (is_known(d, k) && is_known(d, k + 1) && !change_shrinks(d, k))
            return false;
    }
    return steps >= TH_STEPS_TO_TELL_WRONG;
}

/* Returns whether rounding inside the function can explain the distance of quotient k. */
static bool may_be_hidden(const derivative *d, int k)
{
    return distance(d, k) * d->quotients->length[k] <= d->hidden;
}

/* Returns whether the measured rounding inside the function can explain an error of quotient k. */
static bool may_be_noise(const derivative *d, int k, double error)
{
    return error * d->quotients->length[k] <= TH_ROUNDING_SAFETY * d->noise;
}

static double largest_hidden_slope(const derivative *d)
{
    return th_limits.hidden[d->kind] * fmax(d->largest_derivative, d->term_norm);
}

/* Returns whether the outputs hardly change over step k, but over some longer step they change by about as much as the
 * analytic derivative says. */
static bool longer_step_agrees(const derivative *d, int k)
{
    if (fabs(quotient(d, k)) >= fabs(d->analytic) / 4)
        return false;
    for (int n = k + 1; n < TH_STEPS; n++)
        if (is_known(d, n) && distance(d, n) <= fabs(d->analytic) / 2)
            return true;
    return false;
}

/* Returns the largest slope over the steps longer than k. */
static double steepest_slope(const derivative *d, int k)
{
    double slope = 0;
    while (++k < TH_STEPS)
        if (is_known(d, k))
            slope = fmax(slope, fabs(quotient(d, k)));
    return slope;
}

/* Returns whether the quotients of steps k and k + 1 are so close that the derivative is finite. */
static bool converges(const derivative *d, int k)
{
    return difference(d, k, k + 1) <= d->visible * steepest_slope(d, k) + rounding(d, k) + rounding(d, k + 1);
}

/* Returns whether steps k, k + 1 and k + 2 agree with each other, and not with the analytic derivative. */
static bool contradicts(const derivative *d, int k)
{
    if (!is_known(d, k) || !is_known(d, k + 1) || !is_known(d, k + 2))
        return false;
    if (!isfinite(d->analytic))
        return d->quotients->engine->base_is_finite && (is_smooth(d, k) || is_smooth(d, k + 1)) &&
               (!d->quotients->engine->at_kinks || converges(d, k));
    const double least_distance = fmin(distance(d, k + 1), distance(d, k + 2));
    if (d->quotients->engine->at_kinks && least_distance <= (0.5 + d->visible) * bend(d, k + 1) + rounding(d, k + 1))
        return false; /* the analytic derivative is between the slopes on both sides */
    if (may_be_noise(d, k + 1, least_distance) || least_distance <= d->gradient_error)
        return false;
    if (may_be_hidden(d, k + 1) && (least_distance <= largest_hidden_slope(d) || longer_step_agrees(d, k + 1)))
        return false;
    return !is_within_tolerance(d, k + 1) && !is_within_tolerance(d, k + 2) &&
           least_distance > TH_EQUAL_UNITS * d->unit && rounding(d, k + 1) <= least_distance / 2 &&
           difference(d, k + 1, k + 2) <= TH_AGREEMENT * least_distance &&
           difference(d, k, k + 1) <= TH_AGREEMENT * least_distance + rounding(d, k) + rounding(d, k + 1) &&
           is_smooth(d, k + 1) && bend(d, k) <= 2 * TH_AGREEMENT * least_distance + 2 * rounding(d, k) &&
           change_shrinks(d, k) && change_shrinks(d, k + 1) &&
           (fabs(quotient(d, k + 1)) >= fabs(d->analytic) / 4 || change_shrinks_everywhere(d));
}

/* Returns the verdict from all steps that were tried so far. */
static th_verdict judge_steps(const derivative *d)
{
    for (int k = TH_STEPS - 1; k >= 0 && d->quotients->engine->options.step <= 0; k--)
        if (is_known(d, k) && is_confirmed(d, k))
            return make_verdict(d, TH_RIGHT, k, rounding(d, k));
    th_verdict verdict = {.kind = TH_NO_VERDICT};
    for (int k = 0; k + 2 < TH_STEPS; k++) { /* of the steps that contradict it, the report has the most certain one */
        const double error = difference(d, k + 1, k + 2) + rounding(d, k + 1);
        if (contradicts(d, k) && (verdict.kind == TH_NO_VERDICT || error < verdict.error))
            verdict = make_verdict(d, TH_WRONG, k + 1, error);
    }
    return verdict;
}

/* -- after the last step: right within the uncertainty, or cannot tell -- */

/* Returns the uncertainty of quotient k: its difference from a neighbor, plus its rounding error, plus half of the bend
 * at a kink. At a kink, the quotient is only the mean of two slopes. */
static double uncertainty(const derivative *d, int k)
{
    const double kink = is_smooth(d, k) ? 0 : bend(d, k) / 2;
    return fmin(difference(d, k, k - 1), difference(d, k, k + 1)) + rounding(d, k) + kink;
}

static int most_certain_step(const derivative *d)
{
    if (d->quotients->engine->options.step > 0)
        return is_known(d, TH_USUAL_STEP) ? TH_USUAL_STEP : -1;
    int best_step = -1;
    for (int k = 0; k < TH_STEPS; k++)
        if (is_known(d, k) && (best_step < 0 || uncertainty(d, k) < uncertainty(d, best_step)) &&
            !(may_be_hidden(d, k) && longer_step_agrees(d, k)))
            best_step = k;
    return best_step;
}

/* Returns why the check cannot tell, and writes the slopes at a kink. Shorter steps across a kink have the same slopes
 * above and below. Shorter steps across a jump have the same difference of the outputs. */
static th_reason find_reason(const derivative *d, int best_step, th_verdict *verdict)
{
    const double *length = d->quotients->length;
    for (int k = 0; k < TH_USUAL_STEP; k++) { /* longer steps may see a kink or jump at another point */
        if (!is_known(d, k) || !is_known(d, k + 1) || !(bend(d, k) > 8 * rounding(d, k)))
            continue;
        if (fabs(bend(d, k) - bend(d, k + 1)) <= 0.1 * bend(d, k)) {
            const double mean_slope = quotient(d, k), half_bend = th_bends_of(d->quotients, k)[d->j] / 2;
            verdict->below = mean_slope - half_bend;
            verdict->above = mean_slope + half_bend;
            return TH_REASON_KINK;
        }
        if (fabs(bend(d, k) * length[k] - bend(d, k + 1) * length[k + 1]) <= 0.1 * bend(d, k) * length[k] &&
            bend(d, k) * length[k] > d->hidden)
            return TH_REASON_JUMP;
    }
    const bool is_rounding = rounding(d, best_step) > d->visible * size(d, best_step) || may_be_hidden(d, best_step) ||
                             may_be_noise(d, best_step, distance(d, best_step));
    return is_rounding ? TH_REASON_ROUNDING : TH_REASON_OTHER;
}

/* Returns whether both derivatives are 0 within the uncertainty, compared with the output or with the slopes of longer
 * steps. */
static bool is_zero(const derivative *d, int best_step, double error)
{
    const double analytic = fabs(d->analytic), numeric = fabs(quotient(d, best_step));
    if (isnan(d->analytic))
        return false;
    if (fmax(analytic, numeric) <= TH_EQUAL_UNITS * d->unit)
        return true;
    if (fmax(analytic, numeric) > 2 * error)
        return false;
    const double output = d->unit / d->quotients->engine->epsilon;
    return (error <= th_limits.negligible[d->kind] * output && analytic <= TH_ZERO_UNITS * d->unit) ||
           error <= d->visible * steepest_slope(d, best_step);
}

static th_verdict judge_uncertain(const derivative *d)
{
    const int best_step = most_certain_step(d);
    if (best_step < 0)
        return (th_verdict){
            .kind = TH_CANNOT_TELL, .numeric = NAN, .error = INFINITY, .reason = TH_REASON_NOT_A_NUMBER};
    const double error = uncertainty(d, best_step), small_size = th_limits.small[d->kind] * d->largest_derivative;
    const bool is_right = is_within_tolerance(d, best_step)
                              ? error <= TH_VISIBLE_FACTOR * d->visible * size(d, best_step)
                              : is_close(d, best_step, error);
    const bool is_small = distance(d, best_step) <= error &&
                          3 * error + size(d, best_step) <= small_size; /* beside the largest derivative */
    if ((d->quotients->engine->options.step <= 0 && (is_right || is_small)) ||
        (may_be_hidden(d, best_step) && distance(d, best_step) <= largest_hidden_slope(d)) ||
        is_zero(d, best_step, error))
        return make_verdict(d, TH_RIGHT, best_step, error);
    th_verdict verdict = make_verdict(d, TH_CANNOT_TELL, best_step, error);
    const bool finite = (isfinite(d->analytic) || d->quotients->engine->at_kinks) && isfinite(rounding(d, best_step));
    verdict.reason = finite ? find_reason(d, best_step, &verdict) : TH_REASON_NOT_A_NUMBER;
    return verdict;
}

/* Decides a verdict that cannot tell. At a kink, any number between the slopes on both sides is right, and any other is
 * wrong. Without a kink, the derivative counts as right. */
static th_verdict decide_at_kink(const derivative *d, th_verdict verdict)
{
    const double low = fmin(verdict.below, verdict.above), high = fmax(verdict.below, verdict.above),
                 slack = d->absolute_tolerance + d->visible * fmax(fabs(low), fabs(high));
    const bool wrong = verdict.reason == TH_REASON_KINK && !(d->analytic >= low - slack && d->analytic <= high + slack);
    verdict.kind = wrong ? TH_WRONG : TH_RIGHT;
    return verdict;
}

/* Returns the index of the step that found a wrong derivative. */
static int step_of_quotient(const derivative *d, double value)
{
    int k = TH_STEPS - 1;
    while (k > 0 && !(is_known(d, k) && quotient(d, k) == value))
        k--;
    return k;
}

/* A function that rounds has slope 0 almost everywhere, and long steps show the mean over its jumps. The analytic
 * derivative is 0, and the longer steps contradict it. Tries shorter steps, and writes to *has_plateaus whether one of
 * them shows another slope although rounding hides little there. */
static bool find_plateaus(th_quotients *quotients, const th_line *line, const derivative *d, const th_verdict *wrong,
                          bool *has_plateaus)
{
    const int found = step_of_quotient(d, wrong->numeric);
    const double least = fabs(wrong->numeric) / 4;
    for (int k = found - 1; k >= 0 && !*has_plateaus; k--) {
        if (!is_known(d, k) && !th_quotients_run_step(quotients, line, k))
            return false;
        if (!is_known(d, k) || rounding(d, k) > least)
            break;
        *has_plateaus = fabs(quotient(d, k) - wrong->numeric) > least + rounding(d, k);
    }
    return true;
}

/* The outputs do not change. A term inside the function may hide the change, as 1 in 1 + erf(x). Tries longer steps,
 * and writes to *is_hidden whether the analytic derivative is a rounding error beside their slopes. */
static bool find_hidden_slope(th_quotients *quotients, const th_line *line, const derivative *d, bool *is_hidden)
{
    for (int k = TH_USUAL_STEP + 1; k < TH_STEPS; k++)
        if (!is_known(d, k) && !th_quotients_run_step(quotients, line, k))
            return false;
    *is_hidden = fabs(d->analytic) <= quotients->engine->epsilon * steepest_slope(d, TH_USUAL_STEP);
    return true;
}

/* Returns whether numbers in float32 inside a function of float64 numbers explain a wrong derivative. */
static bool may_be_float32(const derivative *d, const th_verdict *wrong)
{
    const double largest = fmax(d->largest_derivative, d->term_norm);
    return d->kind == TH_KIND_FLOAT64 && d->relative_tolerance >= TH_FLOAT32_FRACTION &&
           fabs(d->analytic - wrong->numeric) <= TH_FLOAT32_FRACTION * largest;
}

/* -- a line -- */

static int steps_to_try(const th_comparison *comparison, const th_line *line)
{
    if (line->longer_steps_only)
        return TH_UPWARD_STEPS;
    if (comparison->doubtful_lines >= TH_DOUBTFUL_LINES)
        return 1;
    return line->only_tell_wrong || comparison->quotients.engine->options.step > 0 ? TH_STEPS_TO_TELL_WRONG : TH_STEPS;
}

static derivative derivative_on_line(const th_quotients *quotients, const th_line *line)
{
    const th_engine *engine = quotients->engine;
    const double output_norm = quotients->cotangent ? sqrt((double)engine->rows) : 1,
                 magnitude = th_line_step_factor(line);
    return (derivative){.quotients = quotients,
                        .kind = engine->kind,
                        .term_norm = line->term_norm,
                        .relative_tolerance = relative_tolerance(engine),
                        .absolute_tolerance = engine->options.absolute_tolerance * output_norm,
                        .visible = visible_fraction(engine),
                        .largest_derivative = line->largest_derivative,
                        .unit_of_one = engine->epsilon / magnitude,
                        .hidden = TH_HIDDEN_UNITS * engine->unit * fmax(magnitude, engine->output_scale),
                        .gradient_error = line->gradient_error};
}

/* Returns the measured rounding of output j, or of <cotangent, output>. */
static double noise_of(const th_quotients *quotients, int64_t j)
{
    const double *noise = quotients->engine->noise, *c = quotients->cotangent;
    double square = 0;
    for (int64_t i = 0; c && i < quotients->engine->rows; i++)
        square += c[i] * noise[i] * c[i] * noise[i];
    return c ? sqrt(square) : noise[j];
}

/* Selects derivative j. The rounding error of an output grows with its size. Its size counts as at least 1, or as the
 * size of the largest output if that is smaller than 1. */
static void select_derivative(derivative *d, int64_t j, double analytic)
{
    const th_engine *engine = d->quotients->engine;
    const double scale = engine->output_scale, output_size = d->quotients->cotangent ? scale : fabs(engine->base[j]);
    d->j = j;
    d->analytic = analytic;
    d->noise = engine->noise ? noise_of(d->quotients, j) : 0;
    d->unit = d->unit_of_one * fmax(isfinite(output_size) ? output_size : scale, fmin(scale, 1));
}

bool th_compare_line(th_comparison *comparison, const th_line *line, const double *analytic, int64_t stride)
{
    th_quotients *quotients = &comparison->quotients;
    const int *order = line->longer_steps_only ? upward_order : usual_order, steps = steps_to_try(comparison, line);
    derivative d = derivative_on_line(quotients, line);
    th_quotients_start_line(quotients);
    int64_t without_verdict = quotients->count;
    for (int i = 0; i < steps && without_verdict > 0; i++) {
        if (!th_quotients_run_step(quotients, line, TH_USUAL_STEP + order[i]))
            return false;
        without_verdict = 0;
        for (int64_t j = 0; j < quotients->count; j++) {
            th_verdict *verdict = &comparison->verdict[j];
            select_derivative(&d, j, analytic[j * stride]);
            if (i == 0)
                *verdict = line->longer_steps_only ? (th_verdict){.kind = TH_NO_VERDICT} : judge_usual_step(&d);
            else if (verdict->kind == TH_NO_VERDICT)
                *verdict = judge_steps(&d);
            if (verdict->kind == TH_WRONG && quotients->engine->noise == NULL) { /* rounding may explain it */
                if (!quotients->engine->calls->measure_noise(quotients->engine))
                    return false;
                select_derivative(&d, j, analytic[j * stride]);
                *verdict = judge_steps(&d);
            }
            bool has_plateaus = false, is_hidden = false;
            if (verdict->kind == TH_WRONG && d.analytic == 0 && !quotients->engine->at_kinks &&
                !find_plateaus(quotients, line, &d, verdict, &has_plateaus))
                return false;
            if (verdict->kind == TH_WRONG && verdict->numeric == 0 && may_be_hidden(&d, TH_USUAL_STEP) &&
                !find_hidden_slope(quotients, line, &d, &is_hidden))
                return false;
            if (has_plateaus || is_hidden || (verdict->kind == TH_WRONG && may_be_float32(&d, verdict))) {
                verdict->kind = TH_CANNOT_TELL;
                verdict->reason = has_plateaus ? TH_REASON_PLATEAUS
                                  : is_hidden  ? TH_REASON_ROUNDING
                                               : TH_REASON_FLOAT32;
            }
            without_verdict += verdict->kind == TH_NO_VERDICT;
        }
    }
    bool doubtful = false;
    for (int64_t j = 0; j < quotients->count && without_verdict > 0; j++) {
        th_verdict *verdict = &comparison->verdict[j];
        if (verdict->kind != TH_NO_VERDICT)
            continue;
        select_derivative(&d, j, analytic[j * stride]);
        *verdict = judge_uncertain(&d);
        if (quotients->engine->at_kinks && verdict->kind == TH_CANNOT_TELL)
            *verdict = decide_at_kink(&d, *verdict);
        doubtful |= verdict->kind == TH_CANNOT_TELL;
    }
    comparison->doubtful_lines += doubtful;
    return true;
}
