/* What moves the place of a gradient from one state to the next: see gradient.h, and the picture in ARCHITECTURE.md. */
#include "autograd/gradient.h"

#include <assert.h>
#include <string.h>

#include "autograd/coverage.h"
#include "tensor/checked.h"
#include "tensor/parameter.h"

/* So many parts of one gradient are told apart. What comes then finds the gradient completed with zeros, and adds: the
 * time for many views of one tensor grows with their number, not with its square. */
enum { MAX_PARTS = 64 };

/* -- questions -- */

void th_gradient_array(const th_tensor_impl *t, th_array *array)
{
    *array = (th_array){.given = true, .dtype = t->dtype, .ndim = t->ndim};
    memcpy(array->size, t->size, sizeof t->size);
    memcpy(array->stride, t->part.stride, sizeof t->part.stride);
    memcpy(array->axes, t->axes, sizeof t->axes);
    char *data = th_gradient_buffer_of(t)->memory->data;
    array->data = data ? data + (size_t)t->part.offset * th_dtype_size(t->dtype) : NULL;
}

/* It outlasts the backward of the node that made its root. */
static bool is_kept(const th_gradient_buffer *place)
{
    return place->keep || place->kind == TH_GRADIENT_OF_PASS || place->root->ctx->keep_values;
}

/* -- memory -- */

static th_status fill_storage(th_context *ctx, th_storage *storage, size_t bytes, bool owned)
{
    th_block *block = th_take_block(ctx, owned ? &ctx->owned_memory : &ctx->step_memory, bytes, "backward");
    if (block == NULL)
        return TH_ERROR_MEMORY;
    *storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = owned, .producer = -1};
    return TH_OK;
}

/* Memory of the step for a gradient. */
static th_storage *step_storage(th_context *ctx, size_t bytes)
{
    th_storage *storage = th_pool_new(ctx, &ctx->tape->storages);
    if (storage == NULL) {
        th_fail_memory(ctx, "backward", sizeof *storage);
        return NULL;
    }
    return fill_storage(ctx, storage, bytes, false) == TH_OK ? storage : NULL;
}

/* A parameter's lies in its block; in another place, that of a check, it must not. */
static th_status leaf_memory(th_gradient_buffer *place, size_t bytes)
{
    th_tensor_impl *root = place->root;
    const th_status status = root->parameter && place == th_gradient_buffer_of_leaf(root)
                                 ? th_parameter_gradient_memory(root, &place->own_memory)
                                 : fill_storage(root->ctx, &place->own_memory, bytes, true);
    if (status == TH_OK)
        place->memory = &place->own_memory;
    return status;
}

/* Ready to be written to: what does not count is gone, and there is memory. */
static th_status prepare(th_gradient_buffer *place)
{
    if (place->state == TH_GRADIENT_BUFFER_KEPT) /* others may still read it there */
        th_gradient_give_back(place);
    else if (!th_gradient_buffer_started(place))
        place->state = TH_GRADIENT_BUFFER_EMPTY;
    if (place->memory)
        return TH_OK;
    const th_tensor_impl *root = place->root;
    size_t bytes = 0;
    (void)th_checked_bytes(th_tensor_numel(root), th_dtype_size(root->dtype),
                           &bytes); /* fitted when the value was made */
    if (place->kind == TH_GRADIENT_OF_LEAF)
        return leaf_memory(place, bytes);
    place->memory = step_storage(root->ctx, bytes);
    return place->memory ? TH_OK : root->ctx->error;
}

/* A gradient that is about to be added to must not be shared. */
static th_status unshare(th_gradient_buffer *place)
{
    if (place->kind == TH_GRADIENT_OF_LEAF || place->memory->holds == 1)
        return TH_OK;
    th_context *ctx = place->root->ctx;
    th_storage *copy = step_storage(ctx, place->memory->bytes);
    if (copy == NULL)
        return ctx->error;
    if (copy->data && copy->bytes)
        memcpy(copy->data, place->memory->data, copy->bytes);
    th_storage_drop(ctx, place->memory);
    place->memory = copy;
    return TH_OK;
}

/* -- moves in a pass -- */

static const th_region *parts_of(const th_gradient_buffer *place)
{
    return place->state == TH_GRADIENT_BUFFER_PARTIAL ? place->parts : NULL;
}

/* Adds a part that nobody has written to the list; the last one makes it full. */
static th_status cover(th_gradient_buffer *place, const th_region *part)
{
    int64_t covered = part->numel;
    for (const th_region *r = parts_of(place); r; r = r->next)
        covered += r->numel;
    if (covered == th_tensor_numel(place->root)) {
        place->state = TH_GRADIENT_BUFFER_FULL;
        return TH_OK;
    }
    th_context *ctx = place->root->ctx;
    th_region *entry = th_bump_take(ctx, &ctx->tape->bytes, sizeof *entry);
    if (entry == NULL)
        return th_fail_memory(ctx, "backward", sizeof *entry);
    *entry = *part;
    entry->next = place->state == TH_GRADIENT_BUFFER_PARTIAL ? place->parts : NULL;
    place->parts = entry;
    place->state = TH_GRADIENT_BUFFER_PARTIAL;
    return TH_OK;
}

/* Finds out whether t's part has been written; from here on it has. */
static th_status open_part(th_gradient_buffer *place, const th_tensor_impl *t, bool *add)
{
    if (place->state == TH_GRADIENT_BUFFER_EMPTY && t == place->root) {
        *add = false;
        place->state = TH_GRADIENT_BUFFER_FULL;
        return TH_OK;
    }
    if (place->state != TH_GRADIENT_BUFFER_FULL) {
        const th_region part = th_region_of(t);
        th_relation relation = TH_DISJOINT;
        int parts = 0;
        for (const th_region *r = parts_of(place); r && relation == TH_DISJOINT; r = r->next, parts++)
            relation = th_region_relation(r, &part);
        *add = relation == TH_INSIDE;
        if (*add)
            return TH_OK;
        if (relation == TH_DISJOINT && parts < MAX_PARTS)
            return cover(place, &part);
        th_gradient_complete(place);
    }
    *add = true;
    return unshare(place);
}

th_status th_gradient_open(th_pass *pass, th_tensor_impl *t, th_array *target, bool *add)
{
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    if (prepare(place) != TH_OK)
        return pass->ctx->error;
    if (place->kind == TH_GRADIENT_OF_LEAF && !place->listed) {
        place->listed = true;
        place->next_listed = pass->written;
        pass->written = place;
        th_storage_changed(place->memory); /* an operation may have read it through th_gradient */
    }
    if (open_part(place, t, add) != TH_OK)
        return pass->ctx->error;
    th_gradient_array(t, target);
    return TH_OK;
}

/* The gradients of both lie in memory alike, and nothing has begun that of input, which is a result. */
static bool can_share(const th_tensor_impl *input, const th_tensor_impl *output)
{
    const th_gradient_buffer *place = input->gradient;
    const size_t bytes = (size_t)input->ndim * sizeof input->size[0];
    return place && place->node >= 0 && !th_gradient_buffer_started(place) && input->dtype == output->dtype &&
           input->ndim == output->ndim && memcmp(input->size, output->size, bytes) == 0 &&
           memcmp(input->part.stride, output->part.stride, bytes) == 0;
}

static void share(th_gradient_buffer *place, th_storage *memory)
{
    th_storage_hold(memory);
    if (place->memory) /* taken for an early gradient, or kept */
        th_storage_drop(place->root->ctx, place->memory);
    place->memory = memory;
    place->state = TH_GRADIENT_BUFFER_FULL;
}

bool th_gradient_share(th_tensor_impl *input, const th_tensor_impl *output)
{
    if (!can_share(input, output))
        return false;
    share(input->gradient, output->gradient->memory);
    return true;
}

bool th_gradient_take_over(th_tensor_impl *input, const th_tensor_impl *output)
{
    return output->gradient->memory->holds == 1 && !is_kept(output->gradient) && th_gradient_share(input, output);
}

th_status th_gradient_take_over_value(th_tensor_impl *input, bool *taken)
{
    th_context *ctx = input->ctx;
    th_gradient_buffer *place = input->gradient;
    th_storage *value = input->storage;
    *taken = place && place->kind == TH_GRADIENT_OF_RESULT && !place->memory && !is_kept(place) &&
             value == &input->own_storage && value->holds == 1 &&
             memcmp(input->stride, input->part.stride, (size_t)input->ndim * sizeof input->stride[0]) == 0;
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
    place->memory = memory;
    place->state = TH_GRADIENT_BUFFER_FULL;
    return TH_OK;
}

void th_gradient_complete(th_gradient_buffer *place)
{
    if (th_gradient_buffer_complete(place))
        return;
    assert(th_gradient_buffer_started(place) || place->memory);
    const th_tensor_impl *root = place->root;
    th_fill_uncovered(parts_of(place), place->memory->data, th_tensor_numel(root), th_dtype_size(root->dtype));
    place->state = TH_GRADIENT_BUFFER_FULL;
}

bool th_gradient_read(const th_tensor_impl *output, th_array *array)
{
    if (output == NULL || !th_gradient_buffer_started(output->gradient))
        return false;
    th_gradient_complete(output->gradient);
    th_gradient_array(output, array);
    return true;
}

void th_gradient_release(const th_tensor_impl *output)
{
    if (output == NULL || !th_gradient_buffer_started(output->gradient))
        return; /* there is none, or one that a forward has computed and nobody has asked for yet */
    if (is_kept(output->gradient)) {
        th_gradient_complete(output->gradient); /* nobody has, where the node that made it was not walked */
        output->gradient->state = TH_GRADIENT_BUFFER_KEPT;
    } else {
        th_gradient_give_back(output->gradient);
    }
}

/* -- moves around a pass -- */

void th_gradient_empty(const th_tensor_impl *t)
{
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    if (place && place->kind == TH_GRADIENT_OF_LEAF && place->state != TH_GRADIENT_BUFFER_PRECOMPUTED)
        place->state = TH_GRADIENT_BUFFER_EMPTY;
}

void th_gradient_refuse(const th_tensor_impl *t)
{
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    assert(place->kind == TH_GRADIENT_OF_LEAF && th_gradient_buffer_complete(place));
    place->state = TH_GRADIENT_BUFFER_REJECTED;
}

void th_gradient_give_back(th_gradient_buffer *place)
{
    if (place->memory)
        th_storage_drop(place->root->ctx, place->memory);
    place->memory = NULL;
    place->state = TH_GRADIENT_BUFFER_EMPTY;
}

void th_gradient_keep_chosen(th_gradient_buffer *place, const th_gradient_buffer *chosen)
{
    if (chosen->state != TH_GRADIENT_BUFFER_KEPT || !is_kept(place))
        return;
    share(place, chosen->memory);
    place->state = TH_GRADIENT_BUFFER_KEPT;
}

/* -- gradients that a forward computes -- */

bool th_gradient_can_be_precomputed(const th_tensor_impl *t)
{
    return t->gradient && t->gradient->state == TH_GRADIENT_BUFFER_EMPTY &&
           th_strides_contiguous(t->ndim, t->size, t->part.stride);
}

th_status th_gradient_offer(th_tensor_impl *t, th_array *array)
{
    if (prepare(t->gradient) != TH_OK)
        return t->ctx->error;
    th_storage_changed(t->gradient->memory); /* an operation may have read it through th_gradient */
    th_gradient_array(t, array);
    return TH_OK;
}

void th_gradient_claim(const th_tensor_impl *t, int64_t node)
{
    th_gradient_buffer *place = t->gradient;
    place->state = TH_GRADIENT_BUFFER_PRECOMPUTED;
    place->precomputed.node = node;
    place->precomputed.version = place->memory->version;
}

bool th_gradient_claimed(const th_tensor_impl *t, int64_t node)
{
    const th_gradient_buffer *place = t->gradient;
    return place && place->state == TH_GRADIENT_BUFFER_PRECOMPUTED && place->precomputed.node == node &&
           place->precomputed.version == place->memory->version;
}

void th_gradient_unclaim(const th_tensor_impl *t)
{
    if (t->gradient && t->gradient->state == TH_GRADIENT_BUFFER_PRECOMPUTED)
        t->gradient->state = TH_GRADIENT_BUFFER_EMPTY;
}

/* -- reading -- */

static th_tensor_impl *tensor_on(const th_tensor_impl *t, th_storage *memory, bool owned)
{
    th_tensor_impl *tensor = th_handle_new(t->ctx, owned, "gradient");
    if (tensor == NULL)
        return NULL;
    tensor->storage = memory;
    tensor->dtype = t->dtype;
    tensor->ndim = t->ndim;
    memcpy(tensor->size, t->size, sizeof t->size);
    memcpy(tensor->stride, t->part.stride, sizeof t->part.stride);
    memcpy(tensor->axes, t->axes, sizeof t->axes);
    tensor->offset = t->part.offset;
    th_storage_hold(memory);
    return tensor;
}

th_tensor_impl *th_gradient_tensor(th_tensor_impl *t)
{
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    if (!th_gradient_buffer_complete(place))
        return NULL;
    if (t->gradient == NULL || place->kind != TH_GRADIENT_OF_LEAF)
        return tensor_on(t, place->memory, false);
    if (place->tensor == NULL)
        place->tensor = tensor_on(t, place->memory, true);
    return place->tensor;
}

th_tensor *th_gradient(th_tensor *handle)
{
    th_tensor_impl *t = th_usable(handle, NULL, "gradient", "the tensor");
    return t && t->requires_gradient ? th_handle_of(th_gradient_tensor(t)) : NULL;
}

th_tensor *th_keep_gradient(th_tensor *handle)
{
    const th_tensor_impl *t = th_usable(handle, NULL, "keep_gradient", "the tensor");
    if (t == NULL)
        return NULL;
    if (!t->requires_gradient) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, "keep_gradient", "the tensor does not require a gradient");
        return NULL;
    }
    th_gradient_buffer *place = th_gradient_buffer_of(t);
    place->keep = place->kind == TH_GRADIENT_OF_RESULT; /* a leaf's stays anyway */
    return handle;
}

void th_empty_gradient(th_tensor *handle)
{
    const th_tensor_impl *t = th_looked_at(handle, "empty_gradient");
    if (t)
        th_gradient_empty(t);
}

th_tensor *th_set_requires_gradient(th_tensor *handle, bool requires_gradient)
{
    th_tensor_impl *t = th_usable(handle, NULL, "set_requires_gradient", "the tensor");
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
        t->part = (th_part){.root = t};
        memcpy(t->part.stride, t->stride, sizeof t->stride);
    }
    return handle;
}

bool th_requires_gradient(const th_tensor *handle)
{
    const th_tensor_impl *t = th_looked_at(handle, "requires_gradient");
    return t && t->requires_gradient;
}
