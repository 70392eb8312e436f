/* gelu_tanh: y = x/2 (1 + tanh u), u = sqrt(2/π) (x + 0.044715 x³), computed as x sigmoid(2u).
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void gelu_tanh_forward(const th_call *c)
{
    TH_MAP(c, gelu_tanh, NULL, &c->output[0], false, &c->input[0]);
}

/* (1 + tanh u) / 2 = sigmoid(2u) = s, ds/dx = s (1 - s) 2u', 2u' = 2 sqrt(2/π) (1 + 3 * 0.044715 x²):
 * dL/dx = dL/dy * (s + x s (1 - s) 2u') */
static void gelu_tanh_backward(const th_call *c)
{
    TH_MAP(c, gelu_tanh_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample gelu_tanh_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -3, .high = 3}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -3, .high = 3}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -3, .high = 3}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -3, .high = 3}}, 0},
    {.name = NULL},
};

const th_op th_op_gelu_tanh = {
    .name = "gelu_tanh",
    .value = "y = x / 2 * (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))",
    .gradient = "dx = dy * (s + x * s * (1 - s) * 2u'), s = sigmoid(2u)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_RECOMPUTE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = gelu_tanh_forward,
    .backward = gelu_tanh_backward,
    .samples = gelu_tanh_samples,
};

th_tensor *(th_gelu_tanh)(th_tensor *x)
{
    return th_apply(&th_op_gelu_tanh, NULL, x);
}
