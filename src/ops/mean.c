/* mean: y = sum_j x_j / n over a set of axes. */
#include "ops/shared/axes.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

/* Reserves scratch memory: in forward for the sum, in backward for dL/dy / n. */
static void mean_plan(const th_call *call, bool backward, void *plan)
{
    const th_array *dy = &call->output_gradient[0];
    *(size_t *)plan =
        backward ? th_plan_scratch(call, th_array_numel(dy), th_dtype_size(dy->dtype)) : th_reduction_plan_sum(call);
}

/* An empty row gives 0 / 0 = NaN. */
static void mean_forward(const th_call *call)
{
    const double count = (double)th_reduction_count(call);
    th_reduction_sum(call, *(const size_t *)call->plan);
    TH_ELEMENTWISE(call, divide_by, &count, &call->output[0], false, &call->output[0]);
}

/* y = sum_j x_j / n: dy/dx_j = 1/n, so dL/dx_j = dL/dy / n. The quotient is computed once for each result, in
 * scratch memory, and broadcast. */
static void mean_backward(const th_call *call)
{
    const double count = (double)th_reduction_count(call);
    const th_array dy = th_reduction_with_axes(call, &call->output_gradient[0]);
    th_array share = dy;
    share.data = th_call_scratch(call, *(const size_t *)call->plan);
    th_compute_contiguous_strides(share.ndim, share.size, share.stride);
    TH_ELEMENTWISE(call, divide_by, &count, &share, false, &dy);
    th_copy_array(call->ctx, &call->input_gradient[0], &share, call->add[0]);
}

const th_op th_op_mean = {
    .name = "mean",
    .value = "y = sum_j x_j / n",
    .gradient = "dx_j = dy / n",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .shape = th_reduction_shape,
    .forward = mean_forward,
    .backward = mean_backward,
    .plan_size = sizeof(size_t),
    .plan = mean_plan,
    .samples = th_reduction_samples,
};

th_tensor *th_mean(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    return th_reduction_apply(&th_op_mean, x, axes, options);
}
