/* Writes the text of a report (report.h): the worst element, the likely mistake, and a map of the wrong elements. */
#include "checker/engine/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "kernels/sizes.h"
#include "tensor/format.h"

void th_report_append(th_gradient_report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_append_arguments(report->text, sizeof report->text, format, arguments);
    va_end(arguments);
}

static th_shape element_index(const th_variable *variable, int64_t element)
{
    th_shape index = {.ndim = variable->ndim};
    th_index_at(variable->ndim, variable->size, element, index.size);
    return index;
}

/* Returns whether analytic = factor * numeric, closely enough to tell one kind of mistake from another. */
static bool is_scaled(const th_finding *finding, double analytic, double numeric, double factor)
{
    static const double relative[TH_KINDS] = {1e-4, 5e-3, 4e-2, 8e-2}, absolute[TH_KINDS] = {1e-6, 1e-3, 1e-2, 5e-2};
    return fabs(analytic - factor * numeric) <=
           relative[finding->kind] * fmax(fabs(analytic), fabs(factor * numeric)) +
               absolute[finding->kind] * fabs(finding->analytic - finding->verdict.numeric);
}

/* Returns whether analytic = factor * numeric in every compared element that the check can tell, and not all are 0. */
static bool is_multiple(const th_engine *engine, const th_finding *finding, double factor)
{
    bool has_nonzero = false;
    for (int64_t e = 0; e < finding->variable->numel; e++) {
        if (isnan(finding->numeric_gradient[e]) || finding->element_verdict[e] == TH_CANNOT_TELL)
            continue;
        if (!is_scaled(finding, finding->analytic_gradient[e], finding->numeric_gradient[e], factor))
            return false;
        has_nonzero |= finding->numeric_gradient[e] != 0;
        for (int64_t j = 0; finding->analytic_jacobian && j < engine->rows; j++)
            if (!is_scaled(finding, finding->analytic_jacobian[j * finding->row_stride + e],
                           finding->numeric_jacobian[j * finding->row_stride + e], factor))
                return false;
    }
    return has_nonzero;
}

static double fitted_factor(const th_finding *finding)
{
    double product = 0, square = 0;
    for (int64_t e = 0; e < finding->variable->numel; e++)
        if (!isnan(finding->numeric_gradient[e])) {
            product += finding->analytic_gradient[e] * finding->numeric_gradient[e];
            square += finding->numeric_gradient[e] * finding->numeric_gradient[e];
        }
    return square > 0 ? product / square : NAN;
}

/* Returns whether each element has the right gradient of another one, which is `shift` places further on an axis. With
 * axis -1, the other one has the last two indices exchanged. */
static bool is_moved(const th_finding *finding, int axis, int shift)
{
    const th_variable *t = finding->variable;
    int64_t explained = 0;
    for (int64_t e = 0; e < t->numel && finding->analytic_jacobian; e++) {
        th_shape index = element_index(t, e);
        if (axis >= 0) {
            index.size[axis] += shift;
        } else {
            index.size[t->ndim - 1] = element_index(t, e).size[t->ndim - 2];
            index.size[t->ndim - 2] = element_index(t, e).size[t->ndim - 1];
        }
        int64_t other = 0;
        bool exists = true;
        for (int d = 0; d < t->ndim; d++) {
            exists &= index.size[d] >= 0 && index.size[d] < t->size[d];
            other = other * t->size[d] + index.size[d];
        }
        if (!exists || isnan(finding->numeric_gradient[other]))
            continue;
        if (!is_scaled(finding, finding->analytic_gradient[e], finding->numeric_gradient[other], 1))
            return false;
        explained += finding->element_verdict[e] == TH_WRONG;
    }
    return explained > 1;
}

static bool is_transposed(const th_finding *finding)
{
    const th_variable *t = finding->variable;
    return t->ndim >= 2 && t->size[t->ndim - 1] == t->size[t->ndim - 2] && is_moved(finding, -1, 0);
}

/* Returns the coordinate of output row j on an axis. */
static int64_t coordinate(const th_shape *shape, int64_t j, int axis)
{
    for (int d = shape->ndim - 1; d > axis; d--)
        j /= shape->size[d];
    return j % shape->size[axis];
}

/* Finds an output axis over which the rule does not sum: the gradient is right for one index of the axis, and 0 for all
 * others. Returns the axis and sets *index, or returns -1. */
static int find_unsummed_axis(const th_engine *engine, const th_finding *finding, int64_t *index)
{
    if (finding->analytic_jacobian == NULL)
        return -1;
    for (int axis = 0; axis < finding->output_shape.ndim; axis++) {
        for (int64_t k = 0; k < finding->output_shape.size[axis] && finding->output_shape.size[axis] > 1; k++) {
            bool fits = true;
            for (int64_t j = 0; j < engine->rows && fits; j++) {
                const bool is_at_index = coordinate(&finding->output_shape, j, axis) == k;
                for (int64_t e = 0; e < finding->variable->numel && fits; e++) {
                    const double a = finding->analytic_jacobian[j * finding->row_stride + e],
                                 n = finding->numeric_jacobian[j * finding->row_stride + e];
                    fits = is_at_index ? is_scaled(finding, a, n, 1) : a == 0;
                }
            }
            if (fits) {
                *index = k;
                return axis;
            }
        }
    }
    return -1;
}

/* Returns whether the rule multiplies by the Jacobian instead of its transpose. */
static bool is_jacobian_transposed(const th_engine *engine, const th_finding *finding)
{
    if (finding->analytic_jacobian == NULL || finding->variable->numel != engine->rows)
        return false;
    for (int64_t j = 0; j < engine->rows; j++)
        for (int64_t e = 0; e < engine->rows; e++)
            if (!is_scaled(finding, finding->analytic_jacobian[j * finding->row_stride + e],
                           finding->numeric_jacobian[e * finding->row_stride + j], 1))
                return false;
    return true;
}

/* Returns another variable whose gradient, as the rule computes it, is the right one of this variable; NULL: none. */
static const th_variable *find_exchanged(const th_engine *engine, const th_finding *finding)
{
    const double *gradients = finding->analytic_gradient - finding->variable->first_column;
    for (int64_t i = 0; i < engine->variables; i++) {
        const th_variable *other = engine->calls->variable(engine, i);
        bool fits = other != finding->variable && other->checked && other->numel == finding->variable->numel;
        for (int64_t e = 0; e < other->numel && fits; e++)
            fits = finding->element_verdict[e] == TH_WRONG &&
                   is_scaled(finding, gradients[other->first_column + e], finding->numeric_gradient[e], 1);
        if (fits)
            return other;
    }
    return NULL;
}

/* How a derivative is wrong. */
enum { TH_SHOULD_BE_ZERO = 1, TH_IS_ZERO = 2, TH_OTHER_MISTAKE = 4 };

/* Returns how all wrong derivatives are wrong; in fast mode, only the worst one. */
static int mistakes_of_all(const th_engine *engine, const th_finding *finding)
{
    if (finding->analytic_jacobian == NULL)
        return finding->verdict.numeric == 0 ? TH_SHOULD_BE_ZERO : TH_OTHER_MISTAKE;
    int mistakes = 0;
    for (int64_t j = 0; j < engine->rows; j++)
        for (int64_t e = 0; e < finding->variable->numel; e++) {
            const double a = finding->analytic_jacobian[j * finding->row_stride + e],
                         n = finding->numeric_jacobian[j * finding->row_stride + e];
            if (!is_scaled(finding, a, n, 1))
                mistakes |= n == 0 ? TH_SHOULD_BE_ZERO : a == 0 ? TH_IS_ZERO : TH_OTHER_MISTAKE;
        }
    return mistakes;
}

/* Returns whether numeric = analytic * x^power in every compared element. */
static bool is_missing_input(const th_engine *engine, const th_finding *finding, int power)
{
    int64_t compared = 0;
    for (int64_t e = 0; e < finding->variable->numel; e++) {
        const double a = finding->analytic_gradient[e], n = finding->numeric_gradient[e],
                     x = engine->calls->element(engine, finding->variable, e);
        if (isnan(n) || finding->element_verdict[e] == TH_CANNOT_TELL)
            continue;
        if (!is_scaled(finding, power > 0 ? a * x : a, power > 0 ? n : n * x, 1))
            return false;
        compared += n != 0;
    }
    return compared > 1;
}

/* Returns whether the gradient is the same for each output, although the derivatives differ. */
static bool ignores_cotangent(const th_engine *engine, const th_finding *finding)
{
    for (int64_t j = 1; j < engine->rows && finding->analytic_jacobian; j++)
        for (int64_t e = 0; e < finding->variable->numel; e++)
            if (finding->analytic_jacobian[j * finding->row_stride + e] != finding->analytic_jacobian[e])
                return false;
    return finding->analytic_jacobian && engine->rows > 1 && finding->analytic_jacobian[0] != 0;
}

/* Appends the range of analytic / numeric, if both have the same sign in every compared element. */
static void report_ratios(th_gradient_report *report, const th_finding *finding)
{
    double least = INFINITY, largest = -INFINITY;
    for (int64_t e = 0; e < finding->variable->numel; e++) {
        const double ratio = finding->analytic_gradient[e] / finding->numeric_gradient[e];
        if (isnan(ratio) || finding->element_verdict[e] == TH_CANNOT_TELL)
            continue;
        least = fmin(least, ratio);
        largest = fmax(largest, ratio);
    }
    if (least > 1e-3 && largest < 1e3)
        th_report_append(
            report,
            "  elements are between %.3g and %.3g times what they should be: a factor or a term that depends "
            "on the element is missing or wrong\n",
            least, largest);
}

/* Appends a mistake that one or two numbers describe. Returns whether the gradients show one. */
static bool report_mistake_with_numbers(th_engine *engine, const th_finding *finding)
{
    th_gradient_report *report = engine->report;
    int64_t index = 0;
    const double factor = fitted_factor(finding);
    const int unsummed = find_unsummed_axis(engine, finding, &index);
    const th_variable *exchanged = find_exchanged(engine, finding);
    for (int axis = 0; axis < finding->variable->ndim; axis++)
        for (int shift = -1; shift <= 1; shift += 2)
            if (is_moved(finding, axis, shift)) {
                th_report_append(report, "  off by one: elements have the gradient of the element %s them on axis %d\n",
                                 shift > 0 ? "after" : "before", axis);
                return true;
            }
    if (isfinite(factor) && is_multiple(engine, finding, factor))
        th_report_append(
            report, "  every element is %.6g times what it should be: the rule has a wrong constant factor\n", factor);
    else if (unsummed >= 0)
        th_report_append(report,
                         "  only index %" PRId64
                         " of the output's axis %d has a gradient: the sum over a broadcast axis is missing\n",
                         index, unsummed);
    else if (exchanged)
        th_report_append(report, "  it should be what the rule returns for %s: they may be exchanged\n",
                         exchanged->name);
    else
        return false;
    return true;
}

/* Returns the likely kind of mistake as a sentence, or NULL. */
static const char *name_mistake(const th_engine *engine, const th_finding *finding)
{
    if (is_transposed(finding))
        return "the gradient is transposed: exchanging its last two axes makes it right";
    if (ignores_cotangent(engine, finding))
        return "the gradient is the same for each output: the rule does not use the gradient of the output";
    if (is_jacobian_transposed(engine, finding))
        return "the rule multiplies by the Jacobian instead of its transpose: a transposition is missing, or a sum "
               "runs in the wrong direction";
    const int mistakes = mistakes_of_all(engine, finding);
    if (mistakes == TH_SHOULD_BE_ZERO)
        return "the function does not depend on the wrong elements: their gradient should be 0";
    if (mistakes == TH_IS_ZERO)
        return "the wrong derivatives are 0: the rule leaves out elements, or terms of a sum";
    if (mistakes == (TH_SHOULD_BE_ZERO | TH_IS_ZERO))
        return "wrong derivatives are 0, or should be 0: the rule has a wrong mask, or a wrong index";
    if (is_missing_input(engine, finding, 1))
        return "a factor is missing: the gradient times the input is right";
    if (is_missing_input(engine, finding, -1))
        return "there is a factor too many: the gradient divided by the input is right";
    return NULL;
}

/* Appends the likely kind of mistake, if the gradients show one. */
static void report_mistake(th_engine *engine, const th_finding *finding)
{
    const char *sentence = NULL;
    if (!isfinite(finding->analytic))
        sentence = "the analytic gradient is not a number";
    else if (!finding->has_wrong_element && finding->backward_not_linear)
        sentence = "each output by itself is right, but several at once are wrong: the rule is not linear in the "
                   "gradient of its output";
    else if (!finding->has_wrong_element && finding->overwrites)
        sentence = "one backward is right, but a second one does not add its gradient: the rule probably overwrites "
                   "where it should accumulate";
    else if (finding->along_direction)
        return;
    else if (is_multiple(engine, finding, -1))
        sentence = "every element has the opposite sign: the rule is probably negated";
    else if (is_multiple(engine, finding, 0))
        sentence = "every element is 0: the rule is probably missing";
    else if (!report_mistake_with_numbers(engine, finding))
        sentence = name_mistake(engine, finding);
    else
        return;
    if (sentence)
        th_report_append(engine->report, "  %s\n", sentence);
    else
        report_ratios(engine->report, finding);
}

/* Appends the reason why the check cannot tell. */
static void report_reason(th_engine *engine, const th_finding *finding)
{
    th_gradient_report *report = engine->report;
    const th_verdict *verdict = &finding->verdict;
    if (engine->products_hide && verdict->reason != TH_REASON_NOT_A_NUMBER) {
        th_report_append(report,
                         "  products round their operands to bfloat16, and this hides the steps: use the default, "
                         "a check in float64\n");
        return;
    }
    switch (verdict->reason) {
    case TH_REASON_NOT_A_NUMBER:
        th_report_append(report, "  %s is infinite or not a number\n",
                         isfinite(finding->analytic) ? "the function's value here or nearby" : "the analytic gradient");
        break;
    case TH_REASON_KINK:
        th_report_append(report,
                         "  the slope is %.6g below and %.6g above for every short step: the function has a kink, or a "
                         "branch whose condition changes here\n",
                         verdict->below, verdict->above);
        break;
    case TH_REASON_JUMP:
        th_report_append(report, "  the function jumps at this point: it has a branch whose condition changes here\n");
        break;
    case TH_REASON_PLATEAUS:
        th_report_append(report, "  short steps show another slope than long ones: the function rounds, or has other "
                                 "jumps (a discontinuity)\n");
        break;
    case TH_REASON_FLOAT32:
        th_report_append(report, "  both differ by rounding of float32, beside the largest derivative: the function or "
                                 "its gradient probably has numbers in float32\n");
        break;
    case TH_REASON_ROUNDING:
        th_report_append(report, "  rounding hides the derivative, because the output's largest magnitude is %.6g\n",
                         engine->output_scale);
        break;
    case TH_REASON_OTHER:
        if (engine->options.step > 0)
            th_report_append(
                report,
                "  the option step, %.6g, does not show the derivative; if it is 0, the check chooses the step\n",
                engine->options.step);
        else
            th_report_append(report, "  the difference quotient is different for every step that was tried\n");
        break;
    }
}

enum { MAX_MAP_ROWS = 16, MAX_MAP_COLUMNS = 64 };

static char map_symbol(const th_finding *finding, int64_t element)
{
    switch (finding->element_verdict[element]) {
    case TH_WRONG:
        return '#';
    case TH_CANNOT_TELL:
        return '~';
    default:
        return finding->element_verdict[element] == TH_RIGHT ? '.' : '?';
    }
}

/* Returns the first of n rows or columns of a map that shows up to `shown` of them, with the worst element. */
static int64_t first_in_map(int64_t n, int64_t shown, int64_t worst)
{
    return worst < shown ? 0 : worst + shown / 2 > n ? n - shown : worst - shown / 2;
}

/* Appends a map: one column for each index of the last axis, one row for each index of the other axes. */
static void report_map(th_engine *engine, const th_finding *finding)
{
    if (finding->element_verdict == NULL)
        return;
    const th_variable *t = finding->variable;
    const int64_t columns = t->ndim ? t->size[t->ndim - 1] : 1, rows = columns ? finding->variable->numel / columns : 0;
    bool any_cannot_tell = false;
    for (int64_t e = 0; e < finding->variable->numel; e++)
        any_cannot_tell |= finding->element_verdict[e] == TH_CANNOT_TELL;
    th_report_append(engine->report, "  where (. right, # wrong%s%s):\n", any_cannot_tell ? ", ~ cannot tell" : "",
                     finding->analytic_jacobian ? "" : ", ? not sampled");
    const int64_t first_row = columns ? first_in_map(rows, MAX_MAP_ROWS, finding->element / columns) : 0,
                  first_column = columns ? first_in_map(columns, MAX_MAP_COLUMNS, finding->element % columns) : 0;
    if (first_row > 0 || first_column > 0)
        th_report_append(engine->report, "    from row %" PRId64 ", column %" PRId64 "\n", first_row, first_column);
    for (int64_t r = first_row; r < rows && r < first_row + MAX_MAP_ROWS; r++) {
        th_report_append(engine->report, "    %s", first_column > 0 ? "... " : "");
        for (int64_t c = first_column; c < columns && c < first_column + MAX_MAP_COLUMNS; c++)
            th_report_append(engine->report, "%c", map_symbol(finding, r * columns + c));
        th_report_append(engine->report, "%s\n", columns > first_column + MAX_MAP_COLUMNS ? " ..." : "");
    }
    if (rows > MAX_MAP_ROWS)
        th_report_append(engine->report, "    ... (%" PRId64 " rows)\n", rows);
}

static void report_element(th_gradient_report *report, const th_finding *finding)
{
    th_report_append(report, "%s %s", finding->along_direction ? "along a random direction of" : "at",
                     finding->variable->name);
    if (finding->along_direction)
        return;
    th_report_append(report, "[");
    for (int d = 0; d < report->index.ndim; d++)
        th_report_append(report, "%s%" PRId64, d ? "," : "", report->index.size[d]);
    th_report_append(report, "]");
}

void th_report_finding(th_engine *engine, const th_finding *finding)
{
    th_gradient_report *report = engine->report;
    const bool wrong = finding->verdict.kind == TH_WRONG;
    const double numeric = finding->verdict.numeric, larger = fmax(fabs(finding->analytic), fabs(numeric));
    report->verdict = wrong ? TH_GRADIENT_WRONG : TH_GRADIENT_CANNOT_TELL;
    report->input = finding->variable->input_number;
    if (!finding->along_direction)
        report->index = element_index(finding->variable, finding->element);
    report->analytic = finding->analytic;
    report->numeric = numeric;
    report->uncertainty = finding->verdict.error;
    report->error = larger > 0 ? fabs(finding->analytic - numeric) / larger : 0;
    if (isnan(report->error) || isnan(finding->analytic) || isnan(numeric))
        report->error = INFINITY;
    th_report_append(report, "gradient of %s %s", engine->options.name ? engine->options.name : "the function",
                     wrong ? "is wrong: worst " : "may be right or wrong: worst ");
    report_element(report, finding);
    th_report_append(report, ": analytic %.6g, numeric %.6g", finding->analytic, numeric);
    if (wrong)
        th_report_append(report, " (relative error %.2g; ", report->error);
    else
        th_report_append(report, " (uncertainty %.2g; ", finding->verdict.error);
    th_report_append(report, "%s)\n",
                     report->mode == TH_GRADIENT_FULL ? "every element checked"
                                                      : "fast mode: sampled elements and random directions");
    if (wrong)
        report_mistake(engine, finding);
    else
        report_reason(engine, finding);
    if (wrong && engine->extra)
        th_report_append(report, "  %s\n", engine->extra);
    report_map(engine, finding);
}
