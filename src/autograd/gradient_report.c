/* What a wrong gradient is told like: the worst element, what kind of mistake fits, and a map of where it is wrong. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "autograd/checker.h"

static void append(th_gradient_report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(th_gradient_report *report, const char *format, ...)
{
    const size_t used = strlen(report->text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report->text + used, sizeof report->text - used, format, arguments);
    va_end(arguments);
}

static th_shape index_of(const th_body *t, int64_t element)
{
    th_shape index = {.ndim = t->ndim};
    for (int d = t->ndim - 1; d >= 0; d--) {
        index.size[d] = element % t->size[d];
        element /= t->size[d];
    }
    return index;
}

static bool is_scaled(const th_checker *checker, double analytic, double numeric, double factor)
{
    return th_checker_close(checker, analytic, factor * numeric,
                            fabs(factor * numeric) > fabs(analytic) ? fabs(factor * numeric) : fabs(analytic));
}

/* analytic = factor * numeric in every element that was compared (and not all of them 0). */
static bool is_multiple(const th_checker *checker, const th_finding *f, double factor)
{
    bool any = false;
    for (int64_t e = 0; e < f->leaf->numel; e++) {
        if (isnan(f->numeric_vector[e]))
            continue;
        if (!is_scaled(checker, f->analytic_vector[e], f->numeric_vector[e], factor))
            return false;
        any |= f->numeric_vector[e] != 0;
        for (int64_t j = 0; f->analytic_jacobian && j < checker->rows; j++)
            if (!is_scaled(checker, f->analytic_jacobian[j * f->row_stride + e],
                           f->numeric_jacobian[j * f->row_stride + e], factor))
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
static bool is_transposed(const th_checker *checker, const th_finding *f)
{
    const th_body *t = f->leaf->tensor;
    if (t->ndim < 2 || t->size[t->ndim - 1] != t->size[t->ndim - 2] || f->analytic_jacobian == NULL)
        return false;
    const int64_t n = t->size[t->ndim - 1];
    for (int64_t e = 0; e < f->leaf->numel; e++) {
        const int64_t block = e / (n * n) * (n * n), row = e % (n * n) / n, column = e % n;
        if (!is_scaled(checker, f->analytic_vector[block + column * n + row], f->numeric_vector[e], 1))
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
                    fits = here ? is_scaled(checker, a, n, 1) : a == 0;
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
        return f->numeric == 0;
    for (int64_t e = 0; e < f->leaf->numel; e++)
        for (int64_t j = 0; j < checker->rows; j++) {
            const double a = f->analytic_jacobian[j * f->row_stride + e],
                         n = f->numeric_jacobian[j * f->row_stride + e];
            if (!is_scaled(checker, a, n, 1) && n != 0)
                return false;
        }
    return true;
}

static void verdict(th_checker *checker, const th_finding *f)
{
    th_gradient_report *report = checker->report;
    int64_t kept = 0;
    if (f->overwrites) {
        append(report, "  one backward is right, a second one does not add to it: the rule probably overwrites where "
                       "it should accumulate\n");
        return;
    }
    if (isnan(f->analytic) || isnan(f->numeric)) {
        append(report, "  %s is not a number\n",
               isnan(f->analytic) ? "the analytic gradient" : "the function's value nearby");
        return;
    }
    if (f->along_direction)
        return;
    const double factor = best_factor(f);
    const int axis = unsummed_axis(checker, f, &kept);
    if (is_multiple(checker, f, -1))
        append(report, "  every element has the opposite sign: the rule is probably negated\n");
    else if (is_multiple(checker, f, 0))
        append(report, "  every element is 0: the rule is probably missing\n");
    else if (isfinite(factor) && is_multiple(checker, f, factor))
        append(report, "  every element is %.6g times what it should be: a constant factor\n", factor);
    else if (is_transposed(checker, f))
        append(report, "  it is right when the last two axes are exchanged: transposed\n");
    else if (axis >= 0)
        append(report,
               "  only index %" PRId64 " of the output's axis %d counts: the sum over a broadcast axis is missing\n",
               kept, axis);
    else if (depends_on_nothing(checker, f))
        append(report,
               "  the function does not depend on the wrong elements: the rule depends on a value it should not\n");
}

enum { TH_MAP_ROWS = 16, TH_MAP_COLUMNS = 64 };

/* '.' right, '#' wrong, '?' not sampled; rows are all axes but the last. */
static void error_map(th_checker *checker, const th_finding *f)
{
    if (f->wrong == NULL)
        return;
    const th_body *t = f->leaf->tensor;
    const int64_t columns = t->ndim ? t->size[t->ndim - 1] : 1, rows = columns ? f->leaf->numel / columns : 0;
    append(checker->report, "  where (. right, # wrong%s):\n", f->analytic_jacobian ? "" : ", ? not sampled");
    for (int64_t r = 0; r < rows && r < TH_MAP_ROWS; r++) {
        char line[TH_MAP_COLUMNS + 1];
        int64_t c = 0;
        for (; c < columns && c < TH_MAP_COLUMNS; c++) {
            const int64_t e = r * columns + c;
            line[c] = f->wrong[e] ? '#' : isnan(f->numeric_vector[e]) ? '?' : '.';
        }
        line[c] = 0;
        append(checker->report, "    %s%s\n", line, columns > TH_MAP_COLUMNS ? " ..." : "");
    }
    if (rows > TH_MAP_ROWS)
        append(checker->report, "    ... (%" PRId64 " rows in all)\n", rows);
}

void th_checker_report(th_checker *checker, const th_finding *f)
{
    th_gradient_report *report = checker->report;
    const double larger = fabs(f->analytic) > fabs(f->numeric) ? fabs(f->analytic) : fabs(f->numeric);
    report->ok = false;
    report->input = f->leaf->position;
    report->index = index_of(f->leaf->tensor, f->element);
    report->analytic = f->analytic;
    report->numeric = f->numeric;
    report->error = larger > 0 ? fabs(f->analytic - f->numeric) / larger : 0;
    if (isnan(report->error))
        report->error = INFINITY;
    const char *name = checker->options.name ? checker->options.name : "the function";
    append(report, "gradient of %s is wrong: worst %s %s", name,
           f->along_direction ? "along a random direction of" : "at", f->leaf->name);
    if (!f->along_direction) {
        append(report, "[");
        for (int d = 0; d < report->index.ndim; d++)
            append(report, "%s%" PRId64, d ? "," : "", report->index.size[d]);
        append(report, "]");
    }
    append(report, ": analytic %.6g, numeric %.6g (relative error %.2g; %s)\n", f->analytic, f->numeric, report->error,
           report->mode == TH_GRADIENT_FULL ? "every element checked"
                                            : "fast mode: sampled elements and random directions");
    verdict(checker, f);
    error_map(checker, f);
}
