/* add_scalar: y = x + number. The gradient is handed on.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct add_scalar_attributes {
    double number;
} add_scalar_attributes;

static void add_scalar_forward(const th_call *c)
{
    TH_MAP(c, add_scalar, c->attributes, &c->output[0], false, &c->input[0]);
}

static const th_sample add_scalar_samples[] = {
    {"matrix", &(add_scalar_attributes){2.5}, 1, {{.shape = {2, {3, 4}}}}, 0},
    {"three dimensions", &(add_scalar_attributes){2.5}, 1, {{.shape = {3, {2, 3, 7}}}}, 0},
    {"scalar", &(add_scalar_attributes){2.5}, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", &(add_scalar_attributes){2.5}, 1, {{.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_add_scalar = {
    .name = "add_scalar",
    .value = "y = x + number",
    .gradient = "dx = dy",
    .n_inputs = 1,
    .attributes_size = sizeof(add_scalar_attributes),
    .flags = TH_OP_ANY_LAYOUT,
    .identity_gradients = 1u << 0,
    .shape = th_shape_elementwise,
    .forward = add_scalar_forward,
    .samples = add_scalar_samples,
};

th_tensor *(th_add_scalar)(th_tensor *x, double number)
{
    return th_apply(&th_op_add_scalar, &(add_scalar_attributes){number}, x);
}
