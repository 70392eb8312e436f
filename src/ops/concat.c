/* concat: y = [x0, x1, ...] along an existing axis. The code shared with stack is in shared/join.h. */
#include "ops/shared/join.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"

static th_status concat_shape(th_call *call)
{
    const th_status status = th_join_check(call, false);
    if (status)
        return status;
    const int axis = ((const th_join_attributes *)call->attributes)->axis;
    th_array joined = call->input[0];
    for (int n = 1; n < call->n_inputs; n++)
        if (!th_checked_add(joined.size[axis], call->input[n].size[axis], &joined.size[axis]))
            return th_call_fail(call, TH_ERROR_SHAPE, "the size of axis %d overflows", axis);
    th_call_output(call, 0, joined.dtype, joined.ndim, joined.size, joined.axes);
    return TH_OK;
}

static const th_sample concat_samples[] = {
    {"rows", &(th_join_attributes){0}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {3, 3}}}}, 0},
    {"last axis, one empty", &(th_join_attributes){-1}, 3,
     .input = {{.shape = {2, {2, 2}}}, {.shape = {2, {2, 0}}}, {.shape = {2, {2, 1}}}}},
    {"middle axis", &(th_join_attributes){1}, 2, {{.shape = {3, {2, 1, 2}}}, {.shape = {3, {2, 2, 2}}}}, 0},
    {"one alone", &(th_join_attributes){0}, 1, {{.shape = {1, {3}}}}, 0},
    {.name = NULL},
};

/* y[start_n + i] = x_n[i]:  dx_n[i] = dy[start_n + i]        (th_join_backward) */
const th_op th_op_concat = {
    .name = "concat",
    .value = "y = [x0, x1, ...] along one axis",
    .gradient = "dx_n = dy's part n",
    .n_inputs = TH_ANY_INPUTS,
    .attributes_size = sizeof(th_join_attributes),
    .shape = concat_shape,
    .forward = th_join_forward,
    .backward = th_join_backward,
    .samples = concat_samples,
};

th_tensor *th_concat(th_tensor *const *xs, int count, int axis)
{
    return th_join_apply(&th_op_concat, xs, count, axis);
}
