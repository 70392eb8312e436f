/* The gradient checker from inside: what its parts (running, comparing, reporting) share. */
#ifndef TH_AUTOGRAD_CHECKER_H
#define TH_AUTOGRAD_CHECKER_H

#include "autograd/tape.h"
#include "tapehead/gradient_check.h"

/* A tensor whose gradient is checked: a copy of an input, or a parameter swapped to the checking type. */
typedef struct th_leaf {
    th_body *tensor;
    th_body original; /* a parameter as it was, to be put back; unused for inputs */
    bool swapped;
    bool checked; /* it requires a gradient */
    int position; /* of the input, or n_inputs and up for parameters */
    int64_t numel;
    int64_t first; /* column of its element 0 among all checked elements */
    char name[96];
} th_leaf;

enum { TH_MAX_LEAVES = 512 };

typedef struct th_checker {
    th_context *ctx;
    th_gradient_function *function;
    void *user;
    int n_inputs;
    th_tensor *inputs[TH_MAX_INPUTS * 4]; /* what the function gets: copies */
    th_gradient_options options;
    th_dtype dtype;
    th_leaf *leaf; /* [TH_MAX_LEAVES]: inputs first */
    int leaves, parameters;
    int64_t columns;     /* elements of all checked leaves */
    int64_t rows;        /* elements of the output */
    double output_scale; /* largest magnitude of the output, at least 1 */
    uint32_t calls[TH_STREAM_COUNT], calls_at_clear;
    uint64_t random;
    th_gradient_report *report;
} th_checker;

/* -- running (gradient_check.c) -- */
/* The function's output at the current values; of the step, so that the next run ends it. NULL with the error pending.
 */
th_body *th_checker_run(th_checker *checker, bool record);
/* The output's elements as doubles into values[rows]. */
th_status th_checker_values(th_checker *checker, double *values);
double th_checker_element(const th_leaf *leaf, int64_t element);
void th_checker_set_element(th_leaf *leaf, int64_t element, double value);
/* Gradients of all checked leaves under this cotangent, into gradient[columns]; times backward passes run without
 * emptying in between. */
th_status th_checker_gradient(th_checker *checker, th_body *output, const double *cotangent, int times,
                              double *gradient);
/* A number uniform on (-1, 1), away from 0. */
double th_checker_random(th_checker *checker);
double th_checker_step(const th_checker *checker);
bool th_checker_close(const th_checker *checker, double analytic, double numeric, double scale);

/* -- comparing (gradient_compare.c) -- */
th_status th_checker_full(th_checker *checker);
th_status th_checker_fast(th_checker *checker);

/* -- reporting (gradient_report.c) -- */
/* All that is known of one leaf whose gradient is wrong.  */
typedef struct th_finding {
    const th_leaf *leaf;
    int64_t element; /* the worst */
    double analytic, numeric;
    const double *analytic_jacobian, *numeric_jacobian; /* element 0 of row 0 of this leaf's block; NULL in fast mode */
    int64_t row_stride;                                 /* of both */
    const double *analytic_vector,
        *numeric_vector;  /* under one random cotangent, [numel]; fast mode: numeric is NaN where it was not sampled */
    const bool *wrong;    /* [numel] */
    bool overwrites;      /* one backward is right, two do not add up */
    bool along_direction; /* fast mode: a direction through the whole leaf is wrong, no single element is known to be */
    th_shape output_shape;
} th_finding;
void th_checker_report(th_checker *checker, const th_finding *finding);

#endif
