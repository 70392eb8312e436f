/* minimum: y = the smaller of a and b, broadcast; NaN wins.
 * This file: value, gradient, samples. */
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

static void minimum_forward(const th_call *c)
{
    TH_MAP(c, minimum, NULL, &c->output[0], false, &c->input[0], &c->input[1]);
}

/* dL/da = dL/dy where a < b, dL/dy / 2 where a = b (a subgradient that treats both alike), else 0;
 * dL/db is the same with a and b exchanged */
static void minimum_backward(const th_call *c)
{
    if (c->input_gradient[0].given)
        TH_MAP(c, minimum_backward, NULL, &c->input_gradient[0], c->add[0], &c->output_gradient[0], &c->input[0],
               &c->input[1]);
    if (c->input_gradient[1].given)
        TH_MAP(c, minimum_backward, NULL, &c->input_gradient[1], c->add[1], &c->output_gradient[0], &c->input[1],
               &c->input[0]);
}

static const th_sample minimum_samples[] = {
    {"same shapes",
     NULL,
     2,
     {{.shape = {2, {3, 4}}, .n_kinks = 1, .kinks = {0}, .clearance = 0.5},
      {.shape = {2, {3, 4}}, .low = -0.4, .high = 0.4}},
     0},
    {"row",
     NULL,
     2,
     {{.shape = {2, {4, 3}}, .n_kinks = 1, .kinks = {0}, .clearance = 0.5},
      {.shape = {1, {3}}, .low = -0.4, .high = 0.4}},
     0},
    {"column",
     NULL,
     2,
     {{.shape = {2, {3, 1}}, .n_kinks = 1, .kinks = {0}, .clearance = 0.5},
      {.shape = {3, {2, 3, 5}}, .low = -0.4, .high = 0.4}},
     0},
    {"both broadcast",
     NULL,
     2,
     {{.shape = {2, {4, 1}}, .n_kinks = 1, .kinks = {0}, .clearance = 0.5},
      {.shape = {2, {1, 3}}, .low = -0.4, .high = 0.4}},
     0},
    {"scalars",
     NULL,
     2,
     {{.shape = {0, {0}}, .n_kinks = 1, .kinks = {0}, .clearance = 0.5}, {.shape = {0, {0}}, .low = -0.4, .high = 0.4}},
     0},
    {.name = NULL},
};

const th_op th_op_minimum = {
    .name = "minimum",
    .value = "y = min(a, b)",
    .gradient = "da = dy where a < b, dy / 2 where a = b, else 0; db likewise",
    .n_inputs = 2,
    .flags = TH_OP_BROADCASTS | TH_OP_ANY_LAYOUT | TH_OP_IN_PLACE,
    .saves_for = {TH_SAVE_INPUT(0) | TH_SAVE_INPUT(1), TH_SAVE_INPUT(0) | TH_SAVE_INPUT(1)},
    .shape = th_shape_elementwise,
    .forward = minimum_forward,
    .backward = minimum_backward,
    .samples = minimum_samples,
};

th_tensor *(th_minimum)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_minimum, NULL, a, b);
}
