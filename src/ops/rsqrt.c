/* rsqrt: y = 1 / sqrt(x).
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void rsqrt_forward(const th_call *c)
{
    TH_MAP(c, rsqrt, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * -x^(-3/2) / 2 = -dL/dy * y³ / 2 */
static void rsqrt_backward(const th_call *c)
{
    TH_MAP(c, rsqrt_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->output[0]);
}

static const th_sample rsqrt_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = 0.2, .high = 4}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = 0.2, .high = 4}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = 0.2, .high = 4}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = 0.2, .high = 4}}, 0},
    {.name = NULL},
};

const th_op th_op_rsqrt = {
    .name = "rsqrt",
    .value = "y = 1 / sqrt(x)",
    .gradient = "dx = -dy * y³ / 2",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = th_shape_elementwise,
    .forward = rsqrt_forward,
    .backward = rsqrt_backward,
    .samples = rsqrt_samples,
};

th_tensor *(th_rsqrt)(th_tensor *x)
{
    return th_apply(&th_op_rsqrt, NULL, x);
}
