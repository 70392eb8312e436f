/* The functions of tapehead/op.h that a shape rule calls: they declare its outputs and check its inputs. Also the two
 * ready-made rules. descriptor.c runs the rule and checks what it declared. */
#include <stdarg.h>
#include <string.h>

#include "autograd/frame.h"
#include "tensor/shape.h"

/* Names the axes of output i: one letter for each axis. */
static void name_axes(th_call *call, int i, const char *axes)
{
    th_array *output = &call->output[i];
    const size_t letters = strlen(axes);
    if (letters == (size_t)output->ndim)
        memcpy(output->axes, axes, letters + 1);
    else
        th_call_fail(call, TH_ERROR_SHAPE,
                     "the shape rule names the axes of output %d \"%.40s\"; it has %d axes and needs %d letters, or "
                     "an empty name",
                     i, axes, output->ndim, output->ndim);
}

void th_call_output(th_call *call, int i, th_dtype dtype, int ndim, const int64_t *size, const char *axes)
{
    if (i < 0 || i >= call->n_outputs || ndim < 0 || ndim > TH_MAX_DIMS || (ndim > 0 && size == NULL)) {
        th_call_fail(
            call, TH_ERROR_SHAPE,
            "the shape rule declares output %d with %d dimensions and %s sizes; there are %d outputs of at most "
            "%d dimensions",
            i, ndim, size ? "its" : "no", call->n_outputs, TH_MAX_DIMS);
        return;
    }
    th_array *output = &call->output[i];
    output->dtype = dtype;
    output->ndim = ndim;
    if (ndim > 0) /* a scalar's sizes may be NULL */
        memcpy(output->size, size, (size_t)ndim * sizeof *size);
    th_compute_contiguous_strides(ndim, output->size, output->stride);
    output->axes[0] = 0;
    if (axes && axes[0])
        name_axes(call, i, axes);
    ((th_frame *)call)->declared |= 1u << i;
}

void th_call_output_order(th_call *call, int i, const int *order)
{
    const bool declared = i >= 0 && i < call->n_outputs && (((th_frame *)call)->declared & 1u << i);
    th_array *output = declared ? &call->output[i] : NULL;
    uint32_t named = 0; /* bits of the axes in order */
    for (int d = 0; declared && order && d < output->ndim; d++)
        named |= order[d] >= 0 && order[d] < output->ndim ? 1u << order[d] : 0;
    if (!declared || named != (1u << output->ndim) - 1) {
        th_call_fail(call, TH_ERROR_SHAPE, "the shape rule permutes the axes of output %d, %s", i,
                     declared ? "but the order is not a permutation" : "which it has not declared");
        return;
    }
    uint64_t stride = 1; /* unsigned: the product may overflow, sizes are checked after the rule */
    for (int d = output->ndim - 1; d >= 0; d--) {
        output->stride[order[d]] = (int64_t)stride;
        stride *= output->size[order[d]] > 1 ? (uint64_t)output->size[order[d]] : 1;
    }
}

void th_call_view(th_call *call, int ndim, const int64_t *size, const int64_t *stride, int64_t offset, const char *axes)
{
    if (!(call->op->flags & TH_OP_VIEW) || (ndim > 0 && stride == NULL)) {
        th_call_fail(call, TH_ERROR_ARGUMENT, "the shape rule declares a view without %s",
                     call->op->flags & TH_OP_VIEW ? "strides" : "the flag TH_OP_VIEW");
        return;
    }
    th_call_output(call, 0, call->input[0].dtype, ndim, size, axes);
    if (ndim > 0 && ndim <= TH_MAX_DIMS)
        memcpy(call->output[0].stride, stride, (size_t)ndim * sizeof *stride);
    ((th_frame *)call)->view_offset = offset;
}

void *th_call_attributes(th_call *call)
{
    return ((th_frame *)call)->attributes;
}

void th_call_draw(th_call *call)
{
    th_frame *frame = (th_frame *)call;
    if (!frame->drawn)
        call->random = th_random_next_call(call->ctx, TH_STREAM_DROPOUT);
    frame->drawn = true;
}

th_status th_call_fail(th_call *call, th_status code, const char *format, ...)
{
    code = code == TH_OK ? TH_ERROR_ARGUMENT : code; /* a caller that passes TH_OK still reports an error */
    va_list arguments;
    va_start(arguments, format);
    th_fail_arguments(call->ctx, code, call->op->name, format, arguments);
    va_end(arguments);
    return code;
}

th_status th_call_axis(th_call *call, int *axis, int ndim)
{
    if (*axis < -ndim || *axis >= ndim)
        return th_call_fail(call, TH_ERROR_SHAPE, "axis %d is outside [%d, %d) of %s", *axis, -ndim, ndim,
                            TH_TEXT(&call->input[0]));
    if (*axis < 0)
        *axis += ndim;
    return TH_OK;
}

th_status th_call_floating(th_call *call, int i)
{
    if (call->input[i].given && !th_is_floating(call->input[i].dtype))
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be float32 or float64; it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_index_type(th_call *call, int i)
{
    if (call->input[i].given && !th_is_index(call->input[i].dtype))
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be int32 or int64; it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_bool(th_call *call, int i)
{
    if (call->input[i].given && call->input[i].dtype != TH_BOOL)
        return th_call_fail(call, TH_ERROR_TYPE, "input %d must be bool; it is %s", i,
                            th_dtype_name(call->input[i].dtype));
    return TH_OK;
}

th_status th_call_same_type(th_call *call)
{
    int first = -1;
    for (int i = 0; i < call->n_inputs; i++) {
        if (!call->input[i].given || !th_is_floating(call->input[i].dtype))
            continue;
        if (first < 0)
            first = i;
        if (call->input[i].dtype != call->input[first].dtype)
            return th_call_fail(call, TH_ERROR_TYPE,
                                "types are mixed: input %d is %s, input %d is %s (th_cast converts)", first,
                                th_dtype_name(call->input[first].dtype), i, th_dtype_name(call->input[i].dtype));
    }
    return TH_OK;
}

th_status th_call_broadcast(th_call *call, const th_array *a, const th_array *b, int *ndim, int64_t *size)
{
    if (!th_broadcast_sizes(a->ndim, a->size, b->ndim, b->size, ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "shapes do not broadcast: %s and %s", TH_TEXT(a), TH_TEXT(b));
    return TH_OK;
}

/* Returns the axis letters of the first input that has some and has as many dimensions as the result, or NULL. */
static const char *broadcast_axes(const th_call *call, int ndim)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (call->input[i].given && call->input[i].ndim == ndim && call->input[i].axes[0])
            return call->input[i].axes;
    return NULL;
}

th_status th_shape_broadcast(th_call *call, th_dtype dtype)
{
    th_array shape = call->input[0];
    for (int i = 1; i < call->n_inputs; i++)
        if (th_call_broadcast(call, &shape, &call->input[i], &shape.ndim, shape.size) != TH_OK)
            return TH_ERROR_SHAPE;
    th_call_output(call, 0, dtype, shape.ndim, shape.size, broadcast_axes(call, shape.ndim));
    return TH_OK;
}

th_status th_shape_elementwise(th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++)
        if (th_call_floating(call, i) != TH_OK)
            return TH_ERROR_TYPE;
    if (th_call_same_type(call) != TH_OK)
        return TH_ERROR_TYPE;
    return th_shape_broadcast(call, call->input[0].dtype);
}
