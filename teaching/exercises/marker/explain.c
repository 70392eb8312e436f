/* Compares the student's numbers with the right ones, and prints both (marker.h). */
#include <math.h>

#include "comparison.h"

enum {
    SHOWN = 12, /* elements of an array that is printed as a whole */
    SMALL = 48  /* elements of the inputs of a check, whose inputs and steps are printed */
};

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

static void append_tensor(const char *before, const char *name, const th_tensor *t, char *text)
{
    const void *data = th_data_const(t);
    const th_dtype type = th_dtype_of(t);
    const int64_t columns = th_ndim(t) ? th_size(t, -1) : 1;
    append_text(text, SENTENCE, "\n%s %s:", before, name);
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
        append_tensor("with", subject->input_name[i], s->input[i], text);
    write_text(name, sizeof name, "d%s", subject->output_name[0]);
    if (with_dy)
        append_tensor("with", name, s->dy, text);
}

/* Appends what a step between the inputs and the gradients should give. */
static void append_step(const scene *s, const mark_step *step, char *text)
{
    th_tensor *value = step->value(s);
    if (value && th_data_const(th_contiguous(value)))
        append_tensor("expected", step->name, th_contiguous(value), text);
    th_error_clear(s->ctx);
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
                      .add = !output && check->add,
                      .alone = check->requested != 0};
    return true;
}

bool all_right(const scene *s, const student *st, const mark_subject *subject, const mark_check *check)
{
    comparison c;
    char name[32];
    for (int operand = 0; operand < INPUTS + OUTPUTS; operand++)
        if (comparison_of(s, st, subject, check, operand, &c, name) &&
            (!is_right(&c) || (operand < INPUTS && st->outside[operand] != NOTHING_OUTSIDE)))
            return false;
    return true;
}

void explain(const scene *s, const student *st, const mark_subject *subject, const mark_check *check, mark_result *r)
{
    comparison c;
    char name[32];
    bool with_dy = false;
    int64_t size = 0;
    r->state = RIGHT;
    for (int i = 0; i < subject->n_inputs; i++)
        size += th_numel(s->input[i]);
    for (int k = 0; k < OPERANDS; k++) { /* outputs first: wrong outputs explain wrong gradients */
        const int operand = k < OUTPUTS ? OUTPUT(k) : k - OUTPUTS;
        if (!comparison_of(s, st, subject, check, operand, &c, name))
            continue;
        if (operand < INPUTS && st->outside[operand] != NOTHING_OUTSIDE) {
            r->state = WRONG;
            append_text(r->sentence, SENTENCE, "%s%s was written outside its elements", r->sentence[0] ? "\n" : "",
                        name);
            if (r->cause[0] == '\0')
                write_text(r->cause, CAUSE, "%s",
                           st->outside[operand] == BYTES_OUTSIDE
                               ? "an offset is 8 times too large: strides count elements, so do not multiply by sizeof"
                               : CAUSE_OUTSIDE);
            continue;
        }
        find_evidence(s, subject, &c, &r->evidence[operand]);
        if (!r->evidence[operand].wrong)
            continue;
        r->state = WRONG;
        if (r->sentence[0])
            append_text(r->sentence, SENTENCE, "\n");
        describe(&c, r->sentence);
        with_dy |= operand < INPUTS;
    }
    if (r->state == WRONG && size <= SMALL) {
        append_inputs(s, subject, with_dy, r->sentence);
        for (int i = 0; i < STEPS && subject->step[i].name && with_dy; i++)
            append_step(s, &subject->step[i], r->sentence);
    }
}
