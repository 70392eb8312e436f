/* Begins and ends a backward pass: see pass.h. backward.c runs the nodes between the two. */
#include "autograd/pass.h"

#include "autograd/gradient.h"
#include "tensor/elementwise.h"

/* -- the gradients and nodes that are needed -- */

static bool wants_gradient(const th_pass *pass, const th_tensor_impl *t)
{
    if (t == NULL || !t->requires_gradient)
        return false;
    const th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    switch (buffer->kind) {
    case TH_GRADIENT_OF_LEAF:
        return pass->requested == NULL;
    case TH_GRADIENT_OF_RESULT:
        return th_node_at(pass->ctx->tape, buffer->node)->wanted;
    case TH_GRADIENT_OF_PASS:
        break;
    }
    return true;
}

bool th_pass_wants(const th_pass *pass, const th_node *node, int i)
{
    const th_operand_record *input = th_node_input(node, i);
    return input->requires_gradient && wants_gradient(pass, input->tensor);
}

/* Marks the nodes of the pass that have an input whose gradient is needed. */
static void mark_wanted(const th_pass *pass)
{
    for (int64_t i = pass->first; i <= pass->last; i++) {
        th_node *node = th_node_at(pass->ctx->tape, i);
        node->wanted = false;
        for (int j = 0; j < node->n_inputs && !node->wanted; j++)
            node->wanted = th_pass_wants(pass, node, j);
    }
}

/* -- wrt -- */

/* Replaces the gradient buffer of a root by one of the pass. */
static void replace_buffer(th_pass *pass, th_tensor_impl *root)
{
    th_gradient_buffer *original = root->gradient;
    if (original->kind == TH_GRADIENT_OF_PASS) /* already replaced: listed twice, or two views of one root */
        return;
    if (original->kind == TH_GRADIENT_OF_RESULT && !th_gradient_buffer_is_finished(original))
        th_gradient_release(original); /* a precomputed gradient: this pass does not use it */
    th_requested *requested = &pass->requested[pass->n_requested++];
    *requested = (th_requested){th_gradient_buffer_new(root, TH_GRADIENT_OF_PASS, original->node), original};
    root->gradient = &requested->buffer;
}

static th_status replace_buffers(th_pass *pass)
{
    th_context *ctx = pass->ctx;
    const th_backward_options *options = pass->options;
    if (options->n_wrt == 0)
        return TH_OK;
    const size_t bytes = (size_t)options->n_wrt * sizeof(th_requested);
    pass->requested = th_bump_allocate(ctx, &ctx->tape->records, bytes);
    if (pass->requested == NULL)
        return th_fail_memory(ctx, "backward", bytes);
    for (int i = 0; i < options->n_wrt; i++) {
        const th_tensor_impl *t = th_usable_tensor(options->wrt[i], ctx, "backward", "a tensor of wrt");
        if (t == NULL)
            return ctx->error;
        if (!t->requires_gradient)
            return th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "wrt[%d] does not require a gradient", i);
        replace_buffer(pass, t->gradient_view.root);
    }
    return TH_OK;
}

/* Returns the gradient of a tensor of wrt as a tensor of the step: zeros if the loss does not depend on it. */
static th_tensor_impl *requested_gradient(th_context *ctx, th_tensor_impl *t)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    if (th_gradient_buffer_is_started(buffer) || th_gradient_buffer_is_finished(buffer)) {
        th_gradient_zero_unwritten(buffer);
        return th_gradient_tensor(t);
    }
    th_tensor_impl *zeros = th_tensor_new(ctx, t->dtype, t->ndim, t->size, false, "backward");
    if (zeros) {
        const th_array array = th_tensor_array(zeros);
        th_fill_array(ctx, &array, 0);
    }
    return zeros;
}

static void write_requested_gradients(const th_pass *pass)
{
    const th_backward_options *options = pass->options;
    for (int i = 0; i < options->n_wrt && options->gradients && !pass->ctx->error; i++)
        options->gradients[i] = th_handle_of(requested_gradient(pass->ctx, th_tensor_impl_of(options->wrt[i])));
}

static void restore_buffers(th_pass *pass)
{
    for (int i = 0; i < pass->n_requested; i++) {
        th_requested *requested = &pass->requested[i];
        requested->buffer.root->gradient = requested->original;
        if (requested->buffer.state != TH_GRADIENT_BUFFER_EMPTY)
            th_gradient_unmark_precomputed(
                requested->buffer.root); /* the next pass must compute the same bits as this one */
        th_gradient_save(requested->original, &requested->buffer);
        th_gradient_release(&requested->buffer);
    }
}

/* -- begin and end -- */

/* Writes dL/dt, the gradient with which the pass starts: the cotangent, or 1. */
static th_status write_first_gradient(th_pass *pass, th_tensor_impl *t, const th_tensor_impl *cotangent)
{
    th_context *ctx = pass->ctx;
    th_array target;
    bool add;
    if (th_gradient_open_for_write(&pass->written_leaves, t, &target, &add) != TH_OK)
        return ctx->error;
    if (cotangent) {
        const th_array source = th_tensor_array(cotangent);
        th_copy_array(ctx, &target, &source, add);
    } else if (add) {
        th_tensor_impl *one = th_tensor_new(ctx, t->dtype, 0, NULL, false, "backward");
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

th_status th_pass_begin(th_pass *pass, th_tensor_impl *t, const th_backward_options *options)
{
    th_context *ctx = t->ctx;
    const int64_t last = th_gradient_buffer_node(t);
    *pass = (th_pass){.ctx = ctx,
                      .options = options,
                      .last = last,
                      .first = last < 0 ? 0 : th_node_at(ctx->tape, last)->first_contributor};
    if (replace_buffers(pass) != TH_OK)
        return ctx->error;
    mark_wanted(pass);
    if (last < 0 && !wants_gradient(pass, t))
        return TH_OK;
    return write_first_gradient(pass, t, th_tensor_impl_of(options->cotangent));
}

/* Releases the gradients of results that a failed pass wrote. */
static void release_result_gradients(const th_tape *tape)
{
    for (int64_t i = 0; i < tape->nodes.count; i++) {
        const th_node *node = th_node_at(tape, i);
        for (int j = 0; j < node->n_outputs; j++) {
            const th_tensor_impl *output = th_node_output(node, j)->tensor;
            if (output && output->gradient && !th_gradient_buffer_is_finished(output->gradient))
                th_gradient_release(output->gradient);
        }
    }
}

th_status th_pass_end(th_pass *pass)
{
    th_context *ctx = pass->ctx;
    write_requested_gradients(pass);
    restore_buffers(pass);
    if (ctx->error)
        release_result_gradients(ctx->tape);
    for (th_gradient_buffer *buffer = pass->written_leaves; buffer; buffer = buffer->next_listed) {
        buffer->listed = false;
        if (ctx->error)
            th_gradient_empty(buffer->root);
        else
            th_gradient_zero_unwritten(buffer);
    }
    return ctx->error;
}
