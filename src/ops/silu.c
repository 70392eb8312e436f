/* silu: y = x sigmoid(x).
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void silu_forward(const th_call *c)
{
    TH_MAP(c, silu, NULL, &c->output[0], false, &c->input[0]);
}

/* s = sigmoid(x), ds/dx = s (1 - s):  dL/dx = dL/dy * (s + x s (1 - s)) */
static void silu_backward(const th_call *c)
{
    TH_MAP(c, silu_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample silu_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -4, .high = 4}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -4, .high = 4}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -4, .high = 4}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -4, .high = 4}}, 0},
    {.name = NULL},
};

const th_op th_op_silu = {
    .name = "silu",
    .value = "y = x * sigmoid(x)",
    .gradient = "dx = dy * (s + x * s * (1 - s)), s = sigmoid(x)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_RECOMPUTE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = silu_forward,
    .backward = silu_backward,
    .samples = silu_samples,
};

th_tensor *(th_silu)(th_tensor *x)
{
    return th_apply(&th_op_silu, NULL, x);
}
