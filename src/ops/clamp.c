/* clamp: y = x limited to [low, high]; NaN stays NaN.
 * This file: value, gradient, samples. */
#include <math.h>

#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct clamp_attributes {
    double low, high;
} clamp_attributes;

static th_status clamp_shape(th_call *c)
{
    const clamp_attributes *attributes = c->attributes;
    if (!(attributes->low <= attributes->high))
        return th_call_fail(c, TH_ERROR_ARGUMENT, "low = %g is above high = %g, or one of them is NaN", attributes->low,
                            attributes->high);
    return th_shape_elementwise(c);
}

static void clamp_forward(const th_call *c)
{
    TH_MAP(c, clamp, c->attributes, &c->output[0], false, &c->input[0]);
}

/* dL/dx = dL/dy where low <= x <= high, else 0 */
static void clamp_backward(const th_call *c)
{
    TH_MAP(c, clamp_backward, c->attributes, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0]);
}

static const th_sample clamp_samples[] = {
    {"matrix", &(clamp_attributes){-0.4, 0.6}, 1, {{.shape = {2, {3, 4}}, .n_kinks = 2, .kinks = {-0.4, 0.6}}}, 0},
    {"three dimensions",
     &(clamp_attributes){-0.4, 0.6},
     1,
     {{.shape = {3, {2, 3, 7}}, .n_kinks = 2, .kinks = {-0.4, 0.6}}},
     0},
    {"one side", &(clamp_attributes){-INFINITY, 0.2}, 1, {{.shape = {1, {9}}, .n_kinks = 1, .kinks = {0.2}}}, 0},
    {"scalar", &(clamp_attributes){-0.4, 0.6}, 1, {{.shape = {0, {0}}, .n_kinks = 2, .kinks = {-0.4, 0.6}}}, 0},
    {"nothing", &(clamp_attributes){-0.4, 0.6}, 1, {{.shape = {2, {0, 3}}, .n_kinks = 2, .kinks = {-0.4, 0.6}}}, 0},
    {.name = NULL},
};

const th_op th_op_clamp = {
    .name = "clamp",
    .value = "y = min(max(x, low), high)",
    .gradient = "dx = dy where low <= x <= high, else 0",
    .n_inputs = 1,
    .attributes_size = sizeof(clamp_attributes),
    .flags = TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(0),
    .shape = clamp_shape,
    .forward = clamp_forward,
    .backward = clamp_backward,
    .samples = clamp_samples,
};

th_tensor *(th_clamp)(th_tensor *x, double low, double high)
{
    const clamp_attributes attributes = {low, high};
    return th_apply(&th_op_clamp, &attributes, x);
}
