/* argmax: y = the first j with x_j = max x along one axis, int64. NaN counts as the largest. Without a gradient. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

static th_status argmax_shape(th_call *call)
{
    th_status status = th_axis_check(call);
    if (!status)
        status = th_reduction_has_largest(call);
    if (!status)
        th_reduction_output(call, false, TH_INT64);
    return status;
}

const th_op th_op_argmax = {
    .name = "argmax",
    .value = "y = the first j with x_j = max x",
    .gradient = "none",
    .n_inputs = 1,
    .attributes_size = sizeof(th_axis),
    .shape = argmax_shape,
    TH_ROWS_FORWARD(.forward = th_rows_id_row_argmax, .forward_cost = 2, .reduces = true),
    .not_differentiable = "its values are indices",
    .samples = th_axis_samples,
};

th_tensor *th_argmax(th_tensor *x, int axis)
{
    return th_apply(&th_op_argmax, &(th_axis){.axis = axis}, x);
}

th_tensor *th_argmin(th_tensor *x, int axis)
{
    return th_argmax(th_neg(x), axis);
}
