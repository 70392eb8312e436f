/* gelu: y = x Φ(x), Φ the standard normal distribution's cumulative function (Hendrycks & Gimpel 2016).
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void gelu_forward(const th_call *c)
{
    TH_MAP(c, gelu, NULL, &c->output[0], false, &c->input[0]);
}

/* d(x Φ(x))/dx = Φ(x) + x φ(x), φ(x) = exp(-x²/2) / sqrt(2π):  dL/dx = dL/dy * (Φ(x) + x φ(x)) */
static void gelu_backward(const th_call *c)
{
    TH_MAP(c, gelu_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample gelu_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -3, .high = 3}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -3, .high = 3}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -3, .high = 3}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -3, .high = 3}}, 0},
    {.name = NULL},
};

const th_op th_op_gelu = {
    .name = "gelu",
    .value = "y = x * Φ(x)",
    .gradient = "dx = dy * (Φ(x) + x * φ(x))",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE | TH_OP_RECOMPUTE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = gelu_forward,
    .backward = gelu_backward,
    .samples = gelu_samples,
};

th_tensor *(th_gelu)(th_tensor *x)
{
    return th_apply(&th_op_gelu, NULL, x);
}
