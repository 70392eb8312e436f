/* softmax: y_i = exp(x_i) / sum_j exp(x_j) along one axis, computed relative to the largest x.
 * This file: shape rule, value, gradient, samples. It does not record, allocate, broadcast or check anything else. */
#include "ops/shared/rows.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct softmax_attributes {
    int axis;
} softmax_attributes;

static th_status softmax_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    softmax_attributes *attributes = th_call_attributes(c);
    th_status status = th_call_floating(c, 0);
    if (!status)
        status = th_call_axis(c, &attributes->axis, x->ndim);
    if (!status)
        th_call_output(c, 0, x->dtype, x->ndim, x->size, x->axes);
    return status;
}

static void forward_rows(const th_call *c, th_rows *rows)
{
    const softmax_attributes *attributes = c->attributes;
    th_rows_init(rows, &c->input[0], 1u << attributes->axis);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add(rows, &c->output[0], TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->softmax(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1]);
}

static void softmax_forward(const th_call *c)
{
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 8, c->scratch, forward_body, (void *)c);
}

static void backward_rows(const th_call *c, th_rows *rows)
{
    const softmax_attributes *attributes = c->attributes;
    th_rows_init(rows, &c->output[0], 1u << attributes->axis);
    th_rows_add(rows, &c->output[0], TH_ROWS_READ);
    th_rows_add(rows, &c->output_gradient[0], TH_ROWS_READ);
    th_rows_add(rows, &c->input_gradient[0], c->add[0] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void backward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->softmax_backward(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1],
                                         b->operand[2], b->stride[2], c->add[0]);
}

/* dL/dx_i = sum_j dL/dy_j dy_j/dx_i,   dy_j/dx_i = y_j (1[i=j] - y_i)
 *         = y_i (dL/dy_i - sum_j dL/dy_j y_j)        one dot product per row, then one pass */
static void softmax_backward(const th_call *c)
{
    th_rows rows;
    backward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 3, c->scratch, backward_body, (void *)c);
}

static size_t softmax_scratch(const th_call *c, bool backward)
{
    th_rows rows;
    if (backward)
        backward_rows(c, &rows);
    else
        forward_rows(c, &rows);
    return th_rows_scratch(c->ctx, &rows);
}

static const softmax_attributes last = {-1}, first = {0}, middle = {1};

static const th_sample softmax_samples[] = {
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"middle axis", &middle, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"vector", &last, 1, {{.shape = {1, {7}}, .low = -3, .high = 3}}, 0},
    {"one element", &last, 1, {{.shape = {2, {2, 1}}}}, 0},
    {"large numbers", &last, 1, {{.shape = {2, {2, 3}}, .low = 999, .high = 1001}}, 0},
    {"nothing", &last, 1, {{.shape = {2, {0, 3}}}}, 0},
    {0},
};

const th_op th_op_softmax = {
    .name = "softmax",
    .value = "y_i = exp(x_i) / sum_j exp(x_j)",
    .gradient = "dx = y * (dy - sum(dy * y))",
    .n_inputs = 1,
    .attributes_size = sizeof(softmax_attributes),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = softmax_shape,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .scratch = softmax_scratch,
    .samples = softmax_samples,
};

th_tensor *(th_softmax)(th_tensor *x, int axis)
{
    return th_apply(&th_op_softmax, &(softmax_attributes){axis}, x);
}
