/* Changes the state of gradient buffers: see gradient.h. A buffer is
 *
 *     EMPTY --> PARTIAL --> FULL --> FINISHED
 *
 * The gradient of a view is a region of its root's buffer. Views write their regions in any order: the first write to a
 * region overwrites, later writes add. The buffer is PARTIAL until all regions are written. Elements outside all
 * regions are set to zero. It would be simpler to set the whole buffer to zero first and always to add. But that would
 * read and write the gradients of queries, keys and values (three regions of one buffer) once more. It would cost one
 * to two percent of a step of the benchmark copyB (bench/README.md; three pairs of runs on a quiet machine). It would
 * also turn -0.0 into 0.0.
 *
 * A FINISHED buffer is readable, and the next pass starts with EMPTY. A PRECOMPUTED buffer counts as EMPTY, except for
 * the node whose forward wrote it. */
#include "autograd/gradient.h"

#include <assert.h>
#include <string.h>

#include "autograd/coverage.h"
#include "tensor/checked.h"
#include "tensor/parameter.h"

/* The largest number of regions that are tracked for one buffer. Beyond it, the rest of the buffer is set to zero, and
 * gradients are added. So the time grows with the number of a tensor's views, and not with its square. */
enum { MAX_REGIONS = 64 };

/* -- properties -- */

void th_gradient_array(const th_tensor_impl *t, th_array *array)
{
    *array = (th_array){.given = true, .dtype = t->dtype, .ndim = t->ndim};
    memcpy(array->size, t->size, sizeof t->size);
    memcpy(array->stride, t->gradient_view.stride, sizeof t->gradient_view.stride);
    memcpy(array->axes, t->axes, sizeof t->axes);
    char *data = th_gradient_buffer_of(t)->memory->data;
    array->data = data ? data + (size_t)t->gradient_view.offset * th_dtype_size(t->dtype) : NULL;
}

/* Returns whether the gradient must outlast the backward of the node that made its root. */
static bool must_be_kept(const th_gradient_buffer *buffer)
{
    return buffer->keep || buffer->kind == TH_GRADIENT_OF_PASS || buffer->root->ctx->keep_values;
}

/* -- memory -- */

static th_status allocate_storage(th_context *ctx, th_storage *storage, size_t bytes, bool owned)
{
    th_block *block = th_block_new(ctx, owned ? &ctx->owned_memory : &ctx->step_memory, bytes, "backward");
    if (block == NULL)
        return TH_ERROR_MEMORY;
    *storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = owned, .producer = -1};
    return TH_OK;
}

/* Allocates memory of the step for a gradient. */
static th_storage *new_step_storage(th_context *ctx, size_t bytes)
{
    th_storage *storage = th_pool_new(ctx, &ctx->tape->storages);
    if (storage == NULL) {
        th_fail_memory(ctx, "backward", sizeof *storage);
        return NULL;
    }
    return allocate_storage(ctx, storage, bytes, false) == TH_OK ? storage : NULL;
}

/* Allocates a leaf's memory. A parameter's gradient is in its parameter block, unless the gradient checker has replaced
 * its buffer. */
static th_status allocate_leaf_gradient(th_gradient_buffer *buffer, size_t bytes)
{
    th_tensor_impl *root = buffer->root;
    const th_status status = root->parameter && buffer == th_gradient_buffer_of_leaf(root)
                                 ? th_parameter_gradient_memory(root, &buffer->own_memory)
                                 : allocate_storage(root->ctx, &buffer->own_memory, bytes, true);
    if (status == TH_OK)
        buffer->memory = &buffer->own_memory;
    return status;
}

/* Empties the buffer if its content is from before this pass, and makes sure that it has memory. */
static th_status prepare_for_write(th_gradient_buffer *buffer)
{
    if (buffer->state == TH_GRADIENT_BUFFER_FINISHED && buffer->kind != TH_GRADIENT_OF_LEAF)
        th_gradient_release(buffer); /* the memory may have other readers */
    else if (!th_gradient_buffer_is_started(buffer))
        buffer->state = TH_GRADIENT_BUFFER_EMPTY;
    if (buffer->memory)
        return TH_OK;
    const th_tensor_impl *root = buffer->root;
    size_t bytes = 0;
    /* cannot overflow: the value has as many bytes */
    (void)th_checked_bytes(th_tensor_numel(root), th_dtype_size(root->dtype), &bytes);
    if (buffer->kind == TH_GRADIENT_OF_LEAF)
        return allocate_leaf_gradient(buffer, bytes);
    buffer->memory = new_step_storage(root->ctx, bytes);
    return buffer->memory ? TH_OK : TH_ERROR_MEMORY;
}

/* Copies a shared gradient before it is added to. */
static th_status copy_if_shared(th_gradient_buffer *buffer)
{
    if (buffer->kind == TH_GRADIENT_OF_LEAF || buffer->memory->holds == 1)
        return TH_OK;
    th_context *ctx = buffer->root->ctx;
    th_storage *copy = new_step_storage(ctx, buffer->memory->bytes);
    if (copy == NULL)
        return ctx->error;
    if (copy->data && copy->bytes)
        memcpy(copy->data, buffer->memory->data, copy->bytes);
    th_storage_drop(ctx, buffer->memory);
    buffer->memory = copy;
    return TH_OK;
}

/* -- during a pass -- */

static const th_region *regions_of(const th_gradient_buffer *buffer)
{
    return buffer->state == TH_GRADIENT_BUFFER_PARTIAL ? buffer->written_regions : NULL;
}

/* Adds a region to the list of written regions. The buffer becomes full with its last region. */
static th_status add_region(th_gradient_buffer *buffer, const th_region *region)
{
    int64_t covered = region->numel;
    for (const th_region *r = regions_of(buffer); r; r = r->next)
        covered += r->numel;
    if (covered == th_tensor_numel(buffer->root)) {
        buffer->state = TH_GRADIENT_BUFFER_FULL;
        return TH_OK;
    }
    th_context *ctx = buffer->root->ctx;
    th_region *entry = th_bump_allocate(ctx, &ctx->tape->records, sizeof *entry);
    if (entry == NULL)
        return th_fail_memory(ctx, "backward", sizeof *entry);
    *entry = *region;
    entry->next = buffer->state == TH_GRADIENT_BUFFER_PARTIAL ? buffer->written_regions : NULL;
    buffer->written_regions = entry;
    buffer->state = TH_GRADIENT_BUFFER_PARTIAL;
    return TH_OK;
}

/* Marks t's region as written. *add becomes true if it had been written before. */
static th_status open_region(th_gradient_buffer *buffer, const th_tensor_impl *t, bool *add)
{
    if (buffer->state == TH_GRADIENT_BUFFER_EMPTY && t == buffer->root) {
        *add = false;
        buffer->state = TH_GRADIENT_BUFFER_FULL;
        return TH_OK;
    }
    if (buffer->state != TH_GRADIENT_BUFFER_FULL) {
        const th_region region = th_region_of(t);
        th_relation relation = TH_DISJOINT;
        int regions = 0;
        for (const th_region *r = regions_of(buffer); r && relation == TH_DISJOINT; r = r->next, regions++)
            relation = th_region_relation(r, &region);
        *add = relation == TH_INSIDE;
        if (*add)
            return TH_OK;
        if (relation == TH_DISJOINT && regions < MAX_REGIONS)
            return add_region(buffer, &region);
        th_gradient_zero_unwritten(buffer);
    }
    *add = true;
    return copy_if_shared(buffer);
}

th_status th_gradient_open_for_write(th_gradient_buffer **written, th_tensor_impl *t, th_array *target, bool *add)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    if (prepare_for_write(buffer) != TH_OK)
        return t->ctx->error;
    if (buffer->kind == TH_GRADIENT_OF_LEAF && !buffer->listed) {
        t->ctx->tape->passes.added |= th_gradient_buffer_is_started(buffer);
        buffer->listed = true;
        buffer->next_listed = *written;
        *written = buffer;
        /* An operation may have saved it: the user can read it by th_gradient. */
        th_storage_mark_changed(buffer->memory);
    }
    if (open_region(buffer, t, add) != TH_OK)
        return t->ctx->error;
    th_gradient_array(t, target);
    return TH_OK;
}

/* Returns whether input is a result without a gradient so far, whose gradient has the same layout as output's. */
static bool can_share(const th_tensor_impl *input, const th_tensor_impl *output)
{
    const th_gradient_buffer *buffer = input->gradient;
    const size_t bytes = (size_t)input->ndim * sizeof input->size[0];
    return buffer && buffer->node >= 0 && !th_gradient_buffer_is_started(buffer) && input->dtype == output->dtype &&
           input->ndim == output->ndim && memcmp(input->size, output->size, bytes) == 0 &&
           memcmp(input->gradient_view.stride, output->gradient_view.stride, bytes) == 0;
}

static void share_memory(th_gradient_buffer *buffer, th_storage *memory)
{
    th_storage_hold(memory);
    if (buffer->memory) /* from a precomputed or a saved gradient */
        th_storage_drop(buffer->root->ctx, buffer->memory);
    buffer->memory = memory;
    buffer->state = TH_GRADIENT_BUFFER_FULL;
}

bool th_gradient_share(th_tensor_impl *input, const th_tensor_impl *output)
{
    if (!can_share(input, output))
        return false;
    share_memory(input->gradient, output->gradient->memory);
    return true;
}

bool th_gradient_take_over(th_tensor_impl *input, const th_tensor_impl *output)
{
    return output->gradient->memory->holds == 1 && !must_be_kept(output->gradient) && th_gradient_share(input, output);
}

th_status th_gradient_take_over_value(th_tensor_impl *input, bool *taken)
{
    th_context *ctx = input->ctx;
    th_gradient_buffer *buffer = input->gradient;
    th_storage *value = input->storage;
    *taken = buffer && buffer->kind == TH_GRADIENT_OF_RESULT && !buffer->memory && !must_be_kept(buffer) &&
             value == &input->own_storage && value->holds == 1 &&
             memcmp(input->stride, input->gradient_view.stride, (size_t)input->ndim * sizeof input->stride[0]) == 0;
    if (!*taken)
        return TH_OK;
    th_storage *memory = th_pool_new(ctx, &ctx->tape->storages);
    if (memory == NULL)
        return th_fail_memory(ctx, "backward", sizeof *memory);
    *memory =
        (th_storage){.data = value->data, .block = value->block, .bytes = value->bytes, .holds = 1, .producer = -1};
    value->data = value->block = NULL;
    value->dropped = true;
    value->holds = 0;
    buffer->memory = memory;
    buffer->state = TH_GRADIENT_BUFFER_FULL;
    return TH_OK;
}

void th_gradient_zero_unwritten(th_gradient_buffer *buffer)
{
    if (th_gradient_buffer_is_complete(buffer))
        return;
    assert(th_gradient_buffer_is_started(buffer) || buffer->memory);
    const th_tensor_impl *root = buffer->root;
    th_zero_uncovered(regions_of(buffer), buffer->memory->data, th_tensor_numel(root), th_dtype_size(root->dtype));
    buffer->state = TH_GRADIENT_BUFFER_FULL;
}

bool th_gradient_read(const th_tensor_impl *output, th_array *array)
{
    if (output == NULL || !th_gradient_buffer_is_started(output->gradient))
        return false;
    th_gradient_zero_unwritten(output->gradient);
    th_gradient_array(output, array);
    return true;
}

void th_gradient_release_or_keep(const th_tensor_impl *output)
{
    if (output == NULL || !th_gradient_buffer_is_started(output->gradient))
        return; /* none, or a precomputed one that this pass does not want */
    if (must_be_kept(output->gradient)) {
        th_gradient_zero_unwritten(output->gradient); /* necessary if the pass does not run the backward of this node */
        output->gradient->state = TH_GRADIENT_BUFFER_FINISHED;
    } else {
        th_gradient_release(output->gradient);
    }
}

/* -- outside a pass -- */

void th_gradient_empty(const th_tensor_impl *t)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    if (buffer && buffer->kind == TH_GRADIENT_OF_LEAF && buffer->state != TH_GRADIENT_BUFFER_PRECOMPUTED)
        buffer->state = TH_GRADIENT_BUFFER_EMPTY;
}

th_status th_gradient_zero(th_tensor_impl *t)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    buffer->state = TH_GRADIENT_BUFFER_EMPTY;
    if (prepare_for_write(buffer) != TH_OK)
        return t->ctx->error;
    th_storage_mark_changed(buffer->memory);
    th_gradient_zero_unwritten(buffer);
    return TH_OK;
}

void th_gradient_mark_finished(const th_tensor_impl *t)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    assert(buffer->kind == TH_GRADIENT_OF_LEAF && th_gradient_buffer_is_complete(buffer));
    buffer->state = TH_GRADIENT_BUFFER_FINISHED;
}

void th_gradient_release(th_gradient_buffer *buffer)
{
    if (buffer->memory)
        th_storage_drop(buffer->root->ctx, buffer->memory);
    buffer->memory = NULL;
    buffer->state = TH_GRADIENT_BUFFER_EMPTY;
}

void th_gradient_save(th_gradient_buffer *buffer, const th_gradient_buffer *of_pass)
{
    if (of_pass->state != TH_GRADIENT_BUFFER_FINISHED || !must_be_kept(buffer))
        return;
    share_memory(buffer, of_pass->memory);
    buffer->state = TH_GRADIENT_BUFFER_FINISHED;
}

/* -- precomputed gradients -- */

bool th_gradient_can_be_precomputed(const th_tensor_impl *t)
{
    return t->gradient && t->gradient->state == TH_GRADIENT_BUFFER_EMPTY &&
           th_strides_are_contiguous(t->ndim, t->size, t->gradient_view.stride);
}

th_status th_gradient_prepare_precomputed(th_tensor_impl *t, th_array *array)
{
    if (prepare_for_write(t->gradient) != TH_OK)
        return t->ctx->error;
    th_storage_mark_changed(
        t->gradient->memory); /* an operation may have saved it: the user can read it by th_gradient */
    th_gradient_array(t, array);
    return TH_OK;
}

void th_gradient_mark_precomputed(const th_tensor_impl *t, int64_t node)
{
    th_gradient_buffer *buffer = t->gradient;
    buffer->state = TH_GRADIENT_BUFFER_PRECOMPUTED;
    buffer->precomputed.node = node;
    buffer->precomputed.version = buffer->memory->version;
}

bool th_gradient_is_precomputed(const th_tensor_impl *t, int64_t node)
{
    const th_gradient_buffer *buffer = t->gradient;
    return buffer && buffer->state == TH_GRADIENT_BUFFER_PRECOMPUTED && buffer->precomputed.node == node &&
           buffer->precomputed.version == buffer->memory->version;
}

void th_gradient_unmark_precomputed(const th_tensor_impl *t)
{
    if (t->gradient && t->gradient->state == TH_GRADIENT_BUFFER_PRECOMPUTED)
        t->gradient->state = TH_GRADIENT_BUFFER_EMPTY;
}

/* -- reading -- */

/* Creates a tensor for t's gradient, which is a view of this memory. */
static th_tensor_impl *new_gradient_tensor(const th_tensor_impl *t, th_storage *memory, bool owned)
{
    th_tensor_impl *tensor = th_handle_new(t->ctx, owned, "gradient");
    if (tensor == NULL)
        return NULL;
    tensor->storage = memory;
    tensor->dtype = t->dtype;
    tensor->ndim = t->ndim;
    memcpy(tensor->size, t->size, sizeof t->size);
    memcpy(tensor->stride, t->gradient_view.stride, sizeof t->gradient_view.stride);
    memcpy(tensor->axes, t->axes, sizeof t->axes);
    tensor->offset = t->gradient_view.offset;
    th_storage_hold(memory);
    return tensor;
}

th_tensor_impl *th_gradient_tensor(th_tensor_impl *t)
{
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    if (!th_gradient_buffer_is_complete(buffer))
        return NULL;
    if (t->gradient == NULL || buffer->kind != TH_GRADIENT_OF_LEAF)
        return new_gradient_tensor(t, buffer->memory, false);
    if (buffer->tensor == NULL)
        buffer->tensor = new_gradient_tensor(t, buffer->memory, true);
    return buffer->tensor;
}

th_tensor *th_gradient(th_tensor *handle)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "gradient", "the tensor");
    return t && t->requires_gradient ? th_handle_of(th_gradient_tensor(t)) : NULL;
}

th_tensor *th_keep_gradient(th_tensor *handle)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, "keep_gradient", "the tensor");
    if (t == NULL)
        return NULL;
    if (!t->requires_gradient) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, "keep_gradient", "the tensor does not require a gradient");
        return NULL;
    }
    th_gradient_buffer *buffer = th_gradient_buffer_of(t);
    buffer->keep = buffer->kind == TH_GRADIENT_OF_RESULT; /* a leaf always keeps its gradient */
    return handle;
}

void th_empty_gradient(th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "empty_gradient");
    if (t)
        th_gradient_empty(t);
}

th_tensor *th_set_requires_gradient(th_tensor *handle, bool requires_gradient)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "set_requires_gradient", "the tensor");
    if (t == NULL)
        return NULL;
    if (!th_is_floating(t->dtype)) {
        th_fail(t->ctx, TH_ERROR_TYPE, "set_requires_gradient",
                "only float32 and float64 tensors can have gradients; this one is %s", th_dtype_name(t->dtype));
        return NULL;
    }
    if (!t->owned || t->storage != &t->own_storage) {
        th_fail(
            t->ctx, TH_ERROR_ARGUMENT, "set_requires_gradient",
            "the tensor belongs to the tape; only a tensor that you own can be a leaf (th_keep makes an owned copy)");
        return NULL;
    }
    t->requires_gradient = requires_gradient;
    if (t->gradient == NULL) {
        t->gradient = th_gradient_buffer_of_leaf(t);
        *t->gradient = th_gradient_buffer_new(t, TH_GRADIENT_OF_LEAF, -1);
        t->gradient_view = (th_gradient_view){.root = t};
        memcpy(t->gradient_view.stride, t->stride, sizeof t->stride);
    }
    return handle;
}

bool th_requires_gradient(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "requires_gradient");
    return t && t->requires_gradient;
}
