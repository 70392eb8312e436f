/* masked_softmax: softmax over the last axis of scores (N, T, S), in which hidden keys take no part: their weight is
 * exactly 0, and no bit of output or gradient depends on their scores. A query without keys has a row of 0. This file:
 * shape rule, value, gradient, samples. What a mask means is in mask.h. */
#include "ops/shared/mask.h"
#include "ops/shared/rows.h"
#include "ops/shared/scratch.h"
#include "tensor/elementwise.h"

enum { SCORES, MASK, ADDITIVE = MASK + TH_MASK_ADDITIVE, INPUTS = MASK + TH_MASK_INPUTS };

static th_status masked_softmax_shape(th_call *c)
{
    const th_array *scores = &c->input[SCORES];
    th_status status = th_call_floating(c, SCORES);
    if (!status)
        status = th_mask_check(c, c->attributes, MASK, scores->dtype, scores->ndim, scores->size);
    if (!status)
        th_call_output(c, 0, scores->dtype, scores->ndim, scores->size, scores->axes);
    return status;
}

/* The rows of the forward: scores, weights, and the mask's tensors broadcast to them. */
typedef struct masked_rows {
    const th_call *call;
    th_mask_view mask;
    th_rows rows;
    int keep, additive; /* which operand, or -1 */
} masked_rows;

static void forward_rows(const th_call *c, masked_rows *m)
{
    const th_array *scores = &c->input[SCORES];
    m->call = c;
    th_mask_view_init(&m->mask, c->attributes, &c->input[MASK], scores->ndim, scores->size);
    th_rows_init(&m->rows, scores, 1u << (scores->ndim - 1));
    th_rows_add(&m->rows, scores, TH_ROWS_READ);
    th_rows_add(&m->rows, &c->output[0], TH_ROWS_WRITE);
    m->keep = m->additive = -1;
    if (m->mask.keep.given) {
        m->keep = m->rows.operands;
        th_rows_add(&m->rows, &m->mask.keep, TH_ROWS_READ);
    }
    if (m->mask.additive.given) {
        m->additive = m->rows.operands;
        th_rows_add(&m->rows, &m->mask.additive, TH_ROWS_READ);
    }
    th_rows_finish(&m->rows);
}

static void forward_body(const th_rows_block *b)
{
    const masked_rows *m = b->parameters;
    const th_kernels *kernels = th_call_kernels(m->call);
    const int64_t element = (int64_t)th_dtype_size(m->call->input[SCORES].dtype),
                  queries = m->mask.size[m->mask.ndim - 2];
    for (int64_t r = 0; r < b->count; r++) {
        const th_mask_row row = th_mask_row_at(&m->mask, (b->first + r) / queries, (b->first + r) % queries);
        const bool *keep = m->keep < 0 ? NULL : (const bool *)b->operand[m->keep] + r * b->stride[m->keep];
        const char *additive =
            m->additive < 0 ? NULL : (const char *)b->operand[m->additive] + r * b->stride[m->additive] * element;
        kernels->masked_softmax(b->length, row.first, row.end, (const char *)b->operand[0] + r * b->stride[0] * element,
                                keep, additive, (char *)b->operand[1] + r * b->stride[1] * element);
    }
}

static void masked_softmax_forward(const th_call *c)
{
    const th_array *scores = &c->input[SCORES];
    if (th_mask_check_lens(c->ctx, c->op->name, &c->input[MASK + TH_MASK_VALID_LENS], scores->size[scores->ndim - 1]))
        return;
    masked_rows m;
    forward_rows(c, &m);
    th_rows_run(c->ctx, &m.rows, 8, c->scratch, forward_body, &m);
}

/* Where the gradient of the scores is computed: directly where it belongs, unless additive wants its sum over broadcast
 * axes too. */
static void gradient_destination(const th_call *c, th_array *destination, bool *add)
{
    *destination = c->input_gradient[SCORES];
    *add = c->add[SCORES];
    if (!c->input_gradient[ADDITIVE].given)
        return;
    *destination = c->output[0]; /* contiguous */
    destination->data = c->scratch;
    *add = false;
}

static void backward_rows(const th_call *c, const th_array *destination, bool add, th_rows *rows)
{
    th_rows_init(rows, &c->output[0], 1u << (c->output[0].ndim - 1));
    th_rows_add(rows, &c->output[0], TH_ROWS_READ);
    th_rows_add(rows, &c->output_gradient[0], TH_ROWS_READ);
    th_rows_add(rows, destination, add ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(rows);
}

typedef struct backward_work {
    const th_kernels *kernels;
    bool add;
} backward_work;

static void backward_body(const th_rows_block *b)
{
    const backward_work *work = b->parameters;
    work->kernels->masked_softmax_backward(b->count, b->length, b->operand[0], b->stride[0], b->operand[1],
                                           b->stride[1], b->operand[2], b->stride[2], work->add);
}

/* With z = score + additive over the visible keys this is softmax's rule:
 * dL/dz_s = y_s (dL/dy_s - sum_j dL/dy_j y_j),   dL/dscore = dL/dz,   dL/dadditive = dL/dz summed over what additive
 * was broadcast along. A hidden key has y_s = 0, which is all that is needed to leave it out: its dL/dy_s is not read,
 * and its gradient is exactly 0 (as that of a visible key is whose weight is 0). */
static void masked_softmax_backward(const th_call *c)
{
    th_array destination;
    backward_work work = {.kernels = th_call_kernels(c)};
    gradient_destination(c, &destination, &work.add);
    th_rows rows;
    backward_rows(c, &destination, work.add, &rows);
    char *scratch = c->scratch;
    if (c->input_gradient[ADDITIVE].given)
        th_scratch_take(&scratch, th_array_numel(&destination), th_dtype_size(destination.dtype));
    th_rows_run(c->ctx, &rows, 3, scratch, backward_body, &work);
    if (!c->input_gradient[ADDITIVE].given)
        return;
    th_sum_within(c->ctx, &c->input_gradient[ADDITIVE], &destination, c->add[ADDITIVE], scratch);
    if (c->input_gradient[SCORES].given)
        th_copy_array(c->ctx, &c->input_gradient[SCORES], &destination, c->add[SCORES]);
}

static size_t masked_softmax_scratch(const th_call *c, bool backward)
{
    if (!backward) {
        masked_rows m;
        forward_rows(c, &m);
        return th_rows_scratch(c->ctx, &m.rows);
    }
    th_array destination;
    bool add;
    gradient_destination(c, &destination, &add);
    th_rows rows;
    backward_rows(c, &destination, add, &rows);
    const size_t bytes = th_rows_scratch(c->ctx, &rows);
    if (!c->input_gradient[ADDITIVE].given)
        return bytes;
    const size_t sums = th_sum_scratch(&c->input_gradient[ADDITIVE], &destination, c->add[ADDITIVE]);
    return th_scratch_add(th_scratch_larger(bytes, sums), th_array_numel(&destination),
                          th_dtype_size(destination.dtype));
}

static const th_mask_rules no_rules = {0}, top_left = {.causal = TH_CAUSAL_TOP_LEFT},
                           bottom_right = {.causal = TH_CAUSAL_BOTTOM_RIGHT},
                           window = {.has_window = 1, .left = 1, .right = 1},
                           causal_window = {.causal = TH_CAUSAL_BOTTOM_RIGHT, .has_window = 1, .left = 2, .right = -1};

#define ABSENT                                                                                                         \
    {                                                                                                                  \
        .kind = TH_SAMPLE_ABSENT                                                                                       \
    }

static const th_sample masked_softmax_samples[] = {
    {"no mask", &no_rules, INPUTS, {{.shape = {2, {3, 5}}}, ABSENT, ABSENT, ABSENT}, 0},
    {"causal", &top_left, INPUTS, {{.shape = {3, {2, 4, 4}}}, ABSENT, ABSENT, ABSENT}, 0},
    {"bottom right, queries without keys", &bottom_right, INPUTS, {{.shape = {2, {5, 3}}}, ABSENT, ABSENT, ABSENT}, 0},
    {"window", &window, INPUTS, {{.shape = {2, {3, 18}}}, ABSENT, ABSENT, ABSENT}, 0},
    {"lengths",
     &no_rules,
     INPUTS,
     {{.shape = {3, {2, 3, 5}}}, {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 1, .high = 5}, ABSENT, ABSENT},
     0},
    {"lengths per query, heads between",
     &no_rules,
     INPUTS,
     {{.shape = {4, {2, 2, 3, 4}}},
      {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 5},
      ABSENT,
      ABSENT},
     0},
    {"keep",
     &no_rules,
     INPUTS,
     {{.shape = {3, {2, 3, 4}}}, ABSENT, {.shape = {2, {3, 4}}, .kind = TH_SAMPLE_BOOL}, ABSENT},
     0},
    {"keep per key",
     &no_rules,
     INPUTS,
     {{.shape = {3, {2, 3, 4}}}, ABSENT, {.shape = {3, {2, 1, 4}}, .kind = TH_SAMPLE_BOOL}, ABSENT},
     0},
    {"additive", &no_rules, INPUTS, {{.shape = {3, {2, 3, 4}}}, ABSENT, ABSENT, {.shape = {3, {2, 3, 4}}}}, 0},
    {"additive broadcast", &no_rules, INPUTS, {{.shape = {3, {2, 3, 4}}}, ABSENT, ABSENT, {.shape = {2, {1, 4}}}}, 0},
    {"additive, scores constant",
     &top_left,
     INPUTS,
     {{.shape = {3, {2, 3, 4}}, .constant = true}, ABSENT, ABSENT, {.shape = {2, {3, 1}}}},
     0},
    {"everything",
     &causal_window,
     INPUTS,
     {{.shape = {4, {2, 2, 3, 4}}},
      {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 2, .high = 5},
      {.shape = {4, {2, 1, 3, 4}}, .kind = TH_SAMPLE_BOOL, .high = 0.8},
      {.shape = {3, {2, 3, 4}}}},
     0},
    {0},
};

const th_op th_op_masked_softmax = {
    .name = "masked_softmax",
    .value = "y_s = exp(z_s) / sum_j exp(z_j) over visible keys, z = scores + additive; hidden: 0",
    .gradient = "dz = y * (dy - sum(dy * y)), hidden: 0; dscores = dz, dadditive = dz",
    .n_inputs = INPUTS,
    .optional = TH_SAVE_INPUT(MASK) | TH_SAVE_INPUT(MASK + TH_MASK_KEEP) | TH_SAVE_INPUT(ADDITIVE),
    .attributes_size = sizeof(th_mask_rules),
    .flags = TH_OP_IN_PLACE,
    .saves = TH_SAVE_OUTPUT(0),
    .shape = masked_softmax_shape,
    .forward = masked_softmax_forward,
    .backward = masked_softmax_backward,
    .scratch = masked_softmax_scratch,
    .samples = masked_softmax_samples,
};

th_tensor *(th_masked_softmax)(th_tensor *scores, const th_mask *mask)
{
    const th_mask_rules rules = th_mask_rules_of(mask);
    th_tensor *tensors[TH_MASK_INPUTS];
    th_mask_tensors(mask, tensors);
    return th_apply(&th_op_masked_softmax, &rules, scores, tensors[TH_MASK_VALID_LENS], tensors[TH_MASK_KEEP],
                    tensors[TH_MASK_ADDITIVE]);
}
