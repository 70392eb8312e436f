/* unsqueeze: y = x with an additional axis of size 1. A view. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"

static th_status unsqueeze_shape(th_call *call)
{
    const th_unsqueeze_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    if (x->ndim == TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "x, %s, has as many dimensions as a tensor can have", TH_TEXT(x));
    int axis = attributes->axis;
    if (th_call_axis(call, &axis, x->ndim + 1))
        return TH_ERROR_SHAPE;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS];
    th_axis_letters letters;
    for (int i = 0; i <= x->ndim; i++) {
        const int from = i < axis ? i : i - 1;
        size[i] = i == axis ? 1 : x->size[from];
        stride[i] = i == axis ? 1 : x->stride[from];
        letters[i] = i == axis ? ' ' : th_letter(x, from);
    }
    th_call_view(call, x->ndim + 1, size, stride, 0, th_letters(letters, x->ndim + 1));
    return TH_OK;
}

static const th_sample unsqueeze_samples[] = {
    {"first", &(th_unsqueeze_attributes){0}, 1, {{.shape = {2, {2, 3}}}}, 0},
    {"last", &(th_unsqueeze_attributes){-1}, 1, {{.shape = {2, {2, 3}}}}, 0},
    {"scalar", &(th_unsqueeze_attributes){0}, 1, {{.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_unsqueeze = {
    .name = "unsqueeze",
    .value = "y = x with one more axis, of size 1",
    .gradient = "dx = dy without that axis",
    .n_inputs = 1,
    .attributes_size = sizeof(th_unsqueeze_attributes),
    .flags = TH_OP_VIEW,
    .shape = unsqueeze_shape,
    .samples = unsqueeze_samples,
};

th_tensor *th_unsqueeze(th_tensor *x, int axis)
{
    return th_apply(&th_op_unsqueeze, &(th_unsqueeze_attributes){axis}, x);
}
