/* detach: y = x, a view through which no gradient passes. */
#include "tapehead/op.h"
#include "tapehead/ops.h"

static th_status detach_shape(th_call *call)
{
    const th_array *x = &call->input[0];
    th_call_view(call, x->ndim, x->size, x->stride, 0, x->axes);
    return TH_OK;
}

static const th_sample detach_samples[] = {
    {"matrix", NULL, 1, {{.shape = {2, {2, 3}}}}, 0},
    {.name = NULL},
};

const th_op th_op_detach = {
    .name = "detach",
    .value = "y = x",
    .gradient = "none: the path ends here",
    .n_inputs = 1,
    .flags = TH_OP_VIEW,
    .shape = detach_shape,
    .not_differentiable = "its purpose is to end the path of gradients",
    .samples = detach_samples,
};

th_tensor *th_detach(th_tensor *x)
{
    return th_apply(&th_op_detach, NULL, x);
}
