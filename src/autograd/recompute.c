/* Values that are not kept but computed again when backward asks for them: of operations that say so (TH_OP_RECOMPUTE),
 * and of all that is recorded in a scope of that kind (th_scope_begin_recomputed). What came back stays until the
 * backward of the node that made it. */
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

/* Whether output i has to come back: it is what is asked for, or the node's own backward will read it. */
static bool is_missing(const th_node *node, int i)
{
    const th_operand_record *output = th_node_output(node, i);
    const th_storage *storage = output->tensor ? output->tensor->storage : NULL;
    return storage && storage->dropped && storage->producer >= 0 &&
           (storage == node->missing || output->saved == TH_SAVED_RECOMPUTED);
}

/* Memory for an output that comes back, as its storage. */
static th_status bring_back(th_context *ctx, th_node *node, th_storage *storage)
{
    th_block *block = th_take_block(ctx, &ctx->step_memory, storage->bytes, node->op->name);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    storage->block = block;
    storage->data = th_block_data(block);
    storage->dropped = false;
    storage->holds = 1; /* the node's, until its own backward has been */
    storage->recomputed = node->recomputed = true;
    return TH_OK;
}

/* Runs an operation's forward once more, for those of its outputs whose bits are set in `back`. */
static th_status run_forward(th_context *ctx, const th_node *node, uint32_t back)
{
    th_frame frame;
    if (th_frame_of_node(&frame, ctx, node) != TH_OK)
        return ctx->error;
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *input = th_node_input(node, i)->tensor;
        frame.call.input[i].data = input ? th_tensor_data(input) : NULL;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        frame.output[i].given = i == 0 || (back >> i & 1); /* others are still there, or nobody needs them */
        if (back >> i & 1)
            frame.output[i].data = th_tensor_data(th_node_output(node, i)->tensor);
    }
    th_block *unused = NULL; /* output 0, which every forward computes, and which may have been written to since */
    if (!(back & 1)) {
        unused = th_take_block(ctx, &ctx->step_memory, th_node_output(node, 0)->tensor->storage->bytes, node->op->name);
        if (unused == NULL)
            return TH_ERROR_MEMORY;
        frame.output[0].data = th_block_data(unused);
    }
    const th_status status = th_frame_run(&frame, false);
    if (unused)
        th_block_free(&ctx->step_memory, unused);
    return status;
}

static th_status recompute(th_context *ctx, th_node *node)
{
    uint32_t back = 0;
    for (int i = 0; i < node->n_outputs && !ctx->error; i++)
        if (is_missing(node, i) && bring_back(ctx, node, th_node_output(node, i)->tensor->storage) == TH_OK)
            back |= 1u << i;
    if (!ctx->error && run_forward(ctx, node, back) == TH_OK)
        return TH_OK;
    for (int i = 0; i < node->n_outputs; i++)
        if (back >> i & 1) { /* there is nothing in it */
            th_storage *storage = th_node_output(node, i)->tensor->storage;
            storage->recomputed = false;
            th_storage_drop(ctx, storage);
        }
    return ctx->error;
}

/* The node that can recompute a storage, for one that waits for it. */
static th_node *producer_of(th_context *ctx, th_storage *storage, th_node *waiting, const char *operation)
{
    if (storage->producer < 0) {
        th_fail(ctx, TH_ERROR_STATE, operation, "a value that backward needs was released");
        return NULL;
    }
    th_node *node = th_node_at(ctx->tape, storage->producer);
    node->waiting = waiting;
    node->missing = storage;
    return node;
}

/* The first input of a node that has to be recomputed itself; NULL when all are there. */
static th_status first_missing(th_context *ctx, const th_node *node, th_storage **missing)
{
    *missing = NULL;
    for (int i = 0; i < node->n_inputs && *missing == NULL; i++) {
        const th_operand_record *operand = th_node_input(node, i);
        if (operand->tensor == NULL)
            continue;
        if (th_check_version(ctx, node, operand) != TH_OK)
            return ctx->error;
        *missing = operand->tensor->storage->dropped ? operand->tensor->storage : NULL;
    }
    return TH_OK;
}

/* A chain of recomputed values is as long as it likes: the nodes that wait are linked, nothing calls itself. */
th_status th_recompute(th_context *ctx, th_storage *storage, const char *operation)
{
    if (!storage->dropped)
        return TH_OK;
    th_node *node = producer_of(ctx, storage, NULL, operation);
    while (node) {
        th_storage *missing;
        if (first_missing(ctx, node, &missing) != TH_OK)
            return ctx->error;
        if (missing) {
            node = producer_of(ctx, missing, node, operation);
        } else {
            if (recompute(ctx, node) != TH_OK)
                return ctx->error;
            node = node->waiting;
        }
    }
    return ctx->error;
}
