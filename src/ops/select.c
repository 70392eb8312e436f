/* select: y = x[index] along one axis, without this axis. A view. */
#include "ops/shared/attributes.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/shape.h"

static th_status select_shape(th_call *call)
{
    const th_select_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, x->ndim))
        return TH_ERROR_SHAPE;
    const int64_t length = x->size[axis];
    const int64_t index = attributes->index + (attributes->index < 0 ? length : 0);
    if (index < 0 || index >= length)
        return th_call_fail(call, TH_ERROR_INDEX, "index %lld is outside axis %d of x, %s",
                            (long long)attributes->index, axis, TH_TEXT(x));
    const th_array y = th_select_axes(x, ~(1u << axis));
    th_call_view(call, y.ndim, y.size, y.stride, index * x->stride[axis], y.axes);
    return TH_OK;
}

static const th_sample select_samples[] = {
    {"row", &(th_select_attributes){0, 1}, 1, {{.shape = {2, {3, 2}}}}, 0},
    {"last column", &(th_select_attributes){-1, -1}, 1, {{.shape = {3, {2, 2, 3}}}}, 0},
    {"scalar", &(th_select_attributes){0, 2}, 1, {{.shape = {1, {3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_select = {
    .name = "select",
    .value = "y = x[index] along one axis",
    .gradient = "dx[index] = dy, 0 elsewhere",
    .n_inputs = 1,
    .attributes_size = sizeof(th_select_attributes),
    .flags = TH_OP_VIEW,
    .shape = select_shape,
    .samples = select_samples,
};

th_tensor *th_select(th_tensor *x, int axis, int64_t index)
{
    return th_apply(&th_op_select, (&(th_select_attributes){axis, index}), x);
}
