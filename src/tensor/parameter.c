/* Blocks of parameters: allocation, growth, gradients, conversion, lent memory. */
#include <string.h>

#include "tensor/checked.h"
#include "tensor/elementwise.h"
#include "tensor/gradient_buffer.h"
#include "tensor/parameter.h"
#include "tensor/parameter_observer.h"
#include "tensor/storage_types.h"

/* A new block has 1 / GROWTH of the capacity of all blocks of its type, and at least FIRST_BLOCK bytes. So blocks are
 * few, and little memory is unused. */
enum { FIRST_BLOCK = 64 << 10, GROWTH = 2 };

/* With skip_initialization, the weights of a larger entry are read before anything uses them: only its padding is
 * zeroed. */
enum { LARGE_ENTRY = 1 << 20, PADDING = 64 };

/* Which parameters can be in a block together. */
typedef struct block_kind {
    th_dtype dtype;
    bool adapters;
    th_block_place place;
} block_kind;

static bool is_kind(const th_parameter_block *block, block_kind kind)
{
    return block->dtype == kind.dtype && block->adapters == kind.adapters && block->place == kind.place;
}

static size_t default_capacity(const th_context *ctx, block_kind kind)
{
    if (kind.adapters && ctx->expected_adapter_bytes)
        return ctx->expected_adapter_bytes;
    size_t capacity = 0;
    for (const th_parameter_block *b = ctx->parameter_blocks; b; b = b->next)
        if (is_kind(b, kind))
            capacity += b->capacity;
    return capacity / GROWTH < FIRST_BLOCK ? FIRST_BLOCK : capacity / GROWTH;
}

/* Returns a block without memory that is not in the context's list. */
static th_parameter_block *allocate_block_record(th_context *ctx, block_kind kind, size_t capacity,
                                                 const char *operation)
{
    th_parameter_block *block = th_allocate(ctx, sizeof *block);
    if (block == NULL)
        th_fail_memory(ctx, operation, sizeof *block);
    else
        *block = (th_parameter_block){
            .dtype = kind.dtype, .adapters = kind.adapters, .place = kind.place, .capacity = capacity};
    return block;
}

static void add_block(th_context *ctx, th_parameter_block *block)
{
    block->next = ctx->parameter_blocks;
    ctx->parameter_blocks = block;
}

/* Creates a block of at least `bytes`. capacity: 0 for the default one. */
static th_parameter_block *new_block(th_context *ctx, block_kind kind, size_t bytes, size_t capacity,
                                     const char *operation)
{
    capacity = capacity ? capacity : default_capacity(ctx, kind);
    capacity = kind.place == TH_BLOCK_ABSENT ? SIZE_MAX : capacity < bytes ? bytes : capacity;
    th_parameter_block *block = allocate_block_record(ctx, kind, capacity, operation);
    if (block == NULL)
        return NULL;
    void *data = NULL;
    if (kind.place == TH_BLOCK_ALLOCATED && th_reserve_numbers(ctx, capacity, &data, operation) != TH_OK) {
        th_release(ctx, block, sizeof *block);
        return NULL;
    }
    block->data = data;
    add_block(ctx, block);
    return block;
}

static void release_block(th_context *ctx, th_parameter_block *block)
{
    th_parameter_block **link = &ctx->parameter_blocks;
    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    if (block->place == TH_BLOCK_ALLOCATED)
        th_unreserve_numbers(ctx, block->data, block->capacity);
    if (block->place == TH_BLOCK_LENT)
        th_uncount_mapped(ctx, block->capacity);
    if (block->release && block->data)
        block->release(block->data, block->capacity);
    if (block->has_gradient)
        th_release_numbers(ctx, block->gradient, block->gradient_bytes);
    th_release(ctx, block, sizeof *block);
}

/* Adds an entry at the end of the block. The rest of the block's memory is reserved, and not in use. */
static void add_entry(th_context *ctx, th_parameter_block *block, th_parameter_entry *entry, size_t bytes)
{
    *entry = (th_parameter_entry){
        .block = block, .offset = block->used, .bytes = bytes, .owners = 1, .previous = block->last};
    if (block->last)
        block->last->next = entry;
    else
        block->first = entry;
    block->last = entry;
    block->used += bytes;
    if (block->place == TH_BLOCK_ALLOCATED)
        th_count_live(ctx, bytes);
}

static th_parameter_entry *allocate_entry(th_context *ctx, const char *operation)
{
    th_parameter_entry *entry = th_allocate(ctx, sizeof *entry);
    if (entry == NULL)
        th_fail_memory(ctx, operation, sizeof *entry);
    return entry;
}

/* Creates an entry of `bytes` (whole cache lines) of zeros: at the end of the newest block that has enough space and
 * no gradient yet, or in a new block. */
static th_parameter_entry *new_entry(th_context *ctx, block_kind kind, size_t bytes, size_t capacity,
                                     const char *operation)
{
    th_parameter_block *block = ctx->parameter_blocks;
    while (block &&
           (!is_kind(block, kind) || block->has_gradient || block->moving_out || block->capacity - block->used < bytes))
        block = block->next;
    th_parameter_entry *entry = allocate_entry(ctx, operation);
    if (entry == NULL)
        return NULL;
    if (block == NULL)
        block = new_block(ctx, kind, bytes, capacity, operation);
    if (block == NULL) {
        th_release(ctx, entry, sizeof *entry);
        return NULL;
    }
    add_entry(ctx, block, entry, bytes);
    const size_t zeros = ctx->skip_initialization && bytes > LARGE_ENTRY ? PADDING : bytes;
    if (block->data)
        memset(block->data + entry->offset + bytes - zeros, 0, zeros);
    return entry;
}

/* Removes an entry. The block then ends at its last entry; without entries it is released. */
static void free_entry(th_context *ctx, th_parameter_entry *entry)
{
    th_parameter_block *block = entry->block;
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        block->first = entry->next;
    if (entry->next)
        entry->next->previous = entry->previous;
    else
        block->last = entry->previous;
    if (block->place == TH_BLOCK_ALLOCATED)
        th_uncount_live(ctx, entry->bytes);
    th_release(ctx, entry, sizeof *entry);
    block->used = block->last ? block->last->offset + block->last->bytes : 0;
    if (block->last == NULL)
        release_block(ctx, block);
}

static th_storage storage_of(th_parameter_entry *entry)
{
    const th_parameter_block *block = entry->block;
    return (th_storage){
        .data = block->data ? block->data + entry->offset : NULL,
        .bytes = entry->bytes,
        .holds = 1,
        .owned = true,
        .producer = -1,
        .parameter = entry,
    };
}

th_tensor_impl *th_parameter_new(th_context *ctx, th_dtype dtype, th_shape shape, bool adapter, const char *operation)
{
    int64_t numel;
    size_t bytes;
    bool legal = shape.ndim >= 0 && shape.ndim <= TH_MAX_DIMS;
    for (int i = 0; legal && i < shape.ndim; i++)
        legal = shape.size[i] >= 0;
    if (th_dtype_is_missing(ctx, operation, dtype))
        return NULL;
    if (!legal || !th_checked_numel(shape.ndim, shape.size, &numel) ||
        !th_checked_bytes(numel, th_dtype_size(dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "a size of the parameter is negative, or its bytes overflow");
        return NULL;
    }
    th_tensor_impl *t = th_handle_new(ctx, true, operation);
    if (t == NULL)
        return NULL;
    const bool absent = ctx->defer_matrix_memory && shape.ndim >= 2 && !adapter;
    const block_kind kind = {dtype, adapter, absent ? TH_BLOCK_ABSENT : TH_BLOCK_ALLOCATED};
    th_parameter_entry *entry = new_entry(ctx, kind, bytes, 0, operation);
    if (entry == NULL) {
        th_handle_free_owned(t);
        return NULL;
    }
    entry->tensor = t;
    t->parameter = true;
    t->dtype = dtype;
    t->ndim = shape.ndim;
    memcpy(t->size, shape.size, (size_t)shape.ndim * sizeof *shape.size);
    th_compute_contiguous_strides(t->ndim, t->size, t->stride);
    t->own_storage = storage_of(entry);
    t->storage = &t->own_storage;
    if (ctx->watch)
        ctx->watch->after_create(t, ctx->watch->user);
    return t;
}

void th_parameter_share(th_tensor_impl *t)
{
    th_parameter_entry_of(t)->owners++;
}

void th_parameter_free(th_tensor_impl *t)
{
    th_parameter_entry *entry = th_parameter_entry_of(t);
    if (entry == NULL || --entry->owners > 0)
        return;
    th_observers_notify_forget_parameter(t->ctx, t);
    t->parameter = false; /* th_tensor_free does not free parameters */
    th_tensor_free(th_handle_of(t));
}

void th_parameter_release(th_context *ctx, th_storage *storage)
{
    free_entry(ctx, storage->parameter);
    storage->parameter = NULL;
    storage->data = NULL;
    storage->dropped = true;
}

th_status th_parameter_gradient_memory(const th_tensor_impl *t, th_storage *memory)
{
    const th_parameter_entry *entry = th_parameter_entry_of(t);
    th_parameter_block *block = entry->block;
    if (!block->has_gradient) {
        void *gradient;
        if (th_allocate_numbers(t->ctx, block->used, &gradient, "backward") != TH_OK)
            return TH_ERROR_MEMORY;
        block->gradient_bytes = block->used;
        block->gradient = gradient;
        block->has_gradient = true;
        if (block->gradient)
            memset(block->gradient, 0, block->used);
    }
    *memory = (th_storage){.data = block->gradient ? block->gradient + entry->offset : NULL,
                           .bytes = t->own_storage.bytes,
                           .holds = 1,
                           .owned = true,
                           .producer = -1};
    return TH_OK;
}

/* Computes the sizes of t in elements of type dtype. Returns false if the last axis is not whole elements. */
static bool convert_sizes(const th_tensor_impl *t, th_dtype dtype, int64_t *size)
{
    const int last = t->ndim - 1;
    memcpy(size, t->size, sizeof t->size);
    return last < 0 ? th_dtype_numbers(dtype) == th_dtype_numbers(t->dtype)
                    : th_converted_size(t->dtype, t->size[last], dtype, &size[last]);
}

size_t th_parameter_bytes(const th_tensor_impl *t, th_dtype dtype)
{
    int64_t size[TH_MAX_DIMS], numel;
    size_t bytes;
    return convert_sizes(t, dtype, size) && th_checked_numel(t->ndim, size, &numel) &&
                   th_checked_bytes(numel, th_dtype_size(dtype), &bytes)
               ? bytes
               : 0;
}

/* Makes the entry that th_parameter_reserve and th_parameter_allocate need. */
static th_status make_successor(th_tensor_impl *t, th_dtype dtype, size_t capacity, const char *operation)
{
    int64_t size[TH_MAX_DIMS], numel;
    size_t bytes;
    if (!convert_sizes(t, dtype, size))
        return th_fail(t->ctx, TH_ERROR_SHAPE, operation, "the last axis of a parameter %s is not whole blocks of %d",
                       TH_SIZES_TEXT(t->ndim, t->size), th_dtype_numbers(dtype));
    if (th_dtype_is_missing(t->ctx, operation, dtype))
        return t->ctx->error;
    if (!th_checked_numel(t->ndim, size, &numel) || !th_checked_bytes(numel, th_dtype_size(dtype), &bytes))
        return th_fail(t->ctx, TH_ERROR_SHAPE, operation, "the parameter's bytes overflow");
    th_parameter_entry *entry = th_parameter_entry_of(t);
    th_parameter_entry *successor =
        new_entry(t->ctx, (block_kind){dtype, entry->block->adapters, TH_BLOCK_ALLOCATED}, bytes, capacity, operation);
    entry->successor = successor;
    return successor ? TH_OK : t->ctx->error;
}

th_status th_parameter_reserve(th_tensor_impl *t, th_dtype dtype, size_t capacity, const char *operation)
{
    th_parameter_entry *entry = th_parameter_entry_of(t);
    if (make_successor(t, dtype, capacity, operation) != TH_OK)
        return t->ctx->error;
    entry->next_moving = t->ctx->moving_entries;
    t->ctx->moving_entries = entry;
    return TH_OK;
}

/* Moves t to the successor of its entry. */
static void move_to_successor(th_tensor_impl *t)
{
    th_context *ctx = t->ctx;
    th_parameter_entry *from = th_parameter_entry_of(t), *to = from->successor;
    const th_array before = th_tensor_array(t);
    if (t->gradient)
        th_gradient_buffer_release(t->gradient);
    const uint32_t version = t->own_storage.version;
    to->tensor = t;
    to->owners = from->owners;
    int64_t size[TH_MAX_DIMS];
    (void)convert_sizes(t, to->block->dtype, size); /* (th_parameter_reserve has checked it) */
    memcpy(t->size, size, sizeof t->size);
    th_compute_contiguous_strides(t->ndim, t->size, t->stride);
    t->dtype = to->block->dtype;
    t->own_storage = storage_of(to);
    t->own_storage.version = version;
    th_storage_mark_changed(&t->own_storage);
    const th_array after = th_tensor_array(t);
    if (to->block->place != TH_BLOCK_LENT && after.data && before.data)
        th_convert_array(ctx, &after, &before);
    free_entry(ctx, from);
}

th_status th_parameters_move(th_context *ctx, const char *operation)
{
    const bool proceed = ctx->error == TH_OK && th_observers_notify_reserve(ctx, operation) == TH_OK;
    if (proceed)
        th_observers_notify_move(ctx);
    else
        th_observers_notify_unreserve(ctx);
    while (ctx->moving_entries) {
        th_parameter_entry *entry = ctx->moving_entries;
        ctx->moving_entries = entry->next_moving;
        if (proceed) {
            move_to_successor(entry->tensor);
            continue;
        }
        free_entry(ctx, entry->successor);
        entry->successor = NULL;
    }
    return ctx->error;
}

th_status th_parameter_allocate(th_tensor_impl *t, th_dtype dtype, size_t capacity, const char *operation)
{
    if (make_successor(t, dtype, capacity, operation) != TH_OK)
        return t->ctx->error;
    move_to_successor(t);
    return TH_OK;
}

th_status th_parameter_lend(th_tensor_impl *t, th_dtype dtype, const th_lent_memory *memory, const char *operation)
{
    th_context *ctx = t->ctx;
    const size_t bytes = th_parameter_bytes(t, dtype);
    th_parameter_entry *entry = allocate_entry(ctx, operation);
    th_parameter_block *block =
        entry ? allocate_block_record(ctx, (block_kind){dtype, false, TH_BLOCK_LENT}, bytes, operation) : NULL;
    if (block == NULL) {
        th_release(ctx, entry, sizeof *entry);
        return ctx->error;
    }
    block->data = memory->data;
    block->release = memory->release;
    th_count_mapped(ctx, bytes);
    add_block(ctx, block);
    add_entry(ctx, block, entry, bytes);
    th_parameter_entry_of(t)->successor = entry;
    move_to_successor(t);
    return TH_OK;
}

bool th_parameter_is_lent(const th_tensor_impl *t)
{
    return th_parameter_entry_of(t)->block->place == TH_BLOCK_LENT;
}

void th_parameter_blocks_destroy(th_context *ctx)
{
    while (ctx->parameter_blocks) {
        th_parameter_block *block = ctx->parameter_blocks;
        while (block->first->next)
            free_entry(ctx, block->first);
        free_entry(ctx, block->first);
    }
}
