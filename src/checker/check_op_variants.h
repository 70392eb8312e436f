/* The variants of th_check_op: the conditions under which it runs an operation. If a rule is wrong, it finds the
 * conditions that matter. */
#ifndef TH_CHECKER_CHECK_OP_VARIANTS_H
#define TH_CHECKER_CHECK_OP_VARIANTS_H

#include "checker/check_op_graph.h"

/* Runs the operation under the conditions of the difference quotients, and keeps the gradients as the reference.
 * Returns false if a run failed (the error is pending) or if graph->finding says what is wrong. */
bool th_variants_begin(th_graph *graph);
/* Runs all variants. Reduces the first wrong one to the conditions that it needs, and reports it. Returns false with
 * the error pending. */
bool th_variants_run(th_graph *graph, th_gradient_report *report);
/* Returns whether outputs or gradients change from training to evaluation mode, or the reverse. The operation must then
 * be checked in both. False also if it rejects the other mode, or with the error pending. */
bool th_variants_mode_matters(th_graph *graph);

#endif
