/* The backward pass: walks the nodes from the last to the first. Of each it asks for the places of its inputs'
 * gradients, runs the operation's backward with those of its outputs, and settles what is left to do. Where a gradient
 * goes, whether it overwrites or adds, and how a broadcast one is summed is decided here, never in an operation. */
#include <string.h>

#include "autograd/coverage.h"
#include "autograd/frame.h"
#include "autograd/gradient.h"
#include "autograd/pass.h"
#include "autograd/profile.h"
#include "tensor/elementwise.h"

/* Where one input's gradient goes. */
typedef struct destination {
    th_tensor_impl *input; /* NULL: its gradient is not wanted */
    int before;            /* the input before this one whose gradient goes into the same place, or -1 */
    th_array target;       /* the input's part of its root's gradient */
    bool add;              /* the target holds something already */
    th_block *temporary;   /* the operation writes here first; NULL: straight into the target */
    th_array written;      /* what the operation sees */
} destination;

/* What is to be done at one node. */
typedef struct node_work {
    th_pass *pass;
    const th_node *node;
    destination *to; /* [n_inputs] */
    destination own_to[TH_MAX_INPUTS];
    th_frame frame;
} node_work;

static bool has_identity_gradient(const th_node *node, int i)
{
    return th_op_names(node->op, node->op->identity_gradients, i);
}

/* -- what the operation reads -- */

/* Fills in gradients of outputs and saved operands. */
static th_status load(node_work *w)
{
    th_frame *frame = &w->frame;
    const th_node *node = w->node;
    th_context *ctx = w->pass->ctx;
    frame->call.precomputed = node->op->precomputed && th_precomputed_valid(w->pass, node);
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const th_operand_record *operand = &node->operand[i];
        if (operand->saved == TH_SAVED_NOT || !operand->read)
            continue;
        if (th_check_version(ctx, node, operand) != TH_OK)
            return ctx->error;
        if (frame->call.precomputed)
            continue;
        if (th_recompute(ctx, operand->tensor->storage, node->op->name) != TH_OK)
            return ctx->error;
        th_array *array = i < node->n_inputs ? &frame->call.input[i] : &frame->call.output[i - node->n_inputs];
        array->data = th_tensor_data(operand->tensor);
    }
    for (int i = 0; i < node->n_outputs; i++)
        th_gradient_read(th_node_output(node, i)->tensor, &frame->call.output_gradient[i]);
    return TH_OK;
}

static th_status begin(node_work *w, th_pass *pass, const th_node *node)
{
    th_context *ctx = pass->ctx;
    w->pass = pass;
    w->node = node;
    w->to = w->own_to;
    if (th_frame_of_node(&w->frame, ctx, node) != TH_OK || load(w) != TH_OK)
        return ctx->error;
    if (node->n_inputs > TH_MAX_INPUTS) {
        const size_t bytes = (size_t)node->n_inputs * sizeof *w->to;
        w->to = th_bump_take(ctx, &ctx->tape->bytes, bytes);
        if (w->to == NULL)
            return th_fail_memory(ctx, node->op->name, bytes);
    }
    for (int i = 0; i < node->n_inputs; i++) {
        w->to[i].input = th_pass_wants(pass, node, i) ? th_node_input(node, i)->tensor : NULL;
        w->to[i].temporary = NULL;
    }
    return TH_OK;
}

/* -- places for what it writes -- */

/* Another operand of the node lies in the memory of input i. */
static bool value_is_shared(const th_node *node, int i)
{
    for (int j = 0; j < node->n_inputs + node->n_outputs; j++) {
        const th_tensor_impl *other = node->operand[j].tensor;
        if (j != i && other && other->storage == node->operand[i].tensor->storage)
            return true;
    }
    return false;
}

/* The last that reads the value of input i is this backward, before it writes. */
static bool reads_last(const node_work *w, int i)
{
    const th_node *node = w->node;
    const th_operand_record *operand = th_node_input(node, i);
    if (!(node->op->flags & TH_OP_OVER_INPUT) || i != 0 || value_is_shared(node, i))
        return false;
    return operand->saved == TH_SAVED_HELD ||
           (operand->saved == TH_SAVED_RECOMPUTED && operand->tensor->storage->recomputed);
}

/* dx lies where x does, if it can. */
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

/* Memory that is used up here is written over where the operation allows it: that of dy, or that of x. Otherwise the
 * gradient's own place is opened. */
static th_status find_target(node_work *w, int i, bool over_output_gradient)
{
    destination *to = &w->to[i];
    to->add = false;
    bool taken = over_output_gradient && th_gradient_take_over(to->input, th_node_output(w->node, 0)->tensor);
    if (!taken && !w->pass->options->keep_tape && !w->frame.call.precomputed && reads_last(w, i) &&
        take_over_value(w, i, &taken) != TH_OK)
        return w->pass->ctx->error;
    if (!taken)
        return th_gradient_open(w->pass, to->input, &to->target, &to->add);
    th_gradient_array(to->input, &to->target);
    return TH_OK;
}

/* An earlier input of this node writes into the same memory (or there are too many to look at): whatever order the
 * operation works in, this one goes through a temporary. */
static bool shares_target(const destination *all, int i)
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

/* What the operation cannot write into the target goes into a temporary first. */
static th_status find_temporary(node_work *w, int i)
{
    destination *to = &w->to[i];
    const th_op *op = w->node->op;
    const bool broadcast = (op->flags & TH_OP_BROADCASTS) && !th_same_sizes(&to->target, &w->frame.call.output[0]);
    const bool copied = (op->flags & TH_OP_CONTIGUOUS) && !th_array_contiguous(&to->target);
    const bool cannot_add = (op->flags & TH_OP_CANNOT_ADD) && to->add;
    to->written = to->target;
    if (!broadcast && !copied && !cannot_add && !(to->add && shares_target(w->to, i)))
        return TH_OK;
    th_array like = broadcast ? w->frame.call.output[0] : to->target;
    like.dtype = to->target.dtype;
    like.given = true;
    to->temporary = th_contiguous_temporary(w->pass->ctx, &like, &to->written, op->name);
    return to->temporary ? TH_OK : TH_ERROR_MEMORY;
}

/* A place for the gradient of each input that the operation writes to; *any: there is one. */
static th_status ask_for_places(node_work *w, bool *any)
{
    const th_node *node = w->node;
    int wanted = 0;
    for (int i = 0; i < node->n_inputs; i++)
        wanted += w->to[i].input != NULL;
    const bool over_output_gradient = (node->op->flags & TH_OP_IN_PLACE) && wanted == 1 && node->n_outputs == 1;
    *any = false;
    for (int i = 0; i < node->n_inputs; i++) {
        destination *to = &w->to[i];
        if (to->input == NULL || has_identity_gradient(node, i))
            continue;
        th_gradient_buffer *place = th_gradient_buffer_of(to->input);
        to->before = place->destination - 1;
        place->destination = i + 1;
        if (find_target(w, i, over_output_gradient) != TH_OK || find_temporary(w, i) != TH_OK)
            return w->pass->ctx->error;
        w->frame.call.input_gradient[i] = to->written;
        w->frame.call.input_gradient[i].given = true;
        w->frame.call.add[i] = to->add && to->temporary == NULL;
        *any = true;
    }
    return TH_OK;
}

/* -- what the driver does itself -- */

/* A sum over what was broadcast, or onto what others have written. */
static void sum_to(const th_frame *frame, const th_array *target, const th_array *source, bool add)
{
    th_context *ctx = frame->call.ctx;
    const int64_t start = th_profile_start(ctx);
    th_sum_to_array(ctx, target, source, add);
    if (start)
        th_profile_sum_of(frame, source, target, add, start);
}

/* Ends the writing: temporaries move to their targets and are given back. */
static void settle(node_work *w)
{
    th_context *ctx = w->pass->ctx;
    for (int i = 0; i < w->node->n_inputs; i++) {
        destination *to = &w->to[i];
        if (to->input)
            th_gradient_buffer_of(to->input)->destination = 0;
        if (to->temporary == NULL)
            continue;
        if (!ctx->error)
            sum_to(&w->frame, &to->target, &to->written, to->add);
        th_block_free(&ctx->step_memory, to->temporary);
        w->frame.call.input_gradient[i] = to->target;
    }
}

/* An input whose gradient is the output's own: shared without a copy where possible. */
static void identity_gradient(node_work *w, int i)
{
    th_tensor_impl *input = w->to[i].input;
    if (th_gradient_share(input, th_node_output(w->node, 0)->tensor))
        return;
    th_array target;
    bool add;
    if (th_gradient_open(w->pass, input, &target, &add) != TH_OK)
        return;
    sum_to(&w->frame, &target, &w->frame.call.output_gradient[0], add);
    w->frame.call.input_gradient[i] = target;
}

/* The gradient of a view that repeats elements: each is added where it lies in the root's, of which the base may be a
 * part and the view another. */
static void add_up(node_work *w)
{
    th_context *ctx = w->pass->ctx;
    const th_part *part = w->node->repeats;
    const th_array *source = &w->frame.call.output_gradient[0];
    th_array whole;
    bool add;
    if (th_gradient_open(w->pass, part->root, &whole, &add) != TH_OK)
        return;
    w->frame.call.input_gradient[0] = whole;
    const int64_t start = th_profile_start(ctx);
    if (!ctx->options.shapes_only) {
        if (!add)
            th_fill_array(ctx, &whole, 0);
        th_array target = *source;
        memcpy(target.stride, part->stride, sizeof target.stride);
        target.data = (char *)whole.data + (size_t)part->offset * th_dtype_size(whole.dtype);
        th_add_at_offsets(&target, source);
    }
    if (start)
        th_profile_sum_of(&w->frame, source, &whole, add, start);
}

/* -- one node -- */

/* From the gradients of its outputs to those of its inputs. What goes wrong is pending in the context. */
static void backward_node(th_pass *pass, const th_node *node)
{
    th_context *ctx = pass->ctx;
    node_work w;
    bool any;
    if (begin(&w, pass, node) != TH_OK)
        return;
    if (node->repeats)
        add_up(&w);
    else if (ask_for_places(&w, &any) == TH_OK && any)
        th_frame_run(&w.frame, true);
    settle(&w);
    for (int i = 0; i < node->n_inputs && !ctx->error; i++)
        if (w.to[i].input && has_identity_gradient(node, i))
            identity_gradient(&w, i);
    if (ctx->tracing && !ctx->error) /* at the end: a sum over a broadcast axis may overflow too */
        th_trace_call(&w.frame, node, true);
}

static bool has_gradient(const th_node *node)
{
    for (int i = 0; i < node->n_outputs; i++) {
        const th_tensor_impl *output = th_node_output(node, i)->tensor;
        if (output && th_gradient_buffer_started(output->gradient))
            return true;
    }
    return false;
}

/* A view that only renames its root's gradient: nothing to do backward. */
static bool is_plain_view(const th_node *node)
{
    return (node->op->flags & TH_OP_VIEW) && !node->op->identity_gradients && !node->repeats;
}

static th_status walk_node(th_pass *pass, th_node *node)
{
    th_context *ctx = pass->ctx;
    const bool used_up = node->wanted && !pass->options->keep_tape;
    if (is_plain_view(node) || !has_gradient(node))
        return TH_OK;
    if (node->wanted && node->consumed)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "%s, recorded at %s:%d, was consumed by an earlier backward (th_backward keep_tape keeps it)",
                       node->op->name, node->file ? node->file : "?", node->line);
    if (node->wanted)
        backward_node(pass, node);
    for (int i = 0; i < node->n_outputs && !ctx->error; i++)
        th_gradient_release(th_node_output(node, i)->tensor);
    /* After an error, too: gradients may lie over values by now, it cannot be tried again. One that was only looked at,
     * above all that was chosen, can still be walked. */
    if (used_up)
        th_node_release(ctx, node);
    return ctx->error;
}

/* -- the pass -- */

static th_status walk(th_pass *pass)
{
    for (int64_t i = pass->last; i >= pass->lowest; i--) {
        th_node *node = th_node_at(pass->ctx->tape, i);
        const th_status status = walk_node(pass, node);
        if (node->recomputed) /* its own backward has been, and the values are used up */
            th_node_drop_recomputed(pass->ctx, node);
        if (status != TH_OK)
            return status;
    }
    return TH_OK;
}

static th_status check_start(th_context *ctx, th_tensor_impl *t, const th_backward_options *options)
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
        const th_tensor_impl *c = th_usable(options->cotangent, ctx, "backward", "the cotangent");
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
    th_tensor_impl *t = th_usable(handle, NULL, "backward", "the tensor");
    if (t == NULL)
        return th_refused(handle);
    th_context *ctx = t->ctx;
    const th_backward_options defaults = {0};
    options = options ? options : &defaults;
    if (ctx->running)
        return th_fail(ctx, TH_ERROR_STATE, "backward",
                       "is called inside %s; an operation's own functions must not call it", ctx->running->name);
    if (options->n_wrt < 0 || (options->n_wrt > 0 && options->wrt == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "n_wrt is %d, and wrt is %s", options->n_wrt,
                       options->wrt ? "given" : "NULL");
    if (check_start(ctx, t, options) != TH_OK || th_tape_of(ctx, "backward") == NULL)
        return ctx->error;
    th_pass pass;
    if (th_pass_begin(&pass, t, options) == TH_OK)
        walk(&pass);
    const th_status status = th_pass_end(&pass);
    ctx->step_failed = status != TH_OK;
    ctx->backwards += status == TH_OK && options->n_wrt == 0;
    return status;
}
