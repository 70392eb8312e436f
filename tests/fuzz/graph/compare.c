/* Compares the outcomes of two runs, bit by bit or within the rounding of their numbers. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "check.h"
#include "leaves.h"

bool report(finding *f, const char *check, const char *format, ...)
{
    if (f->check[0])
        return false;
    va_list arguments;
    va_start(arguments, format);
    snprintf(f->check, sizeof f->check, "%s", check);
    vsnprintf(f->text, sizeof f->text, format, arguments);
    va_end(arguments);
    return false;
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* Returns the largest finite absolute value. */
static double largest(const array *a)
{
    double y = 0;
    for (int64_t i = 0; a->data && i < shape_count(&a->shape); i++)
        y = isfinite(a->data[i]) && fabs(a->data[i]) > y ? fabs(a->data[i]) : y;
    return y;
}

static double largest_difference(const array *a, const array *b)
{
    double y = 0;
    for (int64_t i = 0; a->data && b->data && i < shape_count(&a->shape); i++) {
        const double d = fabs(a->data[i] - b->data[i]);
        y = d > y || isnan(d) ? d : y;
        if (isnan(y))
            return INFINITY;
    }
    return y;
}

/* Returns the first element that differs; -1 if none does. margin < 0: all bits count. */
static int64_t first_difference(const array *a, const array *b, double factor, double margin)
{
    for (int64_t i = 0; i < shape_count(&b->shape); i++) {
        const double x = a->data[i] * factor, y = b->data[i];
        if (margin < 0 ? !same_bits(x, y) : !(fabs(x - y) <= margin) && !same_bits(x, y))
            return i;
    }
    return -1;
}

static bool same_arrays(const program *p, const comparison *c, const array *whole, const array *part, const setting *s,
                        const array *spread[2], const char *what, finding *f)
{
    if ((whole->data == NULL && part->data == NULL) || (c->leaves_only && whole->data == NULL && largest(part) <= 0))
        return true;
    if (whole->data == NULL || part->data == NULL)
        return report(f, c->check, "%s exists in one of both runs only", what);
    double margin = -1;
    if (c->spread) {
        margin = c->tolerance * (1 + largest(spread[0])) + 100 * largest_difference(spread[0], spread[1]);
        if (!isfinite(margin) || margin > 0.3 * (1 + largest(spread[0])))
            return true; /* the numbers are too sensitive for a comparison */
    }
    const run r = {.p = p, .s = s};
    array same = s ? part_in_run(&r, whole) : *whole;
    const int64_t at = first_difference(&same, part, c->factor > 0 ? c->factor : 1, margin);
    char text[128];
    if (at >= 0)
        report(f, c->check, "%s at element %lld of %s is %.17g, and %.17g in the other run", what, (long long)at,
               shape_text(&part->shape, text, sizeof text), same.data[at], part->data[at]);
    if (s)
        array_free(&same);
    return at < 0;
}

static bool has_axes(const shape *s, const char *letters)
{
    for (; *letters; letters++)
        if (shape_find(s, *letters) < 0)
            return false;
    return true;
}

bool same_outcomes(const program *p, const comparison *c, const outcome *whole, const outcome *part, const setting *s,
                   finding *f)
{
    char what[160];
    for (int v = 0; v < p->values && c->values; v++) {
        const array *spread[2] = {c->spread ? &c->spread[0].value[v] : NULL, c->spread ? &c->spread[1].value[v] : NULL};
        if (p->value[v].line < 0)
            continue;
        snprintf(what, sizeof what, "v%d, %s,", v, p->line[p->value[v].line].label);
        if (!same_arrays(p, c, &whole->value[v], &part->value[v], s, spread, what, f))
            return false;
    }
    for (int i = 0; i < MAX_GRADIENTS && c->gradients; i++) {
        const array *spread[2] = {c->spread ? &c->spread[0].gradient[i] : NULL,
                                  c->spread ? &c->spread[1].gradient[i] : NULL};
        const value *v = i < p->leaves ? &p->value[p->leaf[i].value] : NULL;
        if (c->leaves_only && v == NULL)
            continue;
        if (c->axes && (v == NULL || !has_axes(&v->shape, c->axes)))
            continue;
        if (v)
            snprintf(what, sizeof what, "the gradient of v%d", p->leaf[i].value);
        else
            snprintf(what, sizeof what, "the gradient of parameter %d", i - MAX_LEAVES);
        if (!same_arrays(p, c, &whole->gradient[i], &part->gradient[i], s, spread, what, f))
            return false;
    }
    return true;
}
