/* Checking an operation on its samples: inputs made as a sample describes them, contiguous and as views with gaps and
 * exchanged axes. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "autograd/tape.h"
#include "tapehead/gradient_check.h"
#include "tapehead/ops.h"
#include "tensor/random.h"

enum { MOST_KINKS = sizeof((th_sample_input){.n_kinks = 0}.kinks) / sizeof(double) };

/* Uniform on [0, 1). The context's own streams stay where they are. */
static double next_uniform(uint64_t *state)
{
    return (double)(th_splitmix64(state) >> 11) * 0x1p-53;
}

static bool near_kink(const th_sample_input *input, double x)
{
    const double clearance = input->clearance > 0 ? input->clearance : 0.05;
    for (int i = 0; i < input->n_kinks; i++)
        if (fabs(x - input->kinks[i]) < clearance)
            return true;
    return false;
}

static double real_value(const th_sample_input *input, uint64_t *state)
{
    const bool usual = input->low == 0 && input->high == 0;
    const double low = usual ? -1 : input->low, high = usual ? 1 : input->high;
    double x = low;
    for (int tries = 0; tries < 1000; tries++) {
        x = low + (high - low) * next_uniform(state);
        if (!near_kink(input, x))
            break;
    }
    return x;
}

/* Values a fixed distance apart, in random order. */
static void distinct_values(const th_sample_input *input, uint64_t *state, double *values, int64_t numel)
{
    const bool usual = input->low == 0 && input->high == 0;
    const double low = usual ? -1 : input->low, high = usual ? 1 : input->high;
    for (int64_t i = 0; i < numel; i++)
        values[i] = low + (high - low) * ((double)i + 0.5) / (double)numel;
    for (int64_t i = numel - 1; i > 0; i--) {
        const int64_t j = (int64_t)(next_uniform(state) * (double)(i + 1));
        const double swap = values[i];
        values[i] = values[j];
        values[j] = swap;
    }
}

static void fill_real(const th_sample_input *input, uint64_t *state, const th_body *t)
{
    const int64_t numel = th_tensor_numel(t);
    double *values = th_tensor_data(t); /* float64; narrowed by the caller where asked */
    if (input->kind == TH_SAMPLE_DISTINCT) {
        distinct_values(input, state, values, numel);
        return;
    }
    for (int64_t i = 0; i < numel; i++)
        values[i] = real_value(input, state);
}

/* Writes the values of a tensor just made: float64, bool or int64. */
static void fill_sample(const th_sample_input *input, uint64_t *state, const th_body *t)
{
    const int64_t numel = th_tensor_numel(t);
    if (th_tensor_data(t) == NULL) /* shapes only, or no elements */
        return;
    if (t->dtype == TH_FLOAT64) {
        fill_real(input, state, t);
    } else if (t->dtype == TH_BOOL) {
        const double probability = input->high > 0 ? input->high : 0.5;
        for (int64_t i = 0; i < numel; i++)
            ((bool *)th_tensor_data(t))[i] = next_uniform(state) < probability;
    } else {
        for (int64_t i = 0; i < numel; i++)
            ((int64_t *)th_tensor_data(t))[i] =
                (int64_t)floor(input->low + (input->high - input->low) * next_uniform(state));
    }
}

static th_tensor *sample_input(th_context *ctx, const th_sample_input *input, th_dtype dtype, uint64_t *state)
{
    const th_dtype made = input->kind == TH_SAMPLE_INDEX  ? TH_INT64
                          : input->kind == TH_SAMPLE_BOOL ? TH_BOOL
                                                          : TH_FLOAT64;
    th_tensor *t = (th_empty)(ctx, made, input->shape);
    if (t == NULL)
        return NULL;
    fill_sample(input, state, th_body_of(t));
    if (made != TH_FLOAT64 || dtype == TH_FLOAT64)
        return t;
    th_tensor *narrowed = (th_empty)(ctx, dtype, input->shape);
    if (narrowed && (th_copy_into)(narrowed, t) != TH_OK) {
        th_tensor_free(narrowed);
        narrowed = NULL;
    }
    th_tensor_free(t);
    return narrowed;
}

static const th_sample_input *input_of(const th_sample *sample, int i)
{
    return &sample->input[i % TH_MAX_INPUTS];
}

/* What a sample says of its inputs; their shapes are looked at when they are made. */
static th_status check_description(th_context *ctx, const char *operation, const th_sample *sample)
{
    if (sample->n_inputs < 0 || sample->n_inputs > TH_MAX_SAMPLE_INPUTS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "a sample has %d inputs; it must have 0 to %d inputs",
                       sample->n_inputs, (int)TH_MAX_SAMPLE_INPUTS);
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_sample_input *input = input_of(sample, i);
        const double largest = input->kind == TH_SAMPLE_INDEX ? 0x1p53 : DBL_MAX / 4;
        if ((int)input->kind < TH_SAMPLE_REAL || (int)input->kind > TH_SAMPLE_ABSENT)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "input %d of a sample is of kind %d, which is none of TH_SAMPLE_*", i, (int)input->kind);
        if (!(fabs(input->low) <= largest && fabs(input->high) <= largest))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "input %d of a sample is from %g to %g; both must be numbers of at most %g", i, input->low,
                           input->high, largest);
        if (input->n_kinks < 0 || input->n_kinks > MOST_KINKS)
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "input %d of a sample has %d kinks; it must have 0 to %d",
                           i, input->n_kinks, (int)MOST_KINKS);
    }
    return TH_OK;
}

th_status th_sample_inputs(th_context *ctx, const th_sample *sample, th_dtype dtype, uint64_t seed, th_tensor **inputs)
{
    if (!th_usable_context(ctx, "sample_inputs"))
        return ctx ? ctx->error : TH_ERROR_ARGUMENT;
    if (sample == NULL || !th_is_floating(dtype) || (inputs == NULL && sample->n_inputs > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "sample_inputs",
                       "a sample, room for its inputs and a floating type must be given");
    if (check_description(ctx, "sample_inputs", sample) != TH_OK)
        return ctx->error;
    uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < sample->n_inputs; i++)
        inputs[i] = NULL;
    for (int i = 0; i < sample->n_inputs; i++) {
        const th_sample_input *input = input_of(sample, i);
        if (input->kind == TH_SAMPLE_ABSENT)
            continue;
        inputs[i] = sample_input(ctx, input, dtype, &state);
        if (inputs[i] == NULL)
            return ctx->error;
    }
    return TH_OK;
}

/* -- the check -- */

typedef struct trial {
    const th_op *op;
    const th_sample *sample;
    bool strided;
    int output;                              /* which of the operation's outputs */
    th_tensor *inputs[TH_MAX_SAMPLE_INPUTS]; /* all; those that are checked come from the checker */
    bool checked[TH_MAX_SAMPLE_INPUTS];
    int64_t comparisons; /* so far */
} trial;

/* A base such that strided_view(base) has x's values: the last two axes exchanged, the last one with gaps. Takes x
 * over. */
static th_tensor *strided_base(th_tensor *x)
{
    const int n = th_ndim(x);
    if (n == 0)
        return x;
    th_context *ctx = th_context_of(x);
    th_shape shape = th_shape_of(x);
    if (n > 1) {
        shape.size[n - 1] = (th_size)(x, n - 2);
        shape.size[n - 2] = (th_size)(x, n - 1);
    }
    const bool fits = shape.size[n - 1] <= INT64_MAX / 2; /* a tensor without elements may have any sizes */
    shape.size[n - 1] *= fits ? 2 : 1;
    if (!fits)
        th_fail(ctx, TH_ERROR_SHAPE, "check_op", "an axis of %lld cannot be spread out", (long long)shape.size[n - 1]);
    th_tensor *base = fits ? (th_zeros)(ctx, th_dtype_of(x), shape) : NULL;
    th_tensor *view = base ? (th_slice)(base, n - 1, 0, shape.size[n - 1], 2) : NULL;
    if (view && n > 1)
        view = (th_swap_axes)(view, n - 1, n - 2);
    const bool good = view && (th_copy_into)(view, x) == TH_OK;
    th_tape_clear(ctx);
    th_tensor_free(x);
    if (good)
        return base;
    th_tensor_free(base);
    return NULL;
}

static th_tensor *strided_view(th_tensor *base)
{
    const int n = th_ndim(base);
    if (n == 0)
        return base;
    th_tensor *view = (th_slice)(base, n - 1, 0, (th_size)(base, n - 1), 2);
    return n > 1 ? (th_swap_axes)(view, n - 1, n - 2) : view;
}

static th_tensor *apply_trial(void *user, th_tensor *const *inputs)
{
    const trial *t = user;
    th_tensor *operands[TH_MAX_SAMPLE_INPUTS];
    for (int i = 0, next = 0; i < t->sample->n_inputs; i++) {
        operands[i] = t->checked[i] ? inputs[next++] : t->inputs[i];
        if (operands[i] && t->strided)
            operands[i] = strided_view(operands[i]);
    }
    th_tensor *extra[TH_MAX_OUTPUTS] = {NULL}, **asked[TH_MAX_OUTPUTS] = {NULL};
    if (t->output > 0)
        asked[t->output - 1] = &extra[t->output];
    th_tensor *first = th_apply_n(t->op, t->sample->attributes, t->sample->n_inputs, operands, asked);
    return t->output == 0 ? first : extra[t->output];
}

static th_status run_trial(th_context *ctx, trial *t, const th_gradient_options *options, th_gradient_report *report)
{
    th_gradient_options own = *options;
    char name[128], names[TH_MAX_SAMPLE_INPUTS][16];
    const char *name_list[TH_MAX_SAMPLE_INPUTS];
    th_tensor *checked[TH_MAX_SAMPLE_INPUTS];
    int n = 0;
    for (int i = 0; i < t->sample->n_inputs; i++) {
        if (!t->checked[i])
            continue;
        snprintf(names[n], sizeof names[n], t->sample->n_inputs == 1 ? "x" : "x%d", i);
        name_list[n] = names[n];
        checked[n++] = t->inputs[i];
    }
    snprintf(name, sizeof name, "%s (sample \"%s\"%s%s)", t->op->name, t->sample->name, t->strided ? ", strided" : "",
             t->output ? ", a further output" : "");
    own.name = name;
    own.input_names = name_list;
    if (t->sample->tolerance > 0 && own.relative_tolerance <= 0)
        own.relative_tolerance = t->sample->tolerance;
    const th_status status = th_check_gradient(ctx, apply_trial, t, n, checked, &own, report);
    t->comparisons += report->checked;
    /* a sample without elements is there for the other tests */
    return report->verdict == TH_GRADIENT_NOTHING_COMPARED ? TH_OK : status;
}

static th_status check_sample(th_context *ctx, trial *t, const th_gradient_options *options, th_gradient_report *report)
{
    const th_dtype dtype = options->float32 ? TH_FLOAT32 : TH_FLOAT64;
    if (check_description(ctx, t->op->name, t->sample) != TH_OK)
        return ctx->error;
    th_status status = th_sample_inputs(ctx, t->sample, dtype, options->seed + 1, t->inputs);
    for (int i = 0; i < t->sample->n_inputs && status == TH_OK; i++) {
        if (t->inputs[i] && t->strided) {
            t->inputs[i] = strided_base(t->inputs[i]);
            status = t->inputs[i] ? TH_OK : ctx->error;
        }
        t->checked[i] = t->inputs[i] && th_is_floating(th_dtype_of(t->inputs[i])) && !input_of(t->sample, i)->constant;
    }
    const uint32_t outputs = t->op->differentiable_outputs ? t->op->differentiable_outputs : 1;
    for (t->output = 0; t->output < TH_MAX_OUTPUTS && status == TH_OK; t->output++)
        if (outputs & (1u << t->output))
            status = run_trial(ctx, t, options, report);
    for (int i = 0; i < t->sample->n_inputs; i++)
        th_tensor_free(t->inputs[i]);
    return status;
}

static th_status refuse(const th_op *op, th_gradient_report *report, const char *why)
{
    *report = (th_gradient_report){.verdict = TH_GRADIENT_NOTHING_COMPARED, .input = -1};
    snprintf(report->text, sizeof report->text, "%s: nothing was compared: %s\n",
             op->name ? op->name : "an operation without a name", why);
    return TH_ERROR_VALUE;
}

th_status th_check_op(th_context *ctx, const th_op *op, const th_gradient_options *options, th_gradient_report *report)
{
    th_gradient_report unused;
    const th_gradient_options defaults = {0};
    report = report ? report : &unused;
    *report = (th_gradient_report){.input = -1};
    if (ctx == NULL || op == NULL)
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "check_op", "the operation is NULL") : TH_ERROR_ARGUMENT;
    if (ctx->error)
        return ctx->error;
    if (op->not_differentiable)
        return th_check_descriptor(ctx, op) == TH_OK ? refuse(op, report, op->not_differentiable) : ctx->error;
    if (op->backward == NULL && op->identity_gradients == 0 && !(op->flags & TH_OP_VIEW))
        return refuse(op, report, "it has neither a backward nor a reason for not having one");
    if (op->samples == NULL || op->samples[0].name == NULL)
        return refuse(op, report, "it has no samples to check its gradient on");
    if (th_check_descriptor(ctx, op) != TH_OK)
        return ctx->error;
    int64_t checked = 0;
    for (const th_sample *sample = op->samples; sample->name; sample++) {
        if (sample->n_inputs < 0 || sample->n_inputs > TH_MAX_SAMPLE_INPUTS)
            return refuse(op, report, "it has a sample with a number of inputs that no sample can have");
        for (int strided = 0; strided < 2; strided++) {
            trial t = {.op = op, .sample = sample, .strided = strided};
            const th_status status = check_sample(ctx, &t, options ? options : &defaults, report);
            if (status != TH_OK)
                return status;
            checked += t.comparisons;
        }
    }
    if (checked == 0)
        return refuse(op, report, "none of its samples has an element to compare");
    *report = (th_gradient_report){
        .ok = true, .verdict = TH_GRADIENT_RIGHT, .mode = report->mode, .checked = checked, .input = -1};
    return TH_OK;
}
