/* relu: y = x where it is positive, else 0.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void relu_forward(const th_call *c)
{
    TH_MAP(c, relu, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy where x > 0, which is where y > 0; else 0 */
static void relu_backward(const th_call *c)
{
    TH_MAP(c, relu_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample relu_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {.name = NULL},
};

const th_op th_op_relu = {
    .name = "relu",
    .value = "y = max(x, 0)",
    .gradient = "dx = dy where y > 0, else 0",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = relu_forward,
    .backward = relu_backward,
    .samples = relu_samples,
};

th_tensor *(th_relu)(th_tensor *x)
{
    return th_apply(&th_op_relu, NULL, x);
}
