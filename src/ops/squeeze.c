/* squeeze: y = x without an axis of size 1. A view. */
#include "ops/shared/attributes.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/shape.h"

static th_status squeeze_shape(th_call *call)
{
    const th_squeeze_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, x->ndim))
        return TH_ERROR_SHAPE;
    if (x->size[axis] != 1)
        return th_call_fail(call, TH_ERROR_SHAPE, "axis %d of x, %s, is not of size 1", axis, TH_TEXT(x));
    const th_array y = th_select_axes(x, ~(1u << axis));
    th_call_view(call, y.ndim, y.size, y.stride, 0, y.axes);
    return TH_OK;
}

static const th_sample squeeze_samples[] = {
    {"middle", &(th_squeeze_attributes){1}, 1, {{.shape = {3, {2, 1, 3}}}}, 0},
    {"last", &(th_squeeze_attributes){-1}, 1, {{.shape = {2, {3, 1}}}}, 0},
    {.name = NULL},
};

const th_op th_op_squeeze = {
    .name = "squeeze",
    .value = "y = x without an axis of size 1",
    .gradient = "dx = dy with that axis",
    .n_inputs = 1,
    .attributes_size = sizeof(th_squeeze_attributes),
    .flags = TH_OP_VIEW,
    .shape = squeeze_shape,
    .samples = squeeze_samples,
};

th_tensor *th_squeeze(th_tensor *x, int axis)
{
    return th_apply(&th_op_squeeze, &(th_squeeze_attributes){axis}, x);
}
