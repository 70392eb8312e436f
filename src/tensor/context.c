/* Making and freeing a context, and its plain settings. */
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/locks.h"
#include "kernels/machine/team.h"
#include "tensor/gradient_buffer.h"
#include "tensor/handle.h"
#include "tensor/parameter.h"

#ifdef __clang__
#define TH_COMPILER __VERSION__ /* names clang itself */
#else
#define TH_COMPILER "gcc " __VERSION__
#endif

enum { TH_MAX_THREADS = 1024 };

static void *default_allocate(void *user, size_t bytes)
{
    (void)user;
    return aligned_alloc(64, bytes);
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

/* What is wrong with the options or the machine becomes the context's first error. */
static void check_options(th_context *ctx, const th_allocator *given)
{
    const th_context_options *options = &ctx->options;
    const char *machine = th_machine_detect(&ctx->machine);
    if (machine)
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new", "%s", machine);
    if (!machine && !th_machine_set_precision(&ctx->machine, options->precision))
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new",
                "the precision must be float32, bfloat16x3 or bfloat16; it is %d", (int)options->precision);
    if (options->threads < 0 || options->threads > TH_MAX_THREADS)
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new", "threads must be 1 to %d, or 0 for all processors; it is %d",
                (int)TH_MAX_THREADS, options->threads);
    if (!given->allocate != !given->release)
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new", "an allocator needs both allocate and release; %s is NULL",
                given->allocate ? "release" : "allocate");
    if (!th_is_floating(options->default_dtype))
        th_fail(ctx, TH_ERROR_TYPE, "context_new", "the default type must be float32 or float64; it is %s",
                th_dtype_name(options->default_dtype));
}

th_context *th_context_new(const th_context_options *options)
{
    const th_context_options given = options ? *options : (th_context_options){0};
    th_allocator allocator = given.allocator;
    if (allocator.allocate == NULL || allocator.release == NULL)
        allocator = (th_allocator){default_allocate, default_release, NULL};
    const size_t bytes = (sizeof(th_context) + 63) / 64 * 64;
    if (given.memory_limit && bytes > given.memory_limit)
        return NULL;
    th_context *ctx = allocator.allocate(allocator.user, bytes);
    if (ctx == NULL)
        return NULL;
    if (!th_is_aligned(ctx) || !th_contexts_add(memset(ctx, 0, sizeof *ctx))) {
        allocator.release(allocator.user, ctx, bytes);
        return NULL;
    }
    ctx->options = given;
    ctx->options.allocator = allocator;
    ctx->reserved = ctx->reserved_peak = ctx->live_other = ctx->peak = bytes;
    ctx->allocations = 1;
    ctx->seed = given.seed;
    ctx->training = ctx->fusion = true;
    ctx->path = "";
    th_block_allocator_init(&ctx->step_memory, th_context_chunks(ctx));
    th_block_allocator_init(&ctx->owned_memory, th_context_chunks(ctx));
    th_pool_init(&ctx->step_tensors, sizeof(th_tensor_impl));
    th_pool_init(&ctx->owned_tensors, sizeof(th_owned_tensor_impl));
    th_use_context(ctx);
    check_options(ctx, &given.allocator);
    ctx->default_dtype = th_is_floating(given.default_dtype) ? given.default_dtype : TH_FLOAT32;
    ctx->threads = given.threads > 0 && given.threads <= TH_MAX_THREADS ? given.threads : ctx->machine.threads;
    return ctx;
}

void th_context_free(th_context *ctx)
{
    if (ctx == NULL)
        return;
    if (ctx->around.scopes > 0 || ctx->watch || ctx->running) {
        th_fail(ctx, TH_ERROR_STATE, "context_free", "the context cannot be freed while %s",
                ctx->running ? "an operation runs"
                : ctx->watch ? "a gradient is being checked"
                             : "a module's forward runs");
        return;
    }
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    th_use_context(ctx); /* a thread that stores an error in it has done so, and none begins */
    th_lock_release(&held);
    while (ctx->attachments) {
        th_attachment *first = ctx->attachments;
        ctx->attachments = first->next;
        first->release(ctx, first->object);
        th_release(ctx, first, sizeof *first);
    }
    th_quarantine_end(ctx);
    th_parameter_blocks_destroy(ctx);
    th_pool_destroy(ctx, &ctx->step_tensors);
    th_pool_destroy(ctx, &ctx->owned_tensors);
    th_block_allocator_destroy(&ctx->step_memory);
    th_block_allocator_destroy(&ctx->owned_memory);
    th_contexts_remove(ctx);
    const th_allocator allocator = ctx->options.allocator;
    allocator.release(allocator.user, ctx, (sizeof(th_context) + 63) / 64 * 64);
}

bool th_attach(th_context *ctx, void *object, void (*release)(th_context *ctx, void *object))
{
    th_attachment *attachment = th_allocate(ctx, sizeof *attachment);
    if (attachment == NULL)
        return false;
    *attachment = (th_attachment){.release = release, .object = object, .next = ctx->attachments};
    ctx->attachments = attachment;
    return true;
}

void th_detach_object(th_context *ctx, void *object)
{
    for (th_attachment **link = &ctx->attachments; *link; link = &(*link)->next) {
        th_attachment *attachment = *link;
        if (attachment->object == object) {
            *link = attachment->next;
            th_release(ctx, attachment, sizeof *attachment);
            return;
        }
    }
}

/* -- handles of objects: the context's number above the object's -- */

void *th_object_handle(th_context *ctx, const void *object)
{
    th_attachment *attachment = ctx->attachments;
    while (attachment->object != object)
        attachment = attachment->next;
    if (attachment->number == 0)
        attachment->number = ++ctx->objects;
    return (void *)(uintptr_t)((uint64_t)ctx->number << (TH_HANDLE_WHICH_BITS + 1) | attachment->number);
}

th_context *th_object_context(const void *handle)
{
    return th_contexts_find((uint32_t)((uint64_t)(uintptr_t)handle >> (TH_HANDLE_WHICH_BITS + 1)));
}

void *th_object_of(const void *handle, void (*release)(th_context *ctx, void *object))
{
    const uint64_t number = (uint64_t)(uintptr_t)handle & (((uint64_t)1 << (TH_HANDLE_WHICH_BITS + 1)) - 1);
    const th_context *ctx = th_object_context(handle);
    const th_attachment *attachment = ctx && number ? ctx->attachments : NULL;
    while (attachment && (attachment->number != number || attachment->release != release))
        attachment = attachment->next;
    return attachment ? attachment->object : NULL;
}

/* -- settings -- */

void th_set_training(th_context *ctx, bool training)
{
    if (ctx)
        ctx->training = training;
}

bool th_is_training(const th_context *ctx)
{
    return ctx && ctx->training;
}

void th_no_grad_begin(th_context *ctx)
{
    if (ctx)
        ctx->no_grad_depth++;
}

void th_no_grad_end(th_context *ctx)
{
    if (ctx && ctx->no_grad_depth > 0)
        ctx->no_grad_depth--;
}

bool th_is_recording(const th_context *ctx)
{
    return ctx && ctx->no_grad_depth == 0;
}

void th_set_fusion(th_context *ctx, bool fusion)
{
    if (ctx)
        ctx->fusion = fusion;
}

bool th_has_fusion(const th_context *ctx)
{
    return ctx && ctx->fusion;
}

th_status th_set_precision(th_context *ctx, th_precision precision)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (!th_machine_set_precision(&ctx->machine, precision))
        return th_fail(ctx, TH_ERROR_ARGUMENT, "set_precision",
                       "the precision must be float32, bfloat16x3 or bfloat16; it is %d", (int)precision);
    return TH_OK;
}

th_precision th_precision_of(const th_context *ctx)
{
    return ctx ? ctx->machine.precision : TH_PRECISION_FLOAT32;
}

void th_keep_values(th_context *ctx, bool keep)
{
    if (ctx)
        ctx->keep_values = keep;
}

th_status th_set_default_dtype(th_context *ctx, th_dtype dtype)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (!th_is_floating(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, "set_default_dtype", "the default type must be float32 or float64, not %s",
                       th_dtype_name(dtype));
    ctx->default_dtype = dtype;
    return TH_OK;
}

th_dtype th_default_dtype(const th_context *ctx)
{
    return ctx ? ctx->default_dtype : TH_FLOAT32;
}

void th_set_seed(th_context *ctx, uint64_t seed)
{
    if (ctx) {
        ctx->seed = seed;
        memset(ctx->calls, 0, sizeof ctx->calls);
        ctx->calls_at_clear = 0;
    }
}

int64_t th_step(const th_context *ctx)
{
    return ctx ? ctx->step : 0;
}

void th_set_step(th_context *ctx, int64_t step)
{
    if (ctx && (step < 0 || step > INT64_MAX / 2)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "set_step", "the number of steps must be 0 to 2^62; it is %lld",
                (long long)step);
    } else if (ctx) {
        ctx->step = step - 1;
        th_random_step_done(ctx);
    }
}

void th_random_step_done(th_context *ctx)
{
    ctx->step_failed = false;
    ctx->step++;
    memset(ctx->calls, 0, sizeof ctx->calls);
    ctx->calls_at_clear = 0;
}

void th_random_step_refused(th_context *ctx)
{
    ctx->calls[TH_STREAM_DROPOUT] = 0;
    ctx->calls_at_clear = 0;
}

int th_threads(const th_context *ctx)
{
    return ctx ? ctx->threads : 0;
}

th_status th_set_threads(th_context *ctx, int threads)
{
    if (ctx == NULL)
        return TH_ERROR_ARGUMENT;
    if (threads < 1 || threads > TH_MAX_THREADS)
        return th_fail(ctx, TH_ERROR_ARGUMENT, "set_threads", "threads must be 1 to %d, not %d", (int)TH_MAX_THREADS,
                       threads);
    ctx->threads = threads;
    return TH_OK;
}

int th_team_size(const th_context *ctx)
{
    return ctx ? th_team_threads(ctx->threads) : 0;
}

const char *th_version(void)
{
    return TAPEHEAD_VERSION; /* given by the build */
}

const char *th_build_info(th_context *ctx)
{
    if (ctx == NULL)
        return "";
    const int used =
        snprintf(ctx->build_info, sizeof ctx->build_info, "tapehead %s compiler=%s ", th_version(), TH_COMPILER);
    th_machine machine = ctx->machine;
    machine.threads = ctx->threads;
    if (used > 0 && (size_t)used < sizeof ctx->build_info)
        th_machine_describe(&machine, ctx->build_info + used, sizeof ctx->build_info - (size_t)used);
    return ctx->build_info;
}
