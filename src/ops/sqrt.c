/* sqrt: y = the square root of x.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void sqrt_forward(const th_call *c)
{
    TH_MAP(c, sqrt, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy / (2 sqrt(x)) = dL/dy / (2 y), infinite at 0 */
static void sqrt_backward(const th_call *c)
{
    TH_MAP(c, sqrt_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample sqrt_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = 0.2, .high = 4}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = 0.2, .high = 4}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = 0.2, .high = 4}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = 0.2, .high = 4}}, 0},
    {.name = NULL},
};

const th_op th_op_sqrt = {
    .name = "sqrt",
    .value = "y = sqrt(x)",
    .gradient = "dx = dy / (2 y)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = sqrt_forward,
    .backward = sqrt_backward,
    .samples = sqrt_samples,
};

th_tensor *(th_sqrt)(th_tensor *x)
{
    return th_apply(&th_op_sqrt, NULL, x);
}
