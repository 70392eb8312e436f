/* Special values in the inputs of an operation: NaN, infinities and 0. */
#ifndef TH_CHECKER_CHECK_OP_VALUES_H
#define TH_CHECKER_CHECK_OP_VALUES_H

#include "checker/check_op_graph.h"

/* Sets an element of each input to NaN, and to an infinity if the sample gives no range. Some elements and this one
 * have no output that depends on both: their gradients must stay the same. Reports a wrong gradient. Returns false with
 * the error pending. */
bool th_values_run(th_graph *graph, th_gradient_report *report);

/* The elements that are 0 between th_values_plant_zeros and th_values_restore. */
typedef struct th_planted {
    int64_t element[TH_MAX_SAMPLE_INPUTS]; /* -1: none */
    double value[TH_MAX_SAMPLE_INPUTS];    /* before */
} th_planted;

/* Sets an element of each checked input to 0 if its range contains 0. Returns whether there is one. */
bool th_values_plant_zeros(th_graph *graph, th_planted *zeros);
/* Restores the elements. */
void th_values_restore(th_graph *graph, const th_planted *zeros);

#endif
