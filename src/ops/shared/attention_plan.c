/* Describes a call of attention for the kernels (attention.h). Leading dimensions keep their strides; grouped heads get
 * a separate dimension. */
#include <math.h>
#include <string.h>

#include "ops/shared/attention.h"
#include "tensor/context.h"

void th_attention_scores_shape(int ndim, const int64_t *q, const int64_t *k, int64_t *size)
{
    memcpy(size, q, (size_t)ndim * sizeof *size);
    size[ndim - 1] = k[ndim - 2];
}

int64_t th_attention_group(int ndim, const int64_t *q, const int64_t *k)
{
    const int heads = ndim - 3;
    return heads >= 0 && k[heads] > 0 ? q[heads] / k[heads] : 1;
}

double th_attention_scale(const th_attention_attributes *attributes, int64_t width)
{
    return attributes->scale != 0 ? attributes->scale : width > 0 ? 1 / sqrt((double)width) : 1;
}

/* Describes an operand with `trailing` dimensions after the leading ones. per_query_head: it has all heads of q,
 * otherwise one head for each group. */
static th_attention_array describe_operand(const th_attention *a, const th_array *array, int trailing,
                                           bool per_query_head)
{
    th_attention_array result = {.data = NULL};
    if (!array->given)
        return result;
    result.data = array->data;
    const int leading = array->ndim - trailing, last = leading - 1;
    for (int d = 0; d < leading; d++)
        result.leading[d] = array->stride[d];
    if (a->grouped) {
        const int64_t group = a->size[a->dims - 1];
        result.leading[last] = per_query_head ? array->stride[last] * group : array->stride[last];
        result.leading[last + 1] = per_query_head ? array->stride[last] : 0;
    }
    result.row = array->stride[leading];
    result.column = trailing > 1 ? array->stride[leading + 1] : 0;
    return result;
}

/* Broadcasts the mask's tensors to the scores: they get the heads of q, and strides of 0 where they repeat. */
static void plan_mask(const th_call *call, th_attention *a)
{
    const th_attention_attributes *attributes = call->attributes;
    const int ndim = call->input[TH_ATTENTION_Q].ndim;
    int64_t scores[TH_MAX_DIMS];
    th_attention_scores_shape(ndim, call->input[TH_ATTENTION_Q].size, call->input[TH_ATTENTION_K].size, scores);
    th_mask_view view;
    th_mask_view_init(&view, &attributes->rules, &call->input[TH_ATTENTION_MASK], ndim, scores);
    a->band = view.band;
    a->valid_lengths = describe_operand(a, &view.valid_lengths, 2, true);
    a->valid_lengths_64 = view.valid_lengths.dtype == TH_INT64;
    a->positions = describe_operand(a, &view.positions, 2, true);
    a->positions_64 = view.positions.dtype == TH_INT64;
    a->keep = describe_operand(a, &view.keep, 2, true);
    a->additive = describe_operand(a, &view.additive, 2, true);
    th_array gradients[TH_MASK_INPUTS] = {{.given = false}};
    gradients[TH_MASK_ADDITIVE] = call->input_gradient[TH_ATTENTION_ADDITIVE];
    th_mask_view_init(&view, &attributes->rules, gradients, ndim, scores);
    a->additive_gradient = describe_operand(a, &view.additive, 2, true);
}

/* Broadcasts slopes, or their gradients, to the leading dimensions, like an operand of the scores' shape. */
static th_attention_array broadcast_slopes(const th_attention *a, const th_array *alibi, int ndim)
{
    if (!alibi->given)
        return (th_attention_array){.data = NULL};
    th_array over = {.given = true, .data = alibi->data, .dtype = alibi->dtype, .ndim = ndim};
    for (int d = 0; d < alibi->ndim; d++)
        over.stride[ndim - 2 - alibi->ndim + d] = alibi->size[d] != 1 ? alibi->stride[d] : 0;
    return describe_operand(a, &over, 2, true);
}

static void plan_operands(const th_call *call, th_attention *a)
{
    const th_attention_attributes *attributes = call->attributes;
    const th_array *q = &call->input[TH_ATTENTION_Q], *k = &call->input[TH_ATTENTION_K],
                   *v = &call->input[TH_ATTENTION_V];
    const int last = q->ndim - 1, leading = q->ndim - 2;
    const int64_t group = th_attention_group(q->ndim, q->size, k->size);
    *a = (th_attention){.dims = leading,
                        .grouped = group > 1,
                        .queries = q->size[last - 1],
                        .keys = k->size[last - 1],
                        .rows_of_head = q->size[last - 1],
                        .width = q->size[last],
                        .value_width = v->size[last],
                        .scale = attributes->scale,
                        .soft_cap = attributes->soft_cap};
    memcpy(a->size, q->size, (size_t)leading * sizeof a->size[0]);
    if (a->grouped) {
        a->size[leading - 1] = k->size[leading - 1];
        a->size[a->dims++] = group;
    }
    a->q = describe_operand(a, q, 2, true);
    a->k = describe_operand(a, k, 2, false);
    a->v = describe_operand(a, v, 2, false);
    a->o = describe_operand(a, &call->output[TH_ATTENTION_O], 2, true);
    a->log_sum_exp = describe_operand(a, &call->output[TH_ATTENTION_LOG_SUM_EXP], 1, true);
    a->alibi = broadcast_slopes(a, &call->input[TH_ATTENTION_ALIBI], q->ndim);
    a->drops = call->training && attributes->dropout > 0;
    if (a->drops)
        a->dropout = th_dropout_mask_make(
            (th_philox){{call->random.key[0], call->random.key[1]}, call->random.call, call->random.step},
            attributes->dropout);
}

static void plan_gradients(const th_call *call, th_attention *a)
{
    a->o_gradient = describe_operand(a, &call->output_gradient[TH_ATTENTION_O], 2, true);
    a->log_sum_exp_gradient = describe_operand(a, &call->output_gradient[TH_ATTENTION_LOG_SUM_EXP], 1, true);
    a->q_gradient = describe_operand(a, &call->input_gradient[TH_ATTENTION_Q], 2, true);
    a->k_gradient = describe_operand(a, &call->input_gradient[TH_ATTENTION_K], 2, false);
    a->v_gradient = describe_operand(a, &call->input_gradient[TH_ATTENTION_V], 2, false);
    a->alibi_gradient =
        broadcast_slopes(a, &call->input_gradient[TH_ATTENTION_ALIBI], call->input[TH_ATTENTION_Q].ndim);
    a->wants_q = call->input_gradient[TH_ATTENTION_Q].given;
}

void th_attention_plan_call(const th_call *call, bool backward, void *plan)
{
    th_attention_plan *p = plan;
    th_attention *a = &p->attention;
    const th_context *ctx = call->ctx;
    const th_dtype dtype = call->input[TH_ATTENTION_Q].dtype;
    plan_operands(call, a);
    plan_mask(call, a);
    if (backward)
        plan_gradients(call, a);
    const th_attention largest = th_attention_largest(call, a);
    const size_t bytes = backward ? th_attention_backward_workspace(&ctx->machine, dtype, &largest, ctx->threads)
                                  : th_attention_forward_workspace(&ctx->machine, dtype, &largest, ctx->threads);
    p->workspace = th_plan_scratch(call, 1, bytes);
}
