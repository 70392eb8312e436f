/* exp: y = e^x.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void exp_forward(const th_call *c)
{
    TH_MAP(c, exp, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * e^x = dL/dy * y */
static void exp_backward(const th_call *c)
{
    TH_MAP(c, mul, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample exp_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -2, .high = 2}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -2, .high = 2}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -2, .high = 2}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -2, .high = 2}}, 0},
    {.name = NULL},
};

const th_op th_op_exp = {
    .name = "exp",
    .value = "y = exp(x)",
    .gradient = "dx = dy * y",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = exp_forward,
    .backward = exp_backward,
    .samples = exp_samples,
};

th_tensor *(th_exp)(th_tensor *x)
{
    return th_apply(&th_op_exp, NULL, x);
}
