/* The first error of a context, and the source locations that go into it. Nothing here prints. */
#include <stdarg.h>

#include "kernels/locks.h"
#include "tensor/format.h"
#include "tensor/tensor.h"

enum { TH_LOCATION_DEPTH = 64 };

/* What this thread knows by itself: where its nested calls stand, and which context it used last. */
static _Thread_local struct {
    const char *file[TH_LOCATION_DEPTH];
    int line[TH_LOCATION_DEPTH];
    int depth;             /* may exceed TH_LOCATION_DEPTH: what is deeper is counted, not kept */
    uint32_t last_context; /* its number: the context may have been freed, by another thread even */
} own;

void th_at_push(const char *file, int line)
{
    if (own.depth < TH_LOCATION_DEPTH) {
        own.file[own.depth] = file;
        own.line[own.depth] = line;
    }
    own.depth++;
}

static void pop(void)
{
    if (own.depth > 0)
        own.depth--;
}

th_tensor *th_at_pop(th_tensor *result)
{
    pop();
    return result;
}

th_status th_at_pop_status(th_status result)
{
    pop();
    return result;
}

void *th_at_pop_pointer(void *result)
{
    pop();
    return result;
}

double th_at_pop_number(double result)
{
    pop();
    return result;
}

void th_location(const char **file, int *line)
{
    *file = NULL;
    *line = 0;
    if (own.depth > 0) {
        const int top = own.depth <= TH_LOCATION_DEPTH ? own.depth - 1 : TH_LOCATION_DEPTH - 1;
        *file = own.file[top];
        *line = own.line[top];
    }
}

void th_use_context(th_context *ctx)
{
    own.last_context = ctx->number;
    if (atomic_load_explicit(&ctx->thread, memory_order_relaxed) != &own)
        atomic_store_explicit(&ctx->thread, &own, memory_order_relaxed);
}

th_context *th_last_context(void)
{
    th_context *ctx = th_contexts_find(own.last_context);
    return ctx && atomic_load_explicit(&ctx->thread, memory_order_relaxed) == &own ? ctx : NULL;
}

th_status th_fail_arguments(th_context *ctx, th_status code, const char *operation, const char *format,
                            va_list arguments)
{
    if (ctx == NULL || ctx->error != TH_OK)
        return code;
    ctx->error = code;
    ctx->step_failed = true;
    char *message = ctx->message;
    message[0] = 0;
    if (operation)
        th_append(message, TH_MESSAGE_SIZE, "%s: ", operation);
    th_append_arguments(message, TH_MESSAGE_SIZE, format, arguments);
    if (ctx->path && ctx->path[0])
        th_append(message, TH_MESSAGE_SIZE, "; in %s", ctx->path);
    const char *file;
    int line;
    th_location(&file, &line);
    if (file)
        th_append(message, TH_MESSAGE_SIZE, "; at %s:%d", th_base_name(file), line);
    return code;
}

th_status th_fail(th_context *ctx, th_status code, const char *operation, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    th_fail_arguments(ctx, code, operation, format, arguments);
    va_end(arguments);
    return code;
}

th_status th_fail_last(th_status code, const char *operation, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    th_context *ctx = th_last_context();
    th_fail_arguments(ctx, code, operation, format, arguments);
    code = ctx ? ctx->error : code;
    th_lock_release(&held);
    va_end(arguments);
    return code;
}

th_status th_last_error(void)
{
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    const th_context *ctx = th_last_context();
    const th_status error = ctx ? ctx->error : TH_OK;
    th_lock_release(&held);
    return error;
}

th_status th_fail_memory(th_context *ctx, const char *operation, size_t bytes)
{
    if (ctx->refused >= bytes && ctx->refused > 0) /* what was asked of the allocator: a page of pool, say */
        return th_fail(ctx, TH_ERROR_MEMORY, operation,
                       "%zu bytes more would pass the context's limit of %zu (%zu are taken)", ctx->refused,
                       ctx->options.memory_limit, ctx->reserved);
    return th_fail(ctx, TH_ERROR_MEMORY, operation, "out of memory for %zu bytes", bytes);
}

bool th_usable_context(th_context *ctx, const char *operation)
{
    if (ctx == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the context is NULL");
        return false;
    }
    th_use_context(ctx);
    return ctx->error == TH_OK;
}

th_status th_error_code(const th_context *ctx)
{
    return ctx ? ctx->error : TH_ERROR_ARGUMENT;
}

const char *th_error_message(const th_context *ctx)
{
    return ctx == NULL ? "no context" : ctx->error ? ctx->message : "";
}

void th_error_clear(th_context *ctx)
{
    if (ctx) {
        ctx->error = TH_OK;
        ctx->message[0] = 0;
    }
}
