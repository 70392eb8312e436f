/* sum: y = sum of x over a set of axes.
 * This file: value, gradient, samples; the shape rule is every reduction's. */
#include "ops/shared/reduction.h"
#include "tensor/elementwise.h"

static void sum_forward(const th_call *c)
{
    const th_array y = th_reduction_kept(c, &c->output[0]);
    th_sum_within(c->ctx, &y, &c->input[0], false, c->scratch);
}

static size_t sum_scratch(const th_call *c, bool backward)
{
    const th_array y = th_reduction_kept(c, &c->output[0]);
    return backward ? 0 : th_sum_scratch(&y, &c->input[0], false);
}

/* y = sum_j x_j: dy/dx_j = 1, so dL/dx_j = dL/dy for every j: the output gradient broadcast along the reduced axes. */
static void sum_backward(const th_call *c)
{
    const th_array dy = th_reduction_kept(c, &c->output_gradient[0]);
    th_copy_array(c->ctx, &c->input_gradient[0], &dy, c->add[0]);
}

static const th_reduction all = {.axes = {0}}, all_kept = {.keep_axes = true}, first = {.axes = {1, {0}}},
                          last = {.axes = {1, {-1}}}, outer = {.axes = {2, {0, 2}}},
                          middle_kept = {.axes = {1, {1}}, .keep_axes = true}, none_left = {.axes = {1, {0}}};

static const th_sample sum_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {"all axes, kept", &all_kept, 1, {{.shape = {2, {3, 4}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"two axes", &outer, 1, {{.shape = {3, {2, 3, 5}}}}, 0},
    {"middle axis, kept", &middle_kept, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"scalar", &all, 1, {{.shape = {0, {0}}}}, 0},
    {"of nothing", &none_left, 1, {{.shape = {2, {0, 3}}}}, 0},
    {0},
};

const th_op th_op_sum = {
    .name = "sum",
    .value = "y = sum_j x_j",
    .gradient = "dx_j = dy",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .shape = th_reduction_shape,
    .forward = sum_forward,
    .backward = sum_backward,
    .scratch = sum_scratch,
    .samples = sum_samples,
};

th_tensor *(th_sum)(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduction reduction = th_reduction_of(axes, options);
    return th_apply(&th_op_sum, &reduction, x);
}
