/* Compares the results of a variant with the references, and reports a wrong one. */
#ifndef TH_CHECKER_CHECK_OP_RESULT_H
#define TH_CHECKER_CHECK_OP_RESULT_H

#include "checker/check_op_graph.h"

/* Returns whether the last run, of this variant, has a finding, or a gradient that differs from the references. */
bool th_variant_is_wrong(const th_graph *graph, const th_variant *variant);
/* Reports the last run, of this variant, as wrong under the variant's conditions. */
void th_variant_report(const th_graph *graph, const th_variant *variant, th_gradient_report *report);

#endif
