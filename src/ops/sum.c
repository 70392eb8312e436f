/* sum: y = sum_j x_j over a set of axes. */
#include "ops/shared/axes.h"
#include "tensor/elementwise.h"

static void sum_plan(const th_call *call, bool backward, void *plan)
{
    if (!backward)
        *(size_t *)plan = th_reduction_plan_sum(call);
}

static void sum_forward(const th_call *call)
{
    th_reduction_sum(call, *(const size_t *)call->plan);
}

/* y = sum_j x_j: dy/dx_j = 1, so dL/dx_j = dL/dy for every j: dy broadcast along the reduced axes. */
static void sum_backward(const th_call *call)
{
    const th_array dy = th_reduction_with_axes(call, &call->output_gradient[0]);
    th_copy_array(call->ctx, &call->input_gradient[0], &dy, call->add[0]);
}

const th_op th_op_sum = {
    .name = "sum",
    .value = "y = sum_j x_j",
    .gradient = "dx_j = dy",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .shape = th_reduction_shape,
    .forward = sum_forward,
    .backward = sum_backward,
    .plan_size = sizeof(size_t),
    .plan = sum_plan,
    .samples = th_reduction_samples,
};

th_tensor *th_sum(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    return th_reduction_apply(&th_op_sum, x, axes, options);
}
