/* dropout_residual: y = residual + dropout(x), the end of a residual branch. It needs one pass instead of two, and it
 * saves nothing. With th_dropout and th_add, x would be saved: backward recomputes the result of dropout from it. */
#include "ops/shared/drop.h"
#include "tapehead/ops.h"
#include "tensor/tensor.h"

enum { X, RESIDUAL };

static th_status dropout_residual_shape(th_call *call)
{
    const th_array *x = &call->input[X], *residual = &call->input[RESIDUAL];
    if (!th_same_sizes(x, residual))
        return th_call_fail(call, TH_ERROR_SHAPE, "x is %s, but the residual is %s", TH_TEXT(x), TH_TEXT(residual));
    const th_status status = th_call_same_type(call);
    return status ? status : th_drop_shape(call);
}

static void dropout_residual_forward(const th_call *call)
{
    th_drop(call, &call->input[X], &call->input[RESIDUAL], &call->output[0]);
}

/* y_i = residual_i + x_i m_i:  dL/dx_i = dL/dy_i m_i; the residual's gradient is dL/dy itself */
static void dropout_residual_backward(const th_call *call)
{
    th_drop(call, &call->output_gradient[0], NULL, &call->input_gradient[X]);
}

static th_tensor *dropout_residual_composed(const void *attributes, th_tensor *const *inputs, int n_inputs)
{
    (void)n_inputs;
    return th_add(inputs[RESIDUAL], th_dropout(inputs[X], ((const th_drop_attributes *)attributes)->p));
}

static const th_sample dropout_residual_samples[] = {
    {"half", &(th_drop_attributes){0.5}, 2, {{.shape = {2, {5, 7}}}, {.shape = {2, {5, 7}}}}, 0},
    {"rows of four", &(th_drop_attributes){0.1}, 2, {{.shape = {3, {2, 5, 4}}}, {.shape = {3, {2, 5, 4}}}}, 0},
    {"a long row", &(th_drop_attributes){0.3}, 2, {{.shape = {1, {75}}}, {.shape = {1, {75}}}}, 0},
    {"nothing dropped", &(th_drop_attributes){0}, 2, {{.shape = {2, {3, 3}}}, {.shape = {2, {3, 3}}}}, 0},
    {"scalar", &(th_drop_attributes){0.2}, 2, {{.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {"nothing", &(th_drop_attributes){0.5}, 2, {{.shape = {2, {3, 0}}}, {.shape = {2, {3, 0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_dropout_residual = {
    .name = "dropout_residual",
    .value = "y = residual + x * m, m = 0 with probability p, else 1 / (1 - p)",
    .gradient = "dx = dy * m, dresidual = dy",
    .n_inputs = 2,
    .identity_gradients = TH_INPUT(RESIDUAL),
    .attributes_size = sizeof(th_drop_attributes),
    .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_IN_PLACE,
    .shape = dropout_residual_shape,
    .forward = dropout_residual_forward,
    .backward = dropout_residual_backward,
    .composed = dropout_residual_composed,
    .samples = dropout_residual_samples,
};

th_tensor *th_dropout_residual(th_tensor *x, double p, th_tensor *residual)
{
    const th_drop_attributes attributes = {p};
    if (!th_drops_nothing(x, p, "dropout_residual"))
        return th_apply(&th_op_dropout_residual, &attributes, x, residual);
    const th_status status = th_apply_check(&th_op_dropout_residual, &attributes, 2, (th_tensor *const[]){x, residual});
    return status ? NULL : th_add(residual, x);
}
