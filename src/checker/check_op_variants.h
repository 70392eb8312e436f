/* The conditions under which th_check_op runs an operation, and finding out which of them a wrong rule depends on. */
#ifndef TH_CHECKER_CHECK_OP_VARIANTS_H
#define TH_CHECKER_CHECK_OP_VARIANTS_H

#include "checker/check_op_graph.h"

/* Runs the operation as the difference quotients are going to have it, and keeps the gradients: all others are compared
 * with them. False when a run failed (the error is pending) or graph->finding says what is wrong. */
bool th_variants_begin(th_graph *graph);
/* Runs all variants. The first that is wrong is reduced to the conditions that it takes, and reported. False with the
 * error pending. */
bool th_variants_run(th_graph *graph, th_gradient_report *report);

#endif
