/* mean: y = (sum of x over a set of axes) / n.
 * This file: value, gradient, samples; the shape rule is every reduction's. */
#include "ops/shared/reduction.h"
#include "tensor/elementwise.h"

/* Of nothing: 0 / 0, NaN. */
static void mean_forward(const th_call *c)
{
    const double count = (double)th_reduction_count(c);
    const th_array y = th_reduction_kept(c, &c->output[0]);
    th_sum_within(c->ctx, &y, &c->input[0], false, c->scratch);
    TH_MAP(c, divide_by, &count, &y, false, &y);
}

/* y = sum_j x_j / n: dy/dx_j = 1/n, so dL/dx_j = dL/dy / n. The quotient is computed once per result (into scratch
 * memory) and broadcast. */
static void mean_backward(const th_call *c)
{
    const double count = (double)th_reduction_count(c);
    const th_array dy = th_reduction_kept(c, &c->output_gradient[0]);
    th_array share = dy;
    share.data = c->scratch;
    int64_t stride = 1;
    for (int i = share.ndim - 1; i >= 0; i--) {
        share.stride[i] = stride;
        stride *= share.size[i];
    }
    TH_MAP(c, divide_by, &count, &share, false, &dy);
    th_copy_array(c->ctx, &c->input_gradient[0], &share, c->add[0]);
}

static size_t mean_scratch(const th_call *c, bool backward)
{
    const th_array y = th_reduction_kept(c, &c->output[0]);
    return backward ? (size_t)th_array_numel(&c->output_gradient[0]) * th_dtype_size(c->output_gradient[0].dtype)
                    : th_sum_scratch(&y, &c->input[0], false);
}

static const th_reduction all = {.axes = {0}}, all_kept = {.keep_axes = true}, first = {.axes = {1, {0}}},
                          last = {.axes = {1, {-1}}}, outer = {.axes = {2, {0, 2}}},
                          middle_kept = {.axes = {1, {1}}, .keep_axes = true};

static const th_sample mean_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {"all axes, kept", &all_kept, 1, {{.shape = {2, {3, 4}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"two axes", &outer, 1, {{.shape = {3, {2, 3, 5}}}}, 0},
    {"middle axis, kept", &middle_kept, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"scalar", &all, 1, {{.shape = {0, {0}}}}, 0},
    {0},
};

const th_op th_op_mean = {
    .name = "mean",
    .value = "y = sum_j x_j / n",
    .gradient = "dx_j = dy / n",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .shape = th_reduction_shape,
    .forward = mean_forward,
    .backward = mean_backward,
    .scratch = mean_scratch,
    .samples = mean_samples,
};

th_tensor *(th_mean)(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduction reduction = th_reduction_of(axes, options);
    return th_apply(&th_op_mean, &reduction, x);
}
