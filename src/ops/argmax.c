/* argmax: the index of the largest x along one axis: the first of equals; NaN wins. int64.
 * This file: shape rule, value, samples. It has no gradient. */
#include "ops/shared/letters.h"
#include "ops/shared/rows.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

typedef struct argmax_attributes {
    int axis;
} argmax_attributes;

static th_status argmax_shape(th_call *c)
{
    const th_array *x = &c->input[0];
    argmax_attributes *attributes = th_call_attributes(c);
    th_status status = th_call_floating(c, 0);
    if (!status)
        status = th_call_axis(c, &attributes->axis, x->ndim);
    if (status)
        return status;
    if (x->size[attributes->axis] == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "nothing has no largest element: x is %s", TH_TEXT(x));
    int ndim = 0;
    int64_t size[TH_MAX_DIMS];
    char letters[TH_MAX_DIMS + 1];
    for (int i = 0; i < x->ndim; i++) {
        if (i == attributes->axis)
            continue;
        letters[ndim] = th_letter(x, i);
        size[ndim++] = x->size[i];
    }
    th_call_output(c, 0, TH_INT64, ndim, size, th_letters(letters, ndim));
    return TH_OK;
}

static void argmax_rows(const th_call *c, th_rows *rows)
{
    const argmax_attributes *attributes = c->attributes;
    th_rows_init(rows, &c->input[0], 1u << attributes->axis);
    th_rows_add(rows, &c->input[0], TH_ROWS_READ);
    th_rows_add_values(rows, &c->output[0]);
    th_rows_finish(rows);
}

static void argmax_body(void *shared, const th_rows_block *b)
{
    const th_call *c = shared;
    th_call_kernels(c)->row_argmax(b->count, b->length, b->operand[0], b->stride[0], b->operand[1], b->stride[1]);
}

static void argmax_forward(const th_call *c)
{
    th_rows rows;
    argmax_rows(c, &rows);
    th_rows_run(c->ctx, &rows, 2, c->scratch, argmax_body, (void *)c);
}

static size_t argmax_scratch(const th_call *c, bool backward)
{
    (void)backward;
    th_rows rows;
    argmax_rows(c, &rows);
    return th_rows_scratch(c->ctx, &rows);
}

static const argmax_attributes last = {-1}, first = {0};

static const th_sample argmax_samples[] = {
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"first axis", &first, 1, {{.shape = {3, {4, 2, 3}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {0},
};

const th_op th_op_argmax = {
    .name = "argmax",
    .value = "y = the first j with x_j = max x",
    .n_inputs = 1,
    .attributes_size = sizeof(argmax_attributes),
    .shape = argmax_shape,
    .forward = argmax_forward,
    .scratch = argmax_scratch,
    .not_differentiable = "its values are indices",
    .samples = argmax_samples,
};

th_tensor *(th_argmax)(th_tensor *x, int axis)
{
    return th_apply(&th_op_argmax, &(argmax_attributes){axis}, x);
}
