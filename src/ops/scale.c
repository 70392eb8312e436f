/* scale: y = x * factor, a number.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct scale_attributes {
    double factor;
} scale_attributes;

static void scale_forward(const th_call *c)
{
    TH_MAP(c, scale, c->attributes, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * factor */
static void scale_backward(const th_call *c)
{
    TH_MAP(c, scale, c->attributes, &c->input_gradient[0], c->add[0], &c->output_gradient[0]);
}

static const th_sample scale_samples[] = {
    {"matrix", &(scale_attributes){2.5}, 1, {{.shape = {2, {3, 4}}}}, 0},
    {"three dimensions", &(scale_attributes){-0.3}, 1, {{.shape = {3, {2, 3, 7}}}}, 0},
    {"scalar", &(scale_attributes){2.5}, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", &(scale_attributes){2.5}, 1, {{.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_scale = {
    .name = "scale",
    .value = "y = x * factor",
    .gradient = "dx = dy * factor",
    .n_inputs = 1,
    .attributes_size = sizeof(scale_attributes),
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .shape = th_shape_elementwise,
    .forward = scale_forward,
    .backward = scale_backward,
    .samples = scale_samples,
};

th_tensor *(th_scale)(th_tensor *x, double factor)
{
    return th_apply(&th_op_scale, &(scale_attributes){factor}, x);
}
