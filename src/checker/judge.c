/* Holding analytic derivatives along one line to difference quotients: right, wrong, or cannot tell.
 *
 * One pair of runs settles most: the two numbers agree to the tolerance, or as closely as rounding lets one see. Where
 * they do not, the step was too long for the function (it bends, or there is a kink nearby) or too short for its
 * rounding, or the derivative is wrong. Longer and shorter steps tell these apart: each is a fixed factor from the
 * next, so that truncation and rounding change by large known factors, and a quotient that does not change is the
 * derivative. */
#include <float.h>
#include <math.h>

#include "checker/checker.h"
#include "kernels/elementwise/scalar.h"

/* Steps by index: CENTRE is the usual one, the longest is the last, the shortest 0. */
enum { CENTRE = TH_STEPS - 6, DOUBTFUL_LINES = 16, STEPS_TO_TELL_WRONG = 5, UPWARD_STEPS = 5 };

/* In this order; upwards alone where the question is whether there is anything to be seen at all. */
static const int usual_order[TH_STEPS] = {0,  -1, 1,  -2,  2,   -3,  3,   -4,  4,   -5,  5,   -6,
                                          -7, -8, -9, -10, -11, -12, -13, -14, -15, -16, -17, -18};
static const int upward_order[UPWARD_STEPS] = {0, 1, 2, 3, 4};

/* From 1 to the next bfloat16 number: 8 digits. */
#define BFLOAT16_EPSILON 0x1p-7
/* Rounding may be so many times its estimate. */
#define SAFETY 8
/* Quotients that differ by no more than this part of their distance from the analytic derivative say the same. */
#define AGREEMENT 0.125
/* A derivative is seen when a thousandth too much, in float32 a tenth, would show: what lies between the two numbers
 * and what is left of the uncertainty without its safety may be this part of it, the uncertainty itself SIGHT times
 * that. */
#define VISIBLE 8e-4
#define VISIBLE_FLOAT32 1e-1
#define SIGHT 4
/* A derivative that rounding hides is 0 when that is no more than this part of the output, */
#define NEGLIGIBLE 1e-8
#define NEGLIGIBLE_FLOAT32 2e-3
/* and the analytic one no more than so many units in the last place of it; below the second number any two are equal.
 */
#define ZERO_UNITS 4096
#define EQUAL_UNITS 16
/* A derivative that rounding hides in part is small beside the leaf's largest up to this part of that, */
#define BESIDE 1e-4
#define BESIDE_FLOAT32 1e-1
/* and rounding inside the function, of numbers as large as 1, its input or its output, which no output shows, may make
 * up to this part of it. */
#define HIDDEN 1e-10
#define HIDDEN_FLOAT32 1e-3
#define HIDDEN_UNITS 64

static double relative_tolerance(const th_checker *checker)
{
    const th_gradient_options *o = &checker->options;
    return o->relative_tolerance > 0 ? o->relative_tolerance : o->float32 ? 2e-2 : 1e-5;
}

static double visible_part(const th_checker *checker)
{
    const double relative = relative_tolerance(checker), usual = checker->options.float32 ? VISIBLE_FLOAT32 : VISIBLE;
    return fmin(200 * relative, fmax(usual, relative));
}

/* Of the numbers that go in and come out. */
static double last_place(const th_checker *checker)
{
    return checker->options.float32 ? FLT_EPSILON : DBL_EPSILON;
}

/* Of what the function computes. (What bfloat16x3 leaves out of a sum is no more than what float32 rounds away in it.)
 */
static double rounding_unit(const th_checker *checker)
{
    return th_checker_in_bfloat16(checker) ? BFLOAT16_EPSILON : last_place(checker);
}

static double magnitude(const th_line *line)
{
    return line->direction || isinf(line->x) ? 1 : fmax(1, fabs(line->x));
}

static double step_length(const th_checker *checker, const th_line *line, int k)
{
    const th_gradient_options *o = &checker->options;
    double length = (o->step > 0 ? o->step : o->float32 ? 1e-2 : 1e-5) * magnitude(line);
    if (line->direction)
        length *= line->leaf->numel > 1 ? 4 / sqrt((double)line->leaf->numel) : 4;
    return length * th_scalar_pow(o->float32 ? 4 : 10, k - CENTRE);
}

bool th_judge_init(th_judge *judge, th_checker *checker, const double *cotangent, int64_t count)
{
    *judge = (th_judge){.checker = checker, .cotangent = cotangent, .count = count};
    judge->memory = th_checker_take(checker, 2 * checker->rows + 3 * TH_STEPS * count);
    if (judge->memory == NULL)
        return false;
    judge->above = judge->memory;
    judge->below = judge->above + checker->rows;
    judge->step = judge->below + checker->rows;
    const size_t bytes = (size_t)count * sizeof *judge->judgment;
    judge->judgment = th_allocate(checker->ctx, bytes);
    if (judge->judgment == NULL)
        th_fail_memory(checker->ctx, "check_gradient", bytes);
    return judge->judgment != NULL;
}

void th_judge_free(th_judge *judge)
{
    th_checker *checker = judge->checker;
    if (judge->judgment)
        th_release(checker->ctx, judge->judgment, (size_t)judge->count * sizeof *judge->judgment);
    if (judge->memory)
        th_checker_give(checker, judge->memory, 2 * checker->rows + 3 * TH_STEPS * judge->count);
}

/* -- quotients -- */

/* What step k shows: [count] quotients, */
static double *quotients(const th_judge *judge, int k)
{
    return judge->step + 3 * k * judge->count;
}

/* the slope above less the slope below, */
static double *bends(const th_judge *judge, int k)
{
    return quotients(judge, k) + judge->count;
}

/* and how far rounding may have moved the quotient: that of the outputs, and that of the point, which a function that
 * computes well makes no worse. */
static double *roundings(const th_judge *judge, int k)
{
    return bends(judge, k) + judge->count;
}

/* b - a, 0 where they are the same infinity. */
static double change(double a, double b)
{
    return a == b ? 0 : b - a;
}

/* Turns the outputs at x + above and x - below into what step k shows. */
static void divide(th_judge *judge, const th_line *line, int k, double above, double below)
{
    const th_checker *checker = judge->checker;
    const double unit = rounding_unit(checker), *c = judge->cotangent, half = (above + below) / 2;
    double *quotient = quotients(judge, k), *bend = bends(judge, k), *rounding = roundings(judge, k);
    const double x = isinf(line->x) ? 0 : line->x; /* at infinity a finite step does not move the point */
    double whole = 0, bent = 0, square = 0;
    judge->length[k] = half;
    for (int64_t j = 0; j < checker->rows; j++) {
        const double base = checker->base[j], high = judge->above[j], low = judge->below[j];
        const double size = fmax(fabs(high), fabs(low)); /* infinite: nothing but two zeros can be compared */
        if (c == NULL) {
            quotient[j] = change(low, high) / (2 * half);
            bend[j] = change(base, high) / above - change(low, base) / below;
            rounding[j] = unit * (size + fabs(x * quotient[j])) / half;
        } else {
            whole += c[j] * change(low, high);
            const double own = c[j] * (change(base, high) / above - change(low, base) / below);
            bent += own * own; /* bends of several outputs do not make up for each other */
            square += c[j] == 0 ? 0 : c[j] * size * c[j] * size;
        }
    }
    if (c) {
        quotient[0] = whole / (2 * half);
        bend[0] = sqrt(bent);
        rounding[0] = unit * (sqrt(square) + fabs(x * quotient[0]) + line->weight) / half;
    }
}

/* Moves the point along the line by h, or as near to that as its numbers allow; returns by how much. An infinite
 * element stays where it is: all that is said of it is that the outputs do not change. */
static double move(const th_line *line, double h)
{
    th_leaf *leaf = line->leaf;
    if (line->direction == NULL) {
        th_checker_set_element(leaf, line->element, line->x + h);
        return isinf(line->x) ? h : th_checker_element(leaf, line->element) - line->x;
    }
    for (int64_t e = 0; e < leaf->numel; e++)
        th_checker_set_element(leaf, e, line->start[e] + h * line->direction[e]);
    return h;
}

/* The function on both sides of the point, step k away; not at all where that is lost in the rounding of the numbers.
 */
static bool try_step(th_judge *judge, const th_line *line, int k)
{
    th_checker *checker = judge->checker;
    const double h = step_length(checker, line, k);
    if (k < CENTRE && h < 256 * last_place(checker) * fabs(line->direction || isinf(line->x) ? 0 : line->x))
        return true;
    const double below = -move(line, -h);
    bool good = th_checker_values(checker, judge->below);
    const double above = move(line, h);
    good = good && th_checker_values(checker, judge->above);
    move(line, 0);
    if (good && above > 0 && below > 0)
        divide(judge, line, k, above, below);
    return good;
}

/* -- one derivative -- */

typedef struct derivative {
    const th_judge *judge;
    int64_t j;
    double analytic, scale, relative, absolute, visible;
    double largest;  /* beside which it may be small */
    double per_unit; /* the rounding unit, for each unit of the input */
    double unit;     /* the last place of the output, for each unit of the input */
    double hidden;   /* rounding inside the function, times the step */
} derivative;

static bool known(const derivative *d, int k)
{
    return k >= 0 && k < TH_STEPS && d->judge->length[k] > 0 && isfinite(quotients(d->judge, k)[d->j]);
}

static double quotient(const derivative *d, int k)
{
    return quotients(d->judge, k)[d->j];
}

static double bend(const derivative *d, int k)
{
    return fabs(bends(d->judge, k)[d->j]);
}

static double rounding(const derivative *d, int k)
{
    return SAFETY * roundings(d->judge, k)[d->j];
}

static double distance(const derivative *d, int k)
{
    return fabs(d->analytic - quotient(d, k));
}

static double size(const derivative *d, int k)
{
    return fmax(fmax(fabs(d->analytic), fabs(quotient(d, k))), d->scale);
}

static bool within_tolerance(const derivative *d, int k)
{
    return distance(d, k) <= d->absolute + d->relative * size(d, k);
}

/* Rounding hides only a small part of the derivative. */
static bool is_visible(const derivative *d, int k)
{
    return rounding(d, k) <= SIGHT * d->visible * size(d, k);
}

/* As close as an uncertain quotient can be, where that leaves no room for a mistake. */
static bool is_close(const derivative *d, int k, double error)
{
    return distance(d, k) <= error && error <= SIGHT * d->visible * size(d, k) &&
           distance(d, k) + error / SAFETY <= d->visible * size(d, k);
}

static double apart(const derivative *d, int k, int other)
{
    return known(d, other) ? fabs(quotient(d, k) - quotient(d, other)) : INFINITY;
}

static th_judgment settled(const derivative *d, th_judgment_kind kind, int k, double error)
{
    return (th_judgment){.kind = kind, .numeric = quotient(d, k), .error = error};
}

/* The usual step alone. */
static th_judgment judge_center(const derivative *d)
{
    if (!known(d, CENTRE) || !isfinite(d->analytic))
        return (th_judgment){.kind = TH_UNSETTLED};
    const bool right = within_tolerance(d, CENTRE) || is_close(d, CENTRE, rounding(d, CENTRE));
    return settled(d, right ? TH_RIGHT : TH_UNSETTLED, CENTRE, rounding(d, CENTRE));
}

/* Quotient n, of a shorter step than k's or a longer one, shows that quotient k has hardly a truncation error: that is
 * a square of the step's length, so that nearly all of it is between k and a shorter one, and a hundredth of what is
 * between k and a longer one. */
static bool confirms(const derivative *d, int k, int n)
{
    return known(d, n) && rounding(d, n) <= SIGHT * d->visible * size(d, k) &&
           apart(d, k, n) <=
               fmin(d->visible, (n > k ? 100 : 10) * d->relative) * size(d, k) + rounding(d, k) + rounding(d, n);
}

/* Step k agrees, and a neighbor shows that this is no accident. */
static bool agrees(const derivative *d, int k)
{
    return is_visible(d, k) && (within_tolerance(d, k) || is_close(d, k, rounding(d, k))) &&
           (confirms(d, k, k - 1) || confirms(d, k, k + 1));
}

/* No kink or jump between the outputs at step k, as far as it, and the next longer one where there is one, can tell. */
static bool is_smooth(const derivative *d, int k)
{
    const double longer = known(d, k + 1) ? bend(d, k + 1) : 0;
    return bend(d, k) <= fmax(fabs(quotient(d, k)), longer) / 2 + 2 * rounding(d, k);
}

/* The outputs change clearly less over step k than over the next longer one, as they do wherever the function is not
 * rougher than these steps. */
static bool shrinks(const derivative *d, int k)
{
    const double *length = d->judge->length;
    const double shorter = length[k] * (fabs(quotient(d, k)) + bend(d, k) / 2),
                 longer = length[k + 1] * (fabs(quotient(d, k + 1)) + bend(d, k + 1) / 2);
    return shorter <= longer / 4 + 2 * rounding(d, k) * length[k];
}

/* Where the outputs change much less than the analytic derivative says, they may also do so because they swing to and
 * fro within a step: then no step shows it but those that are short enough, and shorter and shorter ones are asked. */
static bool shrinks_everywhere(const derivative *d)
{
    int steps = 0;
    for (int k = 0; k < TH_STEPS; k++) {
        steps += known(d, k);
        if (known(d, k) && known(d, k + 1) && !shrinks(d, k))
            return false;
    }
    return steps >= STEPS_TO_TELL_WRONG;
}

/* What quotient k is off may be rounding inside the function. */
static bool may_be_hidden(const derivative *d, int k)
{
    return distance(d, k) * d->judge->length[k] <= d->hidden;
}

static double hidden_part(const derivative *d)
{
    return (d->judge->checker->options.float32 ? HIDDEN_FLOAT32 : HIDDEN) * fmax(d->largest, d->scale);
}

/* The outputs hardly change over step k and do over a longer one, as steeply as the analytic derivative says. */
static bool shows_later(const derivative *d, int k)
{
    if (fabs(quotient(d, k)) >= fabs(d->analytic) / 4)
        return false;
    for (int n = k + 1; n < TH_STEPS; n++)
        if (known(d, n) && distance(d, n) <= fabs(d->analytic) / 2)
            return true;
    return false;
}

/* Steps k, k + 1 and k + 2 agree with each other, and not with the analytic derivative. */
static bool contradict(const derivative *d, int k)
{
    if (!known(d, k) || !known(d, k + 1) || !known(d, k + 2))
        return false;
    if (!isfinite(d->analytic))
        return is_smooth(d, k) || is_smooth(d, k + 1);
    const double off = fmin(distance(d, k + 1), distance(d, k + 2));
    if (may_be_hidden(d, k + 1) && (off <= hidden_part(d) || shows_later(d, k + 1)))
        return false;
    return !within_tolerance(d, k + 1) && !within_tolerance(d, k + 2) && off > EQUAL_UNITS * d->unit &&
           rounding(d, k + 1) <= off / 2 && apart(d, k + 1, k + 2) <= AGREEMENT * off &&
           apart(d, k, k + 1) <= AGREEMENT * off + rounding(d, k) + rounding(d, k + 1) && is_smooth(d, k + 1) &&
           bend(d, k) <= 2 * AGREEMENT * off + 2 * rounding(d, k) && shrinks(d, k) && shrinks(d, k + 1) &&
           (fabs(quotient(d, k + 1)) >= fabs(d->analytic) / 4 || shrinks_everywhere(d));
}

/* All steps so far. */
static th_judgment judge_steps(const derivative *d)
{
    for (int k = TH_STEPS - 1; k >= 0 && d->judge->checker->options.step <= 0; k--)
        if (known(d, k) && agrees(d, k))
            return settled(d, TH_RIGHT, k, rounding(d, k));
    for (int k = 0; k + 2 < TH_STEPS; k++)
        if (contradict(d, k))
            return settled(d, TH_WRONG, k + 1, apart(d, k + 1, k + 2) + rounding(d, k + 1));
    return (th_judgment){.kind = TH_UNSETTLED};
}

/* -- what is left -- */

/* How far off quotient k may be: it changes so much from a neighbor, and across a kink it is but a mean. */
static double uncertainty(const derivative *d, int k)
{
    const double kink = is_smooth(d, k) ? 0 : bend(d, k) / 2;
    return fmin(apart(d, k, k - 1), apart(d, k, k + 1)) + rounding(d, k) + kink;
}

static int most_certain(const derivative *d)
{
    if (d->judge->checker->options.step > 0)
        return known(d, CENTRE) ? CENTRE : -1;
    int best = -1;
    for (int k = 0; k < TH_STEPS; k++)
        if (known(d, k) && (best < 0 || uncertainty(d, k) < uncertainty(d, best)) &&
            !(may_be_hidden(d, k) && shows_later(d, k)))
            best = k;
    return best;
}

/* Shorter steps change neither of the slopes above and below: a kink; or the outputs themselves: a jump. */
static th_doubt doubt_of(const derivative *d, int best, th_judgment *judgment)
{
    const double *length = d->judge->length;
    for (int k = 0; k < CENTRE; k++) { /* what longer steps alone show is not at this point */
        if (!known(d, k) || !known(d, k + 1) || !(bend(d, k) > 8 * rounding(d, k)))
            continue;
        if (fabs(bend(d, k) - bend(d, k + 1)) <= 0.1 * bend(d, k)) {
            const double middle = quotient(d, k), half = bends(d->judge, k)[d->j] / 2;
            judgment->below = middle - half;
            judgment->above = middle + half;
            return TH_DOUBT_KINK;
        }
        if (fabs(bend(d, k) * length[k] - bend(d, k + 1) * length[k + 1]) <= 0.1 * bend(d, k) * length[k] &&
            bend(d, k) * length[k] > d->hidden)
            return TH_DOUBT_JUMP;
    }
    return rounding(d, best) > d->visible * size(d, best) || may_be_hidden(d, best) ? TH_DOUBT_ROUNDING
                                                                                    : TH_DOUBT_OTHER;
}

/* The steepest that the function is seen by steps longer than k. */
static double steepest(const derivative *d, int k)
{
    double slope = 0;
    while (++k < TH_STEPS)
        if (known(d, k))
            slope = fmax(slope, fabs(quotient(d, k)));
    return slope;
}

/* Both are 0 as far as can be seen: beside the output, or beside what longer steps show of the function around the
 * point. */
static bool is_zero(const derivative *d, int best, double error)
{
    const bool float32 = d->judge->checker->options.float32;
    const double analytic = fabs(d->analytic), numeric = fabs(quotient(d, best));
    if (fmax(analytic, numeric) <= EQUAL_UNITS * d->unit)
        return true;
    if (fmax(analytic, numeric) > 2 * error)
        return false;
    const double output = d->unit / last_place(d->judge->checker);
    return (error <= (float32 ? NEGLIGIBLE_FLOAT32 : NEGLIGIBLE) * output && analytic <= ZERO_UNITS * d->unit) ||
           error <= d->visible * steepest(d, best);
}

/* After the last step. */
static th_judgment conclude(const derivative *d)
{
    const int best = most_certain(d);
    if (best < 0)
        return (th_judgment){.kind = TH_CANNOT_TELL, .numeric = NAN, .error = INFINITY, .doubt = TH_DOUBT_NOT_A_NUMBER};
    const th_gradient_options *o = &d->judge->checker->options;
    const double error = uncertainty(d, best), beside = (o->float32 ? BESIDE_FLOAT32 : BESIDE) * d->largest;
    /* as close as can be seen, and what cannot be seen is small beside the derivative or beside others of the leaf */
    const bool close =
        within_tolerance(d, best) ? error <= SIGHT * d->visible * size(d, best) : is_close(d, best, error);
    const bool small = distance(d, best) <= error && 3 * error + size(d, best) <= beside;
    if (o->step <= 0 && (close || small))
        return settled(d, TH_RIGHT, best, error);
    if (may_be_hidden(d, best) && distance(d, best) <= hidden_part(d))
        return settled(d, TH_RIGHT, best, error);
    if (is_zero(d, best, error))
        return settled(d, TH_RIGHT, best, error);
    th_judgment judgment = settled(d, TH_CANNOT_TELL, best, error);
    const bool finite = isfinite(d->analytic) && isfinite(rounding(d, best));
    judgment.doubt = finite ? doubt_of(d, best, &judgment) : TH_DOUBT_NOT_A_NUMBER;
    return judgment;
}

/* -- a line -- */

static int steps_to_try(const th_judge *judge, const th_line *line)
{
    if (line->thorough)
        return UPWARD_STEPS;
    if (judge->doubtful >= DOUBTFUL_LINES)
        return 1;
    return line->brief || judge->checker->options.step > 0 ? STEPS_TO_TELL_WRONG : TH_STEPS;
}

/* Outputs of different size round differently; those of no size of their own do so as others that are at most 1. */
static void set_row(derivative *d, double analytic)
{
    const th_checker *checker = d->judge->checker;
    const double scale = checker->output_scale, own = d->judge->cotangent ? scale : fabs(checker->base[d->j]);
    d->analytic = analytic;
    d->unit = d->per_unit * fmax(isfinite(own) ? own : scale, fmin(scale, 1));
}

bool th_judge_line(th_judge *judge, const th_line *line, const double *analytic, int64_t stride)
{
    const th_checker *checker = judge->checker;
    const int *order = line->thorough ? upward_order : usual_order, steps = steps_to_try(judge, line);
    derivative d = {.judge = judge,
                    .scale = line->scale,
                    .largest = line->largest,
                    .per_unit = last_place(checker) / magnitude(line),
                    .hidden = HIDDEN_UNITS * rounding_unit(checker) * fmax(magnitude(line), checker->output_scale),
                    .relative = relative_tolerance(checker),
                    .absolute =
                        checker->options.absolute_tolerance * (judge->cotangent ? sqrt((double)checker->rows) : 1),
                    .visible = visible_part(checker)};
    for (int k = 0; k < TH_STEPS; k++)
        judge->length[k] = 0;
    int64_t unsettled = judge->count;
    for (int i = 0; i < steps && unsettled > 0; i++) {
        if (!try_step(judge, line, CENTRE + order[i]))
            return false;
        unsettled = 0;
        for (d.j = 0; d.j < judge->count; d.j++) {
            th_judgment *judgment = &judge->judgment[d.j];
            set_row(&d, analytic[d.j * stride]);
            if (i == 0)
                *judgment = line->thorough ? (th_judgment){.kind = TH_UNSETTLED} : judge_center(&d);
            else if (judgment->kind == TH_UNSETTLED)
                *judgment = judge_steps(&d);
            unsettled += judgment->kind == TH_UNSETTLED;
        }
    }
    bool doubtful = false;
    for (d.j = 0; d.j < judge->count && unsettled > 0; d.j++) {
        th_judgment *judgment = &judge->judgment[d.j];
        if (judgment->kind != TH_UNSETTLED)
            continue;
        set_row(&d, analytic[d.j * stride]);
        *judgment = conclude(&d);
        doubtful |= judgment->kind == TH_CANNOT_TELL;
    }
    judge->doubtful += doubtful;
    return true;
}
