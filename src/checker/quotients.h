/* Difference quotients along one line through the current point. */
#ifndef TH_CHECKER_QUOTIENTS_H
#define TH_CHECKER_QUOTIENTS_H

#include "checker/checker.h"
#include "checker/limits.h"

/* A line through the current point: along one element of a leaf, or along a direction in a leaf. */
typedef struct th_line {
    th_leaf *leaf;
    int64_t element;
    double x;                /* the element's value */
    const double *direction; /* [numel], or NULL: the line moves one element */
    const double *start;     /* [numel]: the leaf's values, if there is a direction */
    double scale;            /* with a direction: root of the sum of squares of the terms of the analytic derivative */
    double
        weight; /* with a direction: the same of the products of x and derivative. It bounds the rounding of the point */
    double largest; /* largest analytic derivative of the leaf; 0: unknown */
    bool thorough;  /* no step has shown a dependence on the leaf: try only the usual step and longer ones */
    bool brief;     /* the leaf is wrong already: only find out whether this derivative is wrong, too */
} th_line;

/* Step k is a pair of runs on both sides of the point. Step 0 is the shortest, step TH_STEPS - 1 the longest. */
typedef struct th_quotients {
    th_checker *checker;
    const double *cotangent; /* [rows]: compares <cotangent, output>; NULL: each output by itself */
    int64_t count;           /* derivatives along a line: rows, or 1 with a cotangent */
    double *memory;          /* contains the next three arrays */
    double *above, *below;   /* [rows]: the outputs at both ends of a step */
    double *step;            /* [TH_STEPS][3][count]: quotients, bends and rounding errors of each step */
    double length[TH_STEPS]; /* of each step; 0: not tried */
} th_quotients;

/* Returns false with the error pending. Call th_quotients_free in either case. */
bool th_quotients_init(th_quotients *quotients, th_checker *checker, const double *cotangent, int64_t count);
void th_quotients_free(th_quotients *quotients);
/* Starts a new line: no step was tried. */
void th_quotients_start(th_quotients *quotients);
/* Runs the function on both sides of the point, at the distance of step k. Skips a step that the rounding of the inputs
 * hides. Returns false if a run failed. */
bool th_quotients_run_step(th_quotients *quotients, const th_line *line, int k);

/* Returns the quotients of step k, [count]. The next two functions return the other results of the step. */
static inline double *th_quotients_of(const th_quotients *quotients, int k)
{
    return quotients->step + 3 * k * quotients->count;
}
/* Returns the bends of step k: the slope above the point minus the slope below it. */
static inline double *th_bends_of(const th_quotients *quotients, int k)
{
    return th_quotients_of(quotients, k) + quotients->count;
}
/* Returns the estimated rounding errors of the quotients of step k. */
static inline double *th_roundings_of(const th_quotients *quotients, int k)
{
    return th_bends_of(quotients, k) + quotients->count;
}

/* Returns what multiplies the length of every step along a line: max(1, |x|) for an element. */
double th_line_step_factor(const th_line *line);

#endif
