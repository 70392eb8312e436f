/* The first error of a context, and the stack of the program's source lines. Nothing here prints. Messages can
 * contain names from files, paths and users, so every message is escaped as a whole (tensor/visible.h). */
#include "tensor/error.h"

#include <string.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/machine.h"
#include "tensor/contexts.h"
#include "tensor/format.h"
#include "tensor/visible.h"

enum { TH_LOCATION_DEPTH = 64 };

/* The state of this thread: the source lines of its nested calls, and the context that it used last. */
static _Thread_local struct {
    const char *file[TH_LOCATION_DEPTH];
    int line[TH_LOCATION_DEPTH];
    int depth;             /* may exceed TH_LOCATION_DEPTH: deeper lines are counted but not stored */
    uint32_t last_context; /* its number; another thread may have freed the context */
} thread_state;

void th_at_push(const char *file, int line)
{
    if (thread_state.depth < TH_LOCATION_DEPTH) {
        thread_state.file[thread_state.depth] = file;
        thread_state.line[thread_state.depth] = line;
    }
    thread_state.depth++;
}

static void pop_location(void)
{
    if (thread_state.depth > 0)
        thread_state.depth--;
}

th_tensor *th_at_pop(th_tensor *result)
{
    pop_location();
    return result;
}

th_status th_at_pop_status(th_status result)
{
    pop_location();
    return result;
}

void *th_at_pop_pointer(void *result)
{
    pop_location();
    return result;
}

double th_at_pop_number(double result)
{
    pop_location();
    return result;
}

void th_caller_location(const char **file, int *line)
{
    *file = NULL;
    *line = 0;
    if (thread_state.depth > 0) {
        const int top = thread_state.depth <= TH_LOCATION_DEPTH ? thread_state.depth - 1 : TH_LOCATION_DEPTH - 1;
        *file = thread_state.file[top];
        *line = thread_state.line[top];
    }
}

void th_use_context(th_context *ctx)
{
    thread_state.last_context = ctx->number;
    if (atomic_load_explicit(&ctx->last_thread, memory_order_relaxed) != &thread_state)
        atomic_store_explicit(&ctx->last_thread, &thread_state, memory_order_relaxed);
}

th_context *th_last_context(void)
{
    th_context *ctx = th_contexts_find(thread_state.last_context);
    return ctx && atomic_load_explicit(&ctx->last_thread, memory_order_relaxed) == &thread_state ? ctx : NULL;
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
    if (ctx->scope_path && ctx->scope_path[0])
        th_append(text, sizeof text, "; in %s", ctx->scope_path);
    /* Clear the old message only here: the arguments may contain it. */
    ctx->message_text[0] = ctx->message[0] = ctx->location[0] = 0;
    th_append_visible(ctx->message_text, TH_MESSAGE_SIZE, text);
    th_append(ctx->message, TH_MESSAGE_SIZE, "%s", ctx->message_text);
    const char *file;
    int line;
    th_caller_location(&file, &line);
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

void th_error_set(th_context *ctx, th_status code, const char *text, const char *location)
{
    ctx->error = code;
    ctx->step_failed = true;
    ctx->message_text[0] = ctx->message[0] = ctx->location[0] = 0;
    th_append_visible(ctx->message_text, TH_MESSAGE_SIZE, text);
    th_append_visible(ctx->location, TH_LOCATION_SIZE, location);
    th_append(ctx->message, TH_MESSAGE_SIZE, location[0] ? "%s; at %s" : "%s", ctx->message_text, ctx->location);
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

/* The message of a context that does not exist. */
static const char *no_context(void)
{
    return th_machine_possible() ? "no context"
                                 : "no context: this processor supports no instruction set that the library was built "
                                   "for (TAPEHEAD_ISAS of its build)";
}

const char *th_error_message(const th_context *ctx)
{
    return ctx == NULL ? no_context() : ctx->error ? ctx->message : "";
}

const char *th_error_text(const th_context *ctx)
{
    return ctx == NULL ? no_context() : ctx->error ? ctx->message_text : "";
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
