/* Checks empty tensors, and plans without data (check_op_parts.h). */
#include "checker/check_op_parts.h"

#include <string.h>

#include "checker/engine/report.h"
#include "checker/samples.h"
#include "tensor/format.h"

/* A sample's inputs, and the graph in which they are used. */
typedef struct attempt {
    th_tensor *inputs[TH_MAX_SAMPLE_INPUTS];
    bool checked[TH_MAX_SAMPLE_INPUTS];
    th_graph graph;
} attempt;

/* Returns false with the error pending. Call end_attempt in either case. */
static bool begin_attempt(attempt *a, th_context *ctx, th_guard *guard, const th_sample *sample, th_dtype dtype)
{
    memset(a, 0, sizeof *a);
    a->graph.ctx = ctx;
    a->graph.guard = guard;
    a->graph.sample = sample;
    a->graph.inputs = a->inputs;
    a->graph.checked = a->checked;
    if (th_sample_inputs(ctx, sample, dtype, 1, a->inputs) != TH_OK)
        return false;
    for (int i = 0; i < sample->n_inputs; i++)
        a->checked[i] = th_sample_is_checked(sample, i, a->inputs[i]);
    return true;
}

static void end_attempt(attempt *a)
{
    for (int i = 0; i < a->graph.sample->n_inputs; i++)
        th_tensor_free(a->inputs[i]);
}

/* -- empty tensors -- */

/* Runs forward and backward. Notes a mistake in graph->finding. */
static void run_empty(th_graph *graph)
{
    if (th_graph_begin(graph) && th_variants_set_reference(graph))
        for (int k = 0; k < TH_MAX_OUTPUTS && !graph->finding[0]; k++)
            if (graph->reference[k] && graph->rows[k] == 0 &&
                th_largest_magnitude(graph->reference[k], graph->columns) > 0)
                th_append(graph->finding, sizeof graph->finding,
                          "output %d has no elements, but an input has a gradient that is not 0", k);
}

/* Returns the sample with every axis of this size made empty. */
static th_sample with_empty_axes(const th_sample *sample, int64_t size, const char *name)
{
    th_sample empty = *sample;
    empty.name = name;
    for (int i = 0; i < TH_MAX_INPUTS; i++)
        for (int d = 0; d < empty.input[i].shape.ndim; d++)
            if (empty.input[i].shape.size[d] == size)
                empty.input[i].shape.size[d] = 0;
    return empty;
}

static th_status check_with_empty_axes(th_context *ctx, th_guard *guard, const th_sample *sample, int64_t size,
                                       th_dtype dtype, th_gradient_report *report)
{
    const bool step_failed = ctx->step_failed;
    char name[128] = "";
    th_append(name, sizeof name, "%s, axes of %lld empty", sample->name, (long long)size);
    const th_sample empty = with_empty_axes(sample, size, name);
    attempt a;
    bool wrong = false;
    if (begin_attempt(&a, ctx, guard, &empty, dtype) &&
        th_apply_check(guard->original, empty.attributes, empty.n_inputs, a.inputs) == TH_OK) {
        run_empty(&a.graph);
        wrong = !ctx->error && a.graph.finding[0];
        if (wrong)
            th_variant_report(&a.graph, &(th_variant){.required_inputs = a.graph.checked_mask}, report);
        th_graph_end(&a.graph);
    }
    end_attempt(&a);
    if (ctx->error == TH_ERROR_MEMORY)
        return ctx->error;
    th_error_clear(ctx); /* the operation rejects such shapes */
    ctx->step_failed = step_failed;
    return wrong ? TH_ERROR_VALUE : TH_OK;
}

/* Returns whether axis d of input i is the first of its size. */
static bool is_first_of_size(const th_sample *sample, int i, int d)
{
    const int64_t size = sample->input[i].shape.size[d];
    for (int j = 0; j <= i; j++)
        for (int e = 0; e < (j == i ? d : sample->input[j].shape.ndim); e++)
            if (sample->input[j].shape.size[e] == size)
                return false;
    return size > 0;
}

th_status th_check_op_empty(th_context *ctx, th_guard *guard, const th_sample *sample, th_dtype dtype,
                            th_gradient_report *report)
{
    th_status status = TH_OK;
    const int n = sample->n_inputs < TH_MAX_INPUTS ? sample->n_inputs : TH_MAX_INPUTS;
    for (int i = 0; i < n; i++)
        if (sample->input[i].kind == TH_SAMPLE_INDEX)
            return TH_OK;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < sample->input[i].shape.ndim && status == TH_OK; d++)
            if (sample->input[i].kind != TH_SAMPLE_ABSENT && is_first_of_size(sample, i, d))
                status = check_with_empty_axes(ctx, guard, sample, sample->input[i].shape.size[d], dtype, report);
    return status;
}

/* -- planning without data -- */

/* Creates a context with the same settings that has shapes only. */
static th_context *new_shapes_only_context(const th_context *ctx)
{
    th_context_options options = ctx->options;
    options.shapes_only = true;
    options.threads = ctx->threads;
    th_context *shapes_only = th_context_new(&options);
    if (shapes_only) {
        const th_settings settings = th_checker_read_settings(ctx);
        th_checker_apply_settings(shapes_only, &settings);
        shapes_only->machine = ctx->machine;
    }
    return shapes_only;
}

/* Notes in guard->planned_bytes how much memory forward and backward reserve for this sample. */
static void plan_sample(th_context *ctx, th_guard *guard, const th_sample *sample, th_dtype dtype)
{
    attempt a;
    if (begin_attempt(&a, ctx, guard, sample, dtype)) {
        if (th_graph_begin(&a.graph))
            (void)th_graph_run(
                &a.graph, &(th_variant){.required_inputs = a.graph.checked_mask, .given_outputs = a.graph.output_mask});
        th_graph_end(&a.graph);
    }
    end_attempt(&a);
}

static void compare_plans(const th_guard *real, const th_guard *forecast, const th_sample *sample,
                          th_gradient_report *report)
{
    const int plans = real->plan_count < TH_MAX_PLANS ? real->plan_count : TH_MAX_PLANS;
    for (int i = 0; i < plans; i++) {
        if (i < forecast->plan_count && real->planned_bytes[i] == forecast->planned_bytes[i])
            continue;
        *report = (th_gradient_report){.verdict = TH_GRADIENT_WRONG, .mode = report->mode, .input = -1};
        th_report_append(
            report,
            "%s (sample \"%s\") is wrong in a context of shapes only: the plan of %s reserves %llu bytes of "
            "scratch memory there, but %llu bytes in a context with values\n",
            real->original->name, sample->name, i ? "backward" : "forward",
            (unsigned long long)(i < forecast->plan_count ? forecast->planned_bytes[i] : 0),
            (unsigned long long)real->planned_bytes[i]);
        return;
    }
}

th_status th_check_op_plans(th_context *ctx, th_guard *guard, const th_op *op, th_dtype dtype,
                            th_gradient_report *report)
{
    if (op->plan == NULL)
        return TH_OK;
    th_context *shapes_only = new_shapes_only_context(ctx);
    if (shapes_only == NULL)
        return th_fail_memory(ctx, "check_op", sizeof *shapes_only);
    th_guard forecast;
    th_guard_init(&forecast, op);
    report->verdict = TH_GRADIENT_RIGHT;
    for (const th_sample *sample = op->samples; sample->name && report->verdict == TH_GRADIENT_RIGHT; sample++) {
        plan_sample(ctx, guard, sample, dtype);
        plan_sample(shapes_only, &forecast, sample, dtype);
        if (shapes_only->error && !ctx->error)
            th_fail(ctx, shapes_only->error, "check_op", "in a context of shapes only: %s", shapes_only->message);
        if (ctx->error)
            break;
        compare_plans(guard, &forecast, sample, report);
    }
    th_guard_free(&forecast, shapes_only);
    th_context_free(shapes_only);
    th_use_context(ctx);
    if (ctx->error)
        return ctx->error;
    return report->verdict == TH_GRADIENT_WRONG ? TH_ERROR_VALUE : TH_OK;
}
