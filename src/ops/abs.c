/* abs: y = |x|.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void abs_forward(const th_call *c)
{
    TH_MAP(c, abs, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * sign(x), where sign(0) = 0 */
static void abs_backward(const th_call *c)
{
    TH_MAP(c, abs_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample abs_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}, .n_kinks = 1, .kinks = {0}}}, 0},
    {.name = NULL},
};

const th_op th_op_abs = {
    .name = "abs",
    .value = "y = |x|",
    .gradient = "dx = dy * sign(x)",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = abs_forward,
    .backward = abs_backward,
    .samples = abs_samples,
};

th_tensor *(th_abs)(th_tensor *x)
{
    return th_apply(&th_op_abs, NULL, x);
}
