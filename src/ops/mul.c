/* mul: y = a * b, elementwise, broadcast.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void mul_forward(const th_call *c)
{
    TH_MAP(c, mul, NULL, &c->output[0], false, &c->input[0], &c->input[1]);
}

/* dL/da = dL/dy * b,   dL/db = dL/dy * a */
static void mul_backward(const th_call *c)
{
    if (c->input_gradient[0].given)
        TH_MAP(c, mul, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[1]);
    if (c->input_gradient[1].given)
        TH_MAP(c, mul, NULL, &c->input_gradient[1], c->add[1], &c->output_gradient[0], &c->input[0]);
}

static const th_sample mul_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"row", NULL, 2, {{.shape = {2, {4, 3}}}, {.shape = {1, {3}}}}, 0},
    {"column", NULL, 2, {{.shape = {2, {3, 1}}}, {.shape = {3, {2, 3, 5}}}}, 0},
    {"both broadcast", NULL, 2, {{.shape = {2, {4, 1}}}, {.shape = {2, {1, 3}}}}, 0},
    {"scalars", NULL, 2, {{.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_mul = {
    .name = "mul",
    .value = "y = a * b",
    .gradient = "da = dy * b; db = dy * a",
    .n_inputs = 2,
    .flags = TH_OP_BROADCASTS | TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves_for = {TH_SAVE_INPUT(1), TH_SAVE_INPUT(0)},
    .shape = th_shape_elementwise,
    .forward = mul_forward,
    .backward = mul_backward,
    .samples = mul_samples,
};

th_tensor *(th_mul)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_mul, NULL, a, b);
}
