/* The first error of a context, and the source locations that go into it. Nothing here prints. Names from files, paths
 * and users reach messages, so every message is escaped here as a whole (visible.h). */
#include <stdarg.h>
#include <string.h>

#include "kernels/machine/locks.h"
#include "tensor/format.h"
#include "tensor/gradient_buffer.h"
#include "tensor/tensor.h"
#include "tensor/visible.h"

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
    char text[TH_MESSAGE_SIZE] = "";
    if (operation)
        th_append(text, sizeof text, "%s: ", operation);
    th_append_arguments(text, sizeof text, format, arguments);
    if (ctx->path && ctx->path[0])
        th_append(text, sizeof text, "; in %s", ctx->path);
    /* Only now: text may have been formatted from the old message. */
    ctx->message_text[0] = ctx->message[0] = ctx->location[0] = 0;
    th_append_visible(ctx->message_text, TH_MESSAGE_SIZE, text);
    th_append(ctx->message, TH_MESSAGE_SIZE, "%s", ctx->message_text);
    const char *file;
    int line;
    th_location(&file, &line);
    if (file) {
        char location[TH_LOCATION_SIZE] = "";
        th_append(location, sizeof location, "%s:%d", th_base_name(file), line);
        th_append_visible(ctx->location, TH_LOCATION_SIZE, location);
        th_append(ctx->message, TH_MESSAGE_SIZE, "; at %s", ctx->location);
    }
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

/* -- memory that ran out -- */

/* The live tensors that one line of the program created. */
typedef struct made_at {
    const char *file;
    int line;
    int64_t count;
    size_t bytes;
} made_at;

enum { LINES = 64, MANY = 32 }; /* lines that are counted; tensors of one line that deserve a hint */

/* The line whose owned tensors take the most bytes. */
static made_at most_owned(const th_context *ctx)
{
    made_at lines[LINES] = {{.count = 0}}, max = {.count = 0};
    int known = 0;
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        const th_owned_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        if (t->impl.life != TH_LIFE_LIVE || t->impl.parameter || t->made_file == NULL)
            continue;
        int at = 0;
        while (at < known && (lines[at].line != t->made_line || lines[at].file != t->made_file))
            at++;
        if (at == LINES)
            continue;
        known += at == known;
        lines[at] =
            (made_at){t->made_file, t->made_line, lines[at].count + 1, lines[at].bytes + t->impl.own_storage.bytes};
        if (lines[at].bytes > max.bytes)
            max = lines[at];
    }
    return max;
}

th_status th_fail_memory(th_context *ctx, const char *operation, size_t bytes)
{
    char hint[256] = "";
    if (ctx->error != TH_OK)
        return TH_ERROR_MEMORY;
    const made_at max = most_owned(ctx);
    if (max.count >= MANY)
        th_append(hint, sizeof hint,
                  "; %lld tensors created at %s:%d hold %zu bytes: th_tensor_free frees one, and those created after "
                  "th_step_begin end with the step",
                  (long long)max.count, th_base_name(max.file), max.line, max.bytes);
    if (ctx->refused >= bytes && ctx->refused > 0) /* what was asked of the allocator: a page of pool, say */
        return th_fail(ctx, TH_ERROR_MEMORY, operation,
                       "%zu more bytes would exceed the context's limit of %zu (%zu are in use)%s", ctx->refused,
                       ctx->options.memory_limit, ctx->reserved, hint);
    return th_fail(ctx, TH_ERROR_MEMORY, operation, "out of memory for %zu bytes%s", bytes, hint);
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

const char *th_error_text(const th_context *ctx)
{
    return ctx == NULL ? "no context" : ctx->error ? ctx->message_text : "";
}

const char *th_error_location(const th_context *ctx)
{
    return ctx && ctx->error ? ctx->location : "";
}

void th_error_clear(th_context *ctx)
{
    if (ctx) {
        ctx->error = TH_OK;
        ctx->message[0] = 0;
    }
}
