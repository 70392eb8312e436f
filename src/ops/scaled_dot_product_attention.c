/* scaled_dot_product_attention: softmax(q kᵀ scale + mask) v in one operation, in tiles, forward and backward; nothing
 * of size T x S is kept. The tiles are computed in kernels/attention.h; what a mask means is in mask.h. */
#include <math.h>
#include <string.h>

#include "kernels/attention.h"
#include "ops/shared/mask.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"

enum {
    Q,
    K,
    V,
    MASK,
    ADDITIVE = MASK + TH_MASK_ADDITIVE,
    POSITIONS = MASK + TH_MASK_POSITIONS,
    INPUTS = MASK + TH_MASK_INPUTS
};
enum { O, LOG_SUM_EXP, OUTPUTS };

typedef struct attention_attributes {
    th_mask_rules rules;
    double scale; /* 0: 1 / sqrt(D) */
    double dropout;
} attention_attributes;

/* (N, T, S) */
static void scores_shape(const th_array *q, const th_array *k, int64_t *size)
{
    memcpy(size, q->size, (size_t)q->ndim * sizeof *size);
    size[q->ndim - 1] = k->size[k->ndim - 2];
}

/* Query heads for each head of k and v: 1 unless they are grouped. q, k: sizes. */
static int64_t group_size(int ndim, const int64_t *q, const int64_t *k)
{
    const int heads = ndim - 3;
    return heads >= 0 && k[heads] > 0 ? q[heads] / k[heads] : 1;
}

static double scale_of(const attention_attributes *attributes, int64_t width)
{
    return attributes->scale != 0 ? attributes->scale : width > 0 ? 1 / sqrt((double)width) : 1;
}

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

static th_status check_operands(th_call *call)
{
    const th_array *q = &call->input[Q], *k = &call->input[K], *v = &call->input[V];
    for (int i = Q; i <= V; i++)
        if (th_call_floating(call, i) != TH_OK)
            return TH_ERROR_TYPE;
    if (th_call_same_type(call) != TH_OK)
        return TH_ERROR_TYPE;
    if (q->ndim < 2 || k->ndim != q->ndim || v->ndim != q->ndim)
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "q, k and v need one number of dimensions, 2 at least: q is %s, k is %s, v is %s",
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

static th_status attention_shape(th_call *call)
{
    attention_attributes *attributes = th_call_attributes(call);
    const th_array *q = &call->input[Q];
    const th_status operands = check_operands(call);
    if (operands != TH_OK)
        return operands;
    if (!(attributes->dropout >= 0 && attributes->dropout < 1))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "dropout = %g is outside [0, 1)", attributes->dropout);
    if (!isfinite(attributes->scale))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "scale = %g is not finite", attributes->scale);
    int64_t scores[TH_MAX_DIMS], size[TH_MAX_DIMS];
    scores_shape(q, &call->input[K], scores);
    const th_status mask = th_mask_check(call, &attributes->rules, MASK, q->dtype, q->ndim, scores);
    if (mask != TH_OK)
        return mask;
    attributes->scale = scale_of(attributes, q->size[q->ndim - 1]);
    memcpy(size, q->size, sizeof size);
    th_call_output(call, LOG_SUM_EXP, q->dtype, q->ndim - 1, size, NULL);
    size[q->ndim - 1] = call->input[V].size[q->ndim - 1];
    th_call_output(call, O, q->dtype, q->ndim, size, q->axes);
    if (q->ndim >= 4) { /* (.., H, T, Dv) lies in memory as (.., T, H, Dv): merging the heads is a view */
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

/* -- the plan: the call as the kernel wants it. Leading dimensions are walked by strides, grouped heads are a dimension
 * of their own. -- */

typedef struct plan {
    th_attention attention;
    size_t workspace;
} plan;

/* An operand with `trailing` dimensions behind the leading ones. per_query_head: it has all of q's heads, otherwise one
 * head for each group. */
static th_attention_array operand(const th_attention *a, const th_array *array, int trailing, bool per_query_head)
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

/* The mask's tensors broadcast to the scores: they have q's heads, with strides of 0 where they repeat. */
static void plan_mask(const th_call *call, th_attention *a)
{
    const attention_attributes *attributes = call->attributes;
    const int ndim = call->input[Q].ndim;
    int64_t scores[TH_MAX_DIMS];
    scores_shape(&call->input[Q], &call->input[K], scores);
    th_mask_view view;
    th_mask_view_init(&view, &attributes->rules, &call->input[MASK], ndim, scores);
    a->band = view.band;
    a->valid_lens = operand(a, &view.valid_lens, 2, true);
    a->valid_lens_64 = view.valid_lens.dtype == TH_INT64;
    a->positions = operand(a, &view.positions, 2, true);
    a->positions_64 = view.positions.dtype == TH_INT64;
    a->keep = operand(a, &view.keep, 2, true);
    a->additive = operand(a, &view.additive, 2, true);
    th_array gradients[TH_MASK_INPUTS] = {{.given = false}};
    gradients[TH_MASK_ADDITIVE] = call->input_gradient[ADDITIVE];
    th_mask_view_init(&view, &attributes->rules, gradients, ndim, scores);
    a->additive_gradient = operand(a, &view.additive, 2, true);
}

static void plan_operands(const th_call *call, th_attention *a)
{
    const attention_attributes *attributes = call->attributes;
    const th_array *q = &call->input[Q], *k = &call->input[K], *v = &call->input[V];
    const int last = q->ndim - 1, leading = q->ndim - 2;
    const int64_t group = group_size(q->ndim, q->size, k->size);
    *a = (th_attention){.dims = leading,
                        .grouped = group > 1,
                        .queries = q->size[last - 1],
                        .keys = k->size[last - 1],
                        .width = q->size[last],
                        .value_width = v->size[last],
                        .scale = attributes->scale};
    memcpy(a->size, q->size, (size_t)leading * sizeof a->size[0]);
    if (a->grouped) {
        a->size[leading - 1] = k->size[leading - 1];
        a->size[a->dims++] = group;
    }
    a->q = operand(a, q, 2, true);
    a->k = operand(a, k, 2, false);
    a->v = operand(a, v, 2, false);
    a->o = operand(a, &call->output[O], 2, true);
    a->log_sum_exp = operand(a, &call->output[LOG_SUM_EXP], 1, true);
    a->drops = call->training && attributes->dropout > 0;
    if (a->drops)
        a->dropout = th_dropout_mask_make(
            (th_philox){{call->random.key[0], call->random.key[1]}, call->random.call, call->random.step},
            attributes->dropout);
}

static void plan_gradients(const th_call *call, th_attention *a)
{
    a->o_gradient = operand(a, &call->output_gradient[O], 2, true);
    a->log_sum_exp_gradient = operand(a, &call->output_gradient[LOG_SUM_EXP], 1, true);
    a->q_gradient = operand(a, &call->input_gradient[Q], 2, true);
    a->k_gradient = operand(a, &call->input_gradient[K], 2, false);
    a->v_gradient = operand(a, &call->input_gradient[V], 2, false);
    a->wants_q = call->input_gradient[Q].given;
}

static void attention_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    th_attention *a = &p->attention;
    const th_context *ctx = call->ctx;
    const th_dtype dtype = call->input[Q].dtype;
    plan_operands(call, a);
    plan_mask(call, a);
    if (backward)
        plan_gradients(call, a);
    const size_t bytes = backward ? th_attention_backward_workspace(&ctx->machine, dtype, a, ctx->threads)
                                  : th_attention_forward_workspace(&ctx->machine, dtype, a, ctx->threads);
    p->workspace = th_plan_scratch(call, 1, bytes);
}

static void attention_forward(const th_call *call)
{
    const plan *p = call->plan;
    if (th_mask_check_values(call->ctx, call->op->name, &call->input[MASK], p->attention.keys) == TH_OK)
        th_attention_forward(&call->ctx->machine, call->input[Q].dtype, &p->attention, call->ctx->threads,
                             th_call_scratch(call, p->workspace));
}

/* With S = q kᵀ scale + mask, P = softmax(S), A = P m (m the dropout factors), O = A V:
 *     dV = Aᵀ dO,   dA = dO Vᵀ,   dP = dA m,
 *     dS = P (dP - D),   D_t = sum_s P_ts dP_ts = sum_j O_tj dO_tj      (a row of P dP summed is that of O dO summed)
 *     dQ = dS K scale,   dK = dSᵀ Q scale,   dmask = dS.
 * P is recomputed as exp(S - log-sum-exp), tile by tile; a gradient L of the log-sum-exp adds P L to dS. */
static void attention_backward(const th_call *call)
{
    const plan *p = call->plan;
    th_attention a = p->attention;
    a.add_q = call->add[Q];
    a.add_k = call->add[K];
    a.add_v = call->add[V];
    a.add_additive = call->add[ADDITIVE];
    th_attention_backward(&call->ctx->machine, call->input[Q].dtype, &a, call->ctx->threads,
                          th_call_scratch(call, p->workspace));
}

static int64_t attention_multiply_adds(const th_call *call)
{
    int64_t scores[TH_MAX_DIMS], pairs = 1;
    const th_array *q = &call->input[Q], *v = &call->input[V];
    scores_shape(q, &call->input[K], scores);
    for (int d = 0; d < q->ndim; d++)
        pairs *= scores[d];
    return pairs * (q->size[q->ndim - 1] + v->size[v->ndim - 1]);
}

/* -- the composition -- */

/* x (.., H, T, D) with its heads in groups (.., Hkv, G, T, D). */
static th_tensor *split_groups(th_tensor *x, int64_t group)
{
    if (x == NULL || group == 1)
        return x;
    const th_shape whole = th_shape_of(x);
    th_shape shape = {.ndim = whole.ndim + 1};
    const int heads = whole.ndim - 3;
    memcpy(shape.size, whole.size, (size_t)heads * sizeof shape.size[0]);
    shape.size[heads] = whole.size[heads] / group;
    shape.size[heads + 1] = group;
    shape.size[heads + 2] = whole.size[heads + 1];
    shape.size[heads + 3] = whole.size[heads + 2];
    return (th_reshape)(x, shape);
}

/* a @ b over grouped heads: a and keep have all heads, b one for each group; the result has all heads again. */
static th_tensor *grouped_matmul(th_tensor *a, th_tensor *b, th_tensor *keep, th_mask_side side, int64_t group)
{
    if (a == NULL || b == NULL)
        return NULL;
    if (group > 1)
        b = (th_unsqueeze)(b, -3);
    a = split_groups(a, group);
    th_tensor *product = keep ? (th_masked_matmul)(a, b, split_groups(keep, group), side) : (th_matmul)(a, b);
    if (product == NULL || group == 1)
        return product;
    const th_shape grouped = th_shape_of(product);
    th_shape merged = {.ndim = grouped.ndim - 1};
    const int heads = merged.ndim - 3;
    memcpy(merged.size, grouped.size, (size_t)heads * sizeof merged.size[0]);
    merged.size[heads] = grouped.size[heads] * grouped.size[heads + 1];
    merged.size[heads + 1] = grouped.size[heads + 2];
    merged.size[heads + 2] = grouped.size[heads + 3];
    return (th_reshape)(product, merged);
}

static th_tensor *composed(const attention_attributes *attributes, th_tensor *const *inputs, th_tensor **weights)
{
    th_tensor *q = inputs[Q], *k = inputs[K], *v = inputs[V];
    const th_mask_rules *rules = &attributes->rules;
    const th_mask mask = {.causal = (th_causal)rules->causal,
                          .window = {rules->has_window != 0, rules->left, rules->right},
                          .valid_lens = inputs[MASK],
                          .keep = inputs[MASK + TH_MASK_KEEP],
                          .additive = inputs[ADDITIVE],
                          .positions = inputs[POSITIONS]};
    th_context *ctx = th_context_of(q);
    const th_shape q_shape = th_shape_of(q), k_shape = th_shape_of(k);
    const int last = q_shape.ndim - 1;
    th_shape scores = q_shape;
    scores.size[last] = k_shape.size[last - 1];
    const int64_t group = group_size(q_shape.ndim, q_shape.size, k_shape.size);
    const double scale = scale_of(attributes, q_shape.size[last]);

    th_tensor *keep = (th_mask_keep)(ctx, &mask, scores);
    if (th_failed(ctx))
        return NULL;
    th_tensor *s = (th_scale)(grouped_matmul(q, (th_swap_axes)(k, -1, -2), keep, TH_MASK_RESULT, group), scale);
    th_tensor *p = (th_masked_softmax)(s, &mask);
    if (weights)
        *weights = p;
    return grouped_matmul((th_dropout)(p, attributes->dropout), v, keep, TH_MASK_LEFT, group);
}

static th_tensor *attention_composed(const void *attributes, th_tensor *const *inputs, int n)
{
    (void)n;
    return composed(attributes, inputs, NULL);
}

/* -- samples -- */

static const attention_attributes plain = {.scale = 0}, causal = {.rules = {.causal = TH_CAUSAL_TOP_LEFT}},
                                  bottom_right = {.rules = {.causal = TH_CAUSAL_BOTTOM_RIGHT}},
                                  window = {.rules = {.has_window = 1, .left = 1, .right = 1}, .scale = 0.7},
                                  dropped = {.dropout = 0.3},
                                  causal_dropped = {
                                      .rules = {.causal = TH_CAUSAL_TOP_LEFT}, .dropout = 0.25, .scale = -0.5};

#define REAL(...)                                                                                                      \
    {                                                                                                                  \
        .shape = TH_SIZES(__VA_ARGS__)                                                                                 \
    }

static const th_sample attention_samples[] = {
    {"plain", &plain, INPUTS, {REAL(3, 4), REAL(5, 4), REAL(5, 2), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT}, 0},
    {"heads", &plain, INPUTS,
     .input = {REAL(2, 2, 3, 4), REAL(2, 2, 4, 4), REAL(2, 2, 4, 4), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT}},
    {"causal",
     &causal,
     INPUTS,
     {REAL(2, 4, 3), REAL(2, 4, 3), REAL(2, 4, 3), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT},
     0},
    {"causal, queries without keys", &bottom_right, INPUTS,
     .input = {REAL(5, 3), REAL(3, 3), REAL(3, 2), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT}},
    {"window",
     &window,
     INPUTS,
     {REAL(2, 5, 3), REAL(2, 6, 3), REAL(2, 6, 3), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT},
     0},
    {"lengths", &plain, INPUTS,
     .input = {REAL(2, 2, 3, 3),
               REAL(2, 2, 5, 3),
               REAL(2, 2, 5, 3),
               {.shape = TH_SIZES(2), .kind = TH_SAMPLE_INDEX, .high = 6},
               TH_ABSENT,
               TH_ABSENT,
               TH_ABSENT}},
    {"lengths per query", &plain, INPUTS,
     .input = {REAL(2, 3, 3),
               REAL(2, 5, 3),
               REAL(2, 5, 3),
               {.shape = TH_SIZES(2, 3), .kind = TH_SAMPLE_INDEX, .high = 6},
               TH_ABSENT,
               TH_ABSENT,
               TH_ABSENT}},
    {"keep", &plain, INPUTS,
     .input = {REAL(2, 2, 3, 3),
               REAL(2, 2, 4, 3),
               REAL(2, 2, 4, 3),
               TH_ABSENT,
               {.shape = TH_SIZES(2, 1, 3, 4), .kind = TH_SAMPLE_BOOL},
               TH_ABSENT,
               TH_ABSENT}},
    {"additive", &plain, INPUTS,
     .input = {REAL(2, 2, 3, 3), REAL(2, 2, 4, 3), REAL(2, 2, 4, 3), TH_ABSENT, TH_ABSENT, REAL(2, 1, 4), TH_ABSENT}},
    {"dropout",
     &dropped,
     INPUTS,
     {REAL(2, 3, 4), REAL(2, 5, 4), REAL(2, 5, 4), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT},
     0},
    {"grouped heads", &causal, INPUTS,
     .input = {REAL(1, 4, 3, 2), REAL(1, 2, 3, 2), REAL(1, 2, 3, 2), TH_ABSENT, TH_ABSENT, TH_ABSENT, TH_ABSENT}},
    {"everything", &causal_dropped, INPUTS,
     .input = {REAL(2, 4, 3, 2),
               REAL(2, 2, 4, 2),
               REAL(2, 2, 4, 3),
               {.shape = TH_SIZES(2), .kind = TH_SAMPLE_INDEX, .low = 2, .high = 5},
               {.shape = TH_SIZES(2, 1, 1, 4), .kind = TH_SAMPLE_BOOL, .high = 0.8},
               REAL(4, 3, 1),
               TH_ABSENT}},
    {.name = NULL},
};

const th_op th_op_scaled_dot_product_attention = {
    .name = "scaled_dot_product_attention",
    .value = "O = m P V, P = softmax(Q Kᵀ scale + mask), m dropout",
    .gradient =
        "dV = (m P)ᵀ dO, dP = m dO Vᵀ, dS = P (dP - rowsum(O dO)), dQ = dS K scale, dK = dSᵀ Q scale, dmask = dS",
    .n_inputs = INPUTS,
    .optional = TH_INPUT(MASK) | TH_INPUT(MASK + TH_MASK_KEEP) | TH_INPUT(ADDITIVE) | TH_INPUT(POSITIONS),
    .n_outputs = OUTPUTS,
    .differentiable_outputs = 1u << O | 1u << LOG_SUM_EXP,
    .attributes_size = sizeof(attention_attributes),
    .saves = TH_INPUT(Q) | TH_INPUT(K) | TH_INPUT(V) | TH_INPUT(MASK) | TH_INPUT(MASK + TH_MASK_KEEP) |
             TH_INPUT(ADDITIVE) | TH_INPUT(POSITIONS) | TH_OUTPUT(O) | TH_OUTPUT(LOG_SUM_EXP),
    .shape = attention_shape,
    .forward = attention_forward,
    .backward = attention_backward,
    .plan = attention_plan,
    .plan_size = sizeof(plan),
    .multiply_adds = attention_multiply_adds,
    .composed = attention_composed,
    .samples = attention_samples,
};

/* Composed when fusion is off, and whenever the weights are asked for: only then do they exist, with a gradient of
 * their own. The log-sum-exp, on which dropout has no influence, always comes from the fused operation. */
th_tensor *(th_scaled_dot_product_attention)(th_tensor *q, th_tensor *k, th_tensor *v,
                                             const th_attention_options *options)
{
    const th_attention_options defaults = {.mask = NULL};
    options = options ? options : &defaults;
    attention_attributes attributes = {
        .rules = th_mask_rules_of(options->mask), .scale = options->scale, .dropout = options->dropout};
    th_tensor *inputs[INPUTS] = {q, k, v};
    th_mask_tensors(options->mask, &inputs[MASK]);
    th_tensor **extra[OUTPUTS - 1] = {options->log_sum_exp};
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
    return composed(&attributes, inputs, options->weights);
}
