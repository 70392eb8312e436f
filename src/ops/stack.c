/* stack: y[n] = x_n along a new axis, all x_n of one shape. The code shared with concat is in shared/join.h. */
#include "ops/shared/join.h"
#include "ops/shared/letters.h"
#include "tapehead/ops.h"

static th_status stack_shape(th_call *call)
{
    const th_array *first = &call->input[0];
    if (first->ndim == TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_SHAPE, "input 0, %s, has as many dimensions as a tensor can have",
                            TH_TEXT(first));
    const th_status status = th_join_check(call, true);
    if (status)
        return status;
    const int axis = ((const th_join_attributes *)call->attributes)->axis;
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    for (int i = 0; i <= first->ndim; i++) {
        const int from = i < axis ? i : i - 1;
        size[i] = i == axis ? call->n_inputs : first->size[from];
        letters[i] = i == axis ? ' ' : th_letter(first, from);
    }
    th_call_output(call, 0, first->dtype, first->ndim + 1, size, th_letters(letters, first->ndim + 1));
    return TH_OK;
}

static const th_sample stack_samples[] = {
    {"first axis", &(th_join_attributes){0}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 3}}}}, 0},
    {"middle axis", &(th_join_attributes){1}, 3,
     .input = {{.shape = {2, {2, 2}}}, {.shape = {2, {2, 2}}}, {.shape = {2, {2, 2}}}}},
    {"last axis", &(th_join_attributes){-1}, 2, {{.shape = {2, {2, 3}}}, {.shape = {2, {2, 3}}}}, 0},
    {"scalars", &(th_join_attributes){0}, 3, {{.shape = {0, {0}}}, {.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

/* y[n] = x_n:  dx_n = dy[n]        (th_join_backward) */
const th_op th_op_stack = {
    .name = "stack",
    .value = "y[n] = x_n along a new axis",
    .gradient = "dx_n = dy[n]",
    .n_inputs = TH_ANY_INPUTS,
    .attributes_size = sizeof(th_join_attributes),
    .shape = stack_shape,
    .forward = th_join_forward,
    .backward = th_join_backward,
    .samples = stack_samples,
};

th_tensor *th_stack(th_tensor *const *xs, int count, int axis)
{
    return th_join_apply(&th_op_stack, xs, count, axis);
}
