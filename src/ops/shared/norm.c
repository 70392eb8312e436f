/* Forward, backward, plan and shape rule of layer_norm and rms_norm (norm.h). */
#include "ops/shared/norm.h"

#include <math.h>
#include <string.h>

#include "kernels/sizes.h"
#include "tensor/elementwise.h"

/* The gradients of weight and bias are first summed over groups of at least this many rows and elements. The groups'
 * sums are then added in order. */
enum { GROUP_ROWS = 32, GROUP_ELEMENTS = 8192 };

th_tensor *th_norm_apply(const th_op *op, th_tensor *x, const th_norm_options *options)
{
    const th_norm_options given = options ? *options : (th_norm_options){0};
    return th_apply(op, &(th_norm_attributes){given.eps}, x, given.weight, given.bias);
}

static th_status check_vector(th_call *call, int i, const char *name)
{
    const th_array *x = &call->input[TH_NORM_X], *v = &call->input[i];
    if (!v->given)
        return TH_OK;
    if (v->ndim != 1 || v->size[0] != x->size[x->ndim - 1])
        return th_call_fail(call, TH_ERROR_SHAPE, "%s is %s, but the last axis of x %s has %lld elements", name,
                            TH_TEXT(v), TH_TEXT(x), (long long)x->size[x->ndim - 1]);
    return TH_OK;
}

th_status th_norm_shape(th_call *call, int n_saved)
{
    const th_array *x = &call->input[TH_NORM_X];
    for (int i = 0; i < call->n_inputs; i++) {
        const th_status status = th_call_floating(call, i);
        if (status)
            return status;
    }
    if (x->ndim == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "x has no axis to normalize along");
    th_status status = th_call_same_type(call);
    if (!status)
        status = check_vector(call, TH_NORM_WEIGHT, "weight");
    if (!status)
        status = check_vector(call, TH_NORM_BIAS, "bias");
    if (status)
        return status;
    th_norm_attributes *attributes = th_call_attributes(call);
    if (!(attributes->eps >= 0) || !isfinite(attributes->eps))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "eps is %g, but it must be a positive number", attributes->eps);
    if (attributes->eps == 0)
        attributes->eps = 1e-5;
    th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    int64_t size[TH_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    size[x->ndim - 1] = n_saved;
    th_call_output(call, 1, x->dtype, x->ndim, size, NULL);
    return TH_OK;
}

/* -- plan -- */

static bool needs_copy(const th_array *v)
{
    return v->given && v->size[0] > 1 && v->stride[0] != 1;
}

/* Returns the partial sums of the gradient of weight or bias: one row for each group of rows. */
static th_array partial_sums(const th_call *call, int input, const th_rows *rows, void *data)
{
    const int64_t groups = th_ceil_div(rows->rows, rows->group);
    return (th_array){.given = true,
                      .data = data,
                      .dtype = call->input_gradient[input].dtype,
                      .ndim = 2,
                      .size = {groups, rows->length},
                      .stride = {rows->length, 1}};
}

void th_norm_plan(const th_call *call, bool backward, void *plan)
{
    th_norm_rows *p = plan;
    const th_array *x = &call->input[TH_NORM_X];
    const size_t element = th_dtype_size(x->dtype);
    th_rows_of_call(&p->rows, call, backward, 1u << (x->ndim - 1));
    const int64_t length = p->rows.length > 0 ? p->rows.length : 1;
    if (backward)
        p->rows.group = GROUP_ELEMENTS / length > GROUP_ROWS ? GROUP_ELEMENTS / length : GROUP_ROWS;
    size_t shared_bytes = th_rows_scratch(call->ctx, &p->rows); /* for the rows, then for the sums over groups */
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++) {
        if (needs_copy(&call->input[i]))
            p->copy[i] = th_plan_scratch(call, call->input[i].size[0], element);
        if (!backward || !call->input_gradient[i].given)
            continue;
        const th_array partial = partial_sums(call, i, &p->rows, NULL);
        const size_t sums = th_sum_scratch_bytes(&call->input_gradient[i], &partial, call->add[i]);
        p->sums[i] = th_plan_scratch(call, th_array_numel(&partial), element);
        shared_bytes = sums > shared_bytes ? sums : shared_bytes;
    }
    p->rows.scratch_offset = th_plan_scratch(call, 1, shared_bytes);
}

/* Returns weight or bias, contiguous. Returns NULL if it is not given, or if backward did not save it because no
 * requested gradient reads it. */
static const void *contiguous_vector(const th_call *call, int i)
{
    const th_norm_rows *plan = call->plan;
    const th_array *v = &call->input[i];
    if (!v->given || !v->data || !needs_copy(v))
        return v->given ? v->data : NULL;
    th_array copy = *v;
    copy.stride[0] = 1;
    copy.data = th_call_scratch(call, plan->copy[i]);
    th_copy_array(call->ctx, &copy, v, false);
    return copy.data;
}

/* -- forward and backward -- */

void th_norm_forward(const th_call *call)
{
    const th_norm_attributes *attributes = call->attributes;
    const th_norm_rows *plan = call->plan;
    th_rows_compute(&plan->rows, call, false,
                    &(th_norm_parameters){.eps = attributes->eps,
                                          .weight = contiguous_vector(call, TH_NORM_WEIGHT),
                                          .bias = contiguous_vector(call, TH_NORM_BIAS)});
}

void th_norm_backward(const th_call *call)
{
    const th_norm_rows *plan = call->plan;
    void *sums[TH_NORM_BIAS + 1] = {NULL};
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++)
        if (call->input_gradient[i].given)
            sums[i] = th_call_scratch(call, plan->sums[i]);
    th_rows_compute(&plan->rows, call, true,
                    &(th_norm_parameters){.weight = contiguous_vector(call, TH_NORM_WEIGHT),
                                          .dweight = sums[TH_NORM_WEIGHT],
                                          .dbias = sums[TH_NORM_BIAS],
                                          .group = plan->rows.group});
    for (int i = TH_NORM_WEIGHT; i <= TH_NORM_BIAS; i++) {
        if (!call->input_gradient[i].given)
            continue;
        const th_array partial = partial_sums(call, i, &plan->rows, sums[i]);
        th_sum_with_scratch(call->ctx, &call->input_gradient[i], &partial, call->add[i],
                            th_call_scratch(call, plan->rows.scratch_offset));
    }
}
