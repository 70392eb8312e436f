/* contiguous: y = x, row-major without gaps. th_contiguous returns x itself if it is contiguous; the operation always
 * copies. */
#include "tapehead/op.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

static th_status contiguous_shape(th_call *call)
{
    const th_array *x = &call->input[0];
    th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    return TH_OK;
}

static void contiguous_forward(const th_call *call)
{
    th_copy_array(call->ctx, &call->output[0], &call->input[0], false);
}

/* y = x:  dx = dy */
static void contiguous_backward(const th_call *call)
{
    th_copy_array(call->ctx, &call->input_gradient[0], &call->output_gradient[0], call->add[0]);
}

static const th_sample contiguous_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {3, 3}}}}, 0},
    {"three dimensions", NULL, 1, {{.shape = {3, {2, 3, 2}}}}, 0},
    {"scalar", NULL, 1, {{.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_contiguous = {
    .name = "contiguous",
    .value = "y = x, row-major",
    .gradient = "dx = dy",
    .n_inputs = 1,
    .shape = contiguous_shape,
    .forward = contiguous_forward,
    .backward = contiguous_backward,
    .samples = contiguous_samples,
};

th_tensor *th_contiguous(th_tensor *x)
{
    const th_tensor_impl *impl = x ? th_usable_tensor(x, NULL, "contiguous", "x") : NULL;
    if (impl && th_strides_are_contiguous(impl->ndim, impl->size, impl->stride))
        return x;
    return th_apply(&th_op_contiguous, NULL, x);
}
