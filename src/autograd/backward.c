/* The backward pass: walks the nodes from the last to the first, hands each operation the gradients of its outputs and
 * the places for those of its inputs. Where a gradient goes, whether it overwrites or adds, and how a broadcast one is
 * summed is decided here, never in an operation. */
#include <string.h>

#include "autograd/coverage.h"
#include "autograd/gradient.h"
#include "autograd/profile.h"
#include "autograd/tape.h"
#include "tensor/elementwise.h"

/* Where one input's gradient goes. */
typedef struct destination {
    th_body *input;
    int before;          /* the input before this one whose gradient goes into the same root's, or -1 */
    th_array target;     /* the input's part of its root's gradient */
    bool add;            /* the target holds something already */
    th_block *temporary; /* the operation writes here first; NULL: straight into the target */
    th_array written;    /* what the operation sees */
} destination;

static bool same_sizes(const th_array *a, const th_array *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof a->size[0]) == 0;
}

/* An earlier input of this node writes into the same memory (or there are too many to look at): whatever order the
 * operation works in, this one goes through a temporary. */
static bool shares_destination(const destination *all, int i)
{
    const th_region region = th_region_of(all[i].input);
    int looked_at = 0;
    for (int j = all[i].before; j >= 0; j = all[j].before) {
        const th_region other = th_region_of(all[j].input);
        if (++looked_at > TH_MAX_INPUTS || th_region_relation(&other, &region) != TH_DISJOINT)
            return true;
    }
    return false;
}

/* The gradients of both lie in memory alike, and nothing has begun that of input, which is a result. */
static bool can_share_gradient(const th_body *input, const th_body *output)
{
    return input == input->root && input->node >= 0 && !th_gradient_begun(input) && input->dtype == output->dtype &&
           input->ndim == output->ndim &&
           memcmp(input->size, output->size, (size_t)input->ndim * sizeof input->size[0]) == 0 &&
           memcmp(input->gradient_stride, output->gradient_stride, (size_t)input->ndim * sizeof input->size[0]) == 0;
}

/* dx may take over the memory of dy: same layout, nobody else reads it, nothing else to write. */
static bool takes_over(const th_node *node, const th_body *input, const th_body *output)
{
    return can_share_gradient(input, output) && output->gradient->holds == 1 && !output->keep_gradient &&
           !output->wrt_target && !input->ctx->keep_values && node->n_outputs == 1;
}

/* Another operand of the node lies in the memory of input i. */
static bool value_is_shared(const th_node *node, int i)
{
    for (int j = 0; j < node->n_inputs + node->n_outputs; j++) {
        const th_body *other = node->operand[j].tensor;
        if (j != i && other && other->storage == node->operand[i].tensor->storage)
            return true;
    }
    return false;
}

/* dx may take over the memory of x: the last that reads it is this backward, which says that it may. */
static bool takes_over_value(th_context *ctx, const th_node *node, int i)
{
    const th_operand_record *operand = th_node_input(node, i);
    const th_body *root = operand->tensor->root;
    const th_storage *storage = operand->tensor->storage;
    if (!(node->op->flags & TH_OP_OVER_INPUT) || i != 0 || operand->tensor != root || root->node < 0 ||
        root->gradient || root->keep_gradient || root->wrt_target || ctx->keep_values ||
        storage != &root->own_storage || storage->holds != 1 ||
        memcmp(root->stride, root->gradient_stride, sizeof root->stride) != 0 || value_is_shared(node, i))
        return false;
    return operand->saved == TH_SAVED_HELD ||
           (operand->saved == TH_SAVED_RECOMPUTED && th_node_at(ctx->tape, storage->producer)->restored);
}

static th_status take_over_value(th_context *ctx, const th_node *node, int i)
{
    th_operand_record *operand = th_node_input(node, i);
    if (th_gradient_take_value(ctx, operand->tensor) != TH_OK)
        return ctx->error;
    if (operand->saved == TH_SAVED_RECOMPUTED)
        th_node_at(ctx->tape, operand->tensor->storage->producer)->restored = false;
    operand->saved = TH_SAVED_NOT;
    return TH_OK;
}

static int gradients_wanted(th_context *ctx, const th_node *node)
{
    int count = 0;
    for (int i = 0; i < node->n_inputs; i++)
        count += th_input_gradient_wanted(ctx, node, i);
    return count;
}

/* How far a backward may use memory again. */
typedef struct reuse {
    bool output_gradient; /* an input gradient may lie where the output's does */
    bool values;          /* or where its input does */
} reuse;

/* Prepares the place for input i's gradient; in `dest` and the frame. */
static th_status prepare(th_frame *frame, const th_node *node, destination *all, int i, reuse allowed)
{
    th_context *ctx = frame->call.ctx;
    destination *dest = &all[i];
    th_body *input = th_node_input(node, i)->tensor;
    dest->input = input;
    dest->before = input->root->destination - 1;
    input->root->destination = i + 1;
    dest->add = false;
    if (allowed.output_gradient && takes_over(node, input, th_node_output(node, 0)->tensor)) {
        th_gradient_share(input->root, th_node_output(node, 0)->tensor->gradient);
    } else if (allowed.values && takes_over_value(ctx, node, i)) {
        if (take_over_value(ctx, node, i) != TH_OK)
            return ctx->error;
    } else if (th_gradient_open(ctx, input, &dest->add) != TH_OK) {
        return ctx->error;
    }
    dest->target = th_gradient_array(input);
    dest->written = dest->target;
    const th_op *op = node->op;
    const bool broadcast = (op->flags & TH_OP_BROADCASTS) && !same_sizes(&dest->target, &frame->call.output[0]);
    const bool copied = (op->flags & TH_OP_CONTIGUOUS) && !th_array_contiguous(&dest->target);
    const bool cannot_add = (op->flags & TH_OP_CANNOT_ADD) && dest->add;
    if (broadcast || copied || cannot_add || (dest->add && shares_destination(all, i))) {
        th_array like = broadcast ? frame->call.output[0] : dest->target;
        like.dtype = dest->target.dtype;
        like.given = true;
        dest->temporary = th_contiguous_temporary(ctx, &like, &dest->written, op->name);
        if (dest->temporary == NULL)
            return TH_ERROR_MEMORY;
    }
    frame->call.input_gradient[i] = dest->written;
    frame->call.input_gradient[i].given = true;
    frame->call.add[i] = dest->add && dest->temporary == NULL;
    return TH_OK;
}

/* A sum that is the driver's own: over what was broadcast, or onto what others have written. */
static void sum_to(const th_frame *frame, const th_array *target, const th_array *source, bool add)
{
    th_context *ctx = frame->call.ctx;
    const int64_t start = th_profile_start(ctx);
    th_sum_to_array(ctx, target, source, add);
    if (start)
        th_profile_sum_of(frame, source, target, add, start);
}

/* Ends the writing of a gradient: a temporary moves to its target and is given back. */
static void finish(th_frame *frame, destination *dest, int i)
{
    th_context *ctx = frame->call.ctx;
    if (dest->input)
        dest->input->root->destination = 0;
    if (dest->temporary == NULL)
        return;
    if (!ctx->error)
        sum_to(frame, &dest->target, &dest->written, dest->add);
    th_arena_give(&ctx->step_arena, dest->temporary);
    dest->temporary = NULL;
    frame->call.input_gradient[i] = dest->target;
}

/* Inputs whose gradient is the output's own: handed on without a copy where possible. */
static th_status pass_on(th_frame *frame, const th_node *node, int i)
{
    th_context *ctx = frame->call.ctx;
    th_body *input = th_node_input(node, i)->tensor;
    th_body *output = th_node_output(node, 0)->tensor;
    if (can_share_gradient(input, output)) {
        th_gradient_share(input, output->gradient);
        return TH_OK;
    }
    bool add;
    if (th_gradient_open(ctx, input, &add) != TH_OK)
        return ctx->error;
    const th_array target = th_gradient_array(input);
    sum_to(frame, &target, &frame->call.output_gradient[0], add);
    frame->call.input_gradient[i] = target;
    return ctx->error;
}

/* The gradient of a view that repeats elements: each is added where it lies in the root's, of which the base may be a
 * part and the view another. */
static th_status add_up(th_frame *frame, const th_node *node)
{
    th_context *ctx = frame->call.ctx;
    th_body *root = th_node_input(node, 0)->tensor->root;
    bool add;
    if (th_gradient_open(ctx, root, &add) != TH_OK)
        return ctx->error;
    const th_array whole = th_gradient_array(root);
    frame->call.input_gradient[0] = whole;
    if (ctx->options.shapes_only)
        return TH_OK;
    const int64_t start = th_profile_start(ctx);
    if (!add)
        th_fill_array(ctx, &whole, 0);
    th_array target = frame->call.output_gradient[0];
    memcpy(target.stride, node->places->stride, sizeof target.stride);
    target.data = (char *)root->gradient->data + (size_t)node->places->offset * th_dtype_size(root->dtype);
    th_add_at_places(&target, &frame->call.output_gradient[0]);
    if (start)
        th_profile_sum_of(frame, &frame->call.output_gradient[0], &whole, add, start);
    return TH_OK;
}

/* Fills in what the operation may read: gradients of outputs, saved operands. */
static th_status load(th_frame *frame, const th_node *node)
{
    th_context *ctx = frame->call.ctx;
    frame->call.early = th_early_stands(ctx, node);
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_operand_record *operand = &node->operand[i];
        if (operand->saved == TH_SAVED_NOT)
            continue;
        if (th_check_version(ctx, node, operand) != TH_OK)
            return ctx->error;
        if (frame->call.early)
            continue;
        if (th_restore(ctx, operand->tensor->storage, node->op->name) != TH_OK)
            return ctx->error;
        th_array *array = i < node->n_inputs ? &frame->call.input[i] : &frame->call.output[i - node->n_inputs];
        array->data = th_tensor_data(operand->tensor);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        th_body *output = th_node_output(node, i)->tensor;
        if (output == NULL || output->root != output || !th_gradient_begun(output))
            continue;
        th_gradient_complete(output);
        frame->call.output_gradient[i] = th_gradient_array(output);
    }
    return TH_OK;
}

static bool has_identity_gradient(const th_node *node, int i)
{
    return th_op_names(node->op, node->op->identity_gradients, i);
}

static th_status run_backward(th_frame *frame, const th_node *node, destination *dest, bool keep_tape)
{
    th_context *ctx = frame->call.ctx;
    const reuse allowed = {.output_gradient = (node->op->flags & TH_OP_IN_PLACE) && gradients_wanted(ctx, node) == 1,
                           .values = !keep_tape && !frame->call.early};
    bool any = false;
    for (int i = 0; i < node->n_inputs; i++) {
        if (has_identity_gradient(node, i) || !th_input_gradient_wanted(ctx, node, i))
            continue;
        if (prepare(frame, node, dest, i, allowed) != TH_OK)
            return ctx->error;
        any = true;
    }
    return any ? th_frame_run(frame, true) : TH_OK;
}

static th_status backward_node(th_context *ctx, const th_node *node, bool keep_tape)
{
    th_frame frame;
    if (th_frame_of_node(&frame, ctx, node) != TH_OK || load(&frame, node) != TH_OK)
        return ctx->error;
    destination fixed[TH_MAX_INPUTS], *dest = fixed;
    if (node->n_inputs > TH_MAX_INPUTS) {
        dest = th_bump_take(ctx, &ctx->tape->bytes, (size_t)node->n_inputs * sizeof *dest);
        if (dest == NULL)
            return th_fail_memory(ctx, node->op->name, (size_t)node->n_inputs * sizeof *dest);
    }
    for (int i = 0; i < node->n_inputs; i++) {
        dest[i].input = NULL;
        dest[i].temporary = NULL;
    }
    if (node->places)
        add_up(&frame, node);
    else
        run_backward(&frame, node, dest, keep_tape);
    for (int i = 0; i < node->n_inputs; i++)
        finish(&frame, &dest[i], i);
    for (int i = 0; i < node->n_inputs && !ctx->error; i++)
        if (has_identity_gradient(node, i) && th_input_gradient_wanted(ctx, node, i))
            pass_on(&frame, node, i);
    if (ctx->tracing && !ctx->error) /* at the end: a sum over a broadcast axis may overflow too */
        th_trace_call(&frame, node, true);
    return ctx->error;
}

static bool has_gradient(const th_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const th_body *output = th_node_output(node, i)->tensor;
        if (output && output->root == output && th_gradient_begun(output))
            return true;
    }
    return false;
}

/* A view that only renames its root's gradient: nothing to do backward. */
static bool is_plain_view(const th_node *node)
{
    return (node->op->flags & TH_OP_VIEW) && !node->op->identity_gradients && !node->places;
}

static th_status visit(th_context *ctx, th_node *node, bool keep_tape)
{
    if (is_plain_view(node) || !has_gradient(node))
        return TH_OK;
    if (node->wanted && node->consumed)
        return th_fail(
            ctx, TH_ERROR_STATE, "backward",
            "%s, recorded at %s:%d, was consumed by an earlier backward (th_backward_with keep_tape keeps it)",
            node->op->name, node->file ? node->file : "?", node->line);
    if (node->wanted && backward_node(ctx, node, keep_tape) != TH_OK) {
        if (!keep_tape) /* gradients may lie over values by now: this node cannot be tried again either */
            th_node_release(ctx, node);
        return ctx->error;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        th_body *output = th_node_output(node, i)->tensor;
        if (output && output->root == output)
            th_gradient_used_up(output);
    }
    if (node->wanted && !keep_tape) /* one that was only looked at, above all that was chosen, can still be walked */
        th_node_release(ctx, node);
    return TH_OK;
}

/* Marks the nodes through which a wanted gradient flows, of those that the last one depends on. */
static void mark_wanted(th_context *ctx, int64_t last)
{
    for (int64_t i = th_node_at(ctx->tape, last)->lowest; i <= last; i++) {
        th_node *node = th_node_at(ctx->tape, i);
        node->wanted = false;
        for (int j = 0; j < node->n_inputs && !node->wanted; j++)
            node->wanted = th_input_gradient_wanted(ctx, node, j);
    }
}

static th_status seed(th_context *ctx, th_body *t, const th_body *cotangent)
{
    bool add;
    if (th_gradient_open(ctx, t, &add) != TH_OK)
        return ctx->error;
    const th_array target = th_gradient_array(t);
    if (cotangent) {
        const th_array source = th_tensor_array(cotangent);
        th_copy_array(ctx, &target, &source, add);
    } else if (add) {
        th_body *one = th_tensor_new(ctx, t->dtype, 0, NULL, false, "backward");
        if (one == NULL)
            return ctx->error;
        const th_array source = th_tensor_array(one);
        th_fill_array(ctx, &source, 1);
        th_copy_array(ctx, &target, &source, true);
    } else {
        th_fill_array(ctx, &target, 1);
    }
    return ctx->error;
}

static th_status check_start(th_context *ctx, th_body *t, const th_backward_options *options)
{
    if (!t->requires_gradient)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "nothing to go back through: no input requires a gradient, or recording was off "
                       "(th_set_requires_gradient, th_no_grad_end)");
    if (options->cotangent == NULL && th_tensor_numel(t) != 1)
        return th_fail(ctx, TH_ERROR_SHAPE, "backward",
                       "a tensor of one element is needed without a cotangent; this one has %lld elements",
                       (long long)th_tensor_numel(t));
    if (options->cotangent) {
        const th_body *c = th_usable(options->cotangent, ctx, "backward", "the cotangent");
        if (c == NULL)
            return ctx->error;
        const th_array a = th_tensor_array(c), b = th_tensor_array(t);
        if (c->dtype != t->dtype)
            return th_fail(ctx, TH_ERROR_TYPE, "backward", "the cotangent is %s, the tensor %s",
                           th_dtype_name(c->dtype), th_dtype_name(t->dtype));
        if (!same_sizes(&a, &b))
            return th_fail(ctx, TH_ERROR_SHAPE, "backward", "the cotangent is %s, the tensor %s", TH_TEXT(&a),
                           TH_TEXT(&b));
    }
    return TH_OK;
}

static th_status walk(th_context *ctx, th_body *t, const th_backward_options *options)
{
    const int64_t last = t->root->node;
    if (last >= 0)
        mark_wanted(ctx, last);
    if ((last < 0 && !th_gradient_wanted(ctx, t)) || seed(ctx, t, th_body_of(options->cotangent)) != TH_OK)
        return ctx->error;
    const int64_t lowest = last < 0 ? 0 : th_node_at(ctx->tape, last)->lowest;
    for (int64_t i = last; i >= lowest; i--) {
        th_node *node = th_node_at(ctx->tape, i);
        const th_status status = visit(ctx, node, options->keep_tape);
        if (node->restored) { /* its own backward has been: what was computed again is used up */
            node->restored = false;
            th_storage_drop(ctx, th_node_output(node, 0)->tensor->storage);
        }
        if (status != TH_OK)
            return status;
    }
    return TH_OK;
}

th_status(th_backward_with)(th_tensor *handle, const th_backward_options *options)
{
    th_body *t = th_usable(handle, NULL, "backward", "the tensor");
    if (t == NULL)
        return th_refused(handle);
    th_context *ctx = t->ctx;
    const th_backward_options defaults = {0};
    options = options ? options : &defaults;
    if (ctx->running)
        return th_fail(ctx, TH_ERROR_STATE, "backward", "is called within %s, whose own functions may run no operation",
                       ctx->running->name);
    if (options->n_wrt < 0 || (options->n_wrt > 0 && options->wrt == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "n_wrt is %d, and wrt is %s", options->n_wrt,
                       options->wrt ? "given" : "NULL");
    if (check_start(ctx, t, options) != TH_OK || th_tape_of(ctx, "backward") == NULL)
        return ctx->error;
    if (th_gradients_begin(ctx, options) != TH_OK)
        return ctx->error;
    walk(ctx, t, options);
    const th_status status = th_gradients_end(ctx, options);
    ctx->step_failed = status != TH_OK;
    return status;
}

th_status(th_backward)(th_tensor *loss)
{
    return (th_backward_with)(loss, NULL);
}
