/* th_check_op: checks an operation on its samples. Guards watch its memory (check_op_guard.c), and difference quotients
 * check its gradients (check_gradient.c). A graph around it (check_op_graph.c) creates the conditions
 * (check_op_variants.c). Then come empty tensors and planning without values (check_op_sizes.c). */
#include <float.h>
#include <string.h>

#include "checker/check_op_parts.h"
#include "checker/engine/limits.h"
#include "checker/engine/report.h"
#include "checker/engine_calls.h"
#include "checker/samples.h"
#include "tapehead/ops.h"

/* Elements of each input whose gradient is compared where an element is 0. */
enum { ZERO_SAMPLES = 12 };

typedef struct trial {
    const th_op *op;
    const th_sample *sample;
    th_layout layout;
    int output_index;                        /* which of the operation's outputs */
    th_tensor *inputs[TH_MAX_SAMPLE_INPUTS]; /* all inputs; the checker passes its own copies of the checked ones */
    th_tensor *others[TH_MAX_SAMPLE_INPUTS]; /* inputs with other values */
    bool checked[TH_MAX_SAMPLE_INPUTS];
    const char *mode;    /* of the context: "" if it is the caller's */
    bool mode_matters;   /* outputs or gradients differ in the other mode: known after the first layout */
    bool zeros;          /* elements of the inputs are 0 */
    int64_t comparisons; /* so far */
} trial;

static th_tensor *apply_trial(void *user, th_tensor *const *inputs)
{
    const trial *t = user;
    th_tensor *operands[TH_MAX_SAMPLE_INPUTS];
    for (int i = 0, next_input = 0; i < t->sample->n_inputs; i++) {
        operands[i] = t->checked[i] ? inputs[next_input++] : t->inputs[i];
        if (operands[i])
            operands[i] = th_operand_view(operands[i], t->layout);
    }
    th_tensor *extra[TH_MAX_OUTPUTS] = {NULL}, **requested[TH_MAX_OUTPUTS] = {NULL};
    if (t->output_index > 0)
        requested[t->output_index - 1] = &extra[t->output_index];
    th_tensor *first = th_apply_n(t->op, t->sample->attributes, t->sample->n_inputs, operands, requested);
    return t->output_index == 0 ? first : extra[t->output_index];
}

static th_status run_trial(th_context *ctx, trial *t, const th_gradient_options *options, th_gradient_report *report)
{
    th_gradient_options trial_options = *options;
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
    snprintf(name, sizeof name, "%s (sample \"%s\"%s%s%s)", t->op->name, t->sample->name,
             t->zeros                      ? ", elements are 0"
             : t->layout == TH_LAYOUT_GAPS ? ", strided"
                                           : "",
             t->mode, t->output_index ? ", another output" : "");
    trial_options.name = name;
    trial_options.input_names = name_list;
    if (t->sample->tolerance > 0 && trial_options.relative_tolerance <= 0)
        trial_options.relative_tolerance = t->sample->tolerance;
    if (t->zeros) {
        trial_options.mode = TH_GRADIENT_FAST;
        trial_options.samples = ZERO_SAMPLES;
    }
    const th_status status = (t->zeros ? th_check_gradient_at_kinks
                                       : th_check_gradient)(ctx, apply_trial, t, n, checked, &trial_options, report);
    t->comparisons += report->checked;
    /* a sample without elements is used by the other tests only */
    return report->verdict == TH_GRADIENT_NOTHING_COMPARED ? TH_OK : status;
}

/* Makes the inputs of a trial, in its layout, and the inputs of another call. */
static th_status make_inputs(th_context *ctx, trial *t, const th_gradient_options *options)
{
    const th_dtype dtype = options->float32 ? TH_FLOAT32 : TH_FLOAT64;
    th_status status = th_sample_inputs(ctx, t->sample, dtype, options->seed + 1, t->inputs);
    if (status == TH_OK && t->layout == TH_LAYOUT_PLAIN)
        status = th_sample_inputs(ctx, t->sample, dtype, ~options->seed, t->others);
    for (int i = 0; i < t->sample->n_inputs && status == TH_OK; i++) {
        if (t->inputs[i]) {
            t->inputs[i] = th_operand_base(t->inputs[i], t->layout);
            status = t->inputs[i] ? TH_OK : ctx->error;
        }
        t->checked[i] = th_sample_is_checked(t->sample, i, t->inputs[i]);
    }
    return status;
}

/* Compares with difference quotients, one output at a time. Here backward computes all gradients, and forward
 * computes none (.precomputed). */
static th_status run_trials(th_context *ctx, trial *t, const th_gradient_options *options, th_gradient_report *report)
{
    const th_op *op = t->op;
    th_op plain = *op;
    plain.precomputed = 0;
    t->op = &plain;
    const uint32_t outputs = t->op->differentiable_outputs ? t->op->differentiable_outputs : 1;
    th_status status = TH_OK;
    for (t->output_index = 0; t->output_index < TH_MAX_OUTPUTS && status == TH_OK; t->output_index++)
        if (outputs & (1u << t->output_index))
            status = run_trial(ctx, t, options, report);
    t->op = op;
    return status;
}

/* Checks the operation where elements are NaN or infinite, and where they are 0. Returns false with the error
 * pending. */
static bool check_values(th_graph *graph, trial *t, const th_gradient_options *options, th_gradient_report *report)
{
    th_planted zeros;
    if (!th_values_check(graph, report) || report->verdict != TH_GRADIENT_RIGHT)
        return !graph->ctx->error;
    t->zeros = th_values_plant_zeros(graph, &zeros);
    if (t->zeros)
        (void)run_trials(graph->ctx, t, options, report);
    th_values_remove_zeros(graph, &zeros);
    t->zeros = false;
    return !graph->ctx->error;
}

/* Sets how closely analytic gradients must agree with each other. */
static void set_tolerance(th_graph *graph, const th_gradient_options *options)
{
    const bool bfloat16 = options->float32 && graph->ctx->machine.precision == TH_PRECISION_BFLOAT16;
    graph->unit = bfloat16 ? TH_BFLOAT16_EPSILON : options->float32 ? FLT_EPSILON : DBL_EPSILON;
    graph->tolerance = bfloat16 ? TH_BFLOAT16_EQUAL : th_limits.conditions[options->float32];
}

/* Checks the operation between guards, then against difference quotients. The confirmed gradients are the reference for
 * all other conditions. */
static th_status check_in_graph(th_context *ctx, trial *t, th_guard *guard, const th_gradient_options *options,
                                th_gradient_report *report)
{
    th_status status = TH_OK;
    th_graph graph = {.ctx = ctx,
                      .guard = guard,
                      .sample = t->sample,
                      .layout = t->layout,
                      .inputs = t->inputs,
                      .others = t->layout == TH_LAYOUT_PLAIN ? t->others : NULL,
                      .checked = t->checked,
                      .mode = t->mode,
                      .random = options->seed + 1};
    set_tolerance(&graph, options);
    report->verdict = TH_GRADIENT_RIGHT;
    bool good = th_graph_begin(&graph) && th_variants_set_reference(&graph);
    if (!good && !ctx->error)
        th_variant_report(&graph, &(th_variant){.required_inputs = graph.checked_mask}, report);
    if (good && t->layout != TH_LAYOUT_EXCHANGED)
        status = run_trials(ctx, t, options, report);
    if (good && status == TH_OK) {
        report->verdict = TH_GRADIENT_RIGHT;
        if (th_variants_check(&graph, report) && report->verdict == TH_GRADIENT_RIGHT && t->layout == TH_LAYOUT_PLAIN)
            good = check_values(&graph, t, options, report);
        if (good && report->verdict == TH_GRADIENT_RIGHT && t->layout == TH_LAYOUT_PLAIN && t->mode[0] == 0)
            t->mode_matters = th_variants_mode_matters(&graph);
    }
    th_graph_end(&graph);
    if (status == TH_OK && report->verdict == TH_GRADIENT_WRONG)
        status = TH_ERROR_VALUE;
    return status;
}

static th_status check_sample(th_context *ctx, trial *t, th_guard *guard, const th_gradient_options *options,
                              th_gradient_report *report)
{
    if (th_check_sample(ctx, t->op->name, t->sample) != TH_OK)
        return ctx->error;
    th_status status = make_inputs(ctx, t, options);
    if (status == TH_OK)
        status = check_in_graph(ctx, t, guard, options, report);
    if (status == TH_OK && t->mode_matters) {
        ctx->training = !ctx->training;
        t->mode = ctx->training ? ", in training mode" : ", in evaluation mode";
        status = check_in_graph(ctx, t, guard, options, report);
        ctx->training = !ctx->training;
    }
    for (int i = 0; i < t->sample->n_inputs; i++) {
        th_tensor_free(t->inputs[i]);
        th_tensor_free(t->others[i]);
    }
    return ctx->error ? ctx->error : status;
}

static th_status report_nothing_compared(const th_op *op, th_gradient_report *report, const char *why)
{
    *report = (th_gradient_report){.verdict = TH_GRADIENT_NOTHING_COMPARED, .input = -1};
    snprintf(report->text, sizeof report->text, "%s: nothing was compared: %s\n",
             op->name ? op->name : "an operation without a name", why);
    return TH_ERROR_VALUE;
}

static th_status check_samples(th_context *ctx, th_guard *guard, const th_gradient_options *options,
                               th_gradient_report *report, int64_t *comparisons)
{
    const th_op *op = guard->original;
    const th_dtype dtype = options->float32 ? TH_FLOAT32 : TH_FLOAT64;
    th_status status = TH_OK;
    for (const th_sample *sample = op->samples; sample->name && status == TH_OK; sample++) {
        if (sample->n_inputs < 0 || sample->n_inputs > TH_MAX_SAMPLE_INPUTS)
            return report_nothing_compared(op, report,
                                           "a sample's number of inputs is outside 0 to TH_MAX_SAMPLE_INPUTS");
        bool mode_matters = false;
        for (int layout = 0; layout < TH_LAYOUTS && status == TH_OK; layout++) {
            trial t = {
                .op = op, .sample = sample, .layout = (th_layout)layout, .mode = "", .mode_matters = mode_matters};
            status = check_sample(ctx, &t, guard, options, report);
            mode_matters = t.mode_matters;
            *comparisons += t.comparisons;
        }
        if (status == TH_OK)
            status = th_check_op_empty(ctx, guard, sample, dtype, report);
    }
    return status == TH_OK ? th_check_op_plans(ctx, guard, op, dtype, report) : status;
}

/* Calls check_samples isolated from the open scopes and the step of the caller. th_tape_clear does not close them, and
 * the inputs do not end with them. */
static th_status check_isolated(th_context *ctx, th_guard *guard, const th_gradient_options *options,
                                th_gradient_report *report, int64_t *comparisons)
{
    const th_depths around = ctx->outer_depths;
    const int owned_depth = ctx->owned_depth;
    const bool in_step = ctx->in_step;
    const th_precision precision = th_checker_leave_int8(ctx);
    ctx->outer_depths = (th_depths){ctx->scope_depth, ctx->no_grad_depth};
    ctx->owned_depth = ctx->scope_depth;
    ctx->in_step = false;
    const th_status status = check_samples(ctx, guard, options, report, comparisons);
    ctx->outer_depths = around;
    ctx->owned_depth = owned_depth;
    ctx->in_step = in_step;
    ctx->machine.precision = precision;
    return status;
}

th_status th_check_op(th_context *ctx, const th_op *op, const th_gradient_options *options, th_gradient_report *report)
{
    th_gradient_report unused;
    const th_gradient_options defaults = {0};
    report = report ? report : &unused;
    *report = (th_gradient_report){.input = -1};
    if (ctx == NULL || op == NULL)
        return ctx ? th_fail(ctx, TH_ERROR_ARGUMENT, "check_op", "the operation is NULL") : TH_ERROR_ARGUMENT;
    if (!th_checker_accepts_context(ctx, "check_op"))
        return ctx->error;
    if (op->not_differentiable)
        return th_check_descriptor(ctx, op) == TH_OK ? report_nothing_compared(op, report, op->not_differentiable)
                                                     : ctx->error;
    if (op->backward == NULL && op->identity_gradients == 0 && !(op->flags & TH_OP_VIEW))
        return report_nothing_compared(op, report, "it has neither a backward nor a reason for not having one");
    if (op->samples == NULL || op->samples[0].name == NULL)
        return report_nothing_compared(op, report, "it has no samples to check its gradient on");
    if (th_check_descriptor(ctx, op) != TH_OK)
        return ctx->error;
    int64_t comparisons = 0;
    th_guard guard;
    th_guard_init(&guard, op);
    const th_status status = check_isolated(ctx, &guard, options ? options : &defaults, report, &comparisons);
    th_guard_free(&guard, ctx);
    if (ctx->error)
        return th_report_error(report, ctx);
    if (status != TH_OK)
        return status;
    if (comparisons == 0)
        return report_nothing_compared(op, report, "none of its samples has an element to compare");
    *report = (th_gradient_report){
        .ok = true, .verdict = TH_GRADIENT_RIGHT, .mode = report->mode, .checked = comparisons, .input = -1};
    return TH_OK;
}
