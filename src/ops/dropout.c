/* dropout: y = 0 with probability p, else x / (1 - p) (Srivastava et al. 2014). The mask depends only on the call's
 * random numbers and on the element's (row, column) in the logical shape. So nothing is saved: backward draws the same
 * mask again. th_dropout returns x itself in evaluation mode; the operation always draws. */
#include "ops/shared/drop.h"
#include "tapehead/ops.h"

static void dropout_forward(const th_call *call)
{
    th_drop(call, &call->input[0], NULL, &call->output[0]);
}

/* y_i = x_i m_i with m_i = 0 or 1 / (1 - p):  dL/dx_i = dL/dy_i m_i */
static void dropout_backward(const th_call *call)
{
    th_drop(call, &call->output_gradient[0], NULL, &call->input_gradient[0]);
}

static const th_sample dropout_samples[] = {
    {"half", &(th_drop_attributes){0.5}, 1, {{.shape = {2, {5, 7}}}}, 0},
    {"a tenth, rows of four", &(th_drop_attributes){0.1}, 1, {{.shape = {3, {2, 5, 4}}}}, 0},
    {"a long row", &(th_drop_attributes){0.3}, 1, {{.shape = {1, {75}}}}, 0},
    {"nothing dropped", &(th_drop_attributes){0}, 1, {{.shape = {2, {3, 3}}}}, 0},
    {"scalar", &(th_drop_attributes){0.2}, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", &(th_drop_attributes){0.5}, 1, {{.shape = {2, {3, 0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_dropout = {
    .name = "dropout",
    .value = "y = x * m, m = 0 with probability p, else 1 / (1 - p)",
    .gradient = "dx = dy * m",
    .n_inputs = 1,
    .attributes_size = sizeof(th_drop_attributes),
    .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_RECOMPUTE | TH_OP_IN_PLACE,
    .shape = th_drop_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .samples = dropout_samples,
};

th_tensor *th_dropout(th_tensor *x, double p)
{
    return th_drops_nothing(x, p, "dropout") ? x : th_apply(&th_op_dropout, &(th_drop_attributes){p}, x);
}
