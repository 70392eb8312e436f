/* logical_and, logical_or (broadcast), logical_not: of bool tensors. Without a gradient.
 * This file: shape rule, values, samples. */
#include "kernels/compare.h"
#include "ops/shared/broadcast.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static th_status logical_shape(th_call *c)
{
    for (int i = 0; i < c->n_inputs; i++) {
        const th_status status = th_call_bool(c, i);
        if (status)
            return status;
    }
    return th_broadcast_inputs(c, TH_BOOL);
}

#define BOOL .kind = TH_SAMPLE_BOOL

static const th_sample binary_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}, BOOL}, {.shape = {2, {3, 4}}, BOOL}}, 0},
    {"broadcast", NULL, 2, {{.shape = {2, {3, 1}}, BOOL}, {.shape = {1, {4}}, BOOL}}, 0},
    {.name = NULL},
};

static const th_sample unary_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, BOOL}}, 0},
    {.name = NULL},
};

static const char no_gradient[] = "a truth value does not vary continuously";

static void logical_and_forward(const th_call *c)
{
    th_elementwise(c->ctx, th_logical_and_map, NULL, &c->output[0], false, 2,
                   (const th_array *const[]){&c->input[0], &c->input[1]});
}

const th_op th_op_logical_and = {
    .name = "logical_and",
    .value = "y = a and b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = logical_shape,
    .forward = logical_and_forward,
    .not_differentiable = no_gradient,
    .samples = binary_samples,
};

th_tensor *(th_logical_and)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_logical_and, NULL, a, b);
}

static void logical_or_forward(const th_call *c)
{
    th_elementwise(c->ctx, th_logical_or_map, NULL, &c->output[0], false, 2,
                   (const th_array *const[]){&c->input[0], &c->input[1]});
}

const th_op th_op_logical_or = {
    .name = "logical_or",
    .value = "y = a or b",
    .gradient = "none",
    .n_inputs = 2,
    .shape = logical_shape,
    .forward = logical_or_forward,
    .not_differentiable = no_gradient,
    .samples = binary_samples,
};

th_tensor *(th_logical_or)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_logical_or, NULL, a, b);
}

static void logical_not_forward(const th_call *c)
{
    th_elementwise(c->ctx, th_logical_not_map, NULL, &c->output[0], false, 1, (const th_array *const[]){&c->input[0]});
}

const th_op th_op_logical_not = {
    .name = "logical_not",
    .value = "y = not a",
    .gradient = "none",
    .n_inputs = 1,
    .shape = logical_shape,
    .forward = logical_not_forward,
    .not_differentiable = no_gradient,
    .samples = unary_samples,
};

th_tensor *(th_logical_not)(th_tensor *a)
{
    return th_apply(&th_op_logical_not, NULL, a);
}
