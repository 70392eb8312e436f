/* The text of a gradient report. */
#ifndef TH_CHECKER_ENGINE_REPORT_H
#define TH_CHECKER_ENGINE_REPORT_H

#include "checker/engine/verdict.h"

/* The result for one variable, with its worst element. */
typedef struct th_finding {
    const th_variable *variable;
    int64_t element; /* the worst one */
    double analytic;
    th_verdict verdict;
    const double *analytic_jacobian,
        *numeric_jacobian; /* element 0 of row 0 of this variable's block; NULL in fast mode */
    int64_t row_stride;    /* of both */
    /* [numel]: gradients under one random cotangent. In fast mode, the numeric one is NaN where it was not sampled. */
    const double *analytic_gradient, *numeric_gradient;
    const unsigned char *element_verdict; /* [numel]: th_verdict_kind */
    bool has_wrong_element;               /* the derivative of some output by some element is wrong */
    bool overwrites;          /* a second backward replaces the gradient of the first instead of adding to it */
    bool backward_not_linear; /* the gradient of a weighted sum of the outputs is not the same sum of their gradients */
    bool along_direction;     /* the verdict is on a derivative in a random direction, not on an element */
    th_number_kind kind;      /* the least exact one, of the gradients or of the outputs */
    th_shape output_shape;
} th_finding;

/* Writes a finding to the report of the engine. */
void th_report_finding(th_engine *engine, const th_finding *finding);
/* Appends to the text of a report. */
void th_report_append(th_gradient_report *report, const char *format, ...) TH_FORMAT(2, 3);

#endif
