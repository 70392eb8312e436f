/* variance: y = sum_j (x_j - m)² / (n - correction) over a set of axes, m the mean. */
#include "ops/shared/axes.h"
#include "ops/shared/rows.h"

/* dL/dx_i = dL/dy sum_j 2 (x_j - m) (1[i=j] - 1/n) / (n - correction),   and sum_j (x_j - m) = 0
 *         = dL/dy 2 (x_i - m) / (n - correction)        the row's mean recomputed, then one pass
 *                                                       (row_variance_backward in kernels/rows/vector/reductions.c) */
const th_op th_op_variance = {
    .name = "variance",
    .value = "y = sum_j (x_j - mean(x))² / (n - correction)",
    .gradient = "dx_j = dy * 2 (x_j - mean(x)) / (n - correction)",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_INPUT(0),
    .shape = th_reduction_shape,
    TH_ROWS(.forward = th_rows_id_row_variance, .forward_cost = 2, .backward = th_rows_id_row_variance_backward,
            .backward_cost = 2, .reduces = true, .parameters_offset = offsetof(th_reduction, correction)),
    .samples = th_reduction_samples,
};

th_tensor *th_variance(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    return th_reduction_apply(&th_op_variance, x, axes, options);
}
