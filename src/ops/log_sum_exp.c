/* log_sum_exp: y = log sum_j exp(x_j) over a set of axes, computed around the largest x_j; of nothing, or of -inf
 * alone: -inf. This file: value, gradient, samples; the shape rule is every reduction's. */
#include "ops/shared/reduction.h"
#include "ops/shared/rows.h"
#include "tensor/elementwise.h"

static void forward_rows(const th_call *c, th_rows *rows)
{
    const th_reduction *reduction = c->attributes;
    th_rows_init(rows, &c->input[0], reduction->along);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add_values(rows, &c->output[0]);
    th_rows_finish(rows);
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->log_sum_exp(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1]);
}

static void log_sum_exp_forward(const th_call *c)
{
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 8, c->scratch, forward_body, (void *)c);
}

static void backward_rows(const th_call *c, th_rows *rows)
{
    const th_reduction *reduction = c->attributes;
    th_rows_init(rows, &c->input[0], reduction->along);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add_values(rows, &c->output[0]);
    th_rows_add_values(rows, &c->output_gradient[0]);
    th_rows_add(rows, &c->input_gradient[0], c->add[0] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void backward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->log_sum_exp_backward(b->count, b->length, b->operand[0], b->stride[0], b->operand[1],
                                             b->stride[1], b->operand[2], b->stride[2], b->operand[3], b->stride[3],
                                             c->add[0]);
}

/* dy/dx_j = exp(x_j) / sum_i exp(x_i) = exp(x_j - y), the softmax:
 * dL/dx_j = dL/dy exp(x_j - y)        one pass. A row of -inf alone has gradient 0. */
static void log_sum_exp_backward(const th_call *c)
{
    th_rows rows;
    backward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 8, c->scratch, backward_body, (void *)c);
}

static size_t log_sum_exp_scratch(const th_call *c, bool backward)
{
    th_rows rows;
    if (backward)
        backward_rows(c, &rows);
    else
        forward_rows(c, &rows);
    return th_rows_scratch(c->ctx, &rows);
}

static const th_reduction all = {.axes = {0}}, first = {.axes = {1, {0}}},
                          last_kept = {.axes = {1, {-1}}, .keep_axes = true}, outer = {.axes = {2, {0, 2}}};

static const th_sample log_sum_exp_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"last axis, kept", &last_kept, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"two axes", &outer, 1, {{.shape = {3, {2, 3, 5}}}}, 0},
    {"large numbers", &last_kept, 1, {{.shape = {2, {2, 3}}, .low = 999, .high = 1001}}, 0},
    {0},
};

const th_op th_op_log_sum_exp = {
    .name = "log_sum_exp",
    .value = "y = log sum_j exp(x_j)",
    .gradient = "dx_j = dy * exp(x_j - y)",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_SAVE_INPUT(0) | TH_SAVE_OUTPUT(0),
    .shape = th_reduction_shape,
    .forward = log_sum_exp_forward,
    .backward = log_sum_exp_backward,
    .scratch = log_sum_exp_scratch,
    .samples = log_sum_exp_samples,
};

th_tensor *(th_log_sum_exp)(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduction reduction = th_reduction_of(axes, options);
    return th_apply(&th_op_log_sum_exp, &reduction, x);
}
