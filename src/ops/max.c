/* max: y = the largest x over a set of axes; NaN wins.
 * This file: shape rule, value, gradient, samples. */
#include "ops/shared/reduction.h"
#include "ops/shared/rows.h"
#include "tensor/elementwise.h"

static th_status max_shape(th_call *c)
{
    const th_status status = th_reduction_shape(c);
    if (status)
        return status;
    if (th_reduction_count(c) == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "nothing has no largest element: x is %s", TH_TEXT(&c->input[0]));
    return TH_OK;
}

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
    th_call_kernels(c)->row_max(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1]);
}

static void max_forward(const th_call *c)
{
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 1, c->scratch, forward_body, (void *)c);
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
    th_call_kernels(c)->row_max_backward(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1],
                                         b->operand[2], b->stride[2], b->operand[3], b->stride[3], c->add[0]);
}

/* dy/dx_j = 1/k for each of the k elements with x_j = y (a subgradient that treats ties alike), else 0:
 * dL/dx_j = dL/dy / k where x_j = y        one pass counts k, one writes. Where y is NaN, the NaN elements are those
 * that count. */
static void max_backward(const th_call *c)
{
    th_rows rows;
    backward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 2, c->scratch, backward_body, (void *)c);
}

static size_t max_scratch(const th_call *c, bool backward)
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

static const th_sample max_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"last axis, kept", &last_kept, 1, {{.shape = {2, {3, 19}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"two axes", &outer, 1, {{.shape = {3, {2, 3, 5}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {0},
};

const th_op th_op_max = {
    .name = "max",
    .value = "y = max_j x_j",
    .gradient = "dx_j = dy / k where x_j = y (k of them), else 0",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_SAVE_INPUT(0) | TH_SAVE_OUTPUT(0),
    .shape = max_shape,
    .forward = max_forward,
    .backward = max_backward,
    .scratch = max_scratch,
    .samples = max_samples,
};

th_tensor *(th_max)(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduction reduction = th_reduction_of(axes, options);
    return th_apply(&th_op_max, &reduction, x);
}
