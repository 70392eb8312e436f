/* neg: y = -x.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void neg_forward(const th_call *c)
{
    TH_MAP(c, neg, NULL, &c->output[0], false, &c->input[0]);
}

/* dL/dx = -dL/dy */
static void neg_backward(const th_call *c)
{
    TH_MAP(c, neg, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0]);
}

static const th_sample neg_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 4}}}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 7}}}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", NULL, 1, {{.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_neg = {
    .name = "neg",
    .value = "y = -x",
    .gradient = "dx = -dy",
    .n_inputs = 1,
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .shape = th_shape_elementwise,
    .forward = neg_forward,
    .backward = neg_backward,
    .samples = neg_samples,
};

th_tensor *(th_neg)(th_tensor *x)
{
    return th_apply(&th_op_neg, NULL, x);
}
