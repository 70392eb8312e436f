/* What a wrong gradient is told like: the worst element, what kind of mistake fits, and a map of where it is wrong. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "checker/checker.h"
#include "kernels/sizes.h"
#include "tensor/format.h"

void th_checker_say(th_gradient_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(report->text, sizeof report->text, format, arguments);
    va_end(arguments);
}

static th_shape index_of(const th_tensor_impl *t, int64_t element)
{
    th_shape index = {.ndim = t->ndim};
    th_index_at(t->ndim, t->size, element, index.size);
    return index;
}

/* analytic = factor * numeric, as far as telling one kind of mistake from another goes. */
static bool is_scaled(const th_finding *f, double analytic, double numeric, double factor)
{
    return fabs(analytic - factor * numeric) <=
           1e-4 * fmax(fabs(analytic), fabs(factor * numeric)) + 1e-6 * fabs(f->analytic - f->judgment.numeric);
}

/* analytic = factor * numeric in every element that was compared (and not all of them 0). */
static bool is_multiple(const th_checker *checker, const th_finding *f, double factor)
{
    bool any = false;
    for (int64_t e = 0; e < f->leaf->numel; e++) {
        if (isnan(f->numeric_vector[e]))
            continue;
        if (!is_scaled(f, f->analytic_vector[e], f->numeric_vector[e], factor))
            return false;
        any |= f->numeric_vector[e] != 0;
        for (int64_t j = 0; f->analytic_jacobian && j < checker->rows; j++)
            if (!is_scaled(f, f->analytic_jacobian[j * f->row_stride + e], f->numeric_jacobian[j * f->row_stride + e],
                           factor))
                return false;
    }
    return any;
}

static double best_factor(const th_finding *f)
{
    double product = 0, square = 0;
    for (int64_t e = 0; e < f->leaf->numel; e++)
        if (!isnan(f->numeric_vector[e])) {
            product += f->analytic_vector[e] * f->numeric_vector[e];
            square += f->numeric_vector[e] * f->numeric_vector[e];
        }
    return square > 0 ? product / square : NAN;
}

/* The gradient of the last two axes exchanged. */
static bool is_transposed(const th_finding *f)
{
    const th_tensor_impl *t = f->leaf->tensor;
    if (t->ndim < 2 || t->size[t->ndim - 1] != t->size[t->ndim - 2] || f->analytic_jacobian == NULL)
        return false;
    const int64_t n = t->size[t->ndim - 1];
    for (int64_t e = 0; e < f->leaf->numel; e++) {
        const int64_t block = e / (n * n) * (n * n), row = e % (n * n) / n, column = e % n;
        if (!is_scaled(f, f->analytic_vector[block + column * n + row], f->numeric_vector[e], 1))
            return false;
    }
    return true;
}

/* Coordinate of output row j on an axis. */
static int64_t coordinate(const th_shape *shape, int64_t j, int axis)
{
    for (int d = shape->ndim - 1; d > axis; d--)
        j /= shape->size[d];
    return j % shape->size[axis];
}

/* Right for one index of an output axis, 0 for the others: somebody forgot to sum. Returns the axis, or -1. */
static int unsummed_axis(const th_checker *checker, const th_finding *f, int64_t *kept)
{
    if (f->analytic_jacobian == NULL)
        return -1;
    for (int axis = 0; axis < f->output_shape.ndim; axis++) {
        for (int64_t k = 0; k < f->output_shape.size[axis] && f->output_shape.size[axis] > 1; k++) {
            bool fits = true;
            for (int64_t j = 0; j < checker->rows && fits; j++) {
                const bool here = coordinate(&f->output_shape, j, axis) == k;
                for (int64_t e = 0; e < f->leaf->numel && fits; e++) {
                    const double a = f->analytic_jacobian[j * f->row_stride + e],
                                 n = f->numeric_jacobian[j * f->row_stride + e];
                    fits = here ? is_scaled(f, a, n, 1) : a == 0;
                }
            }
            if (fits) {
                *kept = k;
                return axis;
            }
        }
    }
    return -1;
}

/* Every wrong element is one on which the output does not depend. */
static bool depends_on_nothing(const th_checker *checker, const th_finding *f)
{
    if (f->analytic_jacobian == NULL)
        return f->judgment.numeric == 0;
    for (int64_t e = 0; e < f->leaf->numel; e++)
        for (int64_t j = 0; j < checker->rows; j++) {
            const double a = f->analytic_jacobian[j * f->row_stride + e],
                         n = f->numeric_jacobian[j * f->row_stride + e];
            if (!is_scaled(f, a, n, 1) && n != 0)
                return false;
        }
    return true;
}

/* What kind of mistake fits. */
static void say_mistake(th_checker *checker, const th_finding *f)
{
    th_gradient_report *report = checker->report;
    int64_t kept = 0;
    if (!isfinite(f->analytic)) {
        th_checker_say(report, "  the analytic gradient is not a number\n");
        return;
    }
    if (!f->alone && f->nonlinear) {
        th_checker_say(report,
                       "  each output by itself is right, several at once are not: the rule is not linear in the "
                       "gradient of its output\n");
        return;
    }
    if (!f->alone && f->overwrites) {
        th_checker_say(report, "  one backward is right, a second one does not add to it: the rule probably overwrites "
                               "where it should accumulate\n");
        return;
    }
    if (f->along_direction)
        return;
    const double factor = best_factor(f);
    const int axis = unsummed_axis(checker, f, &kept);
    if (is_multiple(checker, f, -1))
        th_checker_say(report, "  every element has the opposite sign: the rule is probably negated\n");
    else if (is_multiple(checker, f, 0))
        th_checker_say(report, "  every element is 0: the rule is probably missing\n");
    else if (isfinite(factor) && is_multiple(checker, f, factor))
        th_checker_say(report, "  every element is %.6g times what it should be: a constant factor\n", factor);
    else if (is_transposed(f))
        th_checker_say(report, "  it is right when the last two axes are exchanged: transposed\n");
    else if (axis >= 0)
        th_checker_say(report,
                       "  only index %" PRId64
                       " of the output's axis %d counts: the sum over a broadcast axis is missing\n",
                       kept, axis);
    else if (depends_on_nothing(checker, f))
        th_checker_say(
            report,
            "  the function does not depend on the wrong elements: the rule depends on a value it should not\n");
}

/* Why it cannot be told. */
static void say_doubt(th_checker *checker, const th_finding *f)
{
    th_gradient_report *report = checker->report;
    const th_judgment *j = &f->judgment;
    if (th_checker_in_bfloat16(checker) && j->doubt != TH_DOUBT_NOT_A_NUMBER) {
        th_checker_say(report, "  products round their operands to bfloat16, and with that whatever is moved: float64, "
                               "the default, shows it\n");
        return;
    }
    switch (j->doubt) {
    case TH_DOUBT_NOT_A_NUMBER:
        th_checker_say(report, "  %s is infinite or not a number\n",
                       isfinite(f->analytic) ? "the function's value here or nearby" : "the analytic gradient");
        break;
    case TH_DOUBT_KINK:
        th_checker_say(report,
                       "  the slope is %.6g below and %.6g above, however short the step: a kink, or a branch that "
                       "flips here\n",
                       j->below, j->above);
        break;
    case TH_DOUBT_JUMP:
        th_checker_say(report, "  the function jumps, however short the step: a branch that flips here\n");
        break;
    case TH_DOUBT_ROUNDING:
        th_checker_say(report, "  rounding hides it: the output's largest magnitude is %.6g\n", checker->output_scale);
        break;
    case TH_DOUBT_OTHER:
        if (checker->options.step > 0)
            th_checker_say(report, "  the step that was given, %.6g, does not show it: 0 lets the check choose\n",
                           checker->options.step);
        else
            th_checker_say(report, "  the quotient changes with the step at every length that was tried\n");
        break;
    }
}

enum { TH_DIFFERENCE_MAP_ROWS = 16, TH_DIFFERENCE_MAP_COLUMNS = 64 };

static char map_letter(const th_finding *f, int64_t element)
{
    switch (f->state[element]) {
    case TH_WRONG:
        return '#';
    case TH_CANNOT_TELL:
        return '~';
    default:
        return f->state[element] == TH_RIGHT ? '.' : '?';
    }
}

/* Rows are all axes but the last. */
static void say_map(th_checker *checker, const th_finding *f)
{
    if (f->state == NULL)
        return;
    const th_tensor_impl *t = f->leaf->tensor;
    const int64_t columns = t->ndim ? t->size[t->ndim - 1] : 1, rows = columns ? f->leaf->numel / columns : 0;
    bool doubtful = false;
    for (int64_t e = 0; e < f->leaf->numel; e++)
        doubtful |= f->state[e] == TH_CANNOT_TELL;
    th_checker_say(checker->report, "  where (. right, # wrong%s%s):\n", doubtful ? ", ~ cannot tell" : "",
                   f->analytic_jacobian ? "" : ", ? not sampled");
    for (int64_t r = 0; r < rows && r < TH_DIFFERENCE_MAP_ROWS; r++) {
        char line[TH_DIFFERENCE_MAP_COLUMNS + 1];
        int64_t c = 0;
        for (; c < columns && c < TH_DIFFERENCE_MAP_COLUMNS; c++)
            line[c] = map_letter(f, r * columns + c);
        line[c] = 0;
        th_checker_say(checker->report, "    %s%s\n", line, columns > TH_DIFFERENCE_MAP_COLUMNS ? " ..." : "");
    }
    if (rows > TH_DIFFERENCE_MAP_ROWS)
        th_checker_say(checker->report, "    ... (%" PRId64 " rows in all)\n", rows);
}

static void say_place(th_gradient_report *report, const th_finding *f)
{
    th_checker_say(report, "%s %s", f->along_direction ? "along a random direction of" : "at", f->leaf->name);
    if (f->along_direction)
        return;
    th_checker_say(report, "[");
    for (int d = 0; d < report->index.ndim; d++)
        th_checker_say(report, "%s%" PRId64, d ? "," : "", report->index.size[d]);
    th_checker_say(report, "]");
}

void th_checker_report(th_checker *checker, const th_finding *f)
{
    th_gradient_report *report = checker->report;
    const bool wrong = f->judgment.kind == TH_WRONG;
    const double numeric = f->judgment.numeric, larger = fmax(fabs(f->analytic), fabs(numeric));
    report->verdict = wrong ? TH_GRADIENT_WRONG : TH_GRADIENT_CANNOT_TELL;
    report->input = f->leaf->position;
    if (!f->along_direction)
        report->index = index_of(f->leaf->tensor, f->element);
    report->analytic = f->analytic;
    report->numeric = numeric;
    report->uncertainty = f->judgment.error;
    report->error = larger > 0 ? fabs(f->analytic - numeric) / larger : 0;
    if (isnan(report->error) || isnan(f->analytic) || isnan(numeric))
        report->error = INFINITY;
    th_checker_say(report, "gradient of %s %s", checker->options.name ? checker->options.name : "the function",
                   wrong ? "is wrong: worst " : "can be told neither right nor wrong: ");
    say_place(report, f);
    th_checker_say(report, ": analytic %.6g, numeric %.6g", f->analytic, numeric);
    if (wrong)
        th_checker_say(report, " (relative error %.2g; ", report->error);
    else
        th_checker_say(report, " give or take %.2g (", f->judgment.error);
    th_checker_say(report, "%s)\n",
                   report->mode == TH_GRADIENT_FULL ? "every element checked"
                                                    : "fast mode: sampled elements and random directions");
    if (wrong)
        say_mistake(checker, f);
    else
        say_doubt(checker, f);
    if (wrong && checker->cut)
        th_checker_say(report, "  recording was off inside the function%s: a path back is missing there\n",
                       checker->cut_place);
    say_map(checker, f);
}
