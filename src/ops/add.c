/* add: y = a + b, broadcast. Both gradients are handed on.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void add_forward(const th_call *c)
{
    TH_MAP(c, add, NULL, &c->output[0], false, &c->input[0], &c->input[1]);
}

static const th_sample add_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"row", NULL, 2, {{.shape = {2, {4, 3}}}, {.shape = {1, {3}}}}, 0},
    {"column", NULL, 2, {{.shape = {2, {3, 1}}}, {.shape = {3, {2, 3, 5}}}}, 0},
    {"both broadcast", NULL, 2, {{.shape = {2, {4, 1}}}, {.shape = {2, {1, 3}}}}, 0},
    {"scalars", NULL, 2, {{.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_add = {
    .name = "add",
    .value = "y = a + b",
    .gradient = "da = dy; db = dy",
    .n_inputs = 2,
    .flags = TH_OP_BROADCASTS | TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .identity_gradients = 1u << 0 | 1u << 1,
    .shape = th_shape_elementwise,
    .forward = add_forward,
    .samples = add_samples,
};

th_tensor *(th_add)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_add, NULL, a, b);
}
