/* The tape: its making, the values that its nodes saved, the clear. */
#include "autograd/tape.h"

#include <string.h>

#include "autograd/frame.h"
#include "autograd/gradient.h"

static void tape_release(th_context *ctx, void *object)
{
    th_tape *tape = object;
    th_pool_destroy(ctx, &tape->nodes);
    th_pool_destroy(ctx, &tape->storages);
    th_bump_destroy(ctx, &tape->bytes);
    th_release(ctx, tape, sizeof *tape);
    ctx->tape = NULL;
}

th_tape *th_tape_of(th_context *ctx, const char *operation)
{
    if (ctx->tape)
        return ctx->tape;
    th_tape *tape = th_allocate(ctx, sizeof *tape);
    if (tape == NULL) {
        th_fail_memory(ctx, operation, sizeof *tape);
        return NULL;
    }
    memset(tape, 0, sizeof *tape);
    th_pool_init(&tape->nodes, sizeof(th_node));
    th_pool_init(&tape->storages, sizeof(th_storage));
    if (!th_attach(ctx, tape, tape_release)) {
        th_release(ctx, tape, sizeof *tape);
        th_fail_memory(ctx, operation, sizeof(th_attachment));
        return NULL;
    }
    ctx->tape = tape;
    return tape;
}

void th_node_release(th_context *ctx, th_node *node)
{
    if (node->consumed)
        return;
    node->consumed = true;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        th_operand_record *operand = &node->operand[i];
        if (operand->saved == TH_SAVED_HELD)
            th_storage_drop(ctx, operand->tensor->storage);
        operand->saved = TH_SAVED_NOT;
    }
}

th_status th_check_version(th_context *ctx, const th_node *node, const th_operand_record *operand)
{
    const th_storage *storage = operand->tensor->storage;
    if (storage->version == operand->version)
        return TH_OK;
    return th_fail(ctx, TH_ERROR_STATE, "backward",
                   "a value that %s saved at %s:%d was changed at %s:%d, before its backward", node->op->name,
                   node->file ? node->file : "?", node->line, storage->changed_file ? storage->changed_file : "?",
                   storage->changed_line);
}

/* -- the clear -- */

static void clear_node(th_context *ctx, th_node *node)
{
    th_node_release(ctx, node);
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
            th_gradient_give_back(output->gradient);
    }
}

/* A step that failed leaves nothing behind: it will be repeated with the same random numbers, and what it left switched
 * off where it broke off is on again. */
static void take_back(th_context *ctx)
{
    ctx->calls[TH_STREAM_DROPOUT] = ctx->calls_at_clear;
    const int before = ctx->around.no_grad > ctx->no_grad_at_clear ? ctx->around.no_grad : ctx->no_grad_at_clear;
    if (ctx->no_grad_depth > before)
        ctx->no_grad_depth = before;
}

void th_tape_clear(th_context *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->running) { /* what it reads and writes would be gone */
        th_fail(ctx, TH_ERROR_STATE, "tape_clear", "is called inside %s, which is still running", ctx->running->name);
        return;
    }
    th_scopes_close(ctx);
    if (ctx->error || ctx->step_failed)
        take_back(ctx);
    else
        ctx->calls_at_clear = ctx->calls[TH_STREAM_DROPOUT];
    ctx->no_grad_at_clear = ctx->no_grad_depth;
    ctx->step_failed = ctx->in_step = false;
    th_tape *tape = ctx->tape;
    if (tape)
        for (int64_t i = 0; i < tape->nodes.count; i++)
            clear_node(ctx, th_node_at(tape, i));
    th_pool *bodies = &ctx->step_tensors;
    for (int64_t i = 0; i < bodies->count; i++)
        th_handle_give_up(th_pool_at(bodies, i), TH_LIFE_CLEARED);
    ctx->tensors_before += (uint64_t)bodies->count;
    th_pool_reset(bodies);
    th_free_waiting(ctx);
    if (tape) {
        th_pool_reset(&tape->nodes);
        th_pool_reset(&tape->storages);
        th_bump_reset(&tape->bytes);
        for (int i = 0; i < ctx->scope_depth && i < TH_MAX_SCOPES; i++) {
            tape->scope[i].first_handle = tape->scope[i].first_node = 0;
            tape->scope[i].path = "";
        }
        if (tape->finding_is_old)
            tape->finding[0] = 0;
        tape->finding_is_old = tape->finding[0] != 0;
        ctx->path = "";
    }
}

void th_step_begin(th_context *ctx)
{
    if (ctx == NULL)
        return;
    th_use_context(ctx);
    ctx->in_step = true;
}

int64_t th_tape_length(const th_context *ctx)
{
    return ctx && ctx->tape ? ctx->tape->nodes.count : 0;
}
