/* cross_entropy: the mean over counted targets of -log softmax(logits)[target], from logits, with label smoothing.
 * This file: shape rule, value, gradient, samples, and the count of targets. The arithmetic of one row is in
 * kernels/vector/loss.c. */
#include <math.h>

#include "ops/indices.h"
#include "ops/rows.h"
#include "ops/scratch.h"
#include "tapehead/ops.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

enum { LOGITS, TARGETS };

typedef struct cross_entropy_attributes {
    int64_t ignore_index;
    double smoothing, normalizer;
    bool ignore;
} cross_entropy_attributes;

/* Output 1 keeps two numbers of each row: the largest logit m and 1 / sum exp(logit - m). */
static th_status cross_entropy_shape(th_call *c)
{
    const th_array *logits = &c->input[LOGITS], *targets = &c->input[TARGETS];
    const cross_entropy_attributes *attributes = c->attributes;
    th_status status = th_call_floating(c, LOGITS);
    if (!status)
        status = th_call_index_type(c, TARGETS);
    if (status)
        return status;
    bool fits = logits->ndim == targets->ndim + 1;
    for (int i = 0; i < targets->ndim && fits; i++)
        fits = logits->size[i] == targets->size[i];
    if (!fits)
        return th_call_fail(c, TH_ERROR_SHAPE, "logits are (N, V) and targets (N), but logits are %s, targets %s",
                            TH_TEXT(logits), TH_TEXT(targets));
    if (logits->size[logits->ndim - 1] == 0)
        return th_call_fail(c, TH_ERROR_SHAPE, "logits %s have no classes", TH_TEXT(logits));
    if (!(attributes->smoothing >= 0 && attributes->smoothing <= 1))
        return th_call_fail(c, TH_ERROR_ARGUMENT, "label_smoothing is %g, outside [0, 1]", attributes->smoothing);
    if (!(attributes->normalizer >= 0) || !isfinite(attributes->normalizer))
        return th_call_fail(c, TH_ERROR_ARGUMENT, "normalizer is %g, but it must be a positive number",
                            attributes->normalizer);
    th_call_output(c, 0, logits->dtype, 0, NULL, NULL);
    int64_t size[TH_MAX_DIMS];
    for (int i = 0; i < logits->ndim; i++)
        size[i] = i < targets->ndim ? logits->size[i] : 2;
    th_call_output(c, 1, logits->dtype, logits->ndim, size, NULL);
    return TH_OK;
}

/* The targets, -1 for those that do not count, into target (N); returns how many count, or -1 with the error pending.
 */
static int64_t read_targets(const th_call *c, int64_t *target)
{
    const cross_entropy_attributes *attributes = c->attributes;
    const int64_t count = th_array_numel(&c->input[TARGETS]),
                  classes = c->input[LOGITS].size[c->input[LOGITS].ndim - 1];
    th_indices_read(c, TARGETS, target);
    int64_t counted = 0;
    bool valid = true;
    for (int64_t i = 0; i < count; i++) {
        const bool ignored = attributes->ignore && target[i] == attributes->ignore_index;
        valid &= ignored || (target[i] >= 0 && target[i] < classes);
        counted += !ignored;
    }
    for (int64_t i = 0; i < count; i++)
        if (attributes->ignore && target[i] == attributes->ignore_index)
            target[i] = valid ? -1 : 0; /* of an invalid call: so that the check names one that counts */
    if (!valid) {
        (void)th_indices_check(c, TARGETS, "target", classes, target);
        return -1;
    }
    return counted;
}

static double normalizer(const th_call *c, int64_t counted)
{
    const cross_entropy_attributes *attributes = c->attributes;
    return attributes->normalizer > 0 ? attributes->normalizer : (double)counted;
}

/* Rows of logits, and in backward of their gradient, with what the kernels read beside them. */
typedef struct loss_rows {
    th_rows rows;
    const th_call *call;
    const int64_t *target; /* (N) */
    double *loss;          /* (N) */
    char *kept;            /* (N, 2) or NULL */
    double factor;         /* dL/dloss / normalizer */
} loss_rows;

static char *kept_of(const loss_rows *l, int64_t row)
{
    return l->kept ? l->kept + (size_t)row * 2 * th_dtype_size(l->call->input[LOGITS].dtype) : NULL;
}

static void rows_of(const th_call *c, bool backward, loss_rows *l)
{
    const th_array *logits = &c->input[LOGITS];
    *l = (loss_rows){.call = c, .kept = c->output[1].given ? c->output[1].data : NULL};
    th_rows_init(&l->rows, logits, 1u << (logits->ndim - 1));
    th_rows_add(&l->rows, logits, TH_ROWS_READ);
    if (backward)
        th_rows_add(&l->rows, &c->input_gradient[LOGITS], c->add[LOGITS] ? TH_ROWS_ADD : TH_ROWS_WRITE);
    th_rows_finish(&l->rows);
}

static void forward_body(void *shared, const th_rows_block *b)
{
    const loss_rows *l = shared;
    const cross_entropy_attributes *attributes = l->call->attributes;
    th_call_kernels(l->call)->cross_entropy(b->count, b->length, attributes->smoothing, l->target + b->first,
                                            b->operand[0], b->stride[0], l->loss + b->first, kept_of(l, b->first));
}

static void cross_entropy_forward(const th_call *c)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]);
    char *scratch = c->scratch;
    loss_rows l;
    rows_of(c, false, &l);
    int64_t *target = th_scratch_take(&scratch, count, sizeof *target);
    l.loss = th_scratch_take(&scratch, count, sizeof *l.loss);
    const int64_t counted = read_targets(c, target);
    if (counted < 0)
        return;
    l.target = target;
    th_rows_run(c->ctx, &l.rows, 8, scratch, forward_body, &l);
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += l.loss[i];
    th_fill_array(c->ctx, &c->output[0], counted > 0 ? sum / normalizer(c, counted) : 0);
}

static void backward_body(void *shared, const th_rows_block *b)
{
    const loss_rows *l = shared;
    const cross_entropy_attributes *attributes = l->call->attributes;
    th_call_kernels(l->call)->cross_entropy_backward(
        b->count, b->length, l->factor, attributes->smoothing / (double)b->length,
        l->factor * (1 - attributes->smoothing), l->target + b->first, b->operand[0], b->stride[0],
        kept_of(l, b->first), b->operand[1], b->stride[1], l->call->add[LOGITS]);
}

/* One counted row with target t, smoothing s, V classes, normalizer n:
 *   loss = (log sum_i exp(x_i) - (1 - s) x_t - s/V sum_i x_i) / n
 *   dL/dx_j = dL/dloss / n (p_j - (1 - s) 1[j=t] - s/V),   p = softmax(x) = exp(x_j - m) / sum_i exp(x_i - m)
 * one pass per row with the two numbers kept. Rows that do not count get exactly 0, whatever their logits are. */
static void cross_entropy_backward(const th_call *c)
{
    char *scratch = c->scratch;
    loss_rows l;
    rows_of(c, true, &l);
    int64_t *target = th_scratch_take(&scratch, th_array_numel(&c->input[TARGETS]), sizeof *target);
    const int64_t counted = read_targets(c, target);
    if (counted < 0)
        return;
    l.target = target;
    l.factor = counted > 0
                   ? th_number_load(c->output_gradient[0].dtype, c->output_gradient[0].data) / normalizer(c, counted)
                   : 0;
    th_rows_run(c->ctx, &l.rows, 8, scratch, backward_body, &l);
}

static size_t cross_entropy_scratch(const th_call *c, bool backward)
{
    const int64_t count = th_array_numel(&c->input[TARGETS]);
    loss_rows l;
    rows_of(c, backward, &l);
    size_t bytes = th_scratch_add(th_rows_scratch(c->ctx, &l.rows), count, sizeof(int64_t));
    if (!backward)
        bytes = th_scratch_add(bytes, count, sizeof(double));
    return bytes;
}

static const cross_entropy_attributes mean = {0}, ignoring = {.ignore = true, .ignore_index = 1},
                                      smoothed = {.smoothing = 0.3},
                                      normalized = {
                                          .normalizer = 7.5, .ignore = true, .ignore_index = 0, .smoothing = 0.1};

static const th_sample cross_entropy_samples[] = {
    {"mean", &mean, 2, {{.shape = {2, {4, 5}}}, {.shape = {1, {4}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 5}}, 0},
    {"ignored targets",
     &ignoring,
     2,
     {{.shape = {2, {8, 3}}}, {.shape = {1, {8}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {"label smoothing",
     &smoothed,
     2,
     {{.shape = {3, {2, 3, 4}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 4}},
     0},
    {"normalizer",
     &normalized,
     2,
     {{.shape = {2, {5, 3}}}, {.shape = {1, {5}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {"one row",
     &mean,
     2,
     {{.shape = {1, {19}}, .low = -3, .high = 3}, {.shape = {0, {0}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 19}},
     0},
    {"no counted target",
     &ignoring,
     2,
     {{.shape = {2, {2, 3}}}, {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 1, .high = 2}},
     0},
    {"no rows",
     &mean,
     2,
     {{.shape = {2, {0, 3}}}, {.shape = {1, {0}}, .kind = TH_SAMPLE_INDEX, .low = 0, .high = 3}},
     0},
    {0},
};

const th_op th_op_cross_entropy = {
    .name = "cross_entropy",
    .value = "loss = sum over counted rows of -log softmax(x)[target] / n",
    .gradient =
        "dx = dloss / n * (softmax(x) - one_hot(target)), smoothed: (1 - s) one_hot + s / V; 0 where not counted",
    .n_inputs = 2,
    .n_outputs = 2,
    .attributes_size = sizeof(cross_entropy_attributes),
    .saves = TH_SAVE_INPUT(LOGITS) | TH_SAVE_INPUT(TARGETS) | TH_SAVE_OUTPUT(1),
    .shape = cross_entropy_shape,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .scratch = cross_entropy_scratch,
    .samples = cross_entropy_samples,
};

th_tensor *(th_cross_entropy)(th_tensor *logits, th_tensor *targets, const th_cross_entropy_options *options)
{
    cross_entropy_attributes attributes = {0};
    if (options) {
        attributes.ignore = options->ignore;
        attributes.ignore_index = options->ignore_index;
        attributes.smoothing = options->label_smoothing;
        attributes.normalizer = options->normalizer;
    }
    return th_apply(&th_op_cross_entropy, &attributes, logits, targets);
}

int64_t th_target_count(th_tensor *targets, const th_cross_entropy_options *options)
{
    const char *const operation = "target_count";
    if (!th_usable(targets, NULL, operation, "targets") || th_failed(targets->ctx))
        return 0;
    const th_array array = th_tensor_array(targets);
    if (!th_is_index(array.dtype)) {
        th_fail(targets->ctx, TH_ERROR_TYPE, operation, "targets are %s, but must be int32 or int64",
                th_dtype_name(array.dtype));
        return 0;
    }
    const int64_t count = th_array_numel(&array);
    if (!options || !options->ignore || !array.data) /* shapes only: as if all counted */
        return count;
    int64_t counted = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, offset = 0;
        for (int axis = array.ndim - 1; axis >= 0; axis--) {
            offset += rest % array.size[axis] * array.stride[axis];
            rest /= array.size[axis];
        }
        const int64_t target =
            array.dtype == TH_INT32 ? ((const int32_t *)array.data)[offset] : ((const int64_t *)array.data)[offset];
        counted += target != options->ignore_index;
    }
    return counted;
}
