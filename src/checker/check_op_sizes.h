/* Checks of an operation other than its gradients: empty tensors, and planning without data. */
#ifndef TH_CHECKER_CHECK_OP_SIZES_H
#define TH_CHECKER_CHECK_OP_SIZES_H

#include "checker/check_op_graph.h"

/* Runs the operation on this sample with empty axes: for each size among its inputs, all axes of that size. It skips
 * shapes that the operation rejects, and samples with indices. TH_ERROR_VALUE, with the report, if the operation is
 * wrong. */
th_status th_check_op_empty(th_context *ctx, th_guard *guard, const th_sample *sample, th_dtype dtype,
                            th_gradient_report *report);
/* Plans the operation on its samples in a context of shapes only: it must reserve the scratch memory that it reserves
 * with data. Errors as above. */
th_status th_check_op_forecast(th_context *ctx, th_guard *guard, const th_op *op, th_dtype dtype,
                               th_gradient_report *report);

#endif
