/* Records a call: gives its outputs gradient buffers, and adds a node that saves the operands for backward. (A view
 * uses its base's buffer.) apply.c calls th_record_call after forward. */
#include <string.h>

#include "autograd/frame.h"
#include "tensor/gradient_buffer.h"

/* -- gradient buffers of the outputs -- */

/* Sets where a view's gradient is in its root's gradient. It has the strides of the view's data if the base's gradient
 * has the layout of the base's data. Otherwise (below an expand) the shape rule computes the strides from the strides
 * of the base's gradient. */
static th_status set_gradient_view(th_frame *frame, th_tensor_impl *view, const th_tensor_impl *base)
{
    view->gradient_view.root = base->gradient_view.root;
    view->requires_gradient = true;
    if (base->gradient_view.offset == base->offset &&
        memcmp(base->gradient_view.stride, base->stride, (size_t)base->ndim * sizeof base->stride[0]) == 0) {
        memcpy(view->gradient_view.stride, view->stride, sizeof view->stride);
        view->gradient_view.offset = view->offset;
        return TH_OK;
    }
    memcpy(frame->call.input[0].stride, base->gradient_view.stride, sizeof base->gradient_view.stride);
    if (th_frame_run_shape_rule(frame) != TH_OK)
        return frame->call.ctx->error;
    if (frame->output[0].ndim != view->ndim ||
        memcmp(frame->output[0].size, view->size, (size_t)view->ndim * sizeof view->size[0]) != 0)
        return th_call_fail(&frame->call, TH_ERROR_STATE,
                            "the shape rule declares different shapes for different strides");
    memcpy(view->gradient_view.stride, frame->output[0].stride, sizeof view->gradient_view.stride);
    view->gradient_view.offset = base->gradient_view.offset + frame->view_offset;
    return TH_OK;
}

/* Sets *repeating_view if the view contains elements more than once, such as overlapping windows. Such a view needs its
 * own gradient buffer, because in its base's buffer repeated elements would overwrite each other. */
static th_status find_repeating_view(th_frame *frame, th_tape *tape, const th_tensor_impl *view,
                                     const th_gradient_view **repeating_view)
{
    if (th_strides_are_distinct(view->ndim, view->size, view->gradient_view.stride))
        return TH_OK;
    th_context *ctx = frame->call.ctx;
    th_gradient_view *copy = th_bump_allocate(ctx, &tape->records, sizeof *copy);
    if (copy == NULL)
        return th_fail_memory(ctx, frame->call.op->name, sizeof *copy);
    *copy = view->gradient_view;
    *repeating_view = copy;
    return TH_OK;
}

/* Gives a result its own gradient buffer, with the layout of the value (contiguous if the value repeats elements). */
static th_status become_root(th_tensor_impl *t, th_tape *tape, int64_t node, const char *operation)
{
    t->gradient = th_bump_allocate(t->ctx, &tape->records, sizeof *t->gradient);
    if (t->gradient == NULL)
        return th_fail_memory(t->ctx, operation, sizeof *t->gradient);
    *t->gradient = th_gradient_buffer_new(t, TH_GRADIENT_OF_RESULT, node);
    t->requires_gradient = true;
    t->gradient_view.root = t;
    t->gradient_view.offset = 0;
    bool repeats_elements = false;
    for (int d = 0; d < t->ndim; d++)
        repeats_elements |= t->size[d] > 1 && t->stride[d] == 0;
    if (repeats_elements || t->storage != &t->own_storage)
        th_compute_contiguous_strides(t->ndim, t->size, t->gradient_view.stride);
    else
        memcpy(t->gradient_view.stride, t->stride, sizeof t->stride);
    return TH_OK;
}

/* Gives a node's outputs their gradient buffers. A view uses its base's buffer, unless it repeats elements. Then
 * backward adds its gradient to *repeating_view, a view of the base's gradient. */
static th_status add_gradient_buffers(th_frame *frame, th_tape *tape, th_tensor_impl *const *inputs,
                                      th_tensor_impl *const *outputs, const th_gradient_view **repeating_view)
{
    const th_op *op = frame->call.op;
    *repeating_view = NULL;
    if ((op->flags & TH_OP_VIEW) && !op->identity_gradients) {
        if (set_gradient_view(frame, outputs[0], inputs[0]) != TH_OK ||
            find_repeating_view(frame, tape, outputs[0], repeating_view) != TH_OK || *repeating_view == NULL)
            return frame->call.ctx->error;
    }
    const uint32_t differentiable_outputs = op->differentiable_outputs ? op->differentiable_outputs : 1;
    for (int i = 0; i < frame->call.n_outputs; i++)
        if (outputs[i] && th_is_floating(outputs[i]->dtype) && (differentiable_outputs & (1u << i)) &&
            become_root(outputs[i], tape, tape->nodes.count, op->name) != TH_OK)
            return frame->call.ctx->error;
    return TH_OK;
}

/* -- the node -- */

/* Lowers node->first_contributor to that of node `other`, on which the node depends. other = -1: none. */
static void lower_first_contributor(th_context *ctx, th_node *node, int64_t other)
{
    const int64_t first = other < 0 ? node->first_contributor : th_node_at(ctx->tape, other)->first_contributor;
    node->first_contributor = first < node->first_contributor ? first : node->first_contributor;
}

static void save_operand(th_context *ctx, th_node *node, th_operand_record *record)
{
    th_storage *storage = record->tensor->storage;
    record->version = storage->version;
    if (storage->producer >= 0 && !storage->always_held && !ctx->keep_values) {
        record->saved = TH_SAVED_RECOMPUTED;
        lower_first_contributor(ctx, node, storage->producer);
    } else {
        record->saved = TH_SAVED_HELD;
        th_storage_hold(storage);
    }
}

/* Returns whether backward runs the operation again instead of saving its results, unless th_keep_values is on. (A view
 * has no memory to save.) */
static bool must_drop_results(const th_context *ctx, const th_op *op)
{
    return (op->flags & TH_OP_RECOMPUTE) || (ctx->recompute && op->forward && !(op->flags & TH_OP_VIEW));
}

/* Does first everything that can fail, so that a failed call leaves no node. */
th_status th_record_call(th_frame *frame, th_tape *tape, int n, th_tensor_impl *const *inputs,
                         th_tensor_impl *const *outputs, uint32_t saved)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    const int n_outputs = frame->call.n_outputs;
    const th_gradient_view *repeating_view;
    if (add_gradient_buffers(frame, tape, inputs, outputs, &repeating_view) != TH_OK)
        return ctx->error;
    const size_t operands = (size_t)(n + n_outputs);
    th_operand_record *operand = th_bump_allocate(ctx, &tape->records, operands * sizeof *operand);
    th_node *node = operand ? th_pool_new(ctx, &tape->nodes) : NULL;
    if (node == NULL)
        return th_fail_memory(ctx, op->name, sizeof *node);
    const int64_t index = tape->nodes.count - 1;
    *node = (th_node){.op = op,
                      .attributes = th_call_attributes(&frame->call),
                      .n_inputs = n,
                      .n_outputs = n_outputs,
                      .operand = operand,
                      .random = frame->call.random,
                      .repeating_view = repeating_view,
                      .training = frame->call.training,
                      .drops_results = must_drop_results(ctx, op),
                      .precision = ctx->machine.precision,
                      .path = ctx->scope_path,
                      .first_contributor = index};
    th_caller_location(&node->file, &node->line);

    const bool recompute = node->drops_results && !ctx->keep_values;
    for (int i = 0; i < n; i++) {
        operand[i] = (th_operand_record){.tensor = inputs[i]};
        if (inputs[i] == NULL)
            continue;
        operand[i].requires_gradient = inputs[i]->requires_gradient;
        operand[i].version = inputs[i]->storage->version;
        if (inputs[i]->owned)
            inputs[i]->tape_uses++;
        operand[i].read = th_op_mask_has(op, saved, i);
        lower_first_contributor(ctx, node, th_gradient_buffer_node(inputs[i]));
        if (recompute || operand[i].read)
            save_operand(ctx, node, &operand[i]);
    }
    for (int i = 0; i < n_outputs; i++) {
        th_tensor_impl *t = outputs[i];
        operand[n + i] = (th_operand_record){.tensor = t};
        if (t == NULL)
            continue;
        operand[n + i].version = t->storage->version;
        if (recompute && (i == 0 || ctx->recompute))
            t->storage->producer = index;
        operand[n + i].read = saved & TH_OUTPUT(i);
        if (operand[n + i].read)
            save_operand(ctx, node, &operand[n + i]);
    }
    return TH_OK;
}
