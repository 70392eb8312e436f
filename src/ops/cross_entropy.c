/* cross_entropy: loss = mean over counted targets of -log softmax(logits)[target], with label smoothing. The formulas
 * are in shared/class_loss.h. */
#include "ops/shared/class_loss.h"
#include "tensor/convert.h"

enum { LOGITS, TARGETS };
enum { LOSS, SAVED };

static th_status cross_entropy_shape(th_call *call)
{
    const th_array *logits = &call->input[LOGITS], *targets = &call->input[TARGETS];
    if (th_call_floating(call, LOGITS) || th_call_index_type(call, TARGETS))
        return TH_ERROR_TYPE;
    if (!th_class_loss_fits(logits, targets))
        return th_call_fail(call, TH_ERROR_SHAPE, "logits are (N, V) and targets (N), but logits are %s, targets %s",
                            TH_TEXT(logits), TH_TEXT(targets));
    if (logits->size[logits->ndim - 1] == 0)
        return th_call_fail(call, TH_ERROR_SHAPE, "logits %s have no classes", TH_TEXT(logits));
    return th_class_loss_outputs(call, logits, call->attributes);
}

typedef struct plan {
    size_t target, loss; /* offsets of targets (N) and, in forward, of the losses of rows (N) */
    th_class_loss rows;
} plan;

static void cross_entropy_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    const int64_t count = th_array_numel(&call->input[TARGETS]);
    p->target = th_plan_scratch(call, count, sizeof(int64_t));
    if (!backward)
        p->loss = th_plan_scratch(call, count, sizeof(double));
    p->rows = th_class_loss_of(call, &call->input[LOGITS], backward ? &call->input_gradient[LOGITS] : NULL,
                               call->add[LOGITS]);
    th_class_loss_reserve(call, &p->rows);
}

static int64_t read_targets(const th_call *call, int64_t *target)
{
    const th_array *logits = &call->input[LOGITS];
    return th_class_loss_targets(call, TARGETS, logits->size[logits->ndim - 1], call->attributes, target);
}

static void cross_entropy_forward(const th_call *call)
{
    const plan *p = call->plan;
    int64_t *target = th_call_scratch(call, p->target);
    double *loss = th_call_scratch(call, p->loss);
    const int64_t counted = read_targets(call, target);
    if (counted < 0)
        return;
    th_class_loss_forward(call, &p->rows, target, call->output[SAVED].data, loss);
    th_class_loss_store(call, th_array_numel(&call->input[TARGETS]), loss, counted);
}

/* One pass per row, with its two saved numbers. */
static void cross_entropy_backward(const th_call *call)
{
    const plan *p = call->plan;
    int64_t *target = th_call_scratch(call, p->target);
    const int64_t counted = read_targets(call, target);
    if (counted < 0)
        return;
    const double dloss = th_number_read(call->output_gradient[LOSS].dtype, call->output_gradient[LOSS].data);
    th_class_loss_backward(call, &p->rows, target, call->output[SAVED].data,
                           th_class_loss_mean(call->attributes, counted, dloss));
}

static const th_cross_entropy_options mean = {0}, ignoring = {.ignore = true, .ignore_index = 1},
                                      smoothed = {.label_smoothing = 0.3},
                                      normalized = {
                                          .normalizer = 7.5, .ignore = true, .ignore_index = 0, .label_smoothing = 0.1};

static const th_sample cross_entropy_samples[] = {
    {"mean", &mean, 2, {{.shape = {2, {4, 5}}}, {.shape = {1, {4}}, .kind = TH_SAMPLE_INDEX, .high = 5}}, 0},
    {"ignored targets", &ignoring, 2,
     .input = {{.shape = {2, {8, 3}}}, {.shape = {1, {8}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {"label smoothing", &smoothed, 2,
     .input = {{.shape = {3, {2, 3, 4}}}, {.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .high = 4}}},
    {"normalizer", &normalized, 2,
     .input = {{.shape = {2, {5, 3}}}, {.shape = {1, {5}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {"one row", &mean, 2,
     .input = {{.shape = {1, {19}}, .low = -3, .high = 3}, {.shape = {0, {0}}, .kind = TH_SAMPLE_INDEX, .high = 19}}},
    {"no counted target", &ignoring, 2,
     .input = {{.shape = {2, {2, 3}}}, {.shape = {1, {2}}, .kind = TH_SAMPLE_INDEX, .low = 1, .high = 2}}},
    {"no rows", &mean, 2, .input = {{.shape = {2, {0, 3}}}, {.shape = {1, {0}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {.name = NULL},
};

const th_op th_op_cross_entropy = {
    .name = "cross_entropy",
    .value = "loss = sum over counted rows of -log softmax(x)[target] / n",
    .gradient =
        "dx = dloss / n * (softmax(x) - one_hot(target)), smoothed: (1 - s) one_hot + s / V; 0 where not counted",
    .n_inputs = 2,
    .n_outputs = 2,
    .attributes_size = sizeof(th_cross_entropy_options),
    .saves = TH_INPUT(LOGITS) | TH_INPUT(TARGETS) | TH_OUTPUT(SAVED),
    .shape = cross_entropy_shape,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .plan = cross_entropy_plan,
    .plan_size = sizeof(plan),
    .samples = cross_entropy_samples,
};

th_tensor *th_cross_entropy(th_tensor *logits, th_tensor *targets, const th_cross_entropy_options *options)
{
    const th_cross_entropy_options attributes = options ? *options : (th_cross_entropy_options){0};
    return th_apply(&th_op_cross_entropy, &attributes, logits, targets);
}
