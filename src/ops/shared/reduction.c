/* What the reductions over axes share (reduction.h). */
#include "ops/shared/reduction.h"

#include <math.h>

#include "ops/shared/letters.h"
#include "tensor/checked.h"

th_reduction th_reduction_of(th_shape axes, const th_reduce_options *options)
{
    th_reduction reduction = {.axes = axes};
    if (options) {
        reduction.correction = options->correction;
        reduction.keep_axes = options->keep_axes;
    }
    return reduction;
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
    int ndim = 0;
    int64_t size[TH_MAX_DIMS];
    char letters[TH_MAX_DIMS + 1];
    for (int i = 0; i < x->ndim; i++) {
        const bool reduced = reduction->along >> i & 1;
        if (reduced && !reduction->keep_axes)
            continue;
        letters[ndim] = reduced ? ' ' : th_letter(x, i);
        size[ndim++] = reduced ? 1 : x->size[i];
    }
    th_call_output(call, 0, x->dtype, ndim, size, th_letters(letters, ndim));
    return TH_OK;
}

int64_t th_reduction_count(const th_call *call)
{
    const th_reduction *reduction = call->attributes;
    int ndim = 0;
    int64_t size[TH_MAX_DIMS],
        count = INT64_MAX; /* an overflow is possible where an axis that stays is empty: nothing is computed */
    for (int i = 0; i < call->input[0].ndim; i++)
        if (reduction->along >> i & 1)
            size[ndim++] = call->input[0].size[i];
    (void)th_checked_numel(ndim, size, &count);
    return count;
}

th_array th_reduction_kept(const th_call *call, const th_array *reduced)
{
    const th_reduction *reduction = call->attributes;
    th_array kept = {
        .given = reduced->given, .data = reduced->data, .dtype = reduced->dtype, .ndim = call->input[0].ndim};
    int from = 0;
    for (int i = 0; i < kept.ndim; i++) {
        const bool gone = reduction->along >> i & 1;
        kept.size[i] = gone ? 1 : reduced->size[from];
        kept.stride[i] = gone ? 0 : reduced->stride[from];
        from += !gone || reduction->keep_axes;
    }
    return kept;
}
