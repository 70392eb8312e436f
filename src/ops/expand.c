/* expand: y = x repeated along axes of size 1 and along new leading ones, a view with strides of 0. Its gradient is not
 * a view: the engine sums dy over the repetitions. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/shape.h"

static th_status expand_shape(th_call *call)
{
    const th_expand_attributes *attributes = call->attributes;
    const th_shape *to = &attributes->shape;
    const th_array *x = &call->input[0];
    if (to->ndim < 0 || to->ndim > TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "a tensor has 0 to %d dimensions, not %d", TH_MAX_DIMS, to->ndim);
    const int added = to->ndim - x->ndim;
    int64_t size[TH_MAX_DIMS], stride[TH_MAX_DIMS], numel;
    th_axis_letters letters;
    bool fits = added >= 0;
    for (int i = 0; i < to->ndim && fits; i++) {
        const bool old = i >= added;
        const int64_t from = old ? x->size[i - added] : 1;
        size[i] = to->size[i] == -1 && old ? from : to->size[i];
        fits = size[i] >= 0 && (from == size[i] || from == 1);
        stride[i] = old && from == size[i] ? x->stride[i - added] : 0;
        letters[i] = old ? th_letter(x, i - added) : ' ';
    }
    if (!fits)
        return th_call_fail(call, TH_ERROR_SHAPE, "x, %s, does not broadcast to %s", TH_TEXT(x),
                            TH_SIZES_TEXT(to->ndim, to->size));
    size_t bytes; /* the view needs no memory, but its gradient does */
    if (!th_checked_numel(to->ndim, size, &numel) || !th_checked_bytes(numel, th_dtype_size(x->dtype), &bytes))
        return th_call_fail(call, TH_ERROR_SHAPE, "the size of %s in bytes overflows", TH_SIZES_TEXT(to->ndim, size));
    th_call_view(call, to->ndim, size, stride, 0, th_letters(letters, to->ndim));
    return TH_OK;
}

static const th_sample expand_samples[] = {
    {"rows", &(th_expand_attributes){{2, {3, -1}}}, 1, {{.shape = {2, {1, 4}}}}, 0},
    {"columns", &(th_expand_attributes){{2, {2, 3}}}, 1, {{.shape = {2, {2, 1}}}}, 0},
    {"new dimensions", &(th_expand_attributes){{4, {2, 2, 2, 3}}}, 1, {{.shape = {3, {2, 1, 3}}}}, 0},
    {"scalar", &(th_expand_attributes){{2, {2, 3}}}, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", &(th_expand_attributes){{2, {0, 2}}}, 1, {{.shape = {2, {1, 2}}}}, 0},
    {.name = NULL},
};

const th_op th_op_expand = {
    .name = "expand",
    .value = "y = x, repeated along axes of size 1",
    .gradient = "dx = dy summed over the repetitions",
    .n_inputs = 1,
    .attributes_size = sizeof(th_expand_attributes),
    .flags = TH_OP_VIEW | TH_OP_BROADCASTS,
    .identity_gradients = TH_INPUT(0),
    .shape = expand_shape,
    .samples = expand_samples,
};

th_tensor *th_expand(th_tensor *x, th_shape shape)
{
    return th_apply(&th_op_expand, &(th_expand_attributes){shape}, x);
}
