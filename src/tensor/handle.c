/* Handles, and the life of tensors and their memory.
 *
 * A handle is a number with three fields (tensor/handle_bits.h): the context, the kind (step or owned), and the number
 * of the tensor of that kind. Step tensors are numbered through the whole life of the context. The pool contains only
 * the tensors of the current step, in the order of their numbers. So a smaller number belongs to an earlier step.
 *
 * The implementation of a freed owned tensor is reused with a new handle, as often as the bits of a handle can count.
 * Then it is not reused any more. So no two tensors get the same handle (except after 2^41 step tensors). The
 * handle of a tensor that has ended never reaches another tensor. With 32 bits handles repeat sooner
 * (handle_bits.h). */
#include <string.h>

#include "tensor/checked.h"
#include "tensor/contexts.h"
#include "tensor/gradient_buffer.h"
#include "tensor/handle_bits.h"
#include "tensor/parameter.h"

static const uint64_t tensor_mask = ((uint64_t)1 << TH_HANDLE_TENSOR_BITS) - 1;
static const uint64_t impl_mask = ((uint64_t)1 << TH_HANDLE_IMPL_BITS) - 1;
static const uint64_t owned_bit = (uint64_t)1 << TH_HANDLE_TENSOR_BITS;

bool th_creates_owned(const th_context *ctx)
{
    return ctx->scope_depth == ctx->owned_depth && !ctx->in_step;
}

static uint64_t bits_of(const th_tensor *t)
{
    return (uint64_t)(uintptr_t)t;
}

static th_tensor *make_handle(const th_context *ctx, uint64_t kind, uint64_t tensor_number)
{
    const uint64_t context_bits = (uint64_t)ctx->number << (TH_HANDLE_TENSOR_BITS + 1);
    return (th_tensor *)(uintptr_t)(context_bits | kind | (tensor_number & tensor_mask));
}

th_context *th_handle_context(const th_tensor *t)
{
    return th_contexts_find((uint32_t)(bits_of(t) >> (TH_HANDLE_TENSOR_BITS + 1)));
}

/* Returns the implementation of a handle of ctx; NULL if the tensor has ended. */
static th_tensor_impl *find_impl(const th_context *ctx, const th_tensor *t)
{
    const uint64_t bits = bits_of(t);
    if (bits & owned_bit) {
        const int64_t index = (int64_t)(bits & impl_mask);
        th_tensor_impl *impl = index < ctx->owned_tensors.count ? th_pool_at(&ctx->owned_tensors, index) : NULL;
        return impl && impl->handle == t && impl->life != TH_LIFE_UNUSED ? impl : NULL;
    }
    const uint64_t index = (bits - ctx->ended_step_tensors) & tensor_mask;
    return index < (uint64_t)ctx->step_tensors.count ? th_pool_at(&ctx->step_tensors, (int64_t)index) : NULL;
}

th_tensor_impl *th_tensor_impl_of(const th_tensor *t)
{
    const th_context *ctx = th_handle_context(t);
    return ctx ? find_impl(ctx, t) : NULL;
}

/* Returns an implementation for an owned tensor: the one freed first, or a new one. *handle becomes its next handle. */
static th_tensor_impl *new_owned_impl(th_context *ctx, th_tensor **handle)
{
    th_tensor_impl *impl = ctx->owned_free_first;
    if (impl) {
        ctx->owned_free_first = impl->next_free;
        if (ctx->owned_free_first == NULL)
            ctx->owned_free_last = NULL;
        *handle = make_handle(ctx, owned_bit, bits_of(impl->handle) + impl_mask + 1);
        return impl;
    }
    const int64_t index = ctx->owned_tensors.count;
    if ((uint64_t)index > impl_mask)
        return NULL;
    *handle = make_handle(ctx, owned_bit, (uint64_t)index);
    return th_pool_new(ctx, &ctx->owned_tensors);
}

static th_tensor_impl *new_step_impl(th_context *ctx, th_tensor **handle)
{
    *handle = make_handle(ctx, 0, ctx->ended_step_tensors + (uint64_t)ctx->step_tensors.count);
    return th_pool_new(ctx, &ctx->step_tensors);
}

th_tensor_impl *th_handle_new(th_context *ctx, bool owned, const char *operation)
{
    th_tensor *handle;
    th_tensor_impl *t = owned ? new_owned_impl(ctx, &handle) : new_step_impl(ctx, &handle);
    if (t == NULL) {
        th_fail_memory(ctx, operation, sizeof *t * TH_POOL_PAGE_RECORDS);
        return NULL;
    }
    *t = (th_tensor_impl){.ctx = ctx, .handle = handle, .life = TH_LIFE_LIVE, .owned = owned};
    t->own_storage.producer = -1;
    return t;
}

/* -- checking handles -- */

static const char *const life_text[] = {
    [TH_LIFE_UNUSED] = "has been freed",
    [TH_LIFE_LIVE] = "is alive",
    [TH_LIFE_FREED] = "has been freed",
    [TH_LIFE_RELEASED] = "was released when its scope ended (return it from the scope, or th_keep it)",
    [TH_LIFE_CLEARED] = "belongs to a step that th_tape_clear ended (th_keep makes a copy that lasts)",
};

static bool is_live(const th_tensor_impl *impl)
{
    return impl && impl->life == TH_LIFE_LIVE;
}

/* Sets an error that says why t must not be used. It is pending in ctx or, if ctx is NULL, in the context used
 * last. */
static void fail_not_live(th_context *ctx, const th_tensor *t, const char *operation, const char *operand)
{
    const th_context *home = th_handle_context(t);
    const th_tensor_impl *impl = home ? find_impl(home, t) : NULL;
    const char *why = home == NULL             ? "is not a tensor of a live context"
                      : impl                   ? life_text[impl->life]
                      : bits_of(t) & owned_bit ? life_text[TH_LIFE_UNUSED]
                                               : life_text[TH_LIFE_CLEARED];
    if (ctx)
        th_fail(ctx, TH_ERROR_STATE, operation, "%s %s", operand, why);
    else
        th_fail_last(TH_ERROR_STATE, operation, "%s %s", operand, why);
}

th_tensor_impl *th_usable_tensor(const th_tensor *t, th_context *ctx, const char *operation, const char *operand)
{
    th_context *home = th_handle_context(t);
    if (home && (ctx == NULL || ctx == home)) {
        th_use_context(home);
        th_tensor_impl *impl = find_impl(home, t);
        if (home->error == TH_OK && is_live(impl))
            return impl;
        fail_not_live(home, t, operation, operand);
    } else if (home) { /* stored in ctx, whose error the caller returns */
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is a tensor of another context", operand);
    } else if (t) {
        fail_not_live(ctx, t, operation, operand);
    } else if (ctx) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is NULL", operand);
    } else {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "%s is NULL", operand);
    }
    return NULL;
}

th_tensor_impl *th_inspect(const th_tensor *t, const char *operation)
{
    th_tensor_impl *impl = th_tensor_impl_of(t);
    if (t == NULL || is_live(impl))
        return impl;
    fail_not_live(th_handle_context(t), t, operation, "the tensor");
    return NULL;
}

th_status th_pending_status(const th_tensor *t)
{
    const th_context *ctx = th_handle_context(t);
    const th_status error = ctx ? ctx->error : th_last_error();
    return error ? error : TH_ERROR_ARGUMENT;
}

/* -- elements and memory -- */

int64_t th_tensor_numel(const th_tensor_impl *t)
{
    int64_t numel = 0;
    (void)th_checked_numel(t->ndim, t->size, &numel); /* cannot overflow: creation and views checked it */
    return numel;
}

th_array th_tensor_array(const th_tensor_impl *t)
{
    th_array array = {.given = true, .data = th_tensor_data(t), .dtype = t->dtype, .ndim = t->ndim};
    memcpy(array.size, t->size, sizeof array.size);
    memcpy(array.stride, t->stride, sizeof array.stride);
    memcpy(array.axes, t->axes, sizeof array.axes);
    return array;
}

th_status th_storage_new(th_tensor_impl *t, size_t bytes, const char *operation)
{
    th_context *ctx = t->ctx;
    th_block *block = th_block_new(ctx, t->owned ? &ctx->owned_memory : &ctx->step_memory, bytes, operation);
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
    th_block_free(storage->owned ? &ctx->owned_memory : &ctx->step_memory, storage->block);
    storage->block = NULL;
    storage->data = NULL;
    storage->dropped = true;
}

void th_storage_mark_changed(th_storage *storage)
{
    storage->version++;
    storage->producer = -1; /* recomputing would give the old values */
    th_caller_location(&storage->changed_file, &storage->changed_line);
}

void th_handle_release(th_tensor_impl *t, th_life life)
{
    if ((t->life == TH_LIFE_LIVE || t->life == TH_LIFE_FREED) && t->storage)
        th_storage_drop(t->ctx, t->storage);
    t->life = life;
}

th_tensor_impl *th_tensor_new(th_context *ctx, th_dtype dtype, int ndim, const int64_t *size, bool owned,
                              const char *operation)
{
    int64_t numel;
    size_t bytes;
    if (th_dtype_is_missing(ctx, operation, dtype))
        return NULL;
    if (!th_checked_numel(ndim, size, &numel) || !th_checked_bytes(numel, th_dtype_size(dtype), &bytes)) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "the size in bytes overflows");
        return NULL;
    }
    th_tensor_impl *t = th_handle_new(ctx, owned, operation);
    if (t == NULL)
        return NULL;
    t->dtype = dtype;
    t->ndim = ndim;
    if (ndim > 0) /* size may be NULL for a scalar */
        memcpy(t->size, size, (size_t)ndim * sizeof *size);
    th_compute_contiguous_strides(ndim, size, t->stride);
    if (th_storage_new(t, bytes, operation) != TH_OK) {
        th_handle_release(t, TH_LIFE_CLEARED);
        if (owned)
            th_handle_free_owned(t);
        return NULL;
    }
    if (owned) {
        th_owned_tensor_impl *created = (th_owned_tensor_impl *)t;
        th_caller_location(&created->made_file, &created->made_line);
    }
    if (ctx->watch)
        ctx->watch->after_create(t, ctx->watch->user);
    return t;
}

/* An implementation that has had as many tensors as a handle can count is not reused. */
void th_handle_free_owned(th_tensor_impl *t)
{
    th_context *ctx = t->ctx;
    t->life = TH_LIFE_UNUSED;
    t->next_free = NULL;
    if ((bits_of(t->handle) & tensor_mask & ~impl_mask) == (tensor_mask & ~impl_mask))
        return;
    if (ctx->owned_free_last)
        ctx->owned_free_last->next_free = t;
    else
        ctx->owned_free_first = t;
    ctx->owned_free_last = t;
}

/* Ends an owned tensor and releases its memory and its gradient. */
static void free_owned(th_tensor_impl *t)
{
    if (t->gradient)
        th_gradient_buffer_release(t->gradient);
    th_handle_release(t, TH_LIFE_UNUSED);
    th_handle_free_owned(t);
}

bool th_tensor_in_use(const th_tensor_impl *t)
{
    return t->tape_uses > 0 || t->own_storage.holds > 1 || th_gradient_buffer_is_in_use(t->gradient);
}

void th_tensor_free(th_tensor *handle)
{
    th_tensor_impl *t = th_tensor_impl_of(handle);
    if (t == NULL || !t->owned || t->life != TH_LIFE_LIVE || t->parameter)
        return;
    th_context *ctx = t->ctx;
    if (t->check_role && ctx->watch) {
        t->life = TH_LIFE_FREED;
        ctx->watch->on_free(t, ctx->watch->user);
        return;
    }
    if (t->storage != &t->own_storage) /* the result of th_gradient ends with its tensor */
        return;
    if (!ctx->running_op && !th_tensor_in_use(t)) {
        free_owned(t);
        return;
    }
    t->life = TH_LIFE_FREED;
    t->next_free = ctx->free_at_clear;
    ctx->free_at_clear = t;
}

void th_free_deferred(th_context *ctx)
{
    while (ctx->free_at_clear) {
        th_tensor_impl *t = ctx->free_at_clear;
        ctx->free_at_clear = t->next_free;
        free_owned(t);
    }
}
