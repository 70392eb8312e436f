/* Recomputes values that were not saved: the results of operations with TH_OP_RECOMPUTE, and all results in a scope of
 * th_scope_begin_recomputed. A recomputed value stays until the backward of the node that produced it. */
#include "autograd/frame.h"

void th_node_drop_recomputed(th_context *ctx, th_node *node)
{
    node->recomputed = false;
    for (int i = 0; i < node->n_outputs; i++) {
        const th_tensor_impl *output = th_node_output(node, i)->tensor;
        if (output == NULL || !output->storage->recomputed)
            continue;
        output->storage->recomputed = false;
        th_storage_drop(ctx, output->storage);
    }
}

/* Returns whether output i must be recomputed: it is the missing value, or the node's own backward will read it. */
static bool must_recompute(const th_node *node, int i)
{
    const th_operand_record *output = th_node_output(node, i);
    const th_storage *storage = output->tensor ? output->tensor->storage : NULL;
    return storage && storage->dropped && storage->producer >= 0 &&
           (storage == node->missing_value || output->saved == TH_SAVED_RECOMPUTED);
}

/* Gives the storage of an output memory for its recomputed value. */
static th_status allocate_again(th_context *ctx, th_node *node, th_storage *storage)
{
    th_block *block = th_block_new(ctx, &ctx->step_memory, storage->bytes, node->op->name);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    storage->block = block;
    storage->data = th_block_data(block);
    storage->dropped = false;
    storage->holds = 1; /* the node's, until its own backward has run */
    storage->recomputed = node->recomputed = true;
    return TH_OK;
}

/* Runs an operation's forward again, for the outputs with a bit (1 << i) in `missing_value`. */
static th_status run_forward(th_context *ctx, const th_node *node, uint32_t missing_outputs)
{
    th_frame frame;
    if (th_frame_init_from_node(&frame, ctx, node) != TH_OK)
        return ctx->error;
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *input = th_node_input(node, i)->tensor;
        frame.call.input[i].data = input ? th_tensor_data(input) : NULL;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        frame.output[i].given =
            i == 0 || (missing_outputs >> i & 1); /* the others still have their values, or are not needed */
        if (missing_outputs >> i & 1)
            frame.output[i].data = th_tensor_data(th_node_output(node, i)->tensor);
    }
    /* Every forward computes output 0. If output 0 still has a value, which may have been changed, the new value is
     * discarded. */
    th_block *unused = NULL;
    if (!(missing_outputs & 1)) {
        unused = th_block_new(ctx, &ctx->step_memory, th_node_output(node, 0)->tensor->storage->bytes, node->op->name);
        if (unused == NULL)
            return TH_ERROR_MEMORY;
        frame.output[0].data = th_block_data(unused);
    }
    const th_status status = th_frame_run(&frame, false);
    if (unused)
        th_block_free(&ctx->step_memory, unused);
    return status;
}

static th_status recompute_outputs(th_context *ctx, th_node *node)
{
    uint32_t missing_outputs = 0;
    for (int i = 0; i < node->n_outputs && !ctx->error; i++)
        if (must_recompute(node, i) && allocate_again(ctx, node, th_node_output(node, i)->tensor->storage) == TH_OK)
            missing_outputs |= 1u << i;
    if (!ctx->error && run_forward(ctx, node, missing_outputs) == TH_OK)
        return TH_OK;
    for (int i = 0; i < node->n_outputs; i++)
        if (missing_outputs >> i & 1) { /* forward failed: the memory has no value */
            th_storage *storage = th_node_output(node, i)->tensor->storage;
            storage->recomputed = false;
            th_storage_drop(ctx, storage);
        }
    return ctx->error;
}

/* Returns the node that can recompute a storage, linked to the node that waits for it. NULL with an error pending. */
static th_node *link_producer(th_context *ctx, th_storage *storage, th_node *waiting, const char *operation)
{
    if (storage->producer < 0) {
        th_fail(ctx, TH_ERROR_STATE, operation, "a value that backward needs was released");
        return NULL;
    }
    th_node *node = th_node_at(ctx->tape, storage->producer);
    node->waiting_node = waiting;
    node->missing_value = storage;
    return node;
}

/* Sets *missing to the storage of the first input that must be recomputed before the node can run, or NULL. */
static th_status find_missing_input(th_context *ctx, const th_node *node, th_storage **missing)
{
    *missing = NULL;
    for (int i = 0; i < node->n_inputs && *missing == NULL; i++) {
        const th_operand_record *operand = th_node_input(node, i);
        if (operand->tensor == NULL)
            continue;
        if (th_check_saved_version(ctx, node, operand) != TH_OK)
            return ctx->error;
        *missing = operand->tensor->storage->dropped ? operand->tensor->storage : NULL;
    }
    return TH_OK;
}

/* A chain of recomputed values can have any length. So the waiting nodes are linked in a list, instead of recursion. */
th_status th_recompute_storage(th_context *ctx, th_storage *storage, const char *operation)
{
    if (!storage->dropped)
        return TH_OK;
    th_node *node = link_producer(ctx, storage, NULL, operation);
    while (node) {
        th_storage *missing;
        if (find_missing_input(ctx, node, &missing) != TH_OK)
            return ctx->error;
        if (missing) {
            node = link_producer(ctx, missing, node, operation);
        } else {
            if (recompute_outputs(ctx, node) != TH_OK)
                return ctx->error;
            node = node->waiting_node;
        }
    }
    return ctx->error;
}
