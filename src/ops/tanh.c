/* tanh: y = the hyperbolic tangent of x.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void tanh_forward(const th_call *c)
{
    TH_MAP(c, tanh, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * (1 - tanh² x) = dL/dy * (1 - y²) */
static void tanh_backward(const th_call *c)
{
    TH_MAP(c, tanh_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample tanh_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -2, .high = 2}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -2, .high = 2}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -2, .high = 2}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -2, .high = 2}}, 0},
    {.name = NULL},
};

const th_op th_op_tanh = {
    .name = "tanh",
    .value = "y = tanh(x)",
    .gradient = "dx = dy * (1 - y²)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = tanh_forward,
    .backward = tanh_backward,
    .samples = tanh_samples,
};

th_tensor *(th_tanh)(th_tensor *x)
{
    return th_apply(&th_op_tanh, NULL, x);
}
