/* Recording a call: whether it is, what of its operands is saved, where the gradients of its outputs will lie, and the
 * node that says so. */
#include <string.h>

#include "autograd/gradient.h"

/* -- what is recorded, and what is saved -- */

static bool differentiable(const th_op *op)
{
    return op->backward || op->identity_gradients || ((op->flags & TH_OP_VIEW) && !op->not_differentiable);
}

/* Without a backward no gradient reaches an input to which the output's does not pass. */
static bool reaches_all(th_context *ctx, const th_op *op, int n, th_body *const *inputs)
{
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient && !th_op_names(op, op->identity_gradients, i)) {
            th_fail(ctx, TH_ERROR_ARGUMENT, op->name,
                    "input %d requires a gradient, which does not pass to it, and there is no backward", i);
            return false;
        }
    return true;
}

bool th_record_wanted(th_context *ctx, const th_op *op, int n, th_body *const *inputs)
{
    if (ctx->no_grad_depth > 0 || !differentiable(op))
        return false;
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient)
            return op->backward || op->identity_gradients == 0 || reaches_all(ctx, op, n, inputs);
    return false;
}

uint32_t th_record_saves(const th_op *op, int n, th_body *const *inputs)
{
    uint32_t bits = op->saves;
    for (int i = 0; i < n; i++)
        if (inputs[i] && inputs[i]->requires_gradient)
            bits |= op->saves_for[op->n_inputs == TH_ANY_INPUTS ? 0 : i];
    return bits;
}

/* -- places of gradients -- */

/* The view's part of its root's gradient: the data's geometry, or, where the root's gradient lies otherwise (below an
 * expand), the shape rule's answer for it. */
static th_status set_part(th_frame *frame, th_body *view, const th_body *base)
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
        return th_call_fail(&frame->call, TH_ERROR_STATE, "the shape rule declares another shape for other strides");
    memcpy(view->part.stride, frame->output[0].stride, sizeof view->part.stride);
    view->part.offset = base->part.offset + frame->view_offset;
    return TH_OK;
}

/* A view some of whose elements lie on one another, as in windows that overlap: in its base's gradient they would
 * overwrite each other. */
static th_status note_repeats(th_frame *frame, th_tape *tape, const th_body *view, const th_part **repeats)
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
static th_status become_root(th_body *t, th_tape *tape, int64_t node, const char *operation)
{
    t->gradient = th_bump_take(t->ctx, &tape->bytes, sizeof *t->gradient);
    if (t->gradient == NULL)
        return th_fail_memory(t->ctx, operation, sizeof *t->gradient);
    *t->gradient = th_place_new(t, TH_PLACE_OF_RESULT, node);
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
static th_status place_outputs(th_frame *frame, th_tape *tape, th_body *const *inputs, th_body *const *outputs,
                               const th_part **repeats)
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
    if (storage->producer >= 0 && !ctx->keep_values) {
        record->saved = TH_SAVED_RECOMPUTED;
        reach(ctx, node, storage->producer);
    } else {
        record->saved = TH_SAVED_HELD;
        th_storage_hold(storage);
    }
}

/* Everything that can fail comes first. */
th_status th_record(th_frame *frame, th_tape *tape, int n, th_body *const *inputs, th_body *const *outputs,
                    uint32_t saved)
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
                      .bfloat16 = ctx->machine.bfloat16_products,
                      .path = ctx->path,
                      .lowest = index};
    th_location(&node->file, &node->line);

    const bool recompute = (op->flags & TH_OP_RECOMPUTE) && !ctx->keep_values;
    for (int i = 0; i < n; i++) {
        operand[i] = (th_operand_record){.tensor = inputs[i]};
        if (inputs[i] == NULL)
            continue;
        operand[i].requires_gradient = inputs[i]->requires_gradient;
        if (inputs[i]->owned)
            inputs[i]->tape_uses++;
        reach(ctx, node, th_place_node(inputs[i]));
        if (recompute || th_op_names(op, saved, i))
            save_operand(ctx, node, &operand[i]);
    }
    for (int i = 0; i < n_outputs; i++) {
        th_body *t = outputs[i];
        operand[n + i] = (th_operand_record){.tensor = t};
        if (t == NULL)
            continue;
        if (recompute && i == 0)
            t->storage->producer = index;
        if (saved & TH_OUTPUT(i))
            save_operand(ctx, node, &operand[n + i]);
    }
    return TH_OK;
}
