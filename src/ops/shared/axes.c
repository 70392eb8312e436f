/* Operations along axes: see axes.h. */
#include "ops/shared/axes.h"

#include <math.h>

#include "ops/shared/letters.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"

/* -- one axis -- */

th_status th_axis_check(th_call *call)
{
    th_axis *attributes = th_call_attributes(call);
    th_status status = th_call_floating(call, 0);
    if (!status)
        status = th_call_axis(call, &attributes->axis, call->input[0].ndim);
    if (!status)
        attributes->along = 1u << attributes->axis;
    return status;
}

th_status th_axis_shape(th_call *call)
{
    const th_array *x = &call->input[0];
    const th_status status = th_axis_check(call);
    if (!status)
        th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    return status;
}

static const th_axis last = {.axis = -1}, first = {.axis = 0}, middle = {.axis = 1};

const th_sample th_axis_samples[] = {
    {"last axis", &last, 1, {{.shape = {2, {3, 19}}}}, 0},
    {"first axis", &first, 1, {{.shape = {2, {5, 4}}}}, 0},
    {"middle axis", &middle, 1, {{.shape = {3, {2, 4, 3}}}}, 0},
    {"vector", &last, 1, {{.shape = {1, {7}}, .low = -3, .high = 3}}, 0},
    {"one element", &last, 1, {{.shape = {2, {2, 1}}}}, 0},
    {"large numbers", &last, 1, {{.shape = {2, {2, 3}}, .low = 999, .high = 1001}}, 0},
    {"nothing", &last, 1, {{.shape = {2, {0, 3}}}}, 0},
    {.name = NULL},
};

th_array th_line_starts(const th_array *array, const th_array *y, int axis)
{
    th_array starts = *array;
    starts.ndim = 0;
    for (int i = 0; i < y->ndim; i++) {
        if (i == axis)
            continue;
        starts.size[starts.ndim] = y->size[i];
        starts.stride[starts.ndim++] = array->stride[i];
    }
    return starts;
}

/* -- reductions over a set of axes -- */

th_tensor *th_reduction_apply(const th_op *op, th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    th_reduction reduction = {.axes = axes};
    if (options) {
        reduction.correction = options->correction;
        reduction.keep_axes = options->keep_axes;
    }
    return th_apply(op, &reduction, x);
}

th_status th_reduction_shape(th_call *call)
{
    th_status status = th_call_floating(call, 0);
    if (status)
        return status;
    const th_array *x = &call->input[0];
    th_reduction *reduction = th_call_attributes(call);
    const th_shape *axes = &reduction->axes;
    if (axes->ndim < 0 || axes->ndim > TH_MAX_DIMS)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "a set of axes has 0 to %d members, not %d", TH_MAX_DIMS,
                            axes->ndim);
    if (!isfinite(reduction->correction))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "the correction must be a finite number");
    reduction->along = axes->ndim == 0 ? (1u << x->ndim) - 1 : 0;
    for (int i = 0; i < axes->ndim; i++) {
        if (axes->size[i] < -x->ndim || axes->size[i] >= x->ndim)
            return th_call_fail(call, TH_ERROR_SHAPE, "axis %lld is outside the %d dimensions of %s",
                                (long long)axes->size[i], x->ndim, TH_TEXT(x));
        const int axis = (int)axes->size[i] + (axes->size[i] < 0 ? x->ndim : 0);
        if (reduction->along >> axis & 1)
            return th_call_fail(call, TH_ERROR_SHAPE, "axis %d is given twice", axis);
        reduction->along |= 1u << axis;
    }
    th_reduction_output(call, reduction->keep_axes, x->dtype);
    return TH_OK;
}

void th_reduction_output(th_call *call, bool keep_axes, th_dtype dtype)
{
    const th_array *x = &call->input[0];
    int ndim = 0;
    int64_t size[TH_MAX_DIMS];
    th_axis_letters letters;
    for (int i = 0; i < x->ndim; i++) {
        const bool reduced = th_along(call) >> i & 1;
        if (reduced && !keep_axes)
            continue;
        letters[ndim] = reduced ? ' ' : th_letter(x, i);
        size[ndim++] = reduced ? 1 : x->size[i];
    }
    th_call_output(call, 0, dtype, ndim, size, th_letters(letters, ndim));
}

int64_t th_reduction_count(const th_call *call)
{
    int ndim = 0;
    int64_t size[TH_MAX_DIMS];
    int64_t count = INT64_MAX; /* stays if the count overflows: then another axis is empty, and nothing is computed */
    for (int i = 0; i < call->input[0].ndim; i++)
        if (th_along(call) >> i & 1)
            size[ndim++] = call->input[0].size[i];
    (void)th_checked_numel(ndim, size, &count);
    return count;
}

th_status th_reduction_has_largest(th_call *call)
{
    if (th_reduction_count(call) == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "an empty axis has no largest element: x is %s",
                            TH_TEXT(&call->input[0]));
    return TH_OK;
}

th_array th_reduction_with_axes(const th_call *call, const th_array *reduced)
{
    th_array full = {
        .given = reduced->given, .data = reduced->data, .dtype = reduced->dtype, .ndim = call->input[0].ndim};
    const bool keep_axes = reduced->ndim == full.ndim;
    int from = 0;
    for (int i = 0; i < full.ndim; i++) {
        const bool reduced_axis = th_along(call) >> i & 1;
        full.size[i] = reduced_axis ? 1 : reduced->size[from];
        full.stride[i] = reduced_axis ? 0 : reduced->stride[from];
        from += !reduced_axis || keep_axes;
    }
    return full;
}

size_t th_reduction_plan_sum(const th_call *call)
{
    const th_array y = th_reduction_with_axes(call, &call->output[0]);
    return th_plan_scratch(call, 1, th_sum_scratch_bytes(&y, &call->input[0], false));
}

void th_reduction_sum(const th_call *call, size_t offset)
{
    const th_array y = th_reduction_with_axes(call, &call->output[0]);
    th_sum_with_scratch(call->ctx, &y, &call->input[0], false, th_call_scratch(call, offset));
}

/* Numbers are distinct, because max has a kink where two are equal. Only variance uses the correction. */
static const th_reduction all = {.axes = {0}}, all_keep_axes = {.keep_axes = true}, of_first = {.axes = {1, {0}}},
                          of_last = {.axes = {1, {-1}}}, last_keep_axes = {.axes = {1, {-1}}, .keep_axes = true},
                          outer = {.axes = {2, {0, 2}}},
                          corrected = {.axes = {2, {0, 2}}, .keep_axes = true, .correction = 1},
                          middle_keep_axes = {.axes = {1, {1}}, .keep_axes = true};

const th_sample th_reduction_samples[] = {
    {"all axes", &all, 1, {{.shape = {3, {2, 3, 4}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"all axes, keep_axes", &all_keep_axes, 1, {{.shape = {2, {3, 4}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"first axis", &of_first, 1, {{.shape = {2, {5, 4}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"last axis", &of_last, 1, {{.shape = {2, {3, 19}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"last axis, keep_axes", &last_keep_axes, 1, {{.shape = {2, {3, 19}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"two axes", &outer, 1, {{.shape = {3, {2, 3, 5}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"two axes, corrected, keep_axes", &corrected, 1, {{.shape = {3, {2, 3, 5}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"middle axis, keep_axes", &middle_keep_axes, 1, {{.shape = {3, {2, 4, 3}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"large numbers", &last_keep_axes, 1,
     .input = {{.shape = {2, {2, 3}}, .kind = TH_SAMPLE_DISTINCT, .low = 999, .high = 1001}}},
    {"scalar", &all, 1, {{.shape = {0, {0}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {"no rows", &of_last, 1, {{.shape = {2, {0, 3}}, .kind = TH_SAMPLE_DISTINCT}}, 0},
    {.name = NULL},
};
