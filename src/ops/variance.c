/* variance: y = sum_j (x_j - m)² / (n - correction) over a set of axes, m the mean.
 * This file: value, gradient, samples; the shape rule is every reduction's. */
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

/* n - correction, as it divides: not negative (then the result is infinite, or NaN of equal numbers, as NumPy's). */
static double divisor(const th_call *c)
{
    const th_reduction *reduction = c->attributes;
    const double rest = (double)th_reduction_count(c) - reduction->correction;
    return rest > 0 ? rest : 0;
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->row_variance(b->count, b->length, divisor(c), b->operand[0], b->stride[0], b->operand[1],
                                     b->stride[1]);
}

static void variance_forward(const th_call *c)
{
    th_rows rows;
    forward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 2, c->scratch, forward_body, (void *)c);
}

static void backward_rows(const th_call *c, th_rows *rows)
{
    const th_reduction *reduction = c->attributes;
    th_rows_init(rows, &c->input[0], reduction->along);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add_values(rows, &c->output_gradient[0]);
    th_rows_add(rows, &c->input_gradient[0], c->add[0] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(rows);
}

static void backward_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->row_variance_backward(b->count, b->length, divisor(c), b->operand[0], b->stride[0],
                                              b->operand[1], b->stride[1], b->operand[2], b->stride[2], c->add[0]);
}

/* dL/dx_i = dL/dy sum_j 2 (x_j - m) (1[i=j] - 1/n) / (n - correction),   and sum_j (x_j - m) = 0
 *         = dL/dy 2 (x_i - m) / (n - correction)        the mean of the row again, then one pass */
static void variance_backward(const th_call *c)
{
    th_rows rows;
    backward_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 2, c->scratch, backward_body, (void *)c);
}

static size_t variance_scratch(const th_call *c, bool backward)
{
    th_rows rows;
    if (backward)
        backward_rows(c, &rows);
    else
        forward_rows(c, &rows);
    return th_rows_scratch(c->ctx, &rows);
}

static const th_reduction all = {.axes = {0}}, corrected = {.axes = {1, {-1}}, .correction = 1},
                          first = {.axes = {1, {0}}},
                          outer_kept = {.axes = {2, {0, 2}}, .keep_axes = true, .correction = 1},
                          middle = {.axes = {1, {1}}};

static const th_sample variance_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {"last axis, corrected", &corrected, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"two axes, corrected and kept", &outer_kept, 1, {{.shape = {3, {2, 3, 5}}}}, 0},
    {"middle axis", &middle, 1, {{.shape = {3, {2, 4, 3}}, .low = 2, .high = 4}}, 0},
    {0},
};

const th_op th_op_variance = {
    .name = "variance",
    .value = "y = sum_j (x_j - mean(x))² / (n - correction)",
    .gradient = "dx_j = dy * 2 (x_j - mean(x)) / (n - correction)",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reduction),
    .saves = TH_SAVE_INPUT(0),
    .shape = th_reduction_shape,
    .forward = variance_forward,
    .backward = variance_backward,
    .scratch = variance_scratch,
    .samples = variance_samples,
};

th_tensor *(th_variance)(th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduction reduction = th_reduction_of(axes, options);
    return th_apply(&th_op_variance, &reduction, x);
}
