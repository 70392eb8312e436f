/* Recording a call: where the gradients of its outputs will lie, and the node, which holds what is saved. */
#include <string.h>

#include "autograd/frame.h"
#include "tensor/gradient_buffer.h"

/* -- places of gradients -- */

/* The view's part of its root's gradient: the data's geometry, or, where the root's gradient lies otherwise (below an
 * expand), the shape rule's answer for it. */
static th_status set_part(th_frame *frame, th_tensor_impl *view, const th_tensor_impl *base)
{
    view->part.root = base->part.root;
    view->requires_gradient = true;
    if (base->part.offset == base->offset &&
        memcmp(base->part.stride, base->stride, (size_t)base->ndim * sizeof base->stride[0]) == 0) {
        memcpy(view->part.stride, view->stride, sizeof view->stride);
        view->part.offset = view->offset;
        return TH_OK;
    }
    memcpy(frame->call.input[0].stride, base->part.stride, sizeof base->part.stride);
    if (th_frame_shape(frame) != TH_OK)
        return frame->call.ctx->error;
    if (frame->output[0].ndim != view->ndim ||
        memcmp(frame->output[0].size, view->size, (size_t)view->ndim * sizeof view->size[0]) != 0)
        return th_call_fail(&frame->call, TH_ERROR_STATE,
                            "the shape rule declares different shapes for different strides");
    memcpy(view->part.stride, frame->output[0].stride, sizeof view->part.stride);
    view->part.offset = base->part.offset + frame->view_offset;
    return TH_OK;
}

/* A view some of whose elements lie on one another, as in windows that overlap: in its base's gradient they would
 * overwrite each other. */
static th_status note_repeats(th_frame *frame, th_tape *tape, const th_tensor_impl *view, const th_part **repeats)
{
    if (th_strides_distinct(view->ndim, view->size, view->part.stride))
        return TH_OK;
    th_context *ctx = frame->call.ctx;
    th_part *part = th_bump_take(ctx, &tape->bytes, sizeof *part);
    if (part == NULL)
        return th_fail_memory(ctx, frame->call.op->name, sizeof *part);
    *part = view->part;
    *repeats = part;
    return TH_OK;
}

/* The gradient of a result gets a place of its own, laid out as the value is (densely, where the value repeats
 * elements). */
static th_status become_root(th_tensor_impl *t, th_tape *tape, int64_t node, const char *operation)
{
    t->gradient = th_bump_take(t->ctx, &tape->bytes, sizeof *t->gradient);
    if (t->gradient == NULL)
        return th_fail_memory(t->ctx, operation, sizeof *t->gradient);
    *t->gradient = th_gradient_buffer_new(t, TH_GRADIENT_OF_RESULT, node);
    t->requires_gradient = true;
    t->part.root = t;
    t->part.offset = 0;
    bool repeats = false;
    for (int d = 0; d < t->ndim; d++)
        repeats |= t->size[d] > 1 && t->stride[d] == 0;
    if (repeats || t->storage != &t->own_storage)
        th_contiguous_strides(t->ndim, t->size, t->part.stride);
    else
        memcpy(t->part.stride, t->stride, sizeof t->stride);
    return TH_OK;
}

/* Where the gradients of a node's outputs will lie: that of a view in its base's, unless the view repeats elements;
 * *repeats then says where they are added up. */
static th_status place_outputs(th_frame *frame, th_tape *tape, th_tensor_impl *const *inputs,
                               th_tensor_impl *const *outputs, const th_part **repeats)
{
    const th_op *op = frame->call.op;
    *repeats = NULL;
    if ((op->flags & TH_OP_VIEW) && !op->identity_gradients) {
        if (set_part(frame, outputs[0], inputs[0]) != TH_OK ||
            note_repeats(frame, tape, outputs[0], repeats) != TH_OK || *repeats == NULL)
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

/* The node depends on whatever this one does. */
static void reach(th_context *ctx, th_node *node, int64_t other)
{
    const int64_t lowest = other < 0 ? node->lowest : th_node_at(ctx->tape, other)->lowest;
    node->lowest = lowest < node->lowest ? lowest : node->lowest;
}

static void save_operand(th_context *ctx, th_node *node, th_operand_record *record)
{
    th_storage *storage = record->tensor->storage;
    record->version = storage->version;
    if (storage->producer >= 0 && !storage->kept && !ctx->keep_values) {
        record->saved = TH_SAVED_RECOMPUTED;
        reach(ctx, node, storage->producer);
    } else {
        record->saved = TH_SAVED_HELD;
        th_storage_hold(storage);
    }
}

/* Its results are not kept for backward, but what it takes to run it once more is. A view has no bytes of its own. */
static bool runs_again(const th_context *ctx, const th_op *op)
{
    if (ctx->keep_values)
        return false;
    return (op->flags & TH_OP_RECOMPUTE) || (ctx->recompute && op->forward && !(op->flags & TH_OP_VIEW));
}

/* Everything that can fail comes first. */
th_status th_record(th_frame *frame, th_tape *tape, int n, th_tensor_impl *const *inputs,
                    th_tensor_impl *const *outputs, uint32_t saved)
{
    th_context *ctx = frame->call.ctx;
    const th_op *op = frame->call.op;
    const int n_outputs = frame->call.n_outputs;
    const th_part *repeats;
    if (place_outputs(frame, tape, inputs, outputs, &repeats) != TH_OK)
        return ctx->error;
    const size_t operands = (size_t)(n + n_outputs);
    th_operand_record *operand = th_bump_take(ctx, &tape->bytes, operands * sizeof *operand);
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
                      .repeats = repeats,
                      .training = frame->call.training,
                      .precision = ctx->machine.precision,
                      .path = ctx->path,
                      .lowest = index};
    th_location(&node->file, &node->line);

    const bool recompute = runs_again(ctx, op);
    for (int i = 0; i < n; i++) {
        operand[i] = (th_operand_record){.tensor = inputs[i]};
        if (inputs[i] == NULL)
            continue;
        operand[i].requires_gradient = inputs[i]->requires_gradient;
        if (inputs[i]->owned)
            inputs[i]->tape_uses++;
        operand[i].read = th_op_names(op, saved, i);
        reach(ctx, node, th_gradient_buffer_node(inputs[i]));
        if (recompute || operand[i].read)
            save_operand(ctx, node, &operand[i]);
    }
    for (int i = 0; i < n_outputs; i++) {
        th_tensor_impl *t = outputs[i];
        operand[n + i] = (th_operand_record){.tensor = t};
        if (t == NULL)
            continue;
        if (recompute && (i == 0 || ctx->recompute))
            t->storage->producer = index;
        operand[n + i].read = saved & TH_OUTPUT(i);
        if (operand[n + i].read)
            save_operand(ctx, node, &operand[n + i]);
    }
    return TH_OK;
}
