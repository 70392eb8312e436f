/* log_softmax: y_i = x_i - log sum_j exp(x_j) along one axis, computed relative to the largest x.
 * This file: shape rule, value, gradient, samples. It does not record, allocate, broadcast or check anything else. */
#include "ops/shared/rows.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct log_softmax_attributes {
    int axis;
} log_softmax_attributes;

static th_status log_softmax_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    log_softmax_attributes *attributes = th_call_attributes(c);
    th_status status = th_call_floating(c, 0);
    if (!status)
        status = th_call_axis(c, &attributes->axis, x->ndim);
    if (!status)
        th_call_output(c, 0, x->dtype, x->ndim, x->size, x->axes);
    return status;
}

static void forward_rows(const th_call *c, th_rows *rows)
{
    const log_softmax_attributes *attributes = c->attributes;
    th_rows_init(rows, &c->input[0], 1u << attributes->axis);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add(rows, &c->output[0], TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->log_softmax(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1]);
}

static void log_softmax_forward(const th_call *c)
{
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 8, c->scratch, forward_body, (void *)c);
}

static void backward_rows(const th_call *c, th_rows *rows)
{
    const log_softmax_attributes *attributes = c->attributes;
    th_rows_init(rows, &c->output[0], 1u << attributes->axis);
    th_rows_add(rows, &c->output[0], TH_ROWS_READ);
    th_rows_add(rows, &c->output_gradient[0], TH_ROWS_READ);
    th_rows_add(rows, &c->input_gradient[0], c->add[0] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void backward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->log_softmax_backward(b->count, b->length, b->operand[0], b->stride[0], b->operand[1],
                                             b->stride[1], b->operand[2], b->stride[2], c->add[0]);
}

/* dL/dx_i = sum_j dL/dy_j dy_j/dx_i,   dy_j/dx_i = 1[i=j] - exp(y_i)   (exp(y) is the softmax)
 *         = dL/dy_i - exp(y_i) sum_j dL/dy_j        one sum per row, then one pass */
static void log_softmax_backward(const th_call *c)
{
    th_rows rows;
    backward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 8, c->scratch, backward_body, (void *)c);
}

static size_t log_softmax_scratch(const th_call *c, bool backward)
{
    th_rows rows;
    if (backward)
        backward_rows(c, &rows);
    else
        forward_rows(c, &rows);
    return th_rows_scratch(c->ctx, &rows);
}

static const log_softmax_attributes last = {-1}, first = {0}, middle = {1};

static const th_sample log_softmax_samples[] = {
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"middle axis", &middle, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"vector", &last, 1, {{.shape = {1, {7}}, .low = -3, .high = 3}}, 0},
    {"one element", &last, 1, {{.shape = {2, {2, 1}}}}, 0},
    {"large numbers", &last, 1, {{.shape = {2, {2, 3}}, .low = 999, .high = 1001}}, 0},
    {"nothing", &last, 1, {{.shape = {2, {0, 3}}}}, 0},
    {0},
};

const th_op th_op_log_softmax = {
    .name = "log_softmax",
    .value = "y_i = x_i - log sum_j exp(x_j)",
    .gradient = "dx = dy - exp(y) * sum(dy)",
    .n_inputs = 1,
    .attributes_size = sizeof(log_softmax_attributes),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = log_softmax_shape,
    .forward = log_softmax_forward,
    .backward = log_softmax_backward,
    .scratch = log_softmax_scratch,
    .samples = log_softmax_samples,
};

th_tensor *(th_log_softmax)(th_tensor *x, int axis)
{
    return th_apply(&th_op_log_softmax, &(log_softmax_attributes){axis}, x);
}
