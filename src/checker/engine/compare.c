/* The two modes of a check. The full mode compares the whole Jacobian. The fast mode compares samples of the
 * elements, and random directions. */
#include <math.h>
#include <string.h>

#include "checker/engine/report.h"
#include "checker/engine/search.h"
#include "checker/engine/verdict.h"
#include "tensor/splitmix.h"

double th_random_coefficient(uint64_t *random)
{
    const uint64_t z = th_splitmix64(random);
    const double magnitude = 0.25 + 0.75 * (double)(z >> 12) * 0x1p-52;
    return z & 1 ? magnitude : -magnitude;
}

static void fill_with_coefficients(th_engine *engine, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = th_random_coefficient(&engine->random);
}

static double distance_between(double analytic, double numeric)
{
    const double difference = fabs(analytic - numeric);
    return isnan(difference) ? INFINITY : difference;
}

/* Returns the error that rounding may have in an analytic derivative. */
static double gradient_error(const th_engine *engine, int64_t column)
{
    return engine->gradient_noise ? TH_ROUNDING_SAFETY * engine->gradient_noise[column] : 0;
}

/* Returns whether two analytic sums, a and b, are equal. They may differ by rounding, which grows with the sum of the
 * magnitudes of their terms. The terms were confirmed only within the error of the quotients, so the sums may differ by
 * this error, too. */
static bool sums_agree(const th_engine *engine, double a, double b, double magnitudes, double error)
{
    const double relative = engine->products_hide ? TH_BFLOAT16_EQUAL : th_limits.sums[engine->gradient_kind];
    return fabs(a - b) <= relative * magnitudes + error; /* NaN fails */
}

/* Records the element in the finding if it is worse than the recorded one. A wrong element is worse than one that the
 * check cannot tell. */
static void keep_worse_element(th_finding *finding, int64_t element, double analytic, const th_verdict *verdict)
{
    const th_verdict_kind kind = finding->verdict.kind;
    if (kind == TH_WRONG && verdict->kind != TH_WRONG)
        return;
    if (kind == verdict->kind &&
        distance_between(analytic, verdict->numeric) <= distance_between(finding->analytic, finding->verdict.numeric))
        return;
    finding->element = element;
    finding->analytic = analytic;
    finding->verdict = *verdict;
}

/* Selects the finding to report: the first variable that is wrong, or else the first one that the check cannot tell. */
static void select_finding(th_finding *selected, const th_finding *finding)
{
    if (finding->verdict.kind == TH_WRONG || (finding->verdict.kind == TH_CANNOT_TELL && selected->variable == NULL))
        *selected = *finding;
}

double th_largest_magnitude(const double *values, int64_t count)
{
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i]))
            largest = fmax(largest, fabs(values[i]));
    return largest;
}

void th_engine_set_base(th_engine *engine)
{
    engine->output_scale = th_largest_magnitude(engine->base, engine->rows);
    engine->base_is_finite = true;
    for (int64_t j = 0; j < engine->rows; j++)
        engine->base_is_finite &= isfinite(engine->base[j]) != 0;
}

th_gradient_mode th_engine_mode(const th_engine *engine)
{
    const int64_t rows = engine->rows, columns = engine->columns;
    if (engine->options.mode != TH_GRADIENT_AUTO)
        return engine->options.mode;
    return rows <= 2000 && columns <= 8000 && 2 * columns + rows <= 20000 && rows * columns <= (1 << 22)
               ? TH_GRADIENT_FULL
               : TH_GRADIENT_FAST;
}

/* Returns a line in a random direction through a variable. Writes the direction and the variable's values. */
static th_line random_line(th_engine *engine, th_variable *variable, const double *gradient, double *direction,
                           double *start)
{
    double term_squares = 0, start_squares = 0, error_squares = 0;
    fill_with_coefficients(engine, direction, variable->numel);
    for (int64_t e = 0; e < variable->numel; e++) {
        const double term = gradient[e] * direction[e];
        start[e] = engine->calls->element(engine, variable, e);
        const double error = gradient_error(engine, variable->first_column + e) * direction[e];
        term_squares += term * term;
        error_squares += error * error;
        start_squares += start[e] * gradient[e] * start[e] * gradient[e];
    }
    return (th_line){.variable = variable,
                     .direction = direction,
                     .start = start,
                     .term_norm = isfinite(term_squares) ? sqrt(term_squares) : 0,
                     .gradient_start_norm = isfinite(start_squares) ? sqrt(start_squares) : 0,
                     .gradient_error = sqrt(error_squares)};
}

static th_finding direction_finding(const th_variable *variable, double analytic, const th_verdict *verdict)
{
    return (th_finding){.variable = variable, .analytic = analytic, .verdict = *verdict, .along_direction = true};
}

/* -- analytic gradients -- */

/* The arrays of a comparison. */
typedef struct compare_workspace {
    double *analytic, *numeric;     /* [rows][columns]: the Jacobian; NULL in fast mode */
    double *selector;               /* [rows]: a cotangent: 1 for one output, 0 for all others; NULL in fast mode */
    double *cotangent;              /* [rows]: random */
    double *gradient_once;          /* [columns]: the analytic gradient under the cotangent, after one backward */
    double *gradient_twice;         /* [columns]: the same after two backward passes */
    double *numeric_gradient;       /* [columns]: under the cotangent; in fast mode NaN where it was not sampled */
    double *direction, *start;      /* [columns] */
    unsigned char *element_verdict; /* [columns]: th_verdict_kind */
    double largest_derivative;      /* largest analytic derivative of the variable */
    th_shape output_shape;
    th_comparison comparison;
} compare_workspace;

static bool compute_analytic_gradients(th_engine *engine, compare_workspace *work)
{
    const th_engine_calls *calls = engine->calls;
    fill_with_coefficients(engine, work->cotangent, engine->rows);
    bool succeeded = calls->begin_gradients(engine, &work->output_shape);
    for (int64_t j = 0; j < engine->rows && succeeded; j++) {
        if (work->analytic) {
            work->selector[j] = 1;
            succeeded = calls->compute_gradients(engine, work->selector, 1, work->analytic + j * engine->columns);
            work->selector[j] = 0;
        } else if (isinf(engine->base[j])) { /* otherwise the infinite output would hide the others */
            work->cotangent[j] = 0;
        }
    }
    if (succeeded && calls->compute_gradients(engine, work->cotangent, 1, work->gradient_once))
        succeeded = calls->compute_gradients(engine, work->cotangent, 2, work->gradient_twice);
    return calls->end_gradients(engine) && succeeded;
}

/* -- full mode: the whole Jacobian -- */

/* Checks two sums in one column: the gradient of a weighted sum of the outputs, and the gradient after two backward
 * passes. */
static void check_sums(th_engine *engine, const compare_workspace *work, int64_t column, double error,
                       th_verdict *verdict, double *analytic, th_finding *finding)
{
    double sum = 0, magnitudes = 0;
    for (int64_t j = 0; j < engine->rows; j++) {
        const double term = work->cotangent[j] * work->analytic[j * engine->columns + column];
        sum += term;
        magnitudes += fabs(term);
    }
    engine->report->checked += 2;
    const bool once_agrees = sums_agree(engine, work->gradient_once[column], sum, magnitudes, error);
    if (once_agrees && sums_agree(engine, work->gradient_twice[column], 2 * sum, 2 * magnitudes, 2 * error))
        return;
    finding->backward_not_linear |= !once_agrees;
    finding->overwrites |= once_agrees;
    *analytic = once_agrees ? work->gradient_twice[column] : work->gradient_once[column];
    *verdict = (th_verdict){.kind = TH_WRONG, .numeric = once_agrees ? 2 * sum : sum, .error = error};
}

/* Returns the line that moves one element. */
static th_line element_line(const th_engine *engine, const compare_workspace *work, th_variable *variable,
                            int64_t element, const th_finding *finding)
{
    const th_line line = {.variable = variable,
                          .element = element,
                          .x = engine->calls->element(engine, variable, element),
                          .gradient_error = gradient_error(engine, variable->first_column + element),
                          .largest_derivative = work->largest_derivative,
                          .only_tell_wrong = finding->verdict.kind == TH_WRONG};
    return line;
}

static bool compare_element(th_engine *engine, compare_workspace *work, th_variable *variable, int64_t element,
                            th_finding *finding)
{
    const int64_t rows = engine->rows, columns = engine->columns, column = variable->first_column + element;
    const th_line line = element_line(engine, work, variable, element, finding);
    if (!th_compare_line(&work->comparison, &line, work->analytic + column, columns))
        return false;
    double error = gradient_error(engine, column);
    th_verdict_kind kind = TH_RIGHT; /* of the element */
    for (int64_t j = 0; j < rows; j++) {
        const th_verdict *verdict = &work->comparison.verdict[j];
        work->numeric[j * columns + column] = verdict->numeric;
        work->numeric_gradient[column] += work->cotangent[j] * verdict->numeric;
        error += fabs(work->cotangent[j]) * verdict->error;
        engine->report->checked++;
        if (verdict->kind == TH_RIGHT)
            continue;
        kind = verdict->kind == TH_WRONG ? TH_WRONG : kind == TH_RIGHT ? TH_CANNOT_TELL : kind;
        keep_worse_element(finding, element, work->analytic[j * columns + column], verdict);
        finding->has_wrong_element |= verdict->kind == TH_WRONG;
    }
    if (kind == TH_RIGHT) {
        th_verdict verdict = {.kind = TH_RIGHT};
        double analytic = 0;
        check_sums(engine, work, column, error, &verdict, &analytic, finding);
        kind = verdict.kind;
        if (kind == TH_WRONG)
            keep_worse_element(finding, element, analytic, &verdict);
    }
    work->element_verdict[column] = (unsigned char)kind;
    return true;
}

/* If all derivatives of the variable are 0, analytic and numeric, checks that longer steps in a random direction do not
 * change the outputs. */
static bool compare_zero_derivatives(th_engine *engine, compare_workspace *work, th_variable *variable,
                                     th_finding *finding)
{
    for (int64_t j = 0; j < engine->rows; j++)
        for (int64_t e = variable->first_column; e < variable->first_column + variable->numel; e++)
            if (work->analytic[j * engine->columns + e] != 0 || work->numeric[j * engine->columns + e] != 0)
                return true;
    th_line line =
        random_line(engine, variable, work->gradient_once + variable->first_column, work->direction, work->start);
    line.longer_steps_only = true;
    if (!th_compare_line(&work->comparison, &line, work->selector, 1)) /* the selector is all 0 here */
        return false;
    for (int64_t j = 0; j < engine->rows; j++)
        if (work->comparison.verdict[j].kind == TH_WRONG || work->comparison.verdict[j].reason == TH_REASON_PLATEAUS)
            *finding = direction_finding(variable, 0, &work->comparison.verdict[j]);
    return true;
}

static bool compare_variable_full(th_engine *engine, compare_workspace *work, th_variable *variable,
                                  th_finding *finding)
{
    finding->analytic_jacobian = work->analytic + variable->first_column;
    finding->numeric_jacobian = work->numeric + variable->first_column;
    finding->row_stride = engine->columns;
    finding->output_shape = work->output_shape;
    work->largest_derivative = 0;
    for (int64_t j = 0; j < engine->rows; j++)
        work->largest_derivative =
            fmax(work->largest_derivative,
                 th_largest_magnitude(work->analytic + j * engine->columns + variable->first_column, variable->numel));
    for (int64_t e = 0; e < variable->numel; e++)
        if (!compare_element(engine, work, variable, e, finding))
            return false;
    return finding->verdict.kind != TH_NO_VERDICT || compare_zero_derivatives(engine, work, variable, finding);
}

/* -- fast mode: samples and random directions -- */

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Compares the analytic and the numeric derivative of <cotangent, output> in a random direction through one variable. */
static bool compare_direction(th_engine *engine, compare_workspace *work, th_variable *variable, bool longer_steps_only,
                              th_finding *finding)
{
    th_line line =
        random_line(engine, variable, work->gradient_once + variable->first_column, work->direction, work->start);
    line.longer_steps_only = longer_steps_only;
    const double analytic = dot(work->gradient_once + variable->first_column, work->direction, variable->numel);
    if (!th_compare_line(&work->comparison, &line, &analytic, 1))
        return false;
    engine->report->checked++;
    const th_verdict *verdict = &work->comparison.verdict[0];
    if (verdict->kind == TH_WRONG ||
        (verdict->kind == TH_CANNOT_TELL && (!longer_steps_only || verdict->reason == TH_REASON_PLATEAUS)))
        *finding = direction_finding(variable, analytic, verdict);
    return true;
}

/* Chooses the element of a sample. Odd samples take a random element. Even samples draw 32 random elements and take the
 * one with the largest gradient. At kinks, sample 0 takes an element that is 0, if the variable has one. */
static int64_t choose_element(th_engine *engine, const compare_workspace *work, const th_variable *variable, int sample)
{
    for (int64_t e = 0; engine->at_kinks && sample == 0 && e < variable->numel; e++)
        if (engine->calls->element(engine, variable, e) == 0)
            return e;
    int64_t best = 0;
    double largest = -1;
    for (int draw = 0; draw < (sample % 2 ? 1 : 32); draw++) {
        const int64_t e = (int64_t)(th_splitmix64(&engine->random) % (uint64_t)variable->numel);
        const double size = fabs(work->gradient_once[variable->first_column + e]);
        if (!(size <= largest)) {
            largest = size;
            best = e;
        }
    }
    return best;
}

static bool compare_sample(th_engine *engine, compare_workspace *work, th_variable *variable, int64_t element,
                           th_finding *finding)
{
    const int64_t column = variable->first_column + element;
    const double once = work->gradient_once[column], twice = work->gradient_twice[column];
    const th_line line = element_line(engine, work, variable, element, finding);
    if (!th_compare_line(&work->comparison, &line, &once, 1))
        return false;
    th_verdict verdict = work->comparison.verdict[0];
    double analytic = once;
    work->numeric_gradient[column] = verdict.numeric;
    engine->report->checked += 2;
    if (verdict.kind == TH_RIGHT && isfinite(once) &&
        !sums_agree(engine, twice, 2 * once, fabs(2 * once), 2 * (verdict.error + gradient_error(engine, column)))) {
        finding->overwrites = true;
        analytic = twice;
        verdict = (th_verdict){.kind = TH_WRONG, .numeric = 2 * once, .error = 2 * verdict.error};
    } else {
        finding->has_wrong_element |= verdict.kind == TH_WRONG;
    }
    work->element_verdict[column] = (unsigned char)verdict.kind;
    if (verdict.kind != TH_RIGHT)
        keep_worse_element(finding, element, analytic, &verdict);
    return true;
}

static bool are_all_zero_or_nan(const double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (values[i] != 0 && !isnan(values[i]))
            return false;
    return true;
}

enum { TH_SEARCHES = 3 };

/* Searches for wrong elements, and compares those that it finds. Sets the probability that it missed one. */
static bool search_variable(th_engine *engine, compare_workspace *work, th_variable *variable, th_finding *finding,
                            double *missed)
{
    th_search search = {.variable = variable,
                        .cotangent = work->cotangent,
                        .gradient = work->gradient_once + variable->first_column,
                        .start = work->start,
                        .direction = work->direction,
                        .above = work->comparison.quotients.above,
                        .below = work->comparison.quotients.below,
                        .largest_derivative = work->largest_derivative};
    const int searches = variable->numel > TH_SEARCH_BLOCK ? 1 : TH_SEARCHES;
    for (int s = 0; s < searches && finding->verdict.kind != TH_WRONG; s++) {
        int64_t element;
        if (!th_search_element(engine, &search, &element))
            return false;
        engine->report->checked++;
        th_finding found = *finding;
        if (element >= 0 && !compare_sample(engine, work, variable, element, &found))
            return false;
        if (found.verdict.kind == TH_WRONG)
            *finding = found;
    }
    if (!search.incomplete)
        *missed = 1;
    for (int i = 0; i < searches && !search.incomplete; i++)
        *missed *= th_search_missed_probability(&search);
    return true;
}

static bool compare_variable_fast(th_engine *engine, compare_workspace *work, th_variable *variable,
                                  th_finding *finding)
{
    const int samples = engine->options.samples > 0 ? engine->options.samples : 24;
    const int directions = engine->options.directions > 0 ? engine->options.directions : 8;
    work->largest_derivative = th_largest_magnitude(work->gradient_once + variable->first_column, variable->numel);
    for (int64_t e = 0; e < variable->numel; e++)
        work->numeric_gradient[variable->first_column + e] = NAN;
    for (int s = 0; s < samples && s < variable->numel; s++)
        if (!compare_sample(engine, work, variable,
                            variable->numel <= samples ? s : choose_element(engine, work, variable, s), finding))
            return false;
    const bool derivatives_are_zero =
        are_all_zero_or_nan(work->gradient_once + variable->first_column, variable->numel) &&
        are_all_zero_or_nan(finding->numeric_gradient, variable->numel);
    /* If every element was compared, a direction helps only if all derivatives are 0: it tries longer steps. With other
     * derivatives, a direction may cross kinks of several elements, and the kinks look like a mistake. */
    if ((variable->numel <= samples && !derivatives_are_zero) || engine->at_kinks)
        return true;
    for (int d = 0; d < directions && finding->verdict.kind == TH_NO_VERDICT; d++)
        if (!compare_direction(engine, work, variable, derivatives_are_zero && d == 0, finding))
            return false;
    double missed = 1 - (double)samples / (double)variable->numel; /* by the samples */
    const bool good = !engine->searches || finding->verdict.kind != TH_NO_VERDICT ||
                      search_variable(engine, work, variable, finding, &missed);
    engine->missed_probability = fmax(engine->missed_probability, missed);
    return good;
}

/* -- both modes -- */

static bool compare_leaves(th_engine *engine, compare_workspace *work)
{
    th_finding selected = {.variable = NULL};
    for (int64_t i = 0; i < engine->variables && selected.verdict.kind != TH_WRONG; i++) {
        th_variable *variable = engine->calls->variable(engine, i);
        if (!variable->checked || variable->numel == 0)
            continue;
        th_finding finding = {.variable = variable,
                              .analytic_gradient = work->gradient_once + variable->first_column,
                              .numeric_gradient = work->numeric_gradient + variable->first_column,
                              .element_verdict = work->element_verdict + variable->first_column,
                              .kind = engine->gradient_kind};
        if (!(work->analytic ? compare_variable_full : compare_variable_fast)(engine, work, variable, &finding))
            return false;
        select_finding(&selected, &finding);
    }
    if (selected.variable)
        th_report_finding(engine, &selected);
    return true;
}

bool th_engine_compare(th_engine *engine, bool full)
{
    const int64_t rows = engine->rows, columns = engine->columns;
    const int64_t count = (full ? 2 * rows * columns + rows : 0) + rows + 5 * columns + (columns + 7) / 8;
    double *memory = engine->calls->allocate(engine, count);
    if (memory == NULL)
        return false;
    compare_workspace work = {.cotangent = memory, .gradient_once = memory + rows};
    work.gradient_twice = work.gradient_once + columns;
    work.numeric_gradient = work.gradient_twice + columns;
    work.direction = work.numeric_gradient + columns;
    work.start = work.direction + columns;
    work.element_verdict = (unsigned char *)(work.start + columns);
    if (full) {
        work.selector = work.start + columns + (columns + 7) / 8;
        work.analytic = work.selector + rows;
        work.numeric = work.analytic + rows * columns;
    }
    const bool succeeded =
        th_comparison_init(&work.comparison, engine, full ? NULL : work.cotangent, full ? rows : 1) &&
        compute_analytic_gradients(engine, &work) && compare_leaves(engine, &work);
    th_comparison_free(&work.comparison);
    engine->calls->release(engine, memory, count);
    return succeeded;
}
