/* Finds the likely cause of wrong numbers: a mistake that explains all numbers of an array in every check
 * (comparison.h).
 *
 * A check that fails has evidence for several causes, and one check alone often misleads. So each check notes, for
 * each array, which causes fit its numbers. A cause is printed if it fits in every check in which the array is
 * wrong, and if no other check excludes it. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
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

/* -- the causes: kinds of mistakes that any rule may have, and between them the typical ones of an exercise -- */

/* The bits of mark_evidence, in the order in which causes are preferred. %s is the array. */
enum {
    STRIDES,
    NOT_WRITTEN_ALONE,
    NOT_WRITTEN,
    OVERWRITTEN,
    UNINITIALIZED,
    SOME_NOT_WRITTEN,
    SOME_OVERWRITTEN,
    FIRST_MISTAKE,
    FLOAT_PRECISION = 53,
    OPPOSITE,
    ZERO,
    FACTOR,
    TRANSPOSED,
    FIRST_INDEX, /* of axis 0; then of axis 1; then the last ones */
    NO_CONTRIBUTION = FIRST_INDEX + 4,
    NOT_FINITE,
    BITS
};

static const char *const sentences[BITS] = {
    [STRIDES] = "the same numbers in row-major memory are right: an offset ignores strides, or uses the strides of "
                "another array "
                "or axis. An array with one axis has a stride too",
    [NOT_WRITTEN] = "%s was not written: a needed gradient must be written, whether c->add is true or false",
    [NOT_WRITTEN_ALONE] = "%s is needed but was not written: when another gradient is not needed, skip only that one, "
                          "and do not return",
    [OVERWRITTEN] = "%s is overwritten, but c->add is true: backward must add to what it contains",
    [UNINITIALIZED] =
        "%s is added to uninitialized memory: c->add is false, so set it to 0 first, or overwrite with the "
        "first contribution",
    [SOME_NOT_WRITTEN] = "some elements of %s are not written: they must be 0 or contain their gradient",
    [SOME_OVERWRITTEN] = "some elements of %s are overwritten, but c->add is true: backward must add",
    [FLOAT_PRECISION] = "%s has the precision of float: declare every sum and every number between as double",
    [OPPOSITE] = "every element of %s has the opposite sign",
    [ZERO] = "every element of %s is 0: nothing is added to it, or a factor is 0",
    [FACTOR] = "every element of %s", /* and its factor */
    [TRANSPOSED] = "%s is transposed",
    [FIRST_INDEX] = "only the first index of axis 0 of %s is wrong: check where the loop begins",
    [FIRST_INDEX + 1] = "only the first index of axis 1 of %s is wrong: check where the loop begins",
    [FIRST_INDEX + 2] = "only the last index of axis 0 of %s is wrong: check where the loop ends",
    [FIRST_INDEX + 3] = "only the last index of axis 1 of %s is wrong: check where the loop ends",
    [NO_CONTRIBUTION] = "some elements of %s get no contribution: check the ends of the loops, and the conditions",
    [NOT_FINITE] = "%s is infinite or not a number: look for a division by 0, an overflow of exp, or 0 times infinity",
};

static uint64_t bit(int cause)
{
    return (uint64_t)1 << cause;
}

static uint64_t bit_if(bool fits_, int cause)
{
    return fits_ ? bit(cause) : 0;
}

static double scale_of(const comparison *c)
{
    return fmax(largest(c->right, c->n), c->before ? largest(c->before, c->n) : 0);
}

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

/* Returns whether every wrong element is factor times the right contribution, plus more times the element before. */
static bool wrong_elements_are(const comparison *c, double factor, double more)
{
    for (int64_t i = 0; i < c->n; i++)
        if (!equal(c->got[i], expected(c, i), scale_of(c)) &&
            !equal(c->got[i], factor * c->right[i] + more * (c->before ? c->before[i] : 0), scale_of(c)))
            return false;
    return true;
}

static uint64_t memory_causes(const comparison *c)
{
    if (c->before == NULL)
        return 0;
    const bool unwritten = fits(c, c->right, 0, 1);
    return bit_if(unwritten, NOT_WRITTEN) | bit_if(unwritten && c->alone, NOT_WRITTEN_ALONE) |
           bit_if(c->add && fits(c, c->right, 1, 0), OVERWRITTEN) |
           bit_if(!c->add && fits(c, c->right, 1, 1), UNINITIALIZED) |
           bit_if(wrong_elements_are(c, 0, 1), SOME_NOT_WRITTEN) |
           bit_if(c->add && wrong_elements_are(c, 1, 0), SOME_OVERWRITTEN);
}

/* Returns whether all differences are errors of float, which are much larger than errors of double. */
static bool has_float_precision(const comparison *c)
{
    for (int64_t i = 0; i < c->n; i++)
        if (!(fabs(c->got[i] - expected(c, i)) <= 1e-4 * scale_of(c)))
            return false;
    return true;
}

/* Returns whether exactly the elements with this coordinate on an axis are wrong. */
static bool only_wrong(const comparison *c, int axis, int64_t coordinate)
{
    int64_t inner = 1;
    for (int d = axis + 1; d < c->shape.ndim; d++)
        inner *= c->shape.size[d];
    for (int64_t i = 0; i < c->n; i++)
        if (equal(c->got[i], expected(c, i), scale_of(c)) == (i / inner % c->shape.size[axis] == coordinate))
            return false;
    return true;
}

/* A loop that begins too late or ends too early leaves out the first or the last index. */
static uint64_t loop_causes(const comparison *c)
{
    uint64_t causes = 0;
    for (int axis = 0; axis < c->shape.ndim && axis < 2; axis++) {
        causes |= bit_if(only_wrong(c, axis, 0), FIRST_INDEX + axis);
        causes |= bit_if(only_wrong(c, axis, c->shape.size[axis] - 1), FIRST_INDEX + 2 + axis);
    }
    return causes;
}

static uint64_t number_causes(const comparison *c, double factor)
{
    const double rest = c->add ? 1 : 0;
    const bool compares = largest(c->right, c->n) >= 1e-9;
    return bit_if(has_float_precision(c), FLOAT_PRECISION) | bit_if(compares && fits(c, c->right, -1, rest), OPPOSITE) |
           bit_if(compares && fits(c, c->right, 0, rest), ZERO) |
           bit_if(compares && isfinite(factor) && fits(c, c->right, factor, rest), FACTOR) |
           bit_if(is_transposed(c), TRANSPOSED) | loop_causes(c) |
           bit_if(wrong_elements_are(c, 0, rest), NO_CONTRIBUTION) | bit_if(any_not_finite(c), NOT_FINITE);
}

/* -- the typical mistakes of an exercise -- */

/* Returns whether a mistake with these results gives the student's numbers. Sets *known to false if it cannot tell. */
static bool mistake_fits(const comparison *c, const double *result, bool *known)
{
    double scale = c->before ? largest(c->before, c->n) : 0;
    bool added = true, alone = c->add; /* a sum that is assigned also loses what the gradient contained */
    for (int64_t i = 0; i < c->n; i++) {
        if (result[i] != UNWRITTEN && isfinite(result[i]))
            scale = fmax(scale, fabs(result[i]));
        *known = *known && !isnan(result[i]);
    }
    for (int64_t i = 0; i < c->n; i++) {
        const bool unwritten = result[i] == UNWRITTEN;
        const double before = c->before ? c->before[i] : 0;
        added = added && equal(c->got[i], unwritten ? before : result[i] + (c->add ? before : 0), scale);
        alone = alone && equal(c->got[i], unwritten ? before : result[i], scale);
    }
    return added || alone;
}

static void find_mistakes(const scene *s, const mark_subject *subject, const comparison *c, mark_evidence *e)
{
    for (int i = 0; subject->mistakes[i].sentence; i++) {
        const mark_mistake *m = &subject->mistakes[i];
        if (m->operand != c->operand)
            continue;
        if (m->result == NULL) {
            e->fits |= bit_if(any_not_finite(c), FIRST_MISTAKE + i);
            continue;
        }
        th_tensor *result = m->result(s);
        const double *numbers = result && th_numel(result) == c->n ? th_data_const(th_contiguous(result)) : NULL;
        bool known = true;
        if (numbers == NULL)
            th_error_clear(s->ctx);
        else if (mistake_fits(c, numbers, &known))
            e->fits |= bit(FIRST_MISTAKE + i);
        else
            e->excluded |= bit_if(known, FIRST_MISTAKE + i);
    }
}

void find_evidence(const scene *s, const mark_subject *subject, const comparison *c, mark_evidence *e)
{
    e->compared = c->n > 0;
    e->wrong = !is_right(c);
    if (c->n == 0)
        return;
    find_mistakes(s, subject, c, e);
    if (!e->wrong)
        return;
    e->factor = best_factor(c);
    const uint64_t general = memory_causes(c) | number_causes(c, e->factor);
    e->fits |= general;
    for (int i = 0; i < BITS; i++)
        e->excluded |= sentences[i] && (general & bit(i)) == 0 ? bit(i) : 0;
}

void note_strides(mark_evidence *e)
{
    e->fits |= bit(STRIDES);
    e->excluded &= ~bit(STRIDES);
}

/* -- all checks -- */

/* Returns whether the source contains the word. */
static bool contains_word(const char *source, const char *word)
{
    for (const char *at = source; (at = strstr(at, word)) != NULL; at += strlen(word)) {
        const char before = at > source ? at[-1] : ' ', after = at[strlen(word)];
        if (!isalnum((unsigned char)before) && before != '_' && !isalnum((unsigned char)after) && after != '_')
            return true;
    }
    return false;
}

/* Returns how many checks find this array wrong. `causes`: the bits that all checks agree on. */
static int agreement(const mark_report *r, int operand, uint64_t *causes, double *factor)
{
    uint64_t any = 0, excluded = 0;
    int wrong = 0;
    bool any_right = false;
    for (int i = 0; i < r->count; i++) {
        const mark_evidence *e = &r->result[i].evidence[operand];
        excluded |= e->excluded;
        any_right = any_right || (e->compared && !e->wrong);
        if (!e->wrong)
            continue;
        any |= e->fits;
        if (wrong++ == 0)
            *factor = e->factor;
        else if ((e->fits & bit(FACTOR)) != 0 && !equal(e->factor, *factor, fabs(*factor)))
            excluded |= bit(FACTOR);
    }
    if (!any_right) /* nothing says that the array is written under other conditions */
        excluded |= bit(NOT_WRITTEN_ALONE);
    if (!contains_word(r->source, "float"))
        excluded |= bit(FLOAT_PRECISION);
    *causes = any & ~excluded;
    return wrong;
}

/* Writes the preferred cause. Returns whether it is a typical mistake of the exercise whose numbers were computed. */
static bool write_cause(const mark_report *r, int operand, uint64_t causes, double factor, char *text)
{
    const bool output = operand >= INPUTS;
    char name[32];
    write_text(name, sizeof name, "%s%s", output ? "" : "d",
               output ? r->subject->output_name[operand - INPUTS] : r->subject->input_name[operand]);
    int first = 0;
    while (first < BITS && (causes & bit(first)) == 0)
        first++;
    text[0] = '\0';
    if (first == BITS)
        return false;
    if (sentences[first] == NULL) {
        const mark_mistake *m = &r->subject->mistakes[first - FIRST_MISTAKE];
        write_text(text, CAUSE, "%s", m->sentence);
        return m->result != NULL;
    }
    const char *rest = strstr(sentences[first], "%s");
    write_text(text, CAUSE, "%.*s", rest ? (int)(rest - sentences[first]) : CAUSE, sentences[first]);
    if (rest)
        append_text(text, CAUSE, "%s", name);
    if (first == FACTOR)
        append_text(text, CAUSE, " is %.6g times what it should be", factor);
    else if (rest)
        append_text(text, CAUSE, "%s", rest + 2);
    return false;
}

void agree_on_causes(mark_report *r)
{
    int rank[OPERANDS], count = 0; /* of typical mistakes first, then of arrays that more checks find wrong */
    char cause[OPERANDS][CAUSE];
    for (int operand = 0; operand < OPERANDS; operand++) {
        uint64_t causes = 0;
        double factor = NAN;
        rank[operand] = agreement(r, operand, &causes, &factor);
        rank[operand] += write_cause(r, operand, causes, factor, cause[operand]) ? CHECKS : 0;
        for (int i = 0; i < r->count; i++)
            if (r->result[i].evidence[operand].wrong && r->result[i].cause[0] == '\0')
                write_text(r->result[i].cause, CAUSE, "%s", cause[operand]);
    }
    for (int most = 2 * CHECKS; most > 0; most--)
        for (int k = 0; k < OPERANDS; k++) { /* outputs first */
            const int operand = (k + INPUTS) % OPERANDS;
            bool listed = false;
            for (int i = 0; i < count; i++)
                listed = listed || strcmp(r->causes[i], cause[operand]) == 0;
            if (rank[operand] == most && cause[operand][0] && !listed)
                write_text(r->causes[count++], CAUSE, "%s", cause[operand]);
        }
}
