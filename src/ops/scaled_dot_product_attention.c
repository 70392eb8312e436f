/* scaled_dot_product_attention: O = dropout(softmax(cap(Q Kᵀ scale) + alibi + mask)) V, computed in tiles, forward and
 * backward. Nothing of size T x S is stored. This file has the shape rule and the samples. shared/attention_plan.c
 * plans a call, kernels/attention/attention.h computes the tiles, shared/mask.h interprets masks.
 *
 * docs/attention-backward.md derives the gradient. These letters are the same in the kernels, lessons and pages:
 *
 *     X = Q Kᵀ scale                      dQ = dX K scale,  dK = dXᵀ Q scale
 *     S = cap(X) + alibi + mask           dX = dS cap'(X);  the scores
 *     A = softmax(S)                      dS = A (dA - rowsum(A dA));  the weights
 *     P = A M, M the dropout factors      dA = dP M
 *     O = P V                             dP = dO Vᵀ,  dV = Pᵀ dO */
#include <math.h>
#include <string.h>

#include "ops/shared/attention.h"
#include "ops/shared/mask_samples.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

enum {
    Q = TH_ATTENTION_Q,
    K = TH_ATTENTION_K,
    V = TH_ATTENTION_V,
    MASK = TH_ATTENTION_MASK,
    ADDITIVE = TH_ATTENTION_ADDITIVE,
    ALIBI = TH_ATTENTION_ALIBI,
    INPUTS = TH_ATTENTION_INPUTS,
    O = TH_ATTENTION_O,
    LOG_SUM_EXP = TH_ATTENTION_LOG_SUM_EXP
};

static th_status check_leading(th_call *call)
{
    const th_array *q = &call->input[Q], *k = &call->input[K], *v = &call->input[V];
    const int heads = q->ndim - 3;
    for (int d = 0; d < q->ndim - 2; d++) {
        const bool divides = d == heads && k->size[d] > 0 && q->size[d] % k->size[d] == 0;
        if (k->size[d] != v->size[d] || (k->size[d] != q->size[d] && !divides))
            return th_call_fail(call, TH_ERROR_SHAPE, "leading dimensions differ: q is %s, k is %s, v is %s",
                                TH_TEXT(q), TH_TEXT(k), TH_TEXT(v));
    }
    return TH_OK;
}

static th_status check_types(th_call *call)
{
    for (int i = Q; i < INPUTS; i++)
        if ((i <= V || i == ALIBI) && th_call_floating(call, i) != TH_OK)
            return TH_ERROR_TYPE;
    return th_call_same_type(call);
}

static th_status check_shapes(th_call *call)
{
    const th_array *q = &call->input[Q], *k = &call->input[K], *v = &call->input[V];
    if (q->ndim < 2 || k->ndim != q->ndim || v->ndim != q->ndim)
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "q, k and v need the same number of dimensions, at least 2: q is %s, k is %s, v is %s",
                            TH_TEXT(q), TH_TEXT(k), TH_TEXT(v));
    const int last = q->ndim - 1;
    if (q->size[last] != k->size[last])
        return th_call_fail(call, TH_ERROR_SHAPE, "widths of queries and keys differ: q is %s, k is %s", TH_TEXT(q),
                            TH_TEXT(k));
    if (k->size[last - 1] != v->size[last - 1])
        return th_call_fail(call, TH_ERROR_SHAPE, "numbers of keys and values differ: k is %s, v is %s", TH_TEXT(k),
                            TH_TEXT(v));
    return check_leading(call);
}

/* Checks that the slopes broadcast to the leading dimensions. (The caller has compared their type with q's.) */
static th_status check_alibi(th_call *call)
{
    const th_array *q = &call->input[Q], *alibi = &call->input[ALIBI];
    if (!alibi->given || th_broadcasts_to(alibi->ndim, alibi->size, q->ndim - 2, q->size))
        return TH_OK;
    return th_call_fail(call, TH_ERROR_SHAPE,
                        "alibi is %s, which does not broadcast to the leading dimensions of q, %s", TH_TEXT(alibi),
                        TH_TEXT(q));
}

/* Grouped heads divide their dimension, so without a batch before it, documents must be the same for all heads. */
static th_status check_documents(th_call *call)
{
    const th_attention_attributes *attributes = call->attributes;
    const th_array *q = &call->input[Q], *k = &call->input[K];
    if (!attributes->rules.documents || q->ndim != 3 || call->input[MASK].ndim != 2 || q->size[0] == k->size[0])
        return TH_OK;
    return th_call_fail(call, TH_ERROR_SHAPE, "documents is %s, but q %s with grouped heads takes documents (T)",
                        TH_TEXT(&call->input[MASK]), TH_TEXT(q));
}

static th_status attention_shape(th_call *call)
{
    th_attention_attributes *attributes = th_call_attributes(call);
    const th_array *q = &call->input[Q];
    th_status operands = check_types(call);
    if (operands == TH_OK)
        operands = check_shapes(call);
    if (operands != TH_OK)
        return operands;
    if (!(attributes->dropout >= 0 && attributes->dropout < 1))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "dropout = %g is outside [0, 1)", attributes->dropout);
    if (!isfinite(attributes->scale))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "scale = %g is not finite", attributes->scale);
    if (!(attributes->soft_cap >= 0) || !isfinite(attributes->soft_cap))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "soft_cap = %g must be a positive number, or 0 for none",
                            attributes->soft_cap);
    int64_t scores[TH_MAX_DIMS], size[TH_MAX_DIMS];
    th_attention_scores_shape(q->ndim, q->size, call->input[K].size, scores);
    const th_status mask = th_mask_check(call, &attributes->rules, MASK, q->dtype, q->ndim, scores);
    if (mask != TH_OK)
        return mask;
    if (check_alibi(call) != TH_OK || check_documents(call) != TH_OK)
        return TH_ERROR_SHAPE;
    attributes->scale = th_attention_scale(attributes, q->size[q->ndim - 1]);
    memcpy(size, q->size, sizeof size);
    th_call_output(call, LOG_SUM_EXP, q->dtype, q->ndim - 1, size, NULL);
    size[q->ndim - 1] = call->input[V].size[q->ndim - 1];
    th_call_output(call, O, q->dtype, q->ndim, size, q->axes);
    if (q->ndim >= 4) { /* (.., H, T, Dv) is stored as (.., T, H, Dv), so that merging the heads is a view */
        int order[TH_MAX_DIMS];
        for (int d = 0; d < q->ndim; d++)
            order[d] = d;
        order[q->ndim - 3] = q->ndim - 2;
        order[q->ndim - 2] = q->ndim - 3;
        th_call_output_order(call, O, order);
    }
    if (call->training && attributes->dropout > 0)
        th_call_draw(call);
    return TH_OK;
}

/* -- value and gradient -- */

static void attention_forward(const th_call *call)
{
    const th_attention_plan *p = call->plan;
    const th_attention_attributes *attributes = call->attributes;
    if (th_mask_check_values(call->ctx, call->op->name, &attributes->rules, &call->input[MASK], p->attention.keys) ==
        TH_OK)
        th_attention_run(call, &p->attention, th_attention_forward, th_call_scratch(call, p->workspace));
}

/* Clears the gradients of k and v if no query head uses them: no kernel writes them then. */
static void clear_unused_gradients(const th_call *call)
{
    const th_array *q = &call->input[Q], *k = &call->input[K];
    if (th_attention_group(q->ndim, q->size, k->size) > 0)
        return;
    for (int i = K; i <= V; i++)
        if (call->input_gradient[i].given && !call->add[i])
            th_fill_array(call->ctx, &call->input_gradient[i], 0);
}

static void attention_backward(const th_call *call)
{
    const th_attention_plan *p = call->plan;
    const th_attention_attributes *attributes = call->attributes;
    th_attention a = p->attention;
    a.add_q = call->add[Q];
    a.add_k = call->add[K];
    a.add_v = call->add[V];
    a.add_additive = call->add[ADDITIVE];
    a.add_alibi = call->add[ALIBI];
    clear_unused_gradients(call);
    if (attributes->rules.documents && call->input_gradient[ADDITIVE].given) { /* each document adds its pairs */
        if (!call->add[ADDITIVE])
            th_fill_array(call->ctx, &call->input_gradient[ADDITIVE], 0);
        a.add_additive = true;
    }
    th_attention_run(call, &a, th_attention_backward, th_call_scratch(call, p->workspace));
}

static int64_t attention_multiply_adds(const th_call *call)
{
    int64_t scores[TH_MAX_DIMS], pairs = 1;
    const th_array *q = &call->input[Q], *v = &call->input[V];
    th_attention_scores_shape(q->ndim, q->size, call->input[K].size, scores);
    for (int d = 0; d < q->ndim; d++)
        pairs *= scores[d];
    return pairs * (q->size[q->ndim - 1] + v->size[v->ndim - 1]);
}

static th_tensor *attention_composed(const void *attributes, th_tensor *const *inputs, int n)
{
    (void)n;
    return th_attention_compose(attributes, inputs, NULL);
}

/* -- samples -- */

static const th_attention_attributes
    plain = {.scale = 0},
    causal = {.rules = {.causal = TH_CAUSAL_TOP_LEFT}}, bottom_right = {.rules = {.causal = TH_CAUSAL_BOTTOM_RIGHT}},
    window = {.rules = {.has_window = 1, .left = 1, .right = 1}, .scale = 0.7},
    behind = {.rules = {.causal = TH_CAUSAL_TOP_LEFT, .has_window = 1, .left = 1, .right = -1}},
    dropped = {.dropout = 0.3},
    causal_dropped = {.rules = {.causal = TH_CAUSAL_TOP_LEFT}, .dropout = 0.25, .scale = -0.5},
    capped = {.soft_cap = 0.8}, documents = {.rules = {.documents = 1}},
    causal_documents = {.rules = {.causal = TH_CAUSAL_TOP_LEFT, .has_window = 1, .left = 3, .documents = 1},
                        .soft_cap = 1.5,
                        .dropout = 0.25},
    all_of_it = {.rules = {.causal = TH_CAUSAL_TOP_LEFT, .has_window = 1, .left = 2},
                 .soft_cap = 1.5,
                 .dropout = 0.25,
                 .scale = 2};

static const th_sample attention_samples[] = {
    {"plain", &plain, INPUTS, {REAL(3, 4), REAL(5, 4), REAL(5, 2), UNMASKED, TH_ABSENT}, 0},
    {"heads", &plain, INPUTS, {REAL(2, 2, 3, 4), REAL(2, 2, 4, 4), REAL(2, 2, 4, 4), UNMASKED, TH_ABSENT}, 0},
    {"causal", &causal, INPUTS, {REAL(2, 4, 3), REAL(2, 4, 3), REAL(2, 4, 3), UNMASKED, TH_ABSENT}, 0},
    {"causal, queries without keys", &bottom_right, INPUTS,
     .input = {REAL(5, 3), REAL(3, 3), REAL(3, 2), UNMASKED, TH_ABSENT}},
    {"window", &window, INPUTS, {REAL(2, 5, 3), REAL(2, 6, 3), REAL(2, 6, 3), UNMASKED, TH_ABSENT}, 0},
    {"causal window, positions", &behind, INPUTS,
     .input = {REAL(3, 3), REAL(6, 3), REAL(6, 3), POSITIONED(0, 9, 3), TH_ABSENT}},
    {"lengths", &plain, INPUTS, {REAL(2, 2, 3, 3), REAL(2, 2, 5, 3), REAL(2, 2, 5, 3), LENGTHS(0, 6, 2), TH_ABSENT}, 0},
    {"lengths per query", &plain, INPUTS,
     .input = {REAL(2, 3, 3), REAL(2, 5, 3), REAL(2, 5, 3), LENGTHS(0, 6, 2, 3), TH_ABSENT}},
    {"positions", &causal, INPUTS,
     .input = {REAL(2, 2, 3, 3), REAL(2, 2, 5, 3), REAL(2, 2, 5, 3), POSITIONED(0, 7, 2, 3), TH_ABSENT}},
    {"keep", &plain, INPUTS, {REAL(2, 2, 3, 3), REAL(2, 2, 4, 3), REAL(2, 2, 4, 3), KEEPS(2, 1, 3, 4), TH_ABSENT}, 0},
    {"additive", &plain, INPUTS, {REAL(2, 2, 3, 3), REAL(2, 2, 4, 3), REAL(2, 2, 4, 3), ADDS(2, 1, 4), TH_ABSENT}, 0},
    {"dropout", &dropped, INPUTS, {REAL(2, 3, 4), REAL(2, 5, 4), REAL(2, 5, 4), UNMASKED, TH_ABSENT}, 0},
    {"grouped heads", &causal, INPUTS, {REAL(1, 4, 3, 2), REAL(1, 2, 3, 2), REAL(1, 2, 3, 2), UNMASKED, TH_ABSENT}, 0},
    {"soft cap", &capped, INPUTS, {REAL(2, 3, 4), REAL(2, 5, 4), REAL(2, 5, 2), UNMASKED, TH_ABSENT}, 0},
    {"slopes", &causal, INPUTS, {REAL(2, 2, 4, 3), REAL(2, 2, 4, 3), REAL(2, 2, 4, 3), UNMASKED, REAL(2)}, 0},
    {"slope, no order", &plain, INPUTS, {REAL(4, 3), REAL(5, 3), REAL(5, 3), UNMASKED, {.shape = {.ndim = 0}}}, 0},
    {"slopes of each example, grouped heads", &bottom_right, INPUTS,
     .input = {REAL(2, 4, 3, 2), REAL(2, 2, 4, 2), REAL(2, 2, 4, 3), UNMASKED, REAL(2, 4)}},
    {"documents", &documents, INPUTS, {REAL(2, 7, 3), REAL(2, 7, 3), REAL(2, 7, 2), LENGTHS(0, 2, 2, 7), TH_ABSENT}, 0},
    {"documents, causal, a window, slopes, grouped heads", &causal_documents, INPUTS,
     .input = {REAL(2, 4, 7, 2), REAL(2, 2, 7, 2), REAL(2, 2, 7, 3), LENGTHS(0, 2, 2, 7), REAL(4)}},
    {"documents of all examples", &documents, INPUTS,
     .input = {REAL(2, 2, 5, 2), REAL(2, 2, 5, 2), REAL(2, 2, 5, 3), LENGTHS(0, 2, 5), REAL(2, 2)}},
    {"every mask", &causal_dropped, INPUTS,
     .input = {REAL(2, 4, 3, 2), REAL(2, 2, 4, 2), REAL(2, 2, 4, 3), INTEGERS(2, 5, 2), KEEP(2, 1, 1, 4), REAL(4, 3, 1),
               TH_ABSENT, TH_ABSENT}},
    {"everything", &all_of_it, INPUTS,
     .input = {REAL(2, 4, 3, 2), REAL(2, 2, 5, 2), REAL(2, 2, 5, 3), INTEGERS(3, 6, 2), KEEP(2, 1, 1, 5), REAL(4, 3, 1),
               INTEGERS(0, 6, 2, 3), REAL(4)}},
    {"documents, additive", &documents, INPUTS,
     .input = {REAL(2, 2, 5, 2), REAL(2, 2, 5, 2), REAL(2, 2, 5, 3), INTEGERS(0, 2, 2, 5), TH_ABSENT, REAL(2, 5, 5),
               TH_ABSENT, TH_ABSENT}},
    {"documents of all examples, additive of each key", &causal_documents, INPUTS,
     .input = {REAL(2, 4, 5, 2), REAL(2, 2, 5, 2), REAL(2, 2, 5, 3), INTEGERS(0, 2, 5), TH_ABSENT, REAL(2, 1, 1, 5),
               TH_ABSENT, REAL(4)}},
    {.name = NULL},
};

const th_op th_op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .value = "O = P V, P = A M, A = softmax(cap(Q Kᵀ scale) + alibi + mask), M dropout",
    .gradient = "dV = Pᵀ dO, dA = M dO Vᵀ, dS = A (dA - rowsum(O dO)), dX = dS cap', dQ = dX K scale, dK = dXᵀ Q "
                "scale, dmask = dS, dslope = -sum |key - position| dS",
    .n_inputs = INPUTS,
    .optional = TH_INPUT(MASK) | TH_INPUT(MASK + TH_MASK_KEEP) | TH_INPUT(ADDITIVE) |
                TH_INPUT(MASK + TH_MASK_POSITIONS) | TH_INPUT(ALIBI),
    .n_outputs = TH_ATTENTION_OUTPUTS,
    .differentiable_outputs = 1u << O | 1u << LOG_SUM_EXP,
    .attributes_size = sizeof(th_attention_attributes),
    .saves = TH_INPUT(Q) | TH_INPUT(K) | TH_INPUT(V) | TH_INPUT(MASK) | TH_INPUT(MASK + TH_MASK_KEEP) |
             TH_INPUT(ADDITIVE) | TH_INPUT(MASK + TH_MASK_POSITIONS) | TH_INPUT(ALIBI) | TH_OUTPUT(O) |
             TH_OUTPUT(LOG_SUM_EXP),
    .shape = attention_shape,
    .forward = attention_forward,
    .backward = attention_backward,
    .plan = th_attention_plan_call,
    .plan_size = sizeof(th_attention_plan),
    .multiply_adds = attention_multiply_adds,
    .composed = attention_composed,
    .samples = attention_samples,
};

/* Runs the composition if fusion is off or the weights are requested: only the composition computes weights, and they
 * have a gradient. The log-sum-exp does not depend on dropout and always comes from the fused operation. */
th_tensor *th_scaled_dot_product_attention(th_tensor *q, th_tensor *k, th_tensor *v,
                                           const th_attention_options *options)
{
    const th_attention_options defaults = {.mask = NULL};
    options = options ? options : &defaults;
    th_attention_attributes attributes = {.rules = th_mask_rules_of(options->mask),
                                          .scale = options->scale,
                                          .soft_cap = options->soft_cap,
                                          .dropout = options->dropout};
    th_tensor *inputs[INPUTS] = {[Q] = q, [K] = k, [V] = v, [ALIBI] = options->alibi};
    th_mask_tensors(options->mask, &inputs[MASK]);
    th_tensor **extra[TH_ATTENTION_OUTPUTS - 1] = {options->log_sum_exp};
    if (q == NULL || (th_has_fusion(th_context_of(q)) && !options->weights))
        return th_apply_n(&th_op_scaled_dot_product_attention, &attributes, INPUTS, inputs, extra);
    if (th_apply_check(&th_op_scaled_dot_product_attention, &attributes, INPUTS, inputs) != TH_OK)
        return NULL;
    if (options->log_sum_exp) {
        attributes.dropout = 0;
        if (th_apply_n(&th_op_scaled_dot_product_attention, &attributes, INPUTS, inputs, extra) == NULL)
            return NULL;
        attributes.dropout = options->dropout;
    }
    return th_attention_compose(&attributes, inputs, options->weights);
}
