/* The life of handles and of the memory behind them. */
#include <string.h>

#include "tensor/checked.h"
#include "tensor/parameter.h"
#include "tensor/tensor.h"

/* So many freed owned handles rest before the oldest is used again. */
enum { TH_RESTING_HANDLES = 32 };

bool th_creates_owned(const th_context *ctx)
{
    return ctx->scope_depth == 0;
}

static th_tensor *owned_record(th_context *ctx)
{
    if (ctx->owned_free_count > TH_RESTING_HANDLES) {
        th_tensor *t = ctx->owned_free_first;
        ctx->owned_free_first = t->next_free;
        if (ctx->owned_free_first == NULL)
            ctx->owned_free_last = NULL;
        ctx->owned_free_count--;
        return t;
    }
    return th_pool_new(ctx, &ctx->owned_tensors);
}

th_tensor *th_handle_new(th_context *ctx, bool owned, const char *operation)
{
    th_tensor *t = owned ? owned_record(ctx) : th_pool_new(ctx, &ctx->step_tensors[ctx->step_pool]);
    if (t == NULL) {
        th_fail_memory(ctx, operation, sizeof *t * TH_POOL_PAGE);
        return NULL;
    }
    *t = (th_tensor){.ctx = ctx, .life = TH_LIFE_LIVE, .owned = owned, .node = -1};
    t->own_storage.producer = -1;
    t->gradient_storage.producer = -1;
    return t;
}

th_status th_storage_new(th_tensor *t, size_t bytes, const char *operation)
{
    th_context *ctx = t->ctx;
    th_block *block = th_take_block(ctx, t->owned ? &ctx->owned_arena : &ctx->step_arena, bytes, operation);
    if (block == NULL)
        return TH_ERROR_MEMORY;
    t->own_storage = (th_storage){
        .data = th_block_data(block), .block = block, .bytes = bytes, .holds = 1, .owned = t->owned, .producer = -1};
    t->storage = &t->own_storage;
    return TH_OK;
}

void th_storage_hold(th_storage *storage)
{
    storage->holds++;
}

void th_storage_drop(th_context *ctx, th_storage *storage)
{
    if (--storage->holds > 0)
        return;
    if (storage->parameter)
        th_parameter_release(ctx, storage);
    if (storage->block == NULL)
        return;
    th_arena_give(storage->owned ? &ctx->owned_arena : &ctx->step_arena, storage->block);
    storage->block = NULL;
    storage->data = NULL;
    storage->dropped = true;
}

void th_storage_changed(th_storage *storage)
{
    storage->version++;
    storage->producer = -1; /* who computes it again no longer gets what is read from now on */
    th_location(&storage->changed_file, &storage->changed_line);
}

void th_handle_give_up(th_tensor *t, th_life life)
{
    if (t->life == TH_LIFE_LIVE && t->storage)
        th_storage_drop(t->ctx, t->storage);
    t->life = life;
}

th_tensor *th_tensor_new(th_context *ctx, th_dtype dtype, int ndim, const int64_t *size, bool owned,
                         const char *operation)
{
    int64_t numel;
    size_t bytes;
    if (!th_checked_numel(ndim, size, &numel) || !th_checked_bytes(numel, th_dtype_size(dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the number of bytes overflows");
        return NULL;
    }
    th_tensor *t = th_handle_new(ctx, owned, operation);
    if (t == NULL)
        return NULL;
    t->dtype = dtype;
    t->ndim = ndim;
    memcpy(t->size, size, (size_t)ndim * sizeof *size);
    th_contiguous_strides(ndim, size, t->stride);
    if (th_storage_new(t, bytes, operation) != TH_OK) {
        th_handle_give_up(t, TH_LIFE_CLEARED);
        if (owned)
            th_handle_free_owned(t);
        return NULL;
    }
    if (ctx->watch)
        ctx->watch->makes(t, ctx->watch->user);
    return t;
}

th_tensor *th_alias(th_tensor *t, const char *operation)
{
    th_tensor *alias = th_handle_new(t->ctx, false, operation);
    if (alias == NULL)
        return NULL;
    alias->storage = t->storage;
    alias->dtype = t->dtype;
    alias->ndim = t->ndim;
    memcpy(alias->size, t->size, sizeof t->size);
    memcpy(alias->stride, t->stride, sizeof t->stride);
    memcpy(alias->axes, t->axes, sizeof t->axes);
    alias->offset = t->offset;
    th_storage_hold(alias->storage);
    return alias;
}

/* The handle goes to the end of the resting list. Its storage must have been dropped. */
void th_handle_free_owned(th_tensor *t)
{
    th_context *ctx = t->ctx;
    t->life = TH_LIFE_UNUSED;
    t->next_free = NULL;
    if (ctx->owned_free_last)
        ctx->owned_free_last->next_free = t;
    else
        ctx->owned_free_first = t;
    ctx->owned_free_last = t;
    ctx->owned_free_count++;
}

/* Ends an owned tensor: its memory, its gradient's, the handle on its gradient. */
static void free_now(th_tensor *t)
{
    if (t->gradient_tensor) {
        th_handle_give_up(t->gradient_tensor, TH_LIFE_UNUSED);
        th_handle_free_owned(t->gradient_tensor);
        t->gradient_tensor = NULL;
    }
    if (t->gradient)
        th_storage_drop(t->ctx, t->gradient);
    t->gradient = NULL;
    th_handle_give_up(t, TH_LIFE_UNUSED);
    th_handle_free_owned(t);
}

void th_tensor_free(th_tensor *t)
{
    if (t == NULL || !t->owned || t->life != TH_LIFE_LIVE || t->freed || t->parameter)
        return;
    th_context *ctx = t->ctx;
    if (t->checking && ctx->watch) {
        t->freed = true;
        ctx->watch->frees(t, ctx->watch->user);
        return;
    }
    if (t->storage != &t->own_storage) /* a gradient, which ends with its tensor */
        return;
    const bool in_use = ctx->running || t->tape_uses > 0 || t->own_storage.holds > 1 ||
                        (t->gradient && t->gradient->holds > 1 + (t->gradient_tensor != NULL));
    if (!in_use) {
        free_now(t);
        return;
    }
    t->freed = true;
    t->next_free = ctx->free_at_clear;
    ctx->free_at_clear = t;
}

void th_free_waiting(th_context *ctx)
{
    while (ctx->free_at_clear) {
        th_tensor *t = ctx->free_at_clear;
        ctx->free_at_clear = t->next_free;
        free_now(t);
    }
}
