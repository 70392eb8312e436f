/* The backward pass: visits the nodes from the last to the first (run_pass). backward_node has these steps for each:
 *
 *     read_operands            collects the output gradients and the saved operands
 *     open_destinations        decides where each input gradient is written, and whether the write overwrites or adds
 *     th_frame_run             runs the operation's backward (call.c)
 *     finish_destinations      adds temporaries to their targets, summed over broadcast dimensions
 *     pass_on_identities       shares or adds the output's gradient where an input has the same gradient
 *
 * Then visit_node releases the output gradients and the saved operands. An operation only computes its gradients; this
 * file and gradient.c accumulate them and manage their memory. pass.c begins and ends the pass. */
#include <string.h>

#include "autograd/coverage.h"
#include "autograd/gradient.h"
#include "autograd/precomputed.h"
#include "autograd/profile.h"
#include "tensor/elementwise.h"

/* Where the gradient of one input goes. */
typedef struct destination {
    th_tensor_impl *input; /* NULL: its gradient is not wanted */
    int previous;          /* the previous input of this node whose gradient is in the same buffer, or -1 */
    th_array target;       /* the input's view of its root's gradient */
    bool add;              /* the target already contains values */
    th_block *temporary;   /* the operation writes here first; NULL: directly to the target */
    th_array written;      /* the array that the operation writes to: the temporary or the target */
} destination;

/* The backward of one node. */
typedef struct node_work {
    th_pass *pass;
    const th_node *node;
    destination *destinations; /* [n_inputs] */
    destination own_destinations[TH_MAX_INPUTS];
    bool must_run; /* the operation has a gradient to compute */
    th_frame frame;
} node_work;

static bool has_identity_gradient(const th_node *node, int i)
{
    return th_op_mask_has(node->op, node->op->identity_gradients, i);
}

/* -- read_operands -- */

/* Gives the operation its saved operands, recomputed if necessary, and the gradients of its outputs. */
static th_status read_operands(node_work *w)
{
    th_frame *frame = &w->frame;
    const th_node *node = w->node;
    th_context *ctx = w->pass->ctx;
    frame->call.precomputed = node->op->precomputed && th_precomputed_is_valid(w->pass, node);
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_operand_record *operand = &node->operand[i];
        if (operand->saved == TH_SAVED_NOT || !operand->read)
            continue;
        if (th_check_saved_version(ctx, node, operand) != TH_OK)
            return ctx->error;
        if (frame->call.precomputed)
            continue;
        if (th_recompute_storage(ctx, operand->tensor->storage, node->op->name) != TH_OK)
            return ctx->error;
        th_array *array = i < node->n_inputs ? &frame->call.input[i] : &frame->call.output[i - node->n_inputs];
        array->data = th_tensor_data(operand->tensor);
    }
    for (int i = 0; i < node->n_outputs; i++)
        th_gradient_read(th_node_output(node, i)->tensor, &frame->call.output_gradient[i]);
    return TH_OK;
}

/* -- open_destinations -- */

/* Returns whether another operand of the node uses the memory of input i. */
static bool shares_value(const th_node *node, int i)
{
    for (int j = 0; j < node->n_inputs + node->n_outputs; j++) {
        const th_tensor_impl *other = node->operand[j].tensor;
        if (j != i && other && other->storage == node->operand[i].tensor->storage)
            return true;
    }
    return false;
}

/* Returns whether this backward is the last reader of the value of input i, and reads it before it writes. */
static bool is_last_reader(const node_work *w, int i)
{
    const th_node *node = w->node;
    const th_operand_record *operand = th_node_input(node, i);
    if (!(node->op->flags & TH_OP_OVER_INPUT) || i != 0 || shares_value(node, i))
        return false;
    return operand->saved == TH_SAVED_HELD ||
           (operand->saved == TH_SAVED_RECOMPUTED && operand->tensor->storage->recomputed);
}

/* Lets dx overwrite x, if that is possible. */
static th_status take_over_value(const node_work *w, int i, bool *taken)
{
    th_operand_record *operand = th_node_input(w->node, i);
    const th_status status = th_gradient_take_over_value(operand->tensor, taken);
    if (status != TH_OK || !*taken)
        return status;
    operand->tensor->storage->recomputed = false;
    operand->saved = TH_SAVED_NOT;
    return TH_OK;
}

/* Sets the target. If the operation allows it, this is the memory of dy or of x, which nothing reads afterwards.
 * Otherwise it is the gradient's own memory. */
static th_status open_target(node_work *w, int i, bool over_output_gradient)
{
    destination *to = &w->destinations[i];
    to->add = false;
    bool taken = over_output_gradient && th_gradient_take_over(to->input, th_node_output(w->node, 0)->tensor);
    if (!taken && !w->pass->options->keep_tape && !w->frame.call.precomputed && is_last_reader(w, i) &&
        take_over_value(w, i, &taken) != TH_OK)
        return w->pass->ctx->error;
    if (!taken)
        return th_gradient_open_for_write(&w->pass->written_leaves, to->input, &to->target, &to->add);
    th_gradient_array(to->input, &to->target);
    return TH_OK;
}

/* Returns whether a previous input of this node has the same or overlapping gradient memory, or there are too many
 * inputs to compare. Input i then needs a temporary, because the operation may write its gradients in any order. */
static bool shares_target(const destination *all, int i)
{
    const th_region region = th_region_of(all[i].input);
    int compared = 0;
    for (int j = all[i].previous; j >= 0; j = all[j].previous) {
        const th_region other = th_region_of(all[j].input);
        if (++compared > TH_MAX_INPUTS || th_region_relation(&other, &region) != TH_DISJOINT)
            return true;
    }
    return false;
}

/* Sets what the operation writes to: the target, or a temporary if it cannot write there directly. */
static th_status open_temporary(node_work *w, int i)
{
    destination *to = &w->destinations[i];
    const th_op *op = w->node->op;
    const bool broadcast = (op->flags & TH_OP_BROADCASTS) && !th_same_sizes(&to->target, &w->frame.call.output[0]);
    const bool copied = (op->flags & TH_OP_CONTIGUOUS) && !th_array_contiguous(&to->target);
    const bool cannot_add = (op->flags & TH_OP_CANNOT_ADD) && to->add;
    to->written = to->target;
    if (!broadcast && !copied && !cannot_add && !(to->add && shares_target(w->destinations, i)))
        return TH_OK;
    th_array like = broadcast ? w->frame.call.output[0] : to->target;
    like.dtype = to->target.dtype;
    like.given = true;
    to->temporary = th_allocate_temporary(w->pass->ctx, &like, &to->written, op->name);
    return to->temporary ? TH_OK : TH_ERROR_MEMORY;
}

/* Gives the operation memory for each gradient that it has to compute. */
static th_status open_destinations(node_work *w)
{
    const th_node *node = w->node;
    int wanted = 0;
    for (int i = 0; i < node->n_inputs; i++)
        wanted += w->destinations[i].input != NULL;
    const bool over_output_gradient = (node->op->flags & TH_OP_IN_PLACE) && wanted == 1 && node->n_outputs == 1;
    for (int i = 0; i < node->n_inputs; i++) {
        destination *to = &w->destinations[i];
        if (to->input == NULL || has_identity_gradient(node, i))
            continue;
        th_gradient_buffer *buffer = th_gradient_buffer_of(to->input);
        to->previous = buffer->last_input - 1;
        buffer->last_input = i + 1;
        if (open_target(w, i, over_output_gradient) != TH_OK || open_temporary(w, i) != TH_OK)
            return w->pass->ctx->error;
        w->frame.call.input_gradient[i] = to->written;
        w->frame.call.input_gradient[i].given = true;
        w->frame.call.add[i] = to->add && to->temporary == NULL;
        w->must_run = true;
    }
    return TH_OK;
}

/* -- finish_destinations, pass_on_identities -- */

/* Sums source over the dimensions in which target is broadcast, and overwrites target or adds to it. */
static void sum_into(const th_frame *frame, const th_array *target, const th_array *source, bool add)
{
    th_context *ctx = frame->call.ctx;
    const int64_t start = th_profile_start(ctx);
    th_sum_to_array(ctx, target, source, add);
    if (start)
        th_profile_gradient_sum(frame, source, target, add, start);
}

/* Moves temporaries to their targets and frees them. */
static void finish_destinations(node_work *w)
{
    th_context *ctx = w->pass->ctx;
    for (int i = 0; i < w->node->n_inputs; i++) {
        destination *to = &w->destinations[i];
        if (to->input)
            th_gradient_buffer_of(to->input)->last_input = 0;
        if (to->temporary == NULL)
            continue;
        if (!ctx->error)
            sum_into(&w->frame, &to->target, &to->written, to->add);
        th_block_free(&ctx->step_memory, to->temporary);
        w->frame.call.input_gradient[i] = to->target;
    }
}

/* Passes the output's gradient on to the inputs that have the same gradient, without a copy if possible. */
static void pass_on_identities(node_work *w)
{
    th_context *ctx = w->pass->ctx;
    for (int i = 0; i < w->node->n_inputs && !ctx->error; i++) {
        th_tensor_impl *input = w->destinations[i].input;
        if (input == NULL || !has_identity_gradient(w->node, i) ||
            th_gradient_share(input, th_node_output(w->node, 0)->tensor))
            continue;
        th_array target;
        bool add;
        if (th_gradient_open_for_write(&w->pass->written_leaves, input, &target, &add) != TH_OK)
            return;
        sum_into(&w->frame, &target, &w->frame.call.output_gradient[0], add);
        w->frame.call.input_gradient[i] = target;
    }
}

/* Runs the backward of a view that contains elements more than once: adds each element of its gradient to the element
 * of the root's gradient that it views. */
static void add_repeated_elements(node_work *w)
{
    th_context *ctx = w->pass->ctx;
    const th_gradient_view *view = w->node->repeating_view;
    const th_array *source = &w->frame.call.output_gradient[0];
    th_array whole;
    bool add;
    if (th_gradient_open_for_write(&w->pass->written_leaves, view->root, &whole, &add) != TH_OK)
        return;
    w->frame.call.input_gradient[0] = whole;
    const int64_t start = th_profile_start(ctx);
    if (!ctx->options.shapes_only) {
        if (!add)
            th_fill_array(ctx, &whole, 0);
        th_array target = *source;
        memcpy(target.stride, view->stride, sizeof target.stride);
        target.data = (char *)whole.data + (size_t)view->offset * th_dtype_size(whole.dtype);
        th_add_at_offsets(&target, source);
    }
    if (start)
        th_profile_gradient_sum(&w->frame, source, &whole, add, start);
}

/* -- one node -- */

static th_status begin_node(node_work *w, th_pass *pass, const th_node *node)
{
    th_context *ctx = pass->ctx;
    w->pass = pass;
    w->node = node;
    w->destinations = w->own_destinations;
    w->must_run = false;
    if (th_frame_init_from_node(&w->frame, ctx, node) != TH_OK || read_operands(w) != TH_OK)
        return ctx->error;
    if (node->n_inputs > TH_MAX_INPUTS) {
        const size_t bytes = (size_t)node->n_inputs * sizeof *w->destinations;
        w->destinations = th_bump_allocate(ctx, &ctx->tape->records, bytes);
        if (w->destinations == NULL)
            return th_fail_memory(ctx, node->op->name, bytes);
    }
    for (int i = 0; i < node->n_inputs; i++) {
        w->destinations[i].input = th_pass_wants(pass, node, i) ? th_node_input(node, i)->tensor : NULL;
        w->destinations[i].temporary = NULL;
    }
    return TH_OK;
}

/* Computes the gradients of a node's inputs. After an error, the error is pending in the context. */
static void backward_node(th_pass *pass, const th_node *node)
{
    th_context *ctx = pass->ctx;
    node_work w;
    if (begin_node(&w, pass, node) != TH_OK)
        return;
    if (node->repeating_view)
        add_repeated_elements(&w);
    else if (open_destinations(&w) == TH_OK && w.must_run)
        th_frame_run(&w.frame, true);
    finish_destinations(&w);
    pass_on_identities(&w);
    if (ctx->tracing && !ctx->error) /* last, because a sum over a broadcast dimension may overflow too */
        th_trace_call(&w.frame, node, true);
}

static bool has_output_gradient(const th_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const th_tensor_impl *output = th_node_output(node, i)->tensor;
        if (output && th_gradient_buffer_is_started(output->gradient))
            return true;
    }
    return false;
}

/* Returns whether the node is a view whose gradient is a view of its root's gradient. Then backward has nothing to
 * do. */
static bool is_plain_view(const th_node *node)
{
    return (node->op->flags & TH_OP_VIEW) && !node->op->identity_gradients && !node->repeating_view;
}

/* Runs a node's backward if it is needed, then releases the gradients of its outputs and its saved values. */
static th_status visit_node(th_pass *pass, th_node *node)
{
    th_context *ctx = pass->ctx;
    if (is_plain_view(node) || !has_output_gradient(node))
        return TH_OK;
    if (node->wanted && node->consumed)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "%s, recorded at %s:%d, was consumed by an earlier backward (th_backward keep_tape keeps it)",
                       node->op->name, node->file ? node->file : "?", node->line);
    if (node->wanted)
        backward_node(pass, node);
    for (int i = 0; i < node->n_outputs && !ctx->error; i++)
        th_gradient_release_or_keep(th_node_output(node, i)->tensor);
    /* Also after an error: gradients may have overwritten saved values, so that a second try would be wrong. A node
     * whose backward was not run, such as one that made a tensor of wrt, remains usable. */
    if (node->wanted && !pass->options->keep_tape)
        th_node_release_saved(ctx, node);
    return ctx->error;
}

/* -- the pass -- */

static void run_pass(th_pass *pass)
{
    for (int64_t i = pass->last; i >= pass->first; i--) {
        th_node *node = th_node_at(pass->ctx->tape, i);
        const th_status status = visit_node(pass, node);
        if (node->recomputed) /* all its readers, and its own backward, have run */
            th_node_drop_recomputed(pass->ctx, node);
        if (status != TH_OK)
            return;
    }
}

static th_status check_arguments(th_context *ctx, th_tensor_impl *t, const th_backward_options *options)
{
    if (!t->requires_gradient)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "there is nothing to differentiate: no input requires a gradient, or recording was off "
                       "(th_set_requires_gradient, th_no_grad_end)");
    if (options->cotangent == NULL && th_tensor_numel(t) != 1)
        return th_fail(ctx, TH_ERROR_SHAPE, "backward",
                       "without a cotangent the tensor must have one element; this one has %lld elements",
                       (long long)th_tensor_numel(t));
    if (options->cotangent) {
        const th_tensor_impl *c = th_usable_tensor(options->cotangent, ctx, "backward", "the cotangent");
        if (c == NULL)
            return ctx->error;
        const th_array a = th_tensor_array(c), b = th_tensor_array(t);
        if (c->dtype != t->dtype)
            return th_fail(ctx, TH_ERROR_TYPE, "backward", "the cotangent is %s, the tensor %s",
                           th_dtype_name(c->dtype), th_dtype_name(t->dtype));
        if (!th_same_sizes(&a, &b))
            return th_fail(ctx, TH_ERROR_SHAPE, "backward", "the cotangent is %s, the tensor %s", TH_TEXT(&a),
                           TH_TEXT(&b));
    }
    return TH_OK;
}

th_status th_backward(th_tensor *handle, const th_backward_options *options)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "backward", "the tensor");
    if (t == NULL)
        return th_pending_status(handle);
    th_context *ctx = t->ctx;
    const th_backward_options defaults = {0};
    options = options ? options : &defaults;
    if (ctx->running_op)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "is called inside %s; an operation's own functions must not call it", ctx->running_op->name);
    if (options->n_wrt < 0 || (options->n_wrt > 0 && options->wrt == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "n_wrt is %d, and wrt is %s", options->n_wrt,
                       options->wrt ? "given" : "NULL");
    if (check_arguments(ctx, t, options) != TH_OK || th_tape_of(ctx, "backward") == NULL)
        return ctx->error;
    th_pass pass;
    if (th_pass_begin(&pass, t, options) == TH_OK)
        run_pass(&pass);
    const th_status status = th_pass_end(&pass);
    ctx->step_failed = status != TH_OK;
    if (status == TH_OK) {
        ctx->tape->passes.count++;
        ctx->tape->passes.start = t;
        ctx->tape->passes.requested = options->n_wrt > 0;
    } else {
        ctx->tape->passes.failed = true;
    }
    ctx->backward_count += status == TH_OK && options->n_wrt == 0;
    return status;
}
