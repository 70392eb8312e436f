/* masked_softmax: y = softmax(scores + additive) over the visible keys of scores (N, T, S), 0 for masked keys. No
 * bit of the output or a gradient depends on a masked score. A query without visible keys has a row of 0.
 * shared/mask.h interprets masks. */
#include "kernels/sizes.h"
#include "ops/shared/mask.h"
#include "ops/shared/mask_samples.h"
#include "ops/shared/rows.h"
#include "tensor/elementwise.h"

enum {
    SCORES,
    MASK,
    ADDITIVE = MASK + TH_MASK_ADDITIVE,
    POSITIONS = MASK + TH_MASK_POSITIONS,
    INPUTS = MASK + TH_MASK_INPUTS
};

static th_status masked_softmax_shape(th_call *call)
{
    const th_array *scores = &call->input[SCORES];
    th_status status = th_call_floating(call, SCORES);
    if (!status)
        status = th_mask_check(call, call->attributes, MASK, scores->dtype, scores->ndim, scores->size);
    if (!status)
        th_call_output(call, 0, scores->dtype, scores->ndim, scores->size, scores->axes);
    return status;
}

/* -- plan -- */

/* The rows of a call. If backward has to sum, also the offsets of the summed gradient and of partial sums. */
typedef struct plan {
    th_rows rows;
    size_t gradient, sum;
} plan;

/* Returns whether backward sums the gradient of the scores over the axes along which the additive mask is broadcast. If
 * so, it computes this gradient in scratch memory. */
static bool sums_gradient(const th_call *call, bool backward)
{
    return backward && call->input_gradient[ADDITIVE].given;
}

static void masked_softmax_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    th_call of_rows = *call;
    th_array gradient = call->output[0];
    bool add = false;
    if (sums_gradient(call, backward)) {
        p->gradient = th_plan_scratch(call, th_array_numel(&gradient), th_dtype_size(gradient.dtype));
        of_rows.input_gradient = &gradient;
        of_rows.add = &add;
    }
    th_rows_of_call(&p->rows, &of_rows, backward, 1u << (gradient.ndim - 1));
    p->rows.scratch_offset = th_plan_scratch(call, 1, th_rows_scratch(call->ctx, &p->rows));
    if (sums_gradient(call, backward)) {
        th_plan_reuse(call, p->rows.scratch_offset);
        p->sum = th_plan_scratch(call, 1,
                                 th_sum_scratch_bytes(&call->input_gradient[ADDITIVE], &gradient, call->add[ADDITIVE]));
    }
}

/* -- value -- */

typedef struct mask_rows {
    const th_kernels *kernels;
    int64_t element; /* bytes */
    th_mask_view mask;
} mask_rows;

static void forward_rows(const th_rows_block *b)
{
    const mask_rows *work = b->parameters;
    int64_t index[TH_MAX_DIMS];
    for (int64_t r = 0; r < b->count; r++) {
        th_index_at(work->mask.ndim - 1, work->mask.size, b->first + r, index);
        const th_visible_row row = th_mask_row(&work->mask, index);
        work->kernels->masked_softmax(b->length, &row,
                                      (const char *)b->operand[TH_ROW_X] + r * b->stride[TH_ROW_X] * work->element,
                                      (char *)b->operand[TH_ROW_Y] + r * b->stride[TH_ROW_Y] * work->element);
    }
}

static void masked_softmax_forward(const th_call *call)
{
    const th_array *scores = &call->input[SCORES];
    const plan *p = call->plan;
    if (th_mask_check_values(call->ctx, call->op->name, call->attributes, &call->input[MASK],
                             scores->size[scores->ndim - 1]) != TH_OK)
        return;
    mask_rows work = {.kernels = th_call_kernels(call), .element = (int64_t)th_dtype_size(scores->dtype)};
    th_mask_view_init(&work.mask, call->attributes, &call->input[MASK], scores->ndim, scores->size);
    th_rows_run(call->ctx, &p->rows, 8, th_call_scratch(call, p->rows.scratch_offset), forward_rows, &work);
}

/* -- gradient -- */

/* With z = score + additive over the visible keys this is softmax's rule:
 * dL/dz_s = y_s (dL/dy_s - sum_j dL/dy_j y_j),   dL/dscore = dL/dz,   dL/dadditive = dL/dz summed where additive was
 * broadcast. A masked key has y_s = 0. The kernel then does not read dL/dy_s, and the gradient is exactly 0. (The same
 * holds for a visible key with weight 0.) */
static void masked_softmax_backward(const th_call *call)
{
    const plan *p = call->plan;
    th_rows rows = p->rows;
    th_array gradient = call->output[0];
    if (sums_gradient(call, true))
        rows.operand[TH_ROW_DX].data = gradient.data = th_call_scratch(call, p->gradient);
    th_rows_compute(&rows, call, true, NULL);
    if (!sums_gradient(call, true))
        return;
    th_sum_with_scratch(call->ctx, &call->input_gradient[ADDITIVE], &gradient, call->add[ADDITIVE],
                        th_call_scratch(call, p->sum));
    if (call->input_gradient[SCORES].given)
        th_copy_array(call->ctx, &call->input_gradient[SCORES], &gradient, call->add[SCORES]);
}

/* -- samples -- */

static const th_mask_rules no_rules = {0}, top_left = {.causal = TH_CAUSAL_TOP_LEFT},
                           bottom_right = {.causal = TH_CAUSAL_BOTTOM_RIGHT},
                           window = {.has_window = 1, .left = 1, .right = 1},
                           causal_window = {.causal = TH_CAUSAL_BOTTOM_RIGHT, .has_window = 1, .left = 2, .right = -1},
                           documents = {.documents = 1},
                           causal_documents = {.causal = TH_CAUSAL_TOP_LEFT, .documents = 1};

static const th_sample masked_softmax_samples[] = {
    {"no mask", &no_rules, INPUTS, {REAL(3, 5), UNMASKED}, 0},
    {"causal", &top_left, INPUTS, {REAL(2, 4, 4), UNMASKED}, 0},
    {"bottom right, queries without keys", &bottom_right, INPUTS, {REAL(5, 3), UNMASKED}, 0},
    {"window", &window, INPUTS, {REAL(3, 18), UNMASKED}, 0},
    {"lengths", &no_rules, INPUTS, {REAL(2, 3, 5), LENGTHS(1, 5, 2)}, 0},
    {"lengths per query, heads between", &no_rules, INPUTS, {REAL(2, 2, 3, 4), LENGTHS(0, 5, 2, 3)}, 0},
    {"positions", &top_left, INPUTS, {REAL(3, 5), POSITIONED(0, 7, 3)}, 0},
    {"positions, a window, heads between", &causal_window, INPUTS, {REAL(2, 2, 3, 5), POSITIONED(0, 9, 2, 3)}, 0},
    {"keep", &no_rules, INPUTS, {REAL(2, 3, 4), KEEPS(3, 4)}, 0},
    {"keep per key", &no_rules, INPUTS, {REAL(2, 3, 4), KEEPS(2, 1, 4)}, 0},
    {"additive", &no_rules, INPUTS, {REAL(2, 3, 4), ADDS(2, 3, 4)}, 0},
    {"additive broadcast", &no_rules, INPUTS, {REAL(2, 3, 4), ADDS(1, 4)}, 0},
    {"additive, scores constant", &top_left, INPUTS, {{.shape = {3, {2, 3, 4}}, .constant = true}, ADDS(3, 1)}, 0},
    {"documents", &documents, INPUTS, {REAL(2, 7, 7), LENGTHS(0, 2, 2, 7)}, 0},
    {"documents, causal, heads between", &causal_documents, INPUTS, {REAL(2, 2, 5, 5), LENGTHS(0, 2, 5)}, 0},
    {"everything", &causal_window, INPUTS,
     .input = {REAL(2, 2, 3, 4), INTEGERS(2, 5, 2), KEEP(2, 1, 3, 4), REAL(2, 3, 4), TH_ABSENT}},
    {"documents, additive broadcast", &documents, INPUTS,
     .input = {REAL(2, 2, 5, 5), INTEGERS(0, 2, 2, 5), TH_ABSENT, REAL(2, 5, 5), TH_ABSENT}},
    {.name = NULL},
};

const th_op th_op_masked_softmax = {
    .name = "masked_softmax",
    .value = "y_s = exp(z_s) / sum_j exp(z_j) over visible keys, z = scores + additive; masked: 0",
    .gradient = "dz = y * (dy - sum(dy * y)), masked: 0; dscores = dz, dadditive = dz",
    .n_inputs = INPUTS,
    .optional = TH_INPUT(MASK) | TH_INPUT(MASK + TH_MASK_KEEP) | TH_INPUT(ADDITIVE) | TH_INPUT(POSITIONS),
    .attributes_size = sizeof(th_mask_rules),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_OUTPUT(0),
    .shape = masked_softmax_shape,
    .forward = masked_softmax_forward,
    .backward = masked_softmax_backward,
    .plan = masked_softmax_plan,
    .plan_size = sizeof(plan),
    .kernel = &(const th_rows_operation){.backward = th_rows_id_masked_softmax_backward, .backward_cost = 3},
    .samples = masked_softmax_samples,
};

th_tensor *th_masked_softmax(th_tensor *scores, const th_mask *mask)
{
    const th_mask_rules rules = th_mask_rules_of(mask);
    th_tensor *inputs[INPUTS] = {scores};
    th_mask_tensors(mask, &inputs[MASK]);
    return th_apply_n(&th_op_masked_softmax, &rules, INPUTS, inputs, NULL);
}
