/* Compares the student's numbers with the right ones, and names the mistake that fits (marker.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "marker.h"

enum { SHOWN = 12 }; /* elements of an array that is printed as a whole */

/* One array to compare. */
typedef struct comparison {
    const char *name; /* "dx" */
    int operand;      /* as in mistake */
    th_shape shape;
    int64_t n;
    const double *right, *got;
    const double *before; /* NULL for an output */
    bool add;
} comparison;

static bool equal(double a, double b, double scale)
{
    return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * scale;
}

static double largest(const double *x, int64_t n)
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

static double expected(const comparison *c, int64_t i)
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

static bool is_right(const comparison *c)
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

/* Returns whether every wrong element has this value: what it contained before (factor 0), or only the new gradient. */
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
        write_text(cause, CAUSE, "%s is added to uninitialized memory: c->add is false, so backward must overwrite",
                   c->name);
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

/* -- the sentence: expected, computed, index -- */

static void append_index(const comparison *c, int64_t element, char *text)
{
    append_text(text, SENTENCE, "%s[", c->name);
    int64_t index[TH_MAX_DIMS];
    for (int d = c->shape.ndim - 1; d >= 0; element /= c->shape.size[d], d--)
        index[d] = element % c->shape.size[d];
    for (int d = 0; d < c->shape.ndim; d++)
        append_text(text, SENTENCE, "%s%lld", d ? "," : "", (long long)index[d]);
    append_text(text, SENTENCE, "]");
}

static void append_number(double number, int64_t i, int64_t columns, char *text)
{
    append_text(text, SENTENCE, "%s%9.4g", i % columns == 0 ? "\n  " : " ", number);
}

static void append_array(const comparison *c, const char *what, bool right, char *text)
{
    const int64_t columns = c->shape.ndim ? c->shape.size[c->shape.ndim - 1] : 1;
    append_text(text, SENTENCE, "\n%s %s:", what, c->name);
    for (int64_t i = 0; i < c->n; i++)
        append_number(right ? expected(c, i) : c->got[i], i, columns, text);
}

static void append_tensor(const char *name, const th_tensor *t, char *text)
{
    const void *data = th_data_const(t);
    const th_dtype type = th_dtype_of(t);
    const int64_t columns = th_ndim(t) ? th_size(t, -1) : 1;
    append_text(text, SENTENCE, "\nwith %s:", name);
    for (int64_t i = 0; i < th_numel(t); i++)
        append_number(type == TH_INT64  ? (double)((const int64_t *)data)[i]
                      : type == TH_BOOL ? ((const bool *)data)[i]
                                        : ((const double *)data)[i],
                      i, columns, text);
}

/* Appends the inputs of a check. */
static void append_inputs(const scene *s, const mark_subject *subject, bool with_dy, char *text)
{
    char name[32];
    for (int i = 0; i < subject->n_inputs; i++)
        append_tensor(subject->input_name[i], s->input[i], text);
    write_text(name, sizeof name, "d%s", subject->output_name[0]);
    if (with_dy)
        append_tensor(name, s->dy, text);
}

static void describe(const comparison *c, char *text)
{
    int64_t wrong = 0, worst = -1;
    double worst_error = -1;
    const double scale = fmax(largest(c->right, c->n), c->before && c->add ? largest(c->before, c->n) : 0);
    for (int64_t i = 0; i < c->n; i++) {
        const double error = isfinite(c->got[i]) ? fabs(c->got[i] - expected(c, i)) : INFINITY;
        if (equal(c->got[i], expected(c, i), scale))
            continue;
        wrong++;
        if (error > worst_error) {
            worst_error = error;
            worst = i;
        }
    }
    append_index(c, worst, text);
    append_text(text, SENTENCE, " should be %.6g and is %.6g (%lld of %lld elements of %s are wrong",
                expected(c, worst), c->got[worst], (long long)wrong, (long long)c->n, c->name);
    if (c->add)
        append_text(text, SENTENCE, "; it was %.6g before", c->before[worst]);
    append_text(text, SENTENCE, ")");
    if (c->n <= SHOWN && c->n > 1) {
        append_array(c, "expected", true, text);
        append_array(c, "computed", false, text);
    }
}

/* -- all arrays of a check -- */

static bool comparison_of(const scene *s, const student *st, const mark_subject *subject, const mark_check *check,
                          int operand, comparison *c, char *name)
{
    const bool output = operand >= INPUTS;
    const int i = output ? operand - INPUTS : operand;
    th_tensor *right = output ? s->output[i] : s->gradient[i];
    if (right == NULL || (output ? i >= subject->n_outputs : i >= subject->n_inputs))
        return false;
    write_text(name, 32, "%s%s", output ? "" : "d", output ? subject->output_name[i] : subject->input_name[i]);
    *c = (comparison){.name = name,
                      .operand = operand,
                      .shape = th_shape_of(right),
                      .n = th_numel(right),
                      .right = th_data_const(right),
                      .got = output ? st->output[i] : st->gradient[i],
                      .before = output ? NULL : st->before[i],
                      .add = !output && check->add};
    return true;
}

bool all_right(const scene *s, const student *st, const mark_subject *subject, const mark_check *check)
{
    comparison c;
    char name[32];
    for (int operand = 0; operand < INPUTS + OUTPUTS; operand++)
        if (comparison_of(s, st, subject, check, operand, &c, name) &&
            (!is_right(&c) || (operand < INPUTS && st->wrote_outside[operand])))
            return false;
    return true;
}

void explain(const scene *s, const student *st, const mark_subject *subject, const mark_check *check, mark_result *r)
{
    comparison c;
    char name[32];
    bool inputs_shown = false, with_dy = false;
    r->state = RIGHT;
    for (int k = 0; k < INPUTS + OUTPUTS; k++) { /* outputs first: wrong outputs explain wrong gradients */
        const int operand = k < OUTPUTS ? OUTPUT(k) : k - OUTPUTS;
        if (!comparison_of(s, st, subject, check, operand, &c, name))
            continue;
        if (operand < INPUTS && st->wrote_outside[operand]) {
            r->state = WRONG;
            append_text(r->sentence, SENTENCE, "%s%s was written outside its elements", r->sentence[0] ? "\n" : "",
                        name);
            if (r->cause[0] == '\0')
                write_text(r->cause, CAUSE, "an index is too large, or a stride belongs to another array or axis");
            continue;
        }
        if (is_right(&c))
            continue;
        r->state = WRONG;
        if (r->sentence[0])
            append_text(r->sentence, SENTENCE, "\n");
        describe(&c, r->sentence);
        inputs_shown |= check == subject->checks;
        with_dy |= operand < INPUTS;
        if (r->cause[0] == '\0' && !explain_memory(&c, r->cause) && !explain_mistake(s, subject, &c, r->cause))
            explain_factor(&c, r->cause);
        if (r->cause[0] == '\0' && any_not_finite(&c))
            write_text(r->cause, CAUSE,
                       "%s is not a number: look for a division by 0, an overflow of exp, or 0 times infinity", name);
    }
    if (inputs_shown) /* of the first check, which is small */
        append_inputs(s, subject, with_dy, r->sentence);
}
