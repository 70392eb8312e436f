/* softmax: y_i = exp(x_i) / sum_j exp(x_j) along one axis; computed with x - max x. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

/* dL/dx_i = sum_j dL/dy_j dy_j/dx_i,   dy_j/dx_i = y_j (1[i=j] - y_i)
 *         = y_i (dL/dy_i - sum_j dL/dy_j y_j)        one dot product for each row, then one pass
 *                                                    (softmax_gradient in kernels/rows/vector/softmax.c) */
const th_op th_op_softmax = {
    .name = "softmax",
    .value = "y_i = exp(x_i) / sum_j exp(x_j)",
    .gradient = "dx = y * (dy - sum(dy * y))",
    .n_inputs = 1,
    .attributes_size = sizeof(th_axis),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_OUTPUT(0),
    .shape = th_axis_shape,
    TH_ROWS(.forward = th_rows_id_softmax, .forward_cost = 8, .backward = th_rows_id_softmax_backward,
            .backward_cost = 3),
    .samples = th_axis_samples,
};

th_tensor *th_softmax(th_tensor *x, int axis)
{
    return th_apply(&th_op_softmax, &(th_axis){.axis = axis}, x);
}
