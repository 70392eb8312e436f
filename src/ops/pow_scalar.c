/* pow_scalar: y = x^exponent, a number.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct pow_scalar_attributes {
    double exponent;
} pow_scalar_attributes;

static void pow_scalar_forward(const th_call *c)
{
    TH_MAP(c, pow_scalar, c->attributes, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy * exponent * x^(exponent - 1), 0 where the exponent is 0 */
static void pow_scalar_backward(const th_call *c)
{
    TH_MAP(c, pow_scalar_backward, c->attributes, &c->input_gradient[0], c->add[0], &c->output_gradient[0],
           &c->input[0]);
}

static const th_sample pow_scalar_samples[] = {
    {"matrix", &(pow_scalar_attributes){1.7}, 1, {{.shape = {2, {3, 4}}, .low = 0.3, .high = 2}}, 0},
    {"three dimensions", &(pow_scalar_attributes){-0.5}, 1, {{.shape = {3, {2, 3, 7}}, .low = 0.3, .high = 2}}, 0},
    {"square", &(pow_scalar_attributes){2}, 1, {{.shape = {2, {3, 5}}}}, 0},
    {"cube of either sign", &(pow_scalar_attributes){3}, 1, {{.shape = {1, {6}}}}, 0},
    {"zero", &(pow_scalar_attributes){0}, 1, {{.shape = {1, {6}}}}, 0},
    {"scalar", &(pow_scalar_attributes){1.7}, 1, {{.shape = {0, {0}}, .low = 0.3, .high = 2}}, 0},
    {"nothing", &(pow_scalar_attributes){1.7}, 1, {{.shape = {2, {0, 3}}, .low = 0.3, .high = 2}}, 0},
    {.name = NULL},
};

const th_op th_op_pow_scalar = {
    .name = "pow_scalar",
    .value = "y = x^exponent",
    .gradient = "dx = dy * exponent * x^(exponent - 1)",
    .n_inputs = 1,
    .attributes_size = sizeof(pow_scalar_attributes),
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(0),
    .shape = th_shape_elementwise,
    .forward = pow_scalar_forward,
    .backward = pow_scalar_backward,
    .samples = pow_scalar_samples,
};

th_tensor *(th_pow_scalar)(th_tensor *x, double exponent)
{
    return th_apply(&th_op_pow_scalar, &(pow_scalar_attributes){exponent}, x);
}
