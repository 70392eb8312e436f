/* One backward pass from its beginning to its end: see pass.h. What happens at a node is backward.c's matter. */
#include "autograd/pass.h"

#include "autograd/gradient.h"
#include "tensor/elementwise.h"

/* -- what is wanted -- */

static bool wants(const th_pass *pass, const th_tensor_impl *t)
{
    if (t == NULL || !t->requires_gradient)
        return false;
    const th_gradient_buffer *place = th_gradient_buffer_of(t);
    switch (place->kind) {
    case TH_GRADIENT_OF_LEAF:
        return pass->chosen == NULL;
    case TH_GRADIENT_OF_RESULT:
        return th_node_at(pass->ctx->tape, place->node)->wanted;
    case TH_GRADIENT_OF_PASS:
        break;
    }
    return true;
}

bool th_pass_wants(const th_pass *pass, const th_node *node, int i)
{
    const th_operand_record *input = th_node_input(node, i);
    return input->requires_gradient && wants(pass, input->tensor);
}

/* Marks the nodes through which a wanted gradient flows, of those that the last one depends on. */
static void mark_wanted(const th_pass *pass)
{
    for (int64_t i = pass->lowest; i <= pass->last; i++) {
        th_node *node = th_node_at(pass->ctx->tape, i);
        node->wanted = false;
        for (int j = 0; j < node->n_inputs && !node->wanted; j++)
            node->wanted = th_pass_wants(pass, node, j);
    }
}

/* -- the places that it brings -- */

static void choose(th_pass *pass, th_tensor_impl *root)
{
    th_gradient_buffer *before = root->gradient;
    if (before->kind == TH_GRADIENT_OF_PASS) /* named twice, or two views of it */
        return;
    if (before->kind == TH_GRADIENT_OF_RESULT && !th_gradient_buffer_kept(before))
        th_gradient_give_back(before); /* what a forward has written: this pass does not use it */
    th_chosen *chosen = &pass->chosen[pass->n_chosen++];
    *chosen = (th_chosen){th_gradient_buffer_new(root, TH_GRADIENT_OF_PASS, before->node), before};
    root->gradient = &chosen->place;
}

static th_status choose_all(th_pass *pass)
{
    th_context *ctx = pass->ctx;
    const th_backward_options *options = pass->options;
    if (options->n_wrt == 0)
        return TH_OK;
    const size_t bytes = (size_t)options->n_wrt * sizeof(th_chosen);
    pass->chosen = th_bump_take(ctx, &ctx->tape->bytes, bytes);
    if (pass->chosen == NULL)
        return th_fail_memory(ctx, "backward", bytes);
    for (int i = 0; i < options->n_wrt; i++) {
        const th_tensor_impl *t = th_usable(options->wrt[i], ctx, "backward", "a tensor of wrt");
        if (t == NULL)
            return ctx->error;
        if (!t->requires_gradient)
            return th_fail(ctx, TH_ERROR_ARGUMENT, "backward", "wrt[%d] does not require a gradient", i);
        choose(pass, t->part.root);
    }
    return TH_OK;
}

/* The chosen gradient of t as a tensor of the step. */
static th_tensor_impl *chosen_gradient(th_context *ctx, th_tensor_impl *t)
{
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    if (th_gradient_buffer_started(place) || th_gradient_buffer_kept(place)) {
        th_gradient_complete(place);
        return th_gradient_tensor(t);
    }
    th_tensor_impl *zeros = th_tensor_new(ctx, t->dtype, t->ndim, t->size, false, "backward");
    if (zeros) {
        const th_array array = th_tensor_array(zeros);
        th_fill_array(ctx, &array, 0);
    }
    return zeros;
}

static void hand_out(const th_pass *pass)
{
    const th_backward_options *options = pass->options;
    for (int i = 0; i < options->n_wrt && options->gradients && !pass->ctx->error; i++)
        options->gradients[i] = th_handle_of(chosen_gradient(pass->ctx, th_tensor_impl_of(options->wrt[i])));
}

/* The places from before stand again. */
static void put_back(th_pass *pass)
{
    for (int i = 0; i < pass->n_chosen; i++) {
        th_chosen *chosen = &pass->chosen[i];
        chosen->place.root->gradient = chosen->before;
        if (chosen->place.state != TH_GRADIENT_BUFFER_EMPTY)
            th_gradient_unclaim(chosen->place.root); /* the next pass computes what this one did, to the bit */
        th_gradient_keep_chosen(chosen->before, &chosen->place);
        th_gradient_give_back(&chosen->place);
    }
}

/* -- its beginning and its end -- */

/* The gradient of t itself, where the pass begins. */
static th_status seed(th_pass *pass, th_tensor_impl *t, const th_tensor_impl *cotangent)
{
    th_context *ctx = pass->ctx;
    th_array target;
    bool add;
    if (th_gradient_open(pass, t, &target, &add) != TH_OK)
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
    *pass = (th_pass){
        .ctx = ctx, .options = options, .last = last, .lowest = last < 0 ? 0 : th_node_at(ctx->tape, last)->lowest};
    if (choose_all(pass) != TH_OK)
        return ctx->error;
    mark_wanted(pass);
    if (last < 0 && !wants(pass, t))
        return TH_OK;
    return seed(pass, t, th_tensor_impl_of(options->cotangent));
}

/* What a pass that failed has left in results. */
static void undo(const th_tape *tape)
{
    for (int64_t i = 0; i < tape->nodes.count; i++) {
        const th_node *node = th_node_at(tape, i);
        for (int j = 0; j < node->n_outputs; j++) {
            const th_tensor_impl *output = th_node_output(node, j)->tensor;
            if (output && output->gradient && !th_gradient_buffer_kept(output->gradient))
                th_gradient_give_back(output->gradient);
        }
    }
}

th_status th_pass_end(th_pass *pass)
{
    th_context *ctx = pass->ctx;
    hand_out(pass);
    put_back(pass);
    if (ctx->error)
        undo(ctx->tape);
    for (th_gradient_buffer *place = pass->written; place; place = place->next_listed) {
        place->listed = false;
        if (ctx->error)
            th_gradient_empty(place->root);
        else
            th_gradient_complete(place);
    }
    return ctx->error;
}
