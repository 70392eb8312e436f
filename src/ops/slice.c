/* slice: y = x[start:stop:step] along one axis. A view. */
#include <string.h>

#include "ops/shared/attributes.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

static th_status slice_shape(th_call *call)
{
    const th_slice_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, x->ndim))
        return TH_ERROR_SHAPE;
    const int64_t length = x->size[axis], step = attributes->step;
    const int64_t start = attributes->start + (attributes->start < 0 ? length : 0);
    const int64_t stop = attributes->stop + (attributes->stop < 0 ? length : 0);
    if (step < 1)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "the step must be at least 1, not %lld", (long long)step);
    if (start < 0 || start > length || stop < 0 || stop > length)
        return th_call_fail(
            call, TH_ERROR_INDEX, "%s %lld is outside axis %d of x, %s", start < 0 || start > length ? "start" : "stop",
            (long long)(start < 0 || start > length ? attributes->start : attributes->stop), axis, TH_TEXT(x));
    if (start > stop)
        return th_call_fail(call, TH_ERROR_INDEX, "start %lld is after stop %lld on axis %d of x, %s",
                            (long long)attributes->start, (long long)attributes->stop, axis, TH_TEXT(x));
    const int64_t count = (stop - start) / step + ((stop - start) % step != 0);
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    memcpy(stride, x->stride, sizeof stride);
    size[axis] = count;
    if (count > 1) /* otherwise the stride is not used, and a very large step could overflow it */
        stride[axis] *= step;
    th_call_view(call, x->ndim, size, stride, count > 0 ? start * x->stride[axis] : 0, x->axes);
    return TH_OK;
}

static const th_sample slice_samples[] = {
    {"middle", &(th_slice_attributes){1, 1, 3, 1}, 1, {{.shape = {2, {2, 4}}}}, 0},
    {"step", &(th_slice_attributes){0, 1, 5, 2}, 1, {{.shape = {2, {5, 2}}}}, 0},
    {"from the end", &(th_slice_attributes){-1, -3, -1, 1}, 1, {{.shape = {3, {2, 2, 4}}}}, 0},
    {"empty", &(th_slice_attributes){0, 1, 1, 1}, 1, {{.shape = {1, {3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_slice = {
    .name = "slice",
    .value = "y = x[start:stop:step] along one axis",
    .gradient = "dx[start:stop:step] = dy, 0 elsewhere",
    .n_inputs = 1,
    .attributes_size = sizeof(th_slice_attributes),
    .flags = TH_OP_VIEW,
    .shape = slice_shape,
    .samples = slice_samples,
    .storage = TH_INPUT(0),
};

th_tensor *th_slice(th_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    return th_apply(&th_op_slice, (&(th_slice_attributes){axis, start, stop, step}), x);
}
