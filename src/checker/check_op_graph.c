/* Runs an operation in the middle of a graph (check_op_parts.h).
 *
 *     leaf -> copy ------------> operation -> probe, which is the loss
 *                \_ probe         copy _/
 *
 * A copy turns a leaf into a result, so that the driver may write gradients over values. A probe is the inner product
 * with constants. Its known gradients reach the outputs of the operation, and its inputs. */
#include "checker/check_op_parts.h"

#include <math.h>
#include <string.h>

#include "autograd/gradient.h"
#include "checker/samples.h"
#include "tapehead/ops.h"
#include "tensor/format.h"
#include "tensor/splitmix.h"

/* -- the graph's arrays -- */

/* Uniform on (-1, 1), away from 0, with few digits: multiples and halves of it are exact in float32. */
static void fill_random(th_graph *graph, double *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const uint64_t z = th_splitmix64(&graph->random);
        const double magnitude = 0.25 + 0.75 * (double)(z >> 48) * 0x1p-16;
        values[i] = z & 1 ? magnitude : -magnitude;
    }
}

int64_t th_graph_numel(const th_graph *graph, int i)
{
    const th_tensor_impl *base = th_tensor_impl_of(graph->inputs[i]);
    return th_tensor_numel(base) / (graph->layout == TH_LAYOUT_GAPS && base->ndim > 0 ? 2 : 1);
}

bool th_graph_begin(th_graph *graph)
{
    th_context *ctx = graph->ctx;
    const uint32_t outputs = graph->guard->original->differentiable_outputs;
    graph->settings = th_checker_read_settings(ctx);
    ctx->outer_depths =
        (th_depths){ctx->scope_depth, ctx->no_grad_depth}; /* th_tape_clear leaves the caller's scopes open */
    graph->output_mask = outputs ? outputs : 1;
    for (int i = 0; i < graph->sample->n_inputs; i++)
        if (graph->checked[i]) {
            graph->checked_mask |= 1u << i;
            graph->first_column[i] = graph->columns;
            graph->columns += th_graph_numel(graph, i);
        }
    graph->extra_gradient = th_checker_allocate(graph->ctx, "check_op", graph->columns);
    graph->gradient = th_checker_allocate(graph->ctx, "check_op", graph->columns);
    graph->other_gradient = th_checker_allocate(graph->ctx, "check_op", graph->columns);
    for (int k = 0; k < TH_MAX_OUTPUTS; k++)
        if (graph->output_mask & 1u << k)
            graph->reference[k] = th_checker_allocate(graph->ctx, "check_op", graph->columns);
    if (!ctx->error)
        fill_random(graph, graph->extra_gradient, graph->columns);
    return !ctx->error;
}

void th_graph_end(th_graph *graph)
{
    th_context *ctx = graph->ctx;
    th_checker_release(graph->ctx, graph->extra_gradient, graph->columns);
    th_checker_release(graph->ctx, graph->gradient, graph->columns);
    th_checker_release(graph->ctx, graph->other_gradient, graph->columns);
    for (int k = 0; k < TH_MAX_OUTPUTS; k++) {
        th_checker_release(graph->ctx, graph->reference[k], graph->columns);
        th_checker_release(graph->ctx, graph->value[k], graph->rows[k]);
        th_checker_release(graph->ctx, graph->cotangent[k], graph->rows[k]);
    }
    th_checker_apply_settings(ctx, &graph->settings);
    ctx->outer_depths = graph->settings.around;
    ctx->step_failed = graph->settings.step_failed || ctx->error;
}

void th_graph_begin_other_values(th_graph *graph)
{
    memcpy(graph->saved_value, graph->value, sizeof graph->value);
    memset(graph->value, 0, sizeof graph->value);
}

void th_graph_end_other_values(th_graph *graph)
{
    for (int k = 0; k < TH_MAX_OUTPUTS; k++)
        th_checker_release(graph->ctx, graph->value[k], graph->rows[k]);
    memcpy(graph->value, graph->saved_value, sizeof graph->value);
}

/* -- a run: forward -- */

/* Makes the operation's operand from a leaf. */
static th_tensor *make_operand(const th_graph *graph, const th_variant *variant, int i)
{
    th_tensor *leaf = graph->inputs[i];
    const bool result = variant->inputs_are_results && graph->checked[i];
    if (variant->expanded_input == i + 1)
        return th_expand(result ? th_apply(&th_op_check_copy, NULL, leaf) : leaf,
                         th_sample_input_at(graph->sample, i)->shape);
    if (!result)
        return th_operand_view(leaf, graph->layout);
    if (graph->layout == TH_LAYOUT_GAPS) /* the operand is a view of a result */
        return th_operand_view(th_apply(&th_op_check_copy, NULL, leaf), graph->layout);
    return th_apply(&th_op_check_copy, NULL, th_operand_view(leaf, graph->layout));
}

bool th_graph_is_close(const th_graph *graph, double a, double b, double scale)
{
    return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= graph->tolerance * scale;
}

/* Keeps the values of output k in the first run with these inputs, and compares them in later runs. */
static bool check_output(th_graph *graph, th_tensor *y, int k)
{
    const th_tensor_impl *impl = th_tensor_impl_of(y);
    const int64_t rows = th_tensor_numel(impl);
    if (th_tensor_data(impl) == NULL && rows > 0) /* shapes only */
        return true;
    if (graph->cotangent[k] && rows != graph->rows[k]) {
        th_fail(graph->ctx, TH_ERROR_SHAPE, "check_op", "output %d has %lld elements; in the first run it had %lld", k,
                (long long)rows, (long long)graph->rows[k]);
        return false;
    }
    double *values = th_checker_allocate(graph->ctx, "check_op", rows);
    if (values == NULL)
        return false;
    const th_array array = th_tensor_array(impl);
    th_checker_to_doubles(impl, &array, values);
    if (graph->value[k] == NULL) {
        graph->rows[k] = rows;
        graph->value[k] = values;
        if (graph->cotangent[k])
            return true;
        graph->cotangent[k] = th_checker_allocate(graph->ctx, "check_op", rows);
        if (graph->cotangent[k])
            fill_random(graph, graph->cotangent[k], rows);
        return !graph->ctx->error;
    }
    const double scale = th_largest_magnitude(graph->value[k], rows);
    for (int64_t i = 0; i < rows && graph->finding[0] == 0; i++)
        if (!th_graph_is_close(graph, values[i], graph->value[k][i], scale))
            th_append(graph->finding, sizeof graph->finding, "element %lld of output %d is %.9g; it should be %.9g",
                      (long long)i, k, values[i], graph->value[k][i]);
    th_checker_release(graph->ctx, values, rows);
    return true;
}

/* Applies the operation to the operands, and lists its outputs for the probe. */
static bool apply_operation(th_graph *graph, const th_variant *variant, th_tensor *const *operand, th_probe *loss)
{
    th_tensor *output[TH_MAX_OUTPUTS] = {NULL}, **requested[TH_MAX_OUTPUTS] = {NULL};
    for (int k = 1; k < TH_MAX_OUTPUTS; k++)
        requested[k - 1] = variant->given_outputs & 1u << k ? &output[k] : NULL;
    memcpy(graph->ctx->calls, graph->settings.calls, sizeof graph->ctx->calls); /* the same random numbers */
    output[0] = th_apply_n(&graph->guard->op, graph->sample->attributes, graph->sample->n_inputs, operand, requested);
    for (int k = 0; k < TH_MAX_OUTPUTS && !graph->ctx->error; k++) {
        if (!(variant->given_outputs & 1u << k))
            continue;
        if (!check_output(graph, output[k], k))
            return false;
        if (variant->shares_inputs) /* dL/dy is the sum of two parts; one comes through a copy */
            th_probe_add(loss, th_apply(&th_op_check_copy, NULL, output[k]), graph->cotangent[k], 1);
        th_probe_add(loss, output[k], graph->cotangent[k], variant->shares_inputs ? 2 : variant->half);
    }
    return !graph->ctx->error;
}

/* Calls the operation with other inputs, which no result of the first call may depend on. */
static void apply_to_others(th_graph *graph, th_probe *loss)
{
    th_tensor *operand[TH_MAX_SAMPLE_INPUTS] = {NULL};
    for (int i = 0; i < graph->sample->n_inputs; i++)
        if (graph->others[i])
            operand[i] = th_operand_view(graph->others[i], graph->layout);
    th_tensor *y = th_apply_n(&graph->guard->op, graph->sample->attributes, graph->sample->n_inputs, operand, NULL);
    if (graph->output_mask & 1)
        th_probe_add(loss, y, NULL, 0);
}

/* Records the whole graph. Returns the loss, or NULL with the error pending. */
static th_tensor *record_graph(th_graph *graph, const th_variant *variant)
{
    const th_sample *sample = graph->sample;
    th_tensor *operand[TH_MAX_SAMPLE_INPUTS] = {NULL};
    th_probe probe_before = {.attributes.factor = 1},
             loss = {.attributes.factor = variant->scale != 0 ? variant->scale : 1};
    for (int i = 0; i < sample->n_inputs && !graph->ctx->error; i++) {
        if (graph->inputs[i] == NULL)
            continue;
        const bool repeated = th_variant_repeats_input(variant) && i == variant->same_inputs[1];
        operand[i] = repeated ? operand[variant->same_inputs[0]] : make_operand(graph, variant, i);
        if (variant->shares_inputs && !repeated && variant->required_inputs & 1u << i) {
            th_probe_add(&probe_before, operand[i], graph->extra_gradient + graph->first_column[i], 1);
            th_probe_add(&loss, operand[i], graph->extra_gradient + graph->first_column[i], 2);
        }
    }
    if (probe_before.count && !graph->ctx->error)
        th_probe_add(&loss, th_probe_apply(&probe_before), NULL, 0);
    if (graph->ctx->error || !apply_operation(graph, variant, operand, &loss))
        return NULL;
    if (variant->followed)
        apply_to_others(graph, &loss);
    return graph->ctx->error ? NULL : th_probe_apply(&loss);
}

/* -- a run: backward -- */

/* Reads the gradients of the leaves that require one, in the order of the operands' elements. */
static void read_gradients(th_graph *graph, const th_variant *variant)
{
    memset(graph->gradient, 0, (size_t)graph->columns * sizeof *graph->gradient);
    for (int i = 0; i < graph->sample->n_inputs && !graph->ctx->error; i++) {
        if (!(variant->required_inputs & 1u << i) ||
            !th_gradient_buffer_is_complete(th_tensor_impl_of(graph->inputs[i])->gradient))
            continue;
        const th_tensor_impl *view = th_tensor_impl_of(th_operand_view(graph->inputs[i], graph->layout));
        th_array array;
        if (view == NULL)
            return;
        th_gradient_array(view, &array);
        if (array.data)
            th_checker_to_doubles(view, &array, graph->gradient + graph->first_column[i]);
    }
}

static bool run_once(th_graph *graph, const th_variant *variant)
{
    th_context *ctx = graph->ctx;
    if (variant->recomputed)
        th_scope_begin_recomputed(ctx, NULL);
    else
        th_scope_begin(ctx, NULL);
    th_tensor *loss = record_graph(graph, variant);
    loss = th_scope_end(ctx, loss);
    return loss && (variant->required_inputs == 0 || th_backward(loss, NULL) == TH_OK);
}

/* Sets which inputs require a gradient, and what the operation claims. */
static void prepare_run(th_graph *graph, const th_variant *variant)
{
    const th_op *op = graph->guard->original;
    const uint32_t removable = TH_OP_IN_PLACE | TH_OP_OVER_INPUT | TH_OP_RECOMPUTE;
    th_context *ctx = graph->ctx;
    th_checker_apply_settings(ctx, &graph->settings);
    ctx->no_grad_depth = 0;
    ctx->keep_values = ctx->tracing = false;
    ctx->training ^= variant->other_mode;
    graph->guard->op.flags = (op->flags & ~removable) | (op->flags & removable & variant->flags);
    graph->guard->op.precomputed = variant->precomputed ? op->precomputed : 0;
    graph->guard->finding[0] = graph->finding[0] = 0;
    graph->guard->plan_count = 0;
    for (int i = 0; i < graph->sample->n_inputs; i++)
        if (graph->checked[i]) {
            (void)th_set_requires_gradient(graph->inputs[i], (variant->required_inputs & 1u << i) != 0);
            th_empty_gradient(graph->inputs[i]);
            if (graph->others) {
                (void)th_set_requires_gradient(graph->others[i], variant->followed);
                th_empty_gradient(graph->others[i]);
            }
        }
}

bool th_graph_run(th_graph *graph, const th_variant *variant)
{
    th_context *ctx = graph->ctx;
    th_tape_clear(ctx);
    prepare_run(graph, variant);
    for (int time = 0; time < (variant->passes ? variant->passes : 1) && !ctx->error; time++)
        if (!run_once(graph, variant))
            break;
    if (!ctx->error)
        read_gradients(graph, variant);
    th_tape_clear(ctx);
    if (graph->guard->finding[0] && !graph->finding[0])
        memcpy(graph->finding, graph->guard->finding, sizeof graph->finding);
    th_checker_apply_settings(ctx, &graph->settings);
    return !ctx->error;
}
