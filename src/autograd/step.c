/* The start and the end of a training step: th_step_begin and th_tape_clear. Also marks: th_step_rewind ends everything
 * that was created after a mark. The clear releases what nodes saved (tape.c), gradients of results (gradient.c) and
 * the step's tensors. */
#include "autograd/gradient.h"
#include "autograd/precomputed.h"

void th_step_begin(th_context *ctx)
{
    if (ctx == NULL)
        return;
    th_use_context(ctx);
    ctx->in_step = true;
}

/* -- the clear -- */

static void clear_node(th_context *ctx, th_node *node)
{
    th_node_release_saved(ctx, node);
    if (node->op->precomputed)
        th_precomputed_discard(node);
    if (node->recomputed)
        th_node_drop_recomputed(ctx, node);
    for (int i = 0; i < node->n_inputs; i++) {
        th_tensor_impl *input = th_node_input(node, i)->tensor;
        if (input && input->owned)
            input->tape_uses--;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        th_tensor_impl *output = th_node_output(node, i)->tensor;
        if (output && output->gradient)
            th_gradient_release(output->gradient);
    }
}

/* Undoes a failed step's changes of the context: the repeated step draws the same random numbers, and recording is on
 * again if the step switched it off. */
static void undo_failed_step(th_context *ctx)
{
    ctx->calls[TH_STREAM_DROPOUT] = ctx->calls_at_clear;
    const int depth =
        ctx->outer_depths.no_grad > ctx->no_grad_at_clear ? ctx->outer_depths.no_grad : ctx->no_grad_at_clear;
    if (ctx->no_grad_depth > depth)
        ctx->no_grad_depth = depth;
}

static void clear_tape(th_context *ctx, th_tape *tape)
{
    th_pool_reset(&tape->nodes);
    th_pool_reset(&tape->storages);
    th_bump_reset(&tape->names);
    th_bump_reset(&tape->records);
    tape->passes = (th_tape_passes){.count = 0};
    for (int i = 0; i < ctx->scope_depth && i < TH_MAX_SCOPES; i++) {
        tape->scope[i].first_tensor = tape->scope[i].first_node = 0;
        tape->scope[i].outer_path = "";
    }
    if (tape->finding_is_old)
        tape->finding[0] = 0;
    tape->finding_is_old = tape->finding[0] != 0;
    ctx->scope_path = "";
}

void th_tape_clear(th_context *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->running_op) { /* it still reads and writes the step's memory */
        th_fail(ctx, TH_ERROR_STATE, "tape_clear", "is called inside %s, which is still running",
                ctx->running_op->name);
        return;
    }
    th_scopes_close(ctx);
    if (ctx->error || ctx->step_failed)
        undo_failed_step(ctx);
    else
        ctx->calls_at_clear = ctx->calls[TH_STREAM_DROPOUT];
    ctx->no_grad_at_clear = ctx->no_grad_depth;
    ctx->step_failed = ctx->in_step = false;
    for (int64_t i = 0; i < th_tape_length(ctx); i++)
        clear_node(ctx, th_node_at(ctx->tape, i));
    th_pool *tensors = &ctx->step_tensors;
    for (int64_t i = 0; i < tensors->count; i++)
        th_handle_release(th_pool_at(tensors, i), TH_LIFE_CLEARED);
    ctx->ended_step_tensors += (uint64_t)tensors->count;
    th_pool_reset(tensors);
    th_free_deferred(ctx);
    if (ctx->tape)
        clear_tape(ctx, ctx->tape);
}

/* -- marks -- */

th_step_mark th_step_get_mark(const th_context *ctx)
{
    return (th_step_mark){ctx->step_tensors.count,
                          ctx->tape ? th_bump_get_mark(&ctx->tape->records) : (th_bump_mark){NULL, 0}};
}

void th_step_rewind(th_context *ctx, th_step_mark mark)
{
    for (int64_t i = mark.tensors; i < ctx->step_tensors.count; i++)
        th_handle_release(th_pool_at(&ctx->step_tensors, i), TH_LIFE_CLEARED);
    ctx->step_tensors.count = mark.tensors;
    if (ctx->tape)
        th_bump_rewind(&ctx->tape->records, mark.records);
}
