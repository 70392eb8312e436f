/* Lists the tensors of a tape (listing.h). A hash table finds the index of a tensor. */
#include "export/listing.h"

#include <inttypes.h>
#include <string.h>

#include "autograd/gradient.h"
#include "tapehead/module.h"
#include "tensor/checked.h"
#include "tensor/format.h"

/* -- operations, gradients, names -- */

bool th_node_is(const th_node *node, const char *name)
{
    return strcmp(node->op->name, name) == 0 && th_op_find(name) == node->op;
}

bool th_listing_gradient(const th_tensor_impl *t, th_array *array)
{
    const th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    if (!t->requires_gradient || !th_gradient_buffer_is_complete(buffer))
        return false;
    th_gradient_array(t, array);
    return true;
}

const char *th_listing_name(const th_tensor_impl *t, char name[TH_LISTED_NAME])
{
    name[0] = 0;
    if (t->label == NULL)
        return name;
    char module[TH_FULL_NAME_SIZE];
    th_module_full_name(t->label->module, module);
    th_append(name, TH_LISTED_NAME, "%s%s%s", module, module[0] ? "." : "", t->label->name);
    return name;
}

int64_t th_listing_find(const th_listing *listing, const th_tensor_impl *t)
{
    for (int64_t i = 0; i < listing->tensors; i++)
        if (listing->tensor[i].tensor == t)
            return i;
    return -1;
}

void *th_listing_zeros(th_context *ctx, int64_t count, size_t element, size_t *bytes, const char *operation)
{
    *bytes = 0;
    void *memory = th_checked_bytes(count + 1, element, bytes) ? th_allocate(ctx, *bytes) : NULL;
    if (memory)
        return memset(memory, 0, *bytes);
    th_fail_memory(ctx, operation, *bytes);
    *bytes = 0;
    return NULL;
}

th_status th_listing_array(th_listing *listing, const th_array *like, th_dtype dtype, th_array *array)
{
    th_tensor_impl *t = th_tensor_new(listing->ctx, dtype, like->ndim, like->size, false, "export");
    if (t == NULL)
        return listing->ctx->error;
    *array = th_tensor_array(t);
    return TH_OK;
}

th_status th_listing_array_strided(th_listing *listing, const th_array *like, th_dtype dtype, th_array *array)
{
    int64_t low = 0, high = 0; /* the first and the last element: `like` has them, so that nothing overflows */
    for (int d = 0; d < like->ndim; d++) {
        const int64_t reach = like->size[d] > 0 ? (like->size[d] - 1) * like->stride[d] : 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    const th_array span = {.ndim = 1, .size = {high - low + 1}};
    if (th_listing_array(listing, &span, dtype, array) != TH_OK)
        return listing->ctx->error;
    void *first = (char *)array->data - low * (int64_t)th_dtype_size(dtype);
    *array = *like;
    array->given = true;
    array->dtype = dtype;
    array->data = first;
    return TH_OK;
}

/* -- the list of tensors -- */

bool th_index_table_init(th_index_table *t, th_context *ctx, int64_t max_indices, const char *operation)
{
    int64_t slots = 16;
    while (slots < 2 * max_indices)
        slots *= 2;
    t->mask = (uint64_t)slots - 1;
    t->slot = th_listing_zeros(ctx, slots, sizeof *t->slot, &t->bytes, operation);
    for (int64_t i = 0; t->slot && i < slots; i++)
        t->slot[i] = -1;
    return t->slot != NULL;
}

/* Returns the slot of a tensor: it contains the tensor's index, or -1 if the tensor is not in the list. */
static int64_t *find_slot(const th_index_table *t, const th_listing *listing, const th_tensor_impl *tensor)
{
    uint64_t probe = (uint64_t)(uintptr_t)tensor / 64 * UINT64_C(0x9e3779b97f4a7c15) >> 20;
    while (t->slot[probe & t->mask] >= 0 && listing->tensor[t->slot[probe & t->mask]].tensor != tensor)
        probe++;
    return &t->slot[probe & t->mask];
}

/* Returns the index of a tensor, which is added to the list if it is new. */
static int64_t find_or_add_tensor(const th_index_table *t, th_listing *listing, th_tensor_impl *tensor)
{
    if (tensor == NULL)
        return -1;
    int64_t *slot = find_slot(t, listing, tensor);
    if (*slot < 0) {
        *slot = listing->tensors++;
        listing->tensor[*slot] = (th_listed){.tensor = tensor, .producer = -1, .view_of = -1, .gradient_owner = -1};
    }
    return *slot;
}

static void list_tensors(th_listing *listing, const th_index_table *t)
{
    int64_t operand_index = 0;
    for (int64_t n = 0; n < listing->nodes; n++) {
        const th_node *node = th_listing_node(listing, n);
        listing->first_operand[n] = operand_index;
        for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
            const int64_t index = find_or_add_tensor(t, listing, node->operand[i].tensor);
            listing->operand[operand_index++] = index;
            if (i < node->n_inputs || index < 0)
                continue;
            listing->tensor[index].producer = n;
            listing->tensor[index].view_of =
                node->op->flags & TH_OP_VIEW ? listing->operand[listing->first_operand[n]] : -1;
        }
    }
    listing->first_operand[listing->nodes] = operand_index;
    for (int64_t i = 0; i < listing->tensors; i++) {
        const th_tensor_impl *root = listing->tensor[i].tensor->gradient_view.root;
        listing->tensor[i].gradient_owner = root ? *find_slot(t, listing, root) : -1;
    }
}

/* -- checks -- */

static const char *file_or_unknown(const char *file)
{
    return file ? file : "?";
}

/* Fails if an operand's value was released, or changed since the call was recorded. */
static th_status check_value(th_context *ctx, const th_node *node, const th_operand_record *operand,
                             const char *operation)
{
    const th_storage *storage = operand->tensor ? operand->tensor->storage : NULL;
    if (storage && storage->dropped)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "a value of %s, recorded at %s:%d, was released; call th_keep_values before the forward",
                       node->op->name, file_or_unknown(node->file), node->line);
    if (storage && storage->version != operand->version)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "a value of %s, recorded at %s:%d, was changed at %s:%d; call th_%s before that, and before "
                       "th_optimizer_step",
                       node->op->name, file_or_unknown(node->file), node->line, file_or_unknown(storage->changed_file),
                       storage->changed_line, operation);
    return TH_OK;
}

/* Fails if an operand has a storage type: pages and scripts show numbers. */
static th_status check_types(th_context *ctx, const th_node *node, const char *operation)
{
    for (int i = 0; i < node->n_inputs; i++) {
        const th_tensor_impl *input = node->operand[i].tensor;
        if (input && th_is_storage_type(input->dtype))
            return th_fail(ctx, TH_ERROR_TYPE, operation,
                           "input %d of %s, recorded at %s:%d, is stored as %s, which is not exported; th_module_store "
                           "converts the weights of a module back to float32",
                           i, node->op->name, file_or_unknown(node->file), node->line, th_dtype_name(input->dtype));
    }
    return TH_OK;
}

static th_status check_values_kept(th_listing *listing, const char *operation)
{
    for (int64_t n = 0; n < listing->nodes; n++) {
        const th_node *node = th_listing_node(listing, n);
        if (check_types(listing->ctx, node, operation) != TH_OK)
            return listing->ctx->error;
        for (int i = 0; i < node->n_inputs + node->n_outputs; i++)
            if (check_value(listing->ctx, node, &node->operand[i], operation) != TH_OK)
                return listing->ctx->error;
        const th_tensor_impl *output = th_node_output(node, 0)->tensor;
        th_array gradient;
        const bool has_gradient = th_listing_gradient(output, &gradient);
        listing->backward_ran |= has_gradient;
        if (node->consumed && !has_gradient && th_tensor_numel(output) > 0 && node->n_outputs == 1)
            return th_fail(
                listing->ctx, TH_ERROR_STATE, operation, "the gradient of %s, recorded at %s:%d, was released%s",
                node->op->name, file_or_unknown(node->file), node->line,
                listing->ctx->tape->passes.failed ? " because backward failed; clear the tape and run the step again"
                                                  : "; call th_keep_values before the forward");
    }
    return TH_OK;
}

th_status th_listing_require_one_pass(const th_listing *listing, const char *operation)
{
    const th_tape_passes *passes = &listing->ctx->tape->passes;
    if (passes->count > 1)
        return th_fail(listing->ctx, TH_ERROR_STATE, operation,
                       "%" PRId64 " backward passes ran through this tape, but the gradients must be those of one",
                       passes->count);
    if (passes->added)
        return th_fail(listing->ctx, TH_ERROR_STATE, operation,
                       "backward added to gradients that leaves had before it; empty them before (th_empty_gradient)");
    return TH_OK;
}

/* -- begin and end -- */

th_status th_listing_begin_unchecked(th_listing *listing, th_context *ctx, const char *operation)
{
    *listing = (th_listing){.ctx = ctx, .profiling = ctx->profiling, .mark = th_step_get_mark(ctx)};
    ctx->profiling = false;
    listing->nodes = th_tape_length(ctx);
    for (int64_t n = 0; n < listing->nodes; n++)
        listing->operands += th_listing_node(listing, n)->n_inputs + th_listing_node(listing, n)->n_outputs;
    th_index_table t = {NULL, 0, 0};
    listing->tensor = th_listing_zeros(ctx, listing->operands, sizeof *listing->tensor, &listing->bytes[0], operation);
    listing->first_operand =
        th_listing_zeros(ctx, listing->nodes, sizeof *listing->first_operand, &listing->bytes[1], operation);
    listing->operand =
        th_listing_zeros(ctx, listing->operands, sizeof *listing->operand, &listing->bytes[2], operation);
    if (!ctx->error && th_index_table_init(&t, ctx, listing->operands, operation))
        list_tensors(listing, &t);
    th_release(ctx, t.slot, t.bytes);
    return ctx->error;
}

th_status th_listing_begin(th_listing *listing, th_context *ctx, const char *operation)
{
    if (th_listing_begin_unchecked(listing, ctx, operation) != TH_OK)
        return ctx->error;
    if (ctx->options.shapes_only)
        return th_fail(ctx, TH_ERROR_STATE, operation, "a context with shapes_only has no values");
    if (ctx->running_op)
        return th_fail(ctx, TH_ERROR_STATE, operation, "is called inside %s", ctx->running_op->name);
    if (listing->nodes == 0)
        return th_fail(ctx, TH_ERROR_STATE, operation,
                       "the tape is empty: nothing was recorded since th_tape_clear, or no leaf requires a gradient");
    return check_values_kept(listing, operation);
}

void th_listing_end(th_listing *listing)
{
    th_context *ctx = listing->ctx;
    th_release(ctx, listing->tensor, listing->bytes[0]);
    th_release(ctx, listing->first_operand, listing->bytes[1]);
    th_release(ctx, listing->operand, listing->bytes[2]);
    th_step_rewind(ctx, listing->mark);
    ctx->profiling = listing->profiling;
}
