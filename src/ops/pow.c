/* pow: y = a^b, broadcast, as C's pow.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void pow_forward(const th_call *c)
{
    TH_MAP(c, pow, NULL, &c->output[0], false, &c->input[0], &c->input[1]);
}

/* dL/da = dL/dy * b a^(b - 1), 0 where b = 0;   dL/db = dL/dy * a^b ln a = dL/dy * y ln a, 0 where a = 0 and b >= 0 */
static void pow_backward(const th_call *c)
{
    if (c->input_gradient[0].given)
        TH_MAP(c, pow_backward_base, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0],
               &c->input[1]);
    if (c->input_gradient[1].given)
        TH_MAP(c, pow_backward_exponent, NULL, &c->input_gradient[1], c->add[1], &c->output_gradient[0], &c->input[0],
               &c->input[1], &c->output[0]);
}

static const th_sample pow_samples[] = {
    {"same shapes",
     NULL,
     2,
     {{.shape = {2, {3, 4}}, .low = 0.3, .high = 2}, {.shape = {2, {3, 4}}, .low = -2, .high = 2}},
     0},
    {"row", NULL, 2, {{.shape = {2, {4, 3}}, .low = 0.3, .high = 2}, {.shape = {1, {3}}, .low = -2, .high = 2}}, 0},
    {"column",
     NULL,
     2,
     {{.shape = {2, {3, 1}}, .low = 0.3, .high = 2}, {.shape = {3, {2, 3, 5}}, .low = -2, .high = 2}},
     0},
    {"both broadcast",
     NULL,
     2,
     {{.shape = {2, {4, 1}}, .low = 0.3, .high = 2}, {.shape = {2, {1, 3}}, .low = -2, .high = 2}},
     0},
    {"scalars", NULL, 2, {{.shape = {0, {0}}, .low = 0.3, .high = 2}, {.shape = {0, {0}}, .low = -2, .high = 2}}, 0},
    {.name = NULL},
};

const th_op th_op_pow = {
    .name = "pow",
    .value = "y = a^b",
    .gradient = "da = dy * b * a^(b - 1); db = dy * y * log(a)",
    .n_inputs = 2,
    .flags = TH_OP_BROADCASTS | TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves_for = {TH_SAVE_INPUT(0) | TH_SAVE_INPUT(1), TH_SAVE_INPUT(0) | TH_SAVE_INPUT(1) | TH_SAVE_OUTPUT(0)},
    .shape = th_shape_elementwise,
    .forward = pow_forward,
    .backward = pow_backward,
    .samples = pow_samples,
};

th_tensor *(th_pow)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_pow, NULL, a, b);
}
