/* log_softmax: y_i = x_i - log sum_j exp(x_j) along one axis; computed with x - max x. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

/* dL/dx_i = sum_j dL/dy_j dy_j/dx_i,   dy_j/dx_i = 1[i=j] - exp(y_i)   (exp(y) is the softmax)
 *         = dL/dy_i - exp(y_i) sum_j dL/dy_j        one sum for each row, then one pass
 *                                                   (log_softmax_backward in kernels/rows/vector/softmax.c) */
const th_op th_op_log_softmax = {
    .name = "log_softmax",
    .value = "y_i = x_i - log sum_j exp(x_j)",
    .gradient = "dx = dy - exp(y) * sum(dy)",
    .n_inputs = 1,
    .attributes_size = sizeof(th_axis),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_OUTPUT(0),
    .shape = th_axis_shape,
    TH_ROWS(.forward = th_rows_id_log_softmax, .forward_cost = 8, .backward = th_rows_id_log_softmax_backward,
            .backward_cost = 8),
    .samples = th_axis_samples,
};

th_tensor *th_log_softmax(th_tensor *x, int axis)
{
    return th_apply(&th_op_log_softmax, &(th_axis){.axis = axis}, x);
}
