/* transpose: y = x with its axes in another order. A view. th_swap_axes exchanges two axes. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/shape.h"

static th_status transpose_shape(th_call *call)
{
    const th_transpose_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    int order[TH_MAX_DIMS];
    if (attributes->swap) {
        int a = attributes->a, b = attributes->b;
        if (th_call_axis(call, &a, x->ndim) || th_call_axis(call, &b, x->ndim))
            return TH_ERROR_SHAPE;
        for (int i = 0; i < x->ndim; i++)
            order[i] = i == a ? b : i == b ? a : i;
    } else {
        if (attributes->order.ndim != x->ndim)
            return th_call_fail(call, TH_ERROR_SHAPE, "the order has %d axes, but x is %s", attributes->order.ndim,
                                TH_TEXT(x));
        bool used[TH_MAX_DIMS] = {false};
        for (int i = 0; i < x->ndim; i++) {
            const int64_t axis = attributes->order.size[i];
            if (axis < -x->ndim || axis >= x->ndim)
                return th_call_fail(call, TH_ERROR_SHAPE, "axis %lld in the order is outside [-%d, %d)",
                                    (long long)axis, x->ndim, x->ndim);
            order[i] = (int)(axis < 0 ? axis + x->ndim : axis);
            if (used[order[i]])
                return th_call_fail(call, TH_ERROR_SHAPE, "axis %d appears twice in the order %s", order[i],
                                    TH_SIZES_TEXT(attributes->order.ndim, attributes->order.size));
            used[order[i]] = true;
        }
    }
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS];
    th_axis_letters letters;
    for (int i = 0; i < x->ndim; i++) {
        size[i] = x->size[order[i]];
        stride[i] = x->stride[order[i]];
        letters[i] = th_letter(x, order[i]);
    }
    th_call_view(call, x->ndim, size, stride, 0, th_letters(letters, x->ndim));
    return TH_OK;
}

static const th_sample transpose_samples[] = {
    {"matrix", &(th_transpose_attributes){.order = {2, {1, 0}}}, 1, {{.shape = {2, {2, 3}}}}, 0},
    {"heads", &(th_transpose_attributes){.order = {4, {0, 2, 1, -1}}}, 1, {{.shape = {4, {2, 3, 2, 2}}}}, 0},
    {"cycle", &(th_transpose_attributes){.order = {3, {2, 0, 1}}}, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {"swap", &(th_transpose_attributes){.swap = true, .a = 0, .b = -1}, 1, {{.shape = {3, {2, 3, 4}}}}, 0},
    {.name = NULL},
};

const th_op th_op_transpose = {
    .name = "transpose",
    .value = "y = x with its axes in another order",
    .gradient = "dx = dy with its axes in the order of x",
    .n_inputs = 1,
    .attributes_size = sizeof(th_transpose_attributes),
    .flags = TH_OP_VIEW,
    .shape = transpose_shape,
    .samples = transpose_samples,
};

th_tensor *th_transpose(th_tensor *x, th_shape order)
{
    return th_apply(&th_op_transpose, &(th_transpose_attributes){.order = order}, x);
}

th_tensor *th_swap_axes(th_tensor *x, int axis_a, int axis_b)
{
    return th_apply(&th_op_transpose, (&(th_transpose_attributes){.swap = true, .a = axis_a, .b = axis_b}), x);
}
