/* cos: y = cos x, radians.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void cos_forward(const th_call *c)
{
    TH_MAP(c, cos, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = -dL/dy * sin x */
static void cos_backward(const th_call *c)
{
    TH_MAP(c, cos_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample cos_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = -6, .high = 6}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = -6, .high = 6}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = -6, .high = 6}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = -6, .high = 6}}, 0},
    {.name = NULL},
};

const th_op th_op_cos = {
    .name = "cos",
    .value = "y = cos(x)",
    .gradient = "dx = -dy * sin(x)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = cos_forward,
    .backward = cos_backward,
    .samples = cos_samples,
};

th_tensor *(th_cos)(th_tensor *x)
{
    return th_apply(&th_op_cos, NULL, x);
}
