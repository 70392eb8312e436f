/* What happens to the tape as a whole: saved values, values computed again, scopes, the clear. */
#include "autograd/tape.h"

#include <string.h>

#include "autograd/gradient.h"

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

/* -- values computed again -- */

/* Runs a cheap operation's forward once more, into fresh memory for its output 0. */
static th_status run_again(th_context *ctx, const th_node *node)
{
    th_frame frame;
    if (th_frame_of_node(&frame, ctx, node) != TH_OK)
        return ctx->error;
    for (int i = 0; i < node->n_inputs; i++) {
        const th_body *input = th_node_input(node, i)->tensor;
        frame.call.input[i].data = input ? th_tensor_data(input) : NULL;
    }
    for (int i = 1; i < node->n_outputs; i++)
        frame.output[i].given = false; /* small, and still there */
    frame.output[0].data = th_tensor_data(th_node_output(node, 0)->tensor);
    return th_frame_run(&frame, false);
}

static th_status compute_again(th_context *ctx, th_node *node, th_storage *storage)
{
    th_block *block = th_take_block(ctx, &ctx->step_arena, storage->bytes, node->op->name);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    storage->block = block;
    storage->data = th_block_data(block);
    storage->dropped = false;
    storage->holds = 1; /* the node's, until its own backward has been */
    if (run_again(ctx, node) != TH_OK) {
        th_storage_drop(ctx, storage);
        return ctx->error;
    }
    node->restored = true;
    return TH_OK;
}

th_status th_restore(th_context *ctx, th_storage *storage, const char *operation)
{
    if (!storage->dropped)
        return TH_OK;
    if (storage->producer < 0)
        return th_fail(ctx, TH_ERROR_STATE, operation, "a value that backward needs was given back");
    th_node *node = th_node_at(ctx->tape, storage->producer);
    for (int i = 0; i < node->n_inputs; i++) {
        const th_operand_record *operand = th_node_input(node, i);
        if (operand->tensor == NULL)
            continue;
        if (th_check_version(ctx, node, operand) != TH_OK ||
            th_restore(ctx, operand->tensor->storage, operation) != TH_OK)
            return ctx->error;
    }
    return compute_again(ctx, node, storage);
}

/* -- scopes -- */

void th_scope_begin(th_context *ctx, const char *name)
{
    if (ctx == NULL)
        return;
    th_use_context(ctx);
    th_tape *tape = th_tape_of(ctx, "scope_begin");
    const int depth = ctx->scope_depth++;
    if (tape == NULL || depth >= TH_MAX_SCOPES) {
        if (tape)
            th_fail(ctx, TH_ERROR_STATE, "scope_begin", "more than %d scopes are open", (int)TH_MAX_SCOPES);
        return;
    }
    tape->scope[depth] = (th_scope){ctx->step_tensors.count, ctx->path};
    if (name == NULL || name[0] == 0)
        return;
    const size_t outer = strlen(ctx->path), bytes = outer + 1 + strlen(name) + 1;
    char *path = th_bump_take(ctx, &tape->bytes, bytes);
    if (path == NULL) {
        th_fail_memory(ctx, "scope_begin", bytes);
        return;
    }
    snprintf(path, bytes, "%s%s%s", ctx->path, outer ? "." : "", name);
    ctx->path = path;
}

static bool is_result(const th_body *t, th_tensor *const *results, int count)
{
    for (int i = 0; i < count; i++)
        if (t->handle == results[i])
            return true;
    return false;
}

void th_scope_end_all(th_context *ctx, th_tensor *const *results, int count)
{
    if (ctx == NULL || ctx->scope_depth == 0)
        return;
    const int depth = --ctx->scope_depth;
    if (ctx->tape == NULL || depth >= TH_MAX_SCOPES)
        return;
    const th_scope *scope = &ctx->tape->scope[depth];
    ctx->path = scope->path;
    if (ctx->keep_values)
        return;
    const th_pool *bodies = &ctx->step_tensors;
    for (int64_t i = scope->first_handle; i < bodies->count; i++) {
        th_body *t = th_pool_at(bodies, i);
        if (t->life == TH_LIFE_LIVE && !is_result(t, results, count))
            th_handle_give_up(t, TH_LIFE_GIVEN_UP);
    }
}

th_tensor *th_scope_end(th_context *ctx, th_tensor *result)
{
    th_scope_end_all(ctx, &result, 1);
    return result;
}

/* -- the clear -- */

static void clear_node(th_context *ctx, th_node *node)
{
    th_node_release(ctx, node);
    th_early_forget(node);
    if (node->restored)
        th_storage_drop(ctx, th_node_output(node, 0)->tensor->storage);
    for (int i = 0; i < node->n_inputs; i++) {
        th_body *input = th_node_input(node, i)->tensor;
        if (input && input->owned)
            input->tape_uses--;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        th_body *output = th_node_output(node, i)->tensor;
        if (output && output->kept)
            th_storage_drop(ctx, output->kept);
        if (output && output->gradient && output->root == output)
            th_storage_drop(ctx, output->gradient);
    }
}

void th_tape_clear(th_context *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->error)
        ctx->calls[TH_STREAM_DROPOUT] = ctx->calls_at_clear;
    else
        ctx->calls_at_clear = ctx->calls[TH_STREAM_DROPOUT];
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
        for (int i = 0; i < TH_MAX_SCOPES; i++)
            tape->scope[i] = (th_scope){0, ""};
        if (tape->finding_is_old)
            tape->finding[0] = 0;
        tape->finding_is_old = tape->finding[0] != 0;
        ctx->path = "";
    }
}

int64_t th_tape_length(const th_context *ctx)
{
    return ctx && ctx->tape ? ctx->tape->nodes.count : 0;
}
