/* Difference quotients along one line through the current point. */
#ifndef TH_CHECKER_ENGINE_QUOTIENTS_H
#define TH_CHECKER_ENGINE_QUOTIENTS_H

#include "checker/engine/engine.h"
#include "checker/engine/limits.h"

/* A line through the current point. It moves one element of a variable, or all its elements in a direction. */
typedef struct th_line {
    th_variable *variable;
    int64_t element;
    double x;                /* the element's value; not used with a direction */
    const double *direction; /* [numel], or NULL: the line moves one element */
    const double *start;     /* [numel]: the variable's values, if there is a direction */
    /* Euclidean norms over the variable's elements; both are 0 without a direction. */
    double term_norm;           /* of gradient * direction, the terms of the analytic derivative */
    double gradient_start_norm; /* of gradient * start: times the rounding unit, the change of the output by rounding of
                                   the point */

    double gradient_error;     /* the error that rounding may have in the analytic derivative; 0: unknown */
    double largest_derivative; /* largest analytic derivative of the variable; 0: unknown */
    bool longer_steps_only;    /* try only the usual step and longer ones, because no step has changed the output yet */
    bool only_tell_wrong;      /* the variable is wrong already: only find out whether this derivative is wrong, too */
} th_line;

/* Step k is two runs, one on each side of the point. Step 0 is the shortest, step TH_STEPS - 1 the longest. */
typedef struct th_quotients {
    th_engine *engine;
    const double *cotangent; /* [rows]: the function is <cotangent, output>; NULL: each output is a function */
    int64_t count;           /* of derivatives along a line: rows, or 1 with a cotangent */
    double *memory;          /* of the next three arrays */
    double *above, *below;   /* [rows]: the outputs at both ends of a step */
    double *results;         /* [TH_STEPS][3][count]: quotients, bends and rounding errors of each step */
    double length[TH_STEPS]; /* of each step; 0: the step was not tried on this line */
} th_quotients;

/* Returns false with the error pending. Call th_quotients_free in either case. */
bool th_quotients_init(th_quotients *quotients, th_engine *engine, const double *cotangent, int64_t count);
void th_quotients_free(th_quotients *quotients);
/* Starts a new line: marks all steps as not tried. */
void th_quotients_start_line(th_quotients *quotients);
/* Runs the function on both sides of the point, at the distance of step k, and computes the quotients. Skips the step
 * if it is so short that rounding of the inputs hides it. Returns false if a run failed. */
bool th_quotients_run_step(th_quotients *quotients, const th_line *line, int k);

/* Returns the quotients of step k, [count]. */
static inline double *th_quotients_of(const th_quotients *quotients, int k)
{
    return quotients->results + 3 * k * quotients->count;
}
/* Returns the bends of step k, [count]: the slope above the point minus the slope below it. */
static inline double *th_bends_of(const th_quotients *quotients, int k)
{
    return th_quotients_of(quotients, k) + quotients->count;
}
/* Returns the estimated rounding errors of the quotients of step k, [count]. */
static inline double *th_roundings_of(const th_quotients *quotients, int k)
{
    return th_bends_of(quotients, k) + quotients->count;
}

/* Returns the number by which every step length on this line is multiplied: max(1, |x|) for an element, 1 for a
 * direction. */
double th_line_step_factor(const th_line *line);

#endif
