/* Joining tensors, for concat and stack (join.h). */
#include "ops/shared/join.h"

#include "tensor/elementwise.h"
#include "tensor/tensor.h"

th_tensor *th_join_apply(const th_op *op, th_tensor *const *xs, int count, int axis)
{
    if (xs == NULL || count < 1) {
        th_fail_last(TH_ERROR_ARGUMENT, op->name, "at least one tensor is needed, %d given", xs ? count : 0);
        return NULL;
    }
    return th_apply_n(op, &(th_join_attributes){axis}, count, xs, NULL);
}

th_status th_join_check(th_call *call, bool new_axis)
{
    th_join_attributes *attributes = th_call_attributes(call);
    const th_array *first = &call->input[0];
    const th_status status = th_call_axis(call, &attributes->axis, first->ndim + (new_axis ? 1 : 0));
    if (status)
        return status;
    for (int n = 1; n < call->n_inputs; n++) {
        const th_array *x = &call->input[n];
        if (x->dtype != first->dtype)
            return th_call_fail(call, TH_ERROR_TYPE, "input %d is %s, input 0 is %s", n, th_dtype_name(x->dtype),
                                th_dtype_name(first->dtype));
        bool fits = x->ndim == first->ndim;
        for (int i = 0; i < first->ndim && fits; i++)
            fits = x->size[i] == first->size[i] || (i == attributes->axis && !new_axis);
        if (!fits && new_axis)
            return th_call_fail(call, TH_ERROR_SHAPE, "shapes differ: input 0 is %s, input %d is %s", TH_TEXT(first), n,
                                TH_TEXT(x));
        if (!fits)
            return th_call_fail(call, TH_ERROR_SHAPE, "sizes other than axis %d differ: input 0 is %s, input %d is %s",
                                attributes->axis, TH_TEXT(first), n, TH_TEXT(x));
    }
    return TH_OK;
}

/* Returns the slice of `joined` that belongs to x, with x's shape. It starts at *start, which then advances. */
static th_array next_slice(const th_call *call, const th_array *joined, const th_array *x, int64_t *start)
{
    const int axis = ((const th_join_attributes *)call->attributes)->axis;
    const bool new_axis = joined->ndim > x->ndim;
    const int64_t length = new_axis ? 1 : x->size[axis];
    th_array slice = *joined;
    if (length > 0)
        slice.data = (char *)joined->data + *start * joined->stride[axis] * (int64_t)th_dtype_size(joined->dtype);
    *start += length;
    slice.size[axis] = length;
    slice.ndim = x->ndim;
    for (int i = axis; new_axis && i < slice.ndim; i++) {
        slice.size[i] = joined->size[i + 1];
        slice.stride[i] = joined->stride[i + 1];
    }
    return slice;
}

void th_join_forward(const th_call *call)
{
    int64_t start = 0;
    if (th_array_numel(&call->output[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array slice = next_slice(call, &call->output[0], &call->input[n], &start);
        th_copy_array(call->ctx, &slice, &call->input[n], false);
    }
}

void th_join_backward(const th_call *call)
{
    int64_t start = 0;
    if (th_array_numel(&call->output_gradient[0]) == 0)
        return;
    for (int n = 0; n < call->n_inputs; n++) {
        const th_array slice = next_slice(call, &call->output_gradient[0], &call->input[n], &start);
        if (call->input_gradient[n].given)
            th_copy_array(call->ctx, &call->input_gradient[n], &slice, call->add[n]);
    }
}
