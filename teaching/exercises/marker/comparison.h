/* One array of a check, to compare (explain.c), and the causes of differences (cause.c). */
#ifndef TAPEHEAD_COMPARISON_H
#define TAPEHEAD_COMPARISON_H

#include "marker.h"

typedef struct comparison {
    const char *name; /* "dx" */
    int operand;      /* as in mistake */
    th_shape shape;
    int64_t n;
    const double *right, *got;
    const double *before; /* NULL for an output */
    bool add;
    bool alone; /* only some gradients are requested */
} comparison;

/* Returns whether a and b differ by rounding only, in numbers of this magnitude, or both are NaN. */
bool equal(double a, double b, double scale);

/* Returns the largest finite magnitude. */
double largest(const double *x, int64_t n);

/* Returns what element i should be after backward. */
double expected(const comparison *c, int64_t i);

bool is_right(const comparison *c);

/* Finds out which causes explain the numbers. */
void find_evidence(const scene *s, const mark_subject *subject, const comparison *c, mark_evidence *e);

/* In a check with strides: notes that the same numbers in row-major memory are right. */
void note_strides(mark_evidence *e);

#endif
