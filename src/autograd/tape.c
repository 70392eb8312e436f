/* The tape's memory, and the values that its nodes save. record.c adds nodes; step.c clears the tape. */
#include "autograd/tape.h"

#include <string.h>

static void tape_release(th_context *ctx, void *object)
{
    th_tape *tape = object;
    th_pool_destroy(ctx, &tape->nodes);
    th_pool_destroy(ctx, &tape->storages);
    th_bump_destroy(ctx, &tape->names);
    th_bump_destroy(ctx, &tape->records);
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
    if (!th_attach_object(ctx, tape, tape_release)) {
        th_release(ctx, tape, sizeof *tape);
        th_fail_memory(ctx, operation, sizeof(th_attachment));
        return NULL;
    }
    ctx->tape = tape;
    for (int i = 0; i < ctx->scope_depth && i < TH_MAX_SCOPES; i++) /* scopes that had no memory to be opened */
        tape->scope[i] = (th_scope){.outer_path = ctx->scope_path, .first_tensor = ctx->step_tensors.count};
    return tape;
}

void th_node_release_saved(th_context *ctx, th_node *node)
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

th_status th_check_saved_version(th_context *ctx, const th_node *node, const th_operand_record *operand)
{
    const th_storage *storage = operand->tensor->storage;
    if (storage->version == operand->version)
        return TH_OK;
    return th_fail(ctx, TH_ERROR_STATE, "backward",
                   "a value that %s saved at %s:%d was changed at %s:%d, before its backward", node->op->name,
                   node->file ? node->file : "?", node->line, storage->changed_file ? storage->changed_file : "?",
                   storage->changed_line);
}

int64_t th_tape_length(const th_context *ctx)
{
    return ctx && ctx->tape ? ctx->tape->nodes.count : 0;
}
