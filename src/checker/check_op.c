/* Checking an operation's gradient on its samples, whose inputs lie contiguously and as views with gaps and exchanged
 * axes. */
#include <string.h>

#include "autograd/frame.h"
#include "checker/samples.h"
#include "tapehead/ops.h"

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
    if (th_check_description(ctx, t->op->name, t->sample) != TH_OK)
        return ctx->error;
    th_status status = th_sample_inputs(ctx, t->sample, dtype, options->seed + 1, t->inputs);
    for (int i = 0; i < t->sample->n_inputs && status == TH_OK; i++) {
        if (t->inputs[i] && t->strided) {
            t->inputs[i] = strided_base(t->inputs[i]);
            status = t->inputs[i] ? TH_OK : ctx->error;
        }
        t->checked[i] =
            t->inputs[i] && th_is_floating(th_dtype_of(t->inputs[i])) && !th_sample_input_at(t->sample, i)->constant;
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
