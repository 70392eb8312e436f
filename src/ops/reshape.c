/* reshape: y = x in row-major order with another shape. A view; if the strides do not allow one, th_reshape makes a
 * contiguous copy first. */
#include "ops/shared/attributes.h"
#include "ops/shared/letters.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* Computes the strides of shape `to` over the memory of `size` and `stride`; returns false if no view exists. Both
 * shapes have the same number of elements. The function matches groups of consecutive old axes with groups of
 * consecutive new axes that have the same number of elements. A group of old axes must have the strides of a single
 * axis. */
static bool view_strides(int ndim, const int64_t *size, const int64_t *stride, const th_shape *to, int64_t *to_stride)
{
    int64_t from_size[TH_MAX_DIMS], from_stride[TH_MAX_DIMS];
    int from_ndim = 0;
    for (int i = 0; i < ndim; i++) {
        if (size[i] == 0) {
            th_compute_contiguous_strides(to->ndim, to->size, to_stride);
            return true;
        }
        if (size[i] != 1) {
            from_size[from_ndim] = size[i];
            from_stride[from_ndim++] = stride[i];
        }
    }
    int from = 0, next = 0;
    while (from < from_ndim) {
        int from_end = from + 1, next_end = next + 1;
        int64_t from_count = from_size[from], next_count = to->size[next];
        while (from_count != next_count) {
            if (next_count < from_count)
                next_count *= to->size[next_end++];
            else
                from_count *= from_size[from_end++];
        }
        for (int i = from; i + 1 < from_end; i++)
            if (from_stride[i] != from_size[i + 1] * from_stride[i + 1])
                return false;
        to_stride[next_end - 1] = from_stride[from_end - 1];
        for (int i = next_end - 1; i > next; i--)
            to_stride[i - 1] = to_stride[i] * to->size[i];
        from = from_end;
        next = next_end;
    }
    for (; next < to->ndim; next++) /* sizes of 1 at the end */
        to_stride[next] = 1;
    return true;
}

/* Replaces the -1 in shape. Returns false if no such shape exists, and then writes the reason to text. */
static bool infer_size(th_shape *shape, int64_t numel, char *text, size_t text_size)
{
    if (shape->ndim < 0 || shape->ndim > TH_MAX_DIMS) {
        snprintf(text, text_size, "a tensor has 0 to %d dimensions, not %d", TH_MAX_DIMS, shape->ndim);
        return false;
    }
    const th_shape requested = *shape;
    int inferred = -1;
    for (int i = 0; i < shape->ndim; i++) {
        if (shape->size[i] < -1 || (shape->size[i] == -1 && inferred >= 0)) {
            snprintf(text, text_size, shape->size[i] < -1 ? "%s has a negative size" : "only one size of %s can be -1",
                     TH_SIZES_TEXT(requested.ndim, requested.size));
            return false;
        }
        if (shape->size[i] == -1) {
            inferred = i;
            shape->size[i] = 1;
        }
    }
    int64_t count = 0;
    const bool fits = th_checked_numel(shape->ndim, shape->size, &count);
    if (inferred >= 0 && fits && count > 0 && numel % count == 0) {
        shape->size[inferred] = numel / count;
        return true;
    }
    if (inferred < 0 && fits && count == numel)
        return true;
    snprintf(text, text_size, "%lld elements do not fill the shape %s", (long long)numel,
             TH_SIZES_TEXT(requested.ndim, requested.size));
    return false;
}

static th_status reshape_shape(th_call *call)
{
    th_reshape_attributes *attributes = th_call_attributes(call);
    const th_array *x = &call->input[0];
    char why[2 * TH_SHAPE_TEXT];
    if (!infer_size(&attributes->shape, th_array_numel(x), why, sizeof why))
        return th_call_fail(call, TH_ERROR_SHAPE, "%s; x is %s", why, TH_TEXT(x));
    const th_shape *shape = &attributes->shape;
    int64_t stride[TH_MAX_DIMS];
    if (!view_strides(x->ndim, x->size, x->stride, shape, stride))
        return th_call_fail(call, TH_ERROR_SHAPE, "the strides of x, %s, allow no view %s: th_reshape copies it first",
                            TH_TEXT(x), TH_SIZES_TEXT(shape->ndim, shape->size));

    /* Axes that do not change, counted from both ends, keep their letters. */
    th_axis_letters letters;
    int leading = 0, trailing = 0;
    while (leading < x->ndim && leading < shape->ndim && x->size[leading] == shape->size[leading])
        leading++;
    while (trailing < x->ndim - leading && trailing < shape->ndim - leading &&
           x->size[x->ndim - 1 - trailing] == shape->size[shape->ndim - 1 - trailing])
        trailing++;
    for (int i = 0; i < shape->ndim; i++)
        letters[i] = i < leading                   ? th_letter(x, i)
                     : i >= shape->ndim - trailing ? th_letter(x, i - shape->ndim + x->ndim)
                                                   : ' ';
    th_call_view(call, shape->ndim, shape->size, stride, 0, th_letters(letters, shape->ndim));
    return TH_OK;
}

/* These only split axes, which every layout allows. Merging axes may need the copy of th_reshape. */
static const th_sample reshape_samples[] = {
    {"split", &(th_reshape_attributes){{3, {2, 3, 2}}}, 1, {{.shape = {2, {2, 6}}}}, 0},
    {"inferred size", &(th_reshape_attributes){{4, {-1, 2, 1, 3}}}, 1, {{.shape = {2, {4, 3}}}}, 0},
    {"scalar", &(th_reshape_attributes){{2, {1, 1}}}, 1, {{.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_reshape = {
    .name = "reshape",
    .value = "y = x under another shape",
    .gradient = "dx = dy under x's shape",
    .n_inputs = 1,
    .attributes_size = sizeof(th_reshape_attributes),
    .flags = TH_OP_VIEW,
    .shape = reshape_shape,
    .samples = reshape_samples,
};

/* Returns whether this view exists for the values of x and for its gradient buffer. (After an expand their strides
 * differ.) */
static bool has_view(const th_tensor_impl *x, th_shape shape)
{
    char why[2 * TH_SHAPE_TEXT];
    int64_t stride[TH_MAX_DIMS];
    if (!infer_size(&shape, th_tensor_numel(x), why, sizeof why))
        return true; /* the shape rule reports the error */
    return view_strides(x->ndim, x->size, x->stride, &shape, stride) &&
           (x->gradient_view.root == NULL || view_strides(x->ndim, x->size, x->gradient_view.stride, &shape, stride));
}

extern const th_op th_op_contiguous;

th_tensor *th_reshape(th_tensor *x, th_shape shape)
{
    const th_tensor_impl *impl = x ? th_usable_tensor(x, NULL, "reshape", "x") : NULL;
    if (impl && !has_view(impl, shape))
        x = th_apply(&th_op_contiguous, NULL, x);
    return th_apply(&th_op_reshape, &(th_reshape_attributes){shape}, x);
}
