/* concat: tensors joined along one axis. A copy of each into its part of the result, and of each part back. */
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

typedef struct concat_attributes {
    int32_t axis;
} concat_attributes;

static th_status concat_shape(th_call *call)
{
    concat_attributes *attributes = th_call_attributes(call);
    const th_array *first = &call->input[0];
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, first->ndim))
        return TH_ERROR_SHAPE;
    attributes->axis = axis;
    int64_t size[TH_MAX_DIMS];
    for (int i = 0; i < first->ndim; i++)
        size[i] = i == axis ? 0 : first->size[i];
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array *x = &call->input[n];
        if (x->dtype != first->dtype)
            return th_call_fail(call, TH_ERROR_TYPE, "input %d is %s, input 0 is %s", n, th_dtype_name(x->dtype),
                                th_dtype_name(first->dtype));
        bool fits = x->ndim == first->ndim;
        for (int i = 0; i < first->ndim && fits; i++)
            fits = i == axis || x->size[i] == size[i];
        if (!fits)
            return th_call_fail(call, TH_ERROR_SHAPE, "sizes other than axis %d differ: input 0 is %s, input %d is %s",
                                axis, TH_TEXT(first), n, TH_TEXT(x));
        if (!th_checked_add(size[axis], x->size[axis], &size[axis]))
            return th_call_fail(call, TH_ERROR_SHAPE, "the size of axis %d overflows", axis);
    }
    th_call_output(call, 0, first->dtype, first->ndim, size, first->axes);
    return TH_OK;
}

/* Takes the next `length` of the joined axis: the part of `joined` from *start. */
static th_array next_part(const th_array *joined, int axis, int64_t *start, int64_t length)
{
    th_array part = *joined;
    part.size[axis] = length;
    if (length > 0)
        part.data = (char *)joined->data + *start * joined->stride[axis] * (int64_t)th_dtype_size(joined->dtype);
    *start += length;
    return part;
}

static void concat_forward(const th_call *call)
{
    const int axis = ((const concat_attributes *)call->attributes)->axis;
    int64_t start = 0;
    if (th_array_numel(&call->output[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array part = next_part(&call->output[0], axis, &start, call->input[n].size[axis]);
        th_copy_array(call->ctx, &part, &call->input[n], false);
    }
}

/* y[start_n + i] = x_n[i]:  dx_n[i] = dy[start_n + i] */
static void concat_backward(const th_call *call)
{
    const int axis = ((const concat_attributes *)call->attributes)->axis;
    int64_t start = 0;
    if (th_array_numel(&call->output_gradient[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array part = next_part(&call->output_gradient[0], axis, &start, call->input[n].size[axis]);
        if (call->input_gradient[n].given)
            th_copy_array(call->ctx, &call->input_gradient[n], &part, call->add[n]);
    }
}

static const th_sample concat_samples[] = {
    {"rows", &(concat_attributes){0}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 3}}}}, 0},
    {"last axis, one empty",
     &(concat_attributes){-1},
     3,
     {{.shape = {2, {2, 2}}}, {.shape = {2, {2, 0}}}, {.shape = {2, {2, 1}}}},
     0},
    {"middle axis", &(concat_attributes){1}, 2, {{.shape = {3, {2, 1, 2}}}, {.shape = {3, {2, 2, 2}}}}, 0},
    {"one alone", &(concat_attributes){0}, 1, {{.shape = {1, {3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_concat = {
    .name = "concat",
    .value = "y = [x0, x1, ...] along one axis",
    .gradient = "dx_n = dy's part n",
    .n_inputs = TH_ANY_INPUTS,
    .attributes_size = sizeof(concat_attributes),
    .shape = concat_shape,
    .forward = concat_forward,
    .backward = concat_backward,
    .samples = concat_samples,
};

th_tensor *(th_concat)(th_tensor *const *xs, int count, int axis)
{
    if (xs == NULL || count < 1) {
        th_fail_last(TH_ERROR_ARGUMENT, "concat", "at least one tensor is needed, %d given", xs ? count : 0);
        return NULL;
    }
    return th_apply_n(&th_op_concat, &(concat_attributes){axis}, count, xs, NULL);
}
