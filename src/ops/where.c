/* where: y = a where the condition holds, else b; all three broadcast.
 * This file: shape rule, value, gradient, samples. */
#include "ops/shared/broadcast.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

enum { CONDITION, A, B };

static th_status where_shape(th_call *c)
{
    th_status status = th_call_bool(c, CONDITION);
    if (!status)
        status = th_call_floating(c, A);
    if (!status)
        status = th_call_floating(c, B);
    if (!status)
        status = th_call_same_type(c);
    return status ? status : th_broadcast_inputs(c, c->input[A].dtype);
}

static void where_forward(const th_call *c)
{
    TH_MAP(c, where, NULL, &c->output[0], false, &c->input[CONDITION], &c->input[A], &c->input[B]);
}

/* dL/da = dL/dy where the condition holds, else 0;   dL/db the other way round */
static void where_backward(const th_call *c)
{
    if (c->input_gradient[A].given)
        TH_MAP(c, hide, NULL, &c->input_gradient[A], c->add[A], &c->output_gradient[0], &c->input[CONDITION]);
    if (c->input_gradient[B].given)
        TH_MAP(c, keep_unless, NULL, &c->input_gradient[B], c->add[B], &c->output_gradient[0], &c->input[CONDITION]);
}

#define BOOL .kind = TH_SAMPLE_BOOL

static const th_sample where_samples[] = {
    {"same shapes", NULL, 3, {{.shape = {2, {3, 4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"condition broadcast", NULL, 3, {{.shape = {1, {4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"values broadcast", NULL, 3, {{.shape = {2, {3, 4}}, BOOL}, {.shape = {0, {0}}}, {.shape = {2, {3, 1}}}}, 0},
    {"one value constant",
     NULL,
     3,
     {{.shape = {2, {3, 4}}, BOOL}, {.shape = {2, {3, 4}}}, {.shape = {0, {0}}, .constant = true}},
     0},
    {.name = NULL},
};

const th_op th_op_where = {
    .name = "where",
    .value = "y = condition ? a : b",
    .gradient = "da = condition ? dy : 0; db = condition ? 0 : dy",
    .n_inputs = 3,
    .flags = TH_OP_BROADCASTS | TH_OP_IN_PLACE,
    .saves = TH_SAVE_INPUT(CONDITION),
    .shape = where_shape,
    .forward = where_forward,
    .backward = where_backward,
    .samples = where_samples,
};

th_tensor *(th_where)(th_tensor *condition, th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_where, NULL, condition, a, b);
}
