/* Finds the likely cause of wrong numbers: a mistake that explains all numbers of the array (comparison.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "comparison.h"

bool equal(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * scale;
}

double largest(const double *x, int64_t n)
{
    double scale = 1e-12;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]))
            scale = fmax(scale, fabs(x[i]));
    return scale;
}

static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

double expected(const comparison *c, int64_t i)
{
    return c->right[i] + (c->add ? c->before[i] : 0);
}

/* Returns whether the contribution to each element is factor * of[i] + more * before[i]. */
static bool fits(const comparison *c, const double *of, double factor, double more)
{
    const double scale = fmax(largest(of, c->n) * fmax(fabs(factor), 1), c->before ? largest(c->before, c->n) : 0);
    for (int64_t i = 0; i < c->n; i++) {
        const double before = c->before ? c->before[i] : 0;
        if (!equal(c->got[i], factor * of[i] + (more != 0 ? more * before : 0), scale))
            return false;
    }
    return c->n > 0;
}

bool is_right(const comparison *c)
{
    return c->n == 0 || fits(c, c->right, 1, c->add ? 1 : 0);
}

/* -- kinds of mistakes that any rule may have -- */

static bool is_transposed(const comparison *c)
{
    if (c->shape.ndim != 2 || c->shape.size[0] != c->shape.size[1] || c->n < 2 || c->add)
        return false;
    const int64_t size = c->shape.size[0];
    for (int64_t i = 0; i < c->n; i++)
        if (!equal(c->got[i], c->right[i % size * size + i / size], largest(c->right, c->n)))
            return false;
    return true;
}

static double best_factor(const comparison *c)
{
    double product = 0, square = 0;
    for (int64_t i = 0; i < c->n; i++) {
        product += (c->got[i] - (c->add ? c->before[i] : 0)) * c->right[i];
        square += c->right[i] * c->right[i];
    }
    return square > 0 ? product / square : NAN;
}

static bool any_not_finite(const comparison *c)
{
    for (int64_t i = 0; i < c->n; i++)
        if (!isfinite(c->got[i]) && isfinite(expected(c, i)))
            return true;
    return false;
}

/* Returns whether every wrong element equals the element before backward, or else the new gradient alone. */
static bool wrong_elements_are(const comparison *c, bool before)
{
    const double scale = fmax(largest(c->right, c->n), largest(c->before, c->n));
    for (int64_t i = 0; i < c->n; i++)
        if (!equal(c->got[i], expected(c, i), scale) && !equal(c->got[i], before ? c->before[i] : c->right[i], scale))
            return false;
    return true;
}

static bool explain_memory(const comparison *c, char *cause)
{
    if (c->before == NULL)
        return false;
    if (fits(c, c->right, 0, 1)) {
        write_text(cause, CAUSE, "%s was not written at all", c->name);
        return true;
    }
    if (c->add && fits(c, c->right, 1, 0)) {
        write_text(cause, CAUSE, "%s is overwritten, but c->add is true: backward must add to what %s contains",
                   c->name, c->name);
        return true;
    }
    if (!c->add && fits(c, c->right, 1, 1)) {
        write_text(
            cause, CAUSE,
            "%s is added to uninitialized memory: c->add is false, so set %s to 0 first, or overwrite with the first "
            "contribution",
            c->name, c->name);
        return true;
    }
    if (!c->add && wrong_elements_are(c, true)) {
        write_text(cause, CAUSE, "some elements of %s are not written: they must be 0 or contain their gradient",
                   c->name);
        return true;
    }
    if (c->add && wrong_elements_are(c, false)) {
        write_text(cause, CAUSE, "some elements of %s are overwritten, but c->add is true: backward must add", c->name);
        return true;
    }
    return false;
}

static bool explain_factor(const comparison *c, char *cause)
{
    const double factor = best_factor(c), rest = c->add ? 1 : 0;
    if (!isfinite(factor) || largest(c->right, c->n) < 1e-9)
        return false;
    if (fits(c, c->right, -1, rest))
        write_text(cause, CAUSE, "every element of %s has the opposite sign", c->name);
    else if (fits(c, c->right, 0, rest))
        write_text(cause, CAUSE, "every element of %s is 0", c->name);
    else if (fits(c, c->right, factor, rest))
        write_text(cause, CAUSE, "every element of %s is %.6g times what it should be", c->name, factor);
    else if (is_transposed(c))
        write_text(cause, CAUSE, "%s is transposed", c->name);
    else
        return false;
    return true;
}

/* Returns whether exactly the elements with this coordinate on an axis are wrong. */
static bool only_wrong(const comparison *c, int axis, int64_t coordinate)
{
    const double scale = fmax(largest(c->right, c->n), c->before ? largest(c->before, c->n) : 0);
    int64_t inner = 1;
    for (int d = axis + 1; d < c->shape.ndim; d++)
        inner *= c->shape.size[d];
    for (int64_t i = 0; i < c->n; i++)
        if (equal(c->got[i], expected(c, i), scale) == (i / inner % c->shape.size[axis] == coordinate))
            return false;
    return true;
}

/* A loop that begins too late or ends too early leaves out the first or the last index. */
static bool explain_loop(const comparison *c, char *cause)
{
    for (int axis = 0; axis < c->shape.ndim; axis++) {
        const int64_t last = c->shape.size[axis] - 1;
        if (last > 1 && (only_wrong(c, axis, 0) || only_wrong(c, axis, last))) {
            const bool first = only_wrong(c, axis, 0);
            write_text(cause, CAUSE, "only the %s index of axis %d of %s is wrong: check where the loop %s",
                       first ? "first" : "last", axis, c->name, first ? "begins" : "ends");
            return true;
        }
    }
    return false;
}

/* -- the typical mistakes of an exercise -- */

static bool explain_mistake(const scene *s, const mark_subject *subject, const comparison *c, char *cause)
{
    for (const mark_mistake *m = subject->mistakes; m->sentence; m++) {
        if (m->operand != c->operand)
            continue;
        if (m->result == NULL) {
            if (!any_not_finite(c))
                continue;
        } else {
            th_tensor *result = m->result(s);
            if (result == NULL || th_numel(result) != c->n) {
                th_error_clear(s->ctx);
                continue;
            }
            result = th_contiguous(result);
            const double *wrong = th_data_const(result);
            if (wrong == NULL || !all_finite(wrong, c->n) || !fits(c, wrong, 1, c->add ? 1 : 0))
                continue;
        }
        write_text(cause, CAUSE, "%s", m->sentence);
        return true;
    }
    return false;
}

void find_cause(const scene *s, const mark_subject *subject, const comparison *c, char *cause)
{
    if (explain_memory(c, cause) || explain_mistake(s, subject, c, cause) || explain_factor(c, cause) ||
        explain_loop(c, cause))
        return;
    if (any_not_finite(c))
        write_text(cause, CAUSE,
                   "%s is infinite or not a number: look for a division by 0, an overflow of exp, or 0 times infinity",
                   c->name);
}
