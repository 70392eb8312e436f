/* log_sum_exp: y = log sum_j exp(x_j) over a set of axes; computed with x - max x. An empty row, or one of -inf only,
 * gives -inf. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

/* dy/dx_j = exp(x_j) / sum_i exp(x_i) = exp(x_j - y), the softmax:
 * dL/dx_j = dL/dy exp(x_j - y)        one pass (log_sum_exp_backward in kernels/rows/vector/softmax.c).
 * A row of -inf only has gradient 0. */
const th_op th_op_log_sum_exp = {
    .name = "log_sum_exp",
    .value = "y = log sum_j exp(x_j)",
    .gradient = "dx_j = dy * exp(x_j - y)",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_INPUT(0) | TH_OUTPUT(0),
    .shape = th_reduction_shape,
    TH_ROWS(.forward = th_rows_id_log_sum_exp, .forward_cost = 8, .backward = th_rows_id_log_sum_exp_backward,
            .backward_cost = 8, .reduces = true),
    .samples = th_reduction_samples,
};

th_tensor *th_log_sum_exp(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    return th_reduction_apply(&th_op_log_sum_exp, x, axes, options);
}
