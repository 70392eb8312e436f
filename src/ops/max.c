/* max: y = max_j x_j over a set of axes; NaN if an element is NaN. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

static th_status max_shape(th_call *call)
{
    const th_status status = th_reduction_shape(call);
    return status ? status : th_reduction_has_largest(call);
}

/* dy/dx_j = 1/k for each of the k elements with x_j = y (a subgradient that treats ties alike), else 0:
 * dL/dx_j = dL/dy / k where x_j = y        one pass counts k, one writes
 *                                          (row_max_backward in kernels/rows/vector/reductions.c).
 * If y is NaN, the NaN elements share the gradient. */
const th_op th_op_max = {
    .name = "max",
    .value = "y = max_j x_j",
    .gradient = "dx_j = dy / k where x_j = y (k of them), else 0",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_INPUT(0) | TH_OUTPUT(0),
    .shape = max_shape,
    TH_ROWS(.forward = th_rows_id_row_max, .forward_cost = 1, .backward = th_rows_id_row_max_backward,
            .backward_cost = 2, .reduces = true),
    .samples = th_reduction_samples,
};

th_tensor *th_max(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    return th_reduction_apply(&th_op_max, x, axes, options);
}
