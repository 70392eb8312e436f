/* The two modes of a check. The full mode compares the whole Jacobian. The fast mode compares samples of the
 * elements, and random directions. */
#include <math.h>
#include <string.h>

#include "checker/report.h"
#include "checker/verdict.h"
#include "tensor/splitmix.h"

/* Returns a random sign times a magnitude that is uniform in [0.25, 1): no coefficient is close to 0. */
static double random_coefficient(th_checker *checker)
{
    const uint64_t z = th_splitmix64(&checker->random);
    const double magnitude = 0.25 + 0.75 * (double)(z >> 12) * 0x1p-52;
    return z & 1 ? magnitude : -magnitude;
}

static void fill_with_coefficients(th_checker *checker, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = random_coefficient(checker);
}

static double distance_between(double analytic, double numeric)
{
    const double difference = fabs(analytic - numeric);
    return isnan(difference) ? INFINITY : difference;
}

/* Returns whether two analytic sums, a and b, are equal. They may differ by rounding, which grows with the sum of the
 * magnitudes of their terms. The terms were confirmed only within the error of the quotients, so the sums may differ by
 * this error, too. */
static bool sums_agree(const th_checker *checker, double a, double b, double magnitudes, double error)
{
    const double relative =
        th_checker_in_bfloat16(checker) ? TH_BFLOAT16_EQUAL : th_limits.sums[checker->options.float32];
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

/* Selects the finding to report: the first leaf that is wrong, or else the first one that the check cannot tell. */
static void select_finding(th_finding *selected, const th_finding *finding)
{
    if (finding->verdict.kind == TH_WRONG || (finding->verdict.kind == TH_CANNOT_TELL && selected->leaf == NULL))
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

/* Returns a line in a random direction through a leaf. Writes the direction and the leaf's values. */
static th_line random_line(th_checker *checker, th_leaf *leaf, const double *gradient, double *direction, double *start)
{
    double term_squares = 0, start_squares = 0;
    fill_with_coefficients(checker, direction, leaf->numel);
    for (int64_t e = 0; e < leaf->numel; e++) {
        const double term = gradient[e] * direction[e];
        start[e] = th_checker_element(leaf, e);
        term_squares += term * term;
        start_squares += start[e] * gradient[e] * start[e] * gradient[e];
    }
    return (th_line){.leaf = leaf,
                     .direction = direction,
                     .start = start,
                     .term_norm = isfinite(term_squares) ? sqrt(term_squares) : 0,
                     .gradient_start_norm = isfinite(start_squares) ? sqrt(start_squares) : 0};
}

static th_finding direction_finding(const th_leaf *leaf, double analytic, const th_verdict *verdict)
{
    return (th_finding){.leaf = leaf, .analytic = analytic, .verdict = *verdict, .along_direction = true};
}

/* Runs the function with recording. Returns its output, or NULL if the check cannot continue. */
static th_tensor_impl *run_recorded(th_checker *checker)
{
    th_tensor_impl *output = th_checker_run(checker, true);
    if (output == NULL || checker->incomplete)
        return NULL;
    if (th_tensor_numel(output) == checker->rows && output->requires_gradient)
        return output;
    th_fail(checker->ctx, TH_ERROR_SHAPE, "check_gradient",
            "the output's shape, or whether it requires a gradient, differs between runs");
    return NULL;
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
    double largest_derivative;      /* largest analytic derivative of the leaf */
    th_shape output_shape;
    th_comparison comparison;
} compare_workspace;

static bool compute_analytic_gradients(th_checker *checker, compare_workspace *work)
{
    th_tensor_impl *output = run_recorded(checker);
    fill_with_coefficients(checker, work->cotangent, checker->rows);
    bool succeeded = output != NULL;
    if (succeeded) {
        work->output_shape.ndim = output->ndim;
        memcpy(work->output_shape.size, output->size, sizeof output->size);
    }
    for (int64_t j = 0; j < checker->rows && succeeded; j++) {
        if (work->analytic) {
            work->selector[j] = 1;
            succeeded =
                th_checker_compute_gradients(checker, output, work->selector, 1, work->analytic + j * checker->columns);
            work->selector[j] = 0;
        } else if (isinf(checker->base[j])) { /* otherwise the infinite output would hide the others */
            work->cotangent[j] = 0;
        }
    }
    if (succeeded && th_checker_compute_gradients(checker, output, work->cotangent, 1, work->gradient_once))
        (void)th_checker_compute_gradients(checker, output, work->cotangent, 2, work->gradient_twice);
    return th_checker_end_run(checker);
}

/* -- full mode: the whole Jacobian -- */

/* Checks two sums in one column: the gradient of a weighted sum of the outputs, and the gradient after two backward
 * passes. */
static void check_sums(th_checker *checker, const compare_workspace *work, int64_t column, double error,
                       th_verdict *verdict, double *analytic, th_finding *finding)
{
    double sum = 0, magnitudes = 0;
    for (int64_t j = 0; j < checker->rows; j++) {
        const double term = work->cotangent[j] * work->analytic[j * checker->columns + column];
        sum += term;
        magnitudes += fabs(term);
    }
    checker->report->checked += 2;
    const bool once_agrees = sums_agree(checker, work->gradient_once[column], sum, magnitudes, error);
    if (once_agrees && sums_agree(checker, work->gradient_twice[column], 2 * sum, 2 * magnitudes, 2 * error))
        return;
    finding->backward_not_linear |= !once_agrees;
    finding->overwrites |= once_agrees;
    *analytic = once_agrees ? work->gradient_twice[column] : work->gradient_once[column];
    *verdict = (th_verdict){.kind = TH_WRONG, .numeric = once_agrees ? 2 * sum : sum, .error = error};
}

static bool compare_element(th_checker *checker, compare_workspace *work, th_leaf *leaf, int64_t element,
                            th_finding *finding)
{
    const int64_t rows = checker->rows, columns = checker->columns, column = leaf->first_column + element;
    const th_line line = {.leaf = leaf,
                          .element = element,
                          .x = th_checker_element(leaf, element),
                          .largest_derivative = work->largest_derivative,
                          .only_tell_wrong = finding->verdict.kind == TH_WRONG};
    if (!th_compare_line(&work->comparison, &line, work->analytic + column, columns))
        return false;
    double error = 0;
    th_verdict_kind kind = TH_RIGHT; /* of the element */
    for (int64_t j = 0; j < rows; j++) {
        const th_verdict *verdict = &work->comparison.verdict[j];
        work->numeric[j * columns + column] = verdict->numeric;
        work->numeric_gradient[column] += work->cotangent[j] * verdict->numeric;
        error += fabs(work->cotangent[j]) * verdict->error;
        checker->report->checked++;
        if (verdict->kind == TH_RIGHT)
            continue;
        kind = verdict->kind == TH_WRONG ? TH_WRONG : kind == TH_RIGHT ? TH_CANNOT_TELL : kind;
        keep_worse_element(finding, element, work->analytic[j * columns + column], verdict);
        finding->has_wrong_element |= verdict->kind == TH_WRONG;
    }
    if (kind == TH_RIGHT) {
        th_verdict verdict = {.kind = TH_RIGHT};
        double analytic = 0;
        check_sums(checker, work, column, error, &verdict, &analytic, finding);
        kind = verdict.kind;
        if (kind == TH_WRONG)
            keep_worse_element(finding, element, analytic, &verdict);
    }
    work->element_verdict[column] = (unsigned char)kind;
    return true;
}

/* If all derivatives of the leaf are 0, analytic and numeric, checks that longer steps in a random direction do not
 * change the outputs. */
static bool compare_zero_derivatives(th_checker *checker, compare_workspace *work, th_leaf *leaf, th_finding *finding)
{
    for (int64_t j = 0; j < checker->rows; j++)
        for (int64_t e = leaf->first_column; e < leaf->first_column + leaf->numel; e++)
            if (work->analytic[j * checker->columns + e] != 0 || work->numeric[j * checker->columns + e] != 0)
                return true;
    th_line line = random_line(checker, leaf, work->gradient_once + leaf->first_column, work->direction, work->start);
    line.longer_steps_only = true;
    if (!th_compare_line(&work->comparison, &line, work->selector, 1)) /* the selector is all 0 here */
        return false;
    for (int64_t j = 0; j < checker->rows; j++)
        if (work->comparison.verdict[j].kind == TH_WRONG)
            *finding = direction_finding(leaf, 0, &work->comparison.verdict[j]);
    return true;
}

static bool compare_leaf_full(th_checker *checker, compare_workspace *work, th_leaf *leaf, th_finding *finding)
{
    finding->analytic_jacobian = work->analytic + leaf->first_column;
    finding->numeric_jacobian = work->numeric + leaf->first_column;
    finding->row_stride = checker->columns;
    finding->output_shape = work->output_shape;
    work->largest_derivative = 0;
    for (int64_t j = 0; j < checker->rows; j++)
        work->largest_derivative =
            fmax(work->largest_derivative,
                 th_largest_magnitude(work->analytic + j * checker->columns + leaf->first_column, leaf->numel));
    for (int64_t e = 0; e < leaf->numel; e++)
        if (!compare_element(checker, work, leaf, e, finding))
            return false;
    return finding->verdict.kind != TH_NO_VERDICT || compare_zero_derivatives(checker, work, leaf, finding);
}

/* -- fast mode: samples and random directions -- */

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Compares the analytic and the numeric derivative of <cotangent, output> in a random direction through one leaf. */
static bool compare_direction(th_checker *checker, compare_workspace *work, th_leaf *leaf, bool longer_steps_only,
                              th_finding *finding)
{
    th_line line = random_line(checker, leaf, work->gradient_once + leaf->first_column, work->direction, work->start);
    line.longer_steps_only = longer_steps_only;
    const double analytic = dot(work->gradient_once + leaf->first_column, work->direction, leaf->numel);
    if (!th_compare_line(&work->comparison, &line, &analytic, 1))
        return false;
    checker->report->checked++;
    const th_verdict *verdict = &work->comparison.verdict[0];
    if (verdict->kind == TH_WRONG || (verdict->kind == TH_CANNOT_TELL && !longer_steps_only))
        *finding = direction_finding(leaf, analytic, verdict);
    return true;
}

/* Chooses the element of a sample. Odd samples take a random element. Even samples draw 32 random elements and take the
 * one with the largest gradient. At kinks, sample 0 takes an element that is 0, if the leaf has one. */
static int64_t choose_element(th_checker *checker, const compare_workspace *work, const th_leaf *leaf, int sample)
{
    for (int64_t e = 0; checker->at_kinks && sample == 0 && e < leaf->numel; e++)
        if (th_checker_element(leaf, e) == 0)
            return e;
    int64_t best = 0;
    double largest = -1;
    for (int draw = 0; draw < (sample % 2 ? 1 : 32); draw++) {
        const int64_t e = (int64_t)(th_splitmix64(&checker->random) % (uint64_t)leaf->numel);
        const double size = fabs(work->gradient_once[leaf->first_column + e]);
        if (!(size <= largest)) {
            largest = size;
            best = e;
        }
    }
    return best;
}

static bool compare_sample(th_checker *checker, compare_workspace *work, th_leaf *leaf, int64_t element,
                           th_finding *finding)
{
    const int64_t column = leaf->first_column + element;
    const double once = work->gradient_once[column], twice = work->gradient_twice[column];
    const th_line line = {.leaf = leaf,
                          .element = element,
                          .x = th_checker_element(leaf, element),
                          .largest_derivative = work->largest_derivative,
                          .only_tell_wrong = finding->verdict.kind == TH_WRONG};
    if (!th_compare_line(&work->comparison, &line, &once, 1))
        return false;
    th_verdict verdict = work->comparison.verdict[0];
    double analytic = once;
    work->numeric_gradient[column] = verdict.numeric;
    checker->report->checked += 2;
    if (verdict.kind == TH_RIGHT && isfinite(once) &&
        !sums_agree(checker, twice, 2 * once, fabs(2 * once), 2 * verdict.error)) {
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

static bool compare_leaf_fast(th_checker *checker, compare_workspace *work, th_leaf *leaf, th_finding *finding)
{
    const int samples = checker->options.samples > 0 ? checker->options.samples : 24;
    const int directions = checker->options.directions > 0 ? checker->options.directions : 8;
    work->largest_derivative = th_largest_magnitude(work->gradient_once + leaf->first_column, leaf->numel);
    for (int64_t e = 0; e < leaf->numel; e++)
        work->numeric_gradient[leaf->first_column + e] = NAN;
    for (int s = 0; s < samples && s < leaf->numel; s++)
        if (!compare_sample(checker, work, leaf, leaf->numel <= samples ? s : choose_element(checker, work, leaf, s),
                            finding))
            return false;
    const bool derivatives_are_zero = are_all_zero_or_nan(work->gradient_once + leaf->first_column, leaf->numel) &&
                                      are_all_zero_or_nan(finding->numeric_gradient, leaf->numel);
    /* If every element was compared, a direction helps only if all derivatives are 0: it tries longer steps. With other
     * derivatives, a direction may cross kinks of several elements, and the kinks look like a mistake. */
    if ((leaf->numel <= samples && !derivatives_are_zero) || checker->at_kinks)
        return true;
    for (int d = 0; d < directions && finding->verdict.kind == TH_NO_VERDICT; d++)
        if (!compare_direction(checker, work, leaf, derivatives_are_zero && d == 0, finding))
            return false;
    return true;
}

/* -- both modes -- */

static bool compare_leaves(th_checker *checker, compare_workspace *work)
{
    th_finding selected = {.leaf = NULL};
    for (int64_t i = 0; i < checker->leaves.count && selected.verdict.kind != TH_WRONG; i++) {
        th_leaf *leaf = th_checker_leaf(checker, i);
        if (!leaf->checked || leaf->numel == 0)
            continue;
        th_finding finding = {.leaf = leaf,
                              .analytic_gradient = work->gradient_once + leaf->first_column,
                              .numeric_gradient = work->numeric_gradient + leaf->first_column,
                              .element_verdict = work->element_verdict + leaf->first_column};
        if (!(work->analytic ? compare_leaf_full : compare_leaf_fast)(checker, work, leaf, &finding))
            return false;
        select_finding(&selected, &finding);
    }
    if (selected.leaf)
        th_report_finding(checker, &selected);
    return true;
}

bool th_checker_compare(th_checker *checker, bool full)
{
    const int64_t rows = checker->rows, columns = checker->columns;
    if (full && columns > INT64_MAX / 32 / (rows + 8)) {
        th_fail(checker->ctx, TH_ERROR_SHAPE, "check_gradient",
                "a Jacobian of %lld by %lld numbers is too large: use the fast mode", (long long)rows,
                (long long)columns);
        return false;
    }
    const int64_t count = (full ? 2 * rows * columns + rows : 0) + rows + 5 * columns + (columns + 7) / 8;
    double *memory = th_checker_allocate(checker->ctx, "check_gradient", count);
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
        th_comparison_init(&work.comparison, checker, full ? NULL : work.cotangent, full ? rows : 1) &&
        compute_analytic_gradients(checker, &work) && compare_leaves(checker, &work);
    th_comparison_free(&work.comparison);
    th_checker_release(checker->ctx, memory, count);
    return succeeded;
}
