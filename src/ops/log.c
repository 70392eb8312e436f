/* log: y = ln x; -inf at 0, NaN below.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void log_forward(const th_call *c)
{
    TH_MAP(c, log, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy / x */
static void log_backward(const th_call *c)
{
    TH_MAP(c, div, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample log_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .low = 0.2, .high = 4}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .low = 0.2, .high = 4}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .low = 0.2, .high = 4}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .low = 0.2, .high = 4}}, 0},
    {.name = NULL},
};

const th_op th_op_log = {
    .name = "log",
    .value = "y = log(x)",
    .gradient = "dx = dy / x",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = log_forward,
    .backward = log_backward,
    .samples = log_samples,
};

th_tensor *(th_log)(th_tensor *x)
{
    return th_apply(&th_op_log, NULL, x);
}
