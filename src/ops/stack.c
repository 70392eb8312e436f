/* stack: tensors of one shape as the members of a new axis. A copy of each into its place in the result, and of each
 * place back. */
#include "ops/shared/letters.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

typedef struct stack_attributes {
    int32_t axis; /* of the result */
} stack_attributes;

static th_status stack_shape(th_call *call)
{
    stack_attributes *attributes = th_call_attributes(call);
    const th_array *first = &call->input[0];
    if (first->ndim == TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "input 0, %s, has as many dimensions as a tensor can have",
                            TH_TEXT(first));
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, first->ndim + 1))
        return TH_ERROR_SHAPE;
    attributes->axis = axis;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array *x = &call->input[n];
        if (x->dtype != first->dtype)
            return th_call_fail(call, TH_ERROR_TYPE, "input %d is %s, input 0 is %s", n, th_dtype_name(x->dtype),
                                th_dtype_name(first->dtype));
        bool fits = x->ndim == first->ndim;
        for (int i = 0; i < first->ndim && fits; i++)
            fits = x->size[i] == first->size[i];
        if (!fits)
            return th_call_fail(call, TH_ERROR_SHAPE, "shapes differ: input 0 is %s, input %d is %s", TH_TEXT(first), n,
                                TH_TEXT(x));
    }
    int64_t size[TH_MAX_DIMS];
    char letters[TH_MAX_DIMS + 1];
    for (int i = 0; i <= first->ndim; i++) {
        const int from = i < axis ? i : i - 1;
        size[i] = i == axis ? call->n_inputs : first->size[from];
        letters[i] = i == axis ? ' ' : th_letter(first, from);
    }
    th_call_output(call, 0, first->dtype, first->ndim + 1, size, th_letters(letters, first->ndim + 1));
    return TH_OK;
}

/* Member n of the stacked axis, without that axis. */
static th_array member(const th_array *stacked, int axis, int n)
{
    th_array one = *stacked;
    one.ndim = stacked->ndim - 1;
    one.data = (char *)stacked->data + n * stacked->stride[axis] * (int64_t)th_dtype_size(stacked->dtype);
    for (int i = axis; i < one.ndim; i++) {
        one.size[i] = stacked->size[i + 1];
        one.stride[i] = stacked->stride[i + 1];
    }
    return one;
}

static void stack_forward(const th_call *call)
{
    const int axis = ((const stack_attributes *)call->attributes)->axis;
    if (th_array_numel(&call->output[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array place = member(&call->output[0], axis, n);
        th_copy_array(call->ctx, &place, &call->input[n], false);
    }
}

/* y[n] = x_n:  dx_n = dy[n] */
static void stack_backward(const th_call *call)
{
    const int axis = ((const stack_attributes *)call->attributes)->axis;
    if (th_array_numel(&call->output_gradient[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        if (!call->input_gradient[n].given)
            continue;
        const th_array place = member(&call->output_gradient[0], axis, n);
        th_copy_array(call->ctx, &call->input_gradient[n], &place, call->add[n]);
    }
}

static const th_sample stack_samples[] = {
    {"first axis", &(stack_attributes){0}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 3}}}}, 0},
    {"middle axis",
     &(stack_attributes){1},
     3,
     {{.shape = {2, {2, 2}}}, {.shape = {2, {2, 2}}}, {.shape = {2, {2, 2}}}},
     0},
    {"last axis", &(stack_attributes){-1}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 3}}}}, 0},
    {"scalars", &(stack_attributes){0}, 3, {{.shape = {0, {0}}}, {.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_stack = {
    .name = "stack",
    .value = "y[n] = x_n along a new axis",
    .gradient = "dx_n = dy[n]",
    .n_inputs = TH_ANY_INPUTS,
    .attributes_size = sizeof(stack_attributes),
    .shape = stack_shape,
    .forward = stack_forward,
    .backward = stack_backward,
    .samples = stack_samples,
};

th_tensor *(th_stack)(th_tensor *const *xs, int count, int axis)
{
    if (xs == NULL || count < 1) {
        th_fail_last(TH_ERROR_ARGUMENT, "stack", "at least one tensor is needed, %d given", xs ? count : 0);
        return NULL;
    }
    return th_apply_n(&th_op_stack, &(stack_attributes){axis}, count, xs, NULL);
}
