/* cast: y = x converted to another element type by C's rules. Between floating types the gradient is cast back. Storage
 * types are rounded as in tensor/storage_types.h. */
#include <string.h>

#include "ops/shared/attributes.h"
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/storage_types.h"
#include "tensor/tensor.h"

/* Declares the result of a conversion from or to a storage type: the numbers of a row stay together. */
static th_status storage_shape(th_call *call, th_dtype to)
{
    const th_array *x = &call->input[0];
    int64_t size[TH_MAX_DIMS];
    const bool readable = th_is_floating(x->dtype) || th_is_storage_type(x->dtype),
               writable = th_is_floating(to) || th_can_round_to(to);
    if (!readable || !writable)
        return th_call_fail(call, TH_ERROR_TYPE,
                            "%s does not convert to %s: storage types convert to float32, float64, bfloat16, float16, "
                            "q8_0 and q4_0, and floating types to these",
                            th_dtype_name(x->dtype), th_dtype_name(to));
    memcpy(size, x->size, sizeof size);
    if (x->ndim == 0 && (th_dtype_numbers(to) > 1 || th_dtype_numbers(x->dtype) > 1))
        return th_call_fail(call, TH_ERROR_SHAPE, "a block of %d numbers needs an axis, and x has none",
                            th_dtype_numbers(th_dtype_numbers(to) > 1 ? to : x->dtype));
    if (x->ndim > 0 && !th_converted_size(x->dtype, x->size[x->ndim - 1], to, &size[x->ndim - 1]))
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the last axis of x must be whole blocks of %d numbers for %s; x is "
                            "%s",
                            TH_BLOCK_NUMBERS, th_dtype_name(to), TH_TEXT(x));
    th_call_output(call, 0, to, x->ndim, size, x->axes);
    return TH_OK;
}

static th_status cast_shape(th_call *call)
{
    const th_cast_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    const th_dtype to = (th_dtype)attributes->dtype;
    if (th_dtype_size(to) == 0)
        return th_call_fail(call, TH_ERROR_TYPE, "%d is not an element type", (int)attributes->dtype);
    if (th_is_storage_type(to) || th_is_storage_type(x->dtype))
        return storage_shape(call, to);
    th_call_output(call, 0, to, x->ndim, x->size, x->axes);
    return TH_OK;
}

static void cast_forward(const th_call *call)
{
    th_convert_array(call->ctx, &call->output[0], &call->input[0]);
}

/* y = x, rounded:  dx = dy, rounded to the type of x */
static void cast_backward(const th_call *call)
{
    th_convert_array(call->ctx, &call->input_gradient[0], &call->output_gradient[0]);
}

/* To float64, in which the gradient check computes. In float32, its differences would only measure the rounding. */
static const th_sample cast_samples[] = {
    {"matrix", &(th_cast_attributes){TH_FLOAT64}, 1, {{.shape = {2, {3, 3}}}}, 0},
    {"three dimensions", &(th_cast_attributes){TH_FLOAT64}, 1, {{.shape = {3, {2, 1, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_cast = {
    .name = "cast",
    .value = "y = x as another element type",
    .gradient = "dx = dy as x's element type",
    .n_inputs = 1,
    .attributes_size = sizeof(th_cast_attributes),
    .flags = TH_OP_CANNOT_ADD,
    .shape = cast_shape,
    .forward = cast_forward,
    .backward = cast_backward,
    .samples = cast_samples,
    .storage = TH_INPUT(0),
};

th_tensor *th_cast(th_tensor *x, th_dtype dtype)
{
    const th_tensor_impl *impl = x ? th_usable_tensor(x, NULL, "cast", "x") : NULL;
    if (impl && impl->dtype == dtype)
        return x;
    return th_apply(&th_op_cast, &(th_cast_attributes){(int32_t)dtype}, x);
}
