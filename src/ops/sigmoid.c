/* sigmoid: y = 1 / (1 + exp(-x)).
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void sigmoid_forward(const th_call *c)
{
    TH_MAP(c, sigmoid, NULL, &c->output[0], false, &c->input[0]);
}

/* dy/dx = exp(-x) / (1 + exp(-x))² = y (1 - y):  dL/dx = dL/dy * y (1 - y) */
static void sigmoid_backward(const th_call *c)
{
    TH_MAP(c, sigmoid_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample sigmoid_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -4, .high = 4}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -4, .high = 4}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -4, .high = 4}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -4, .high = 4}}, 0},
    {.name = NULL},
};

const th_op th_op_sigmoid = {
    .name = "sigmoid",
    .value = "y = 1 / (1 + exp(-x))",
    .gradient = "dx = dy * y * (1 - y)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
    .samples = sigmoid_samples,
};

th_tensor *(th_sigmoid)(th_tensor *x)
{
    return th_apply(&th_op_sigmoid, NULL, x);
}
