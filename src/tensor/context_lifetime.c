/* Creating and freeing a context. */
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/locks.h"
#include "platform/system.h"
#include "tensor/context.h"
#include "tensor/contexts.h"
#include "tensor/gradient_buffer.h"
#include "tensor/parameter.h"
#include "tensor/tensor.h"

static const size_t context_bytes = (sizeof(th_context) + 63) / 64 * 64;

static void *default_allocate(void *user, size_t bytes)
{
    (void)user;
    return th_aligned_allocate(64, bytes);
}

static void default_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    th_aligned_free(memory);
}

/* Stores what is wrong with the options or the machine as the context's first error. */
static void check_options(th_context *ctx, const th_allocator *given)
{
    const th_context_options *options = &ctx->options;
    const char *problem = th_machine_detect(&ctx->machine);
    if (problem)
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new", "%s", problem);
    if (!problem && !th_machine_set_precision(&ctx->machine, options->precision))
        th_fail(ctx, TH_ERROR_ARGUMENT, "context_new", "the precision must be " TH_PRECISIONS "; it is %d",
                (int)options->precision);
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
    if (!th_machine_possible() || (given.memory_limit && context_bytes > given.memory_limit))
        return NULL;
    th_context *ctx = allocator.allocate(allocator.user, context_bytes);
    if (ctx == NULL)
        return NULL;
    if (!th_is_aligned(ctx) || !th_contexts_add(memset(ctx, 0, sizeof *ctx))) {
        allocator.release(allocator.user, ctx, context_bytes);
        return NULL;
    }
    ctx->options = given;
    ctx->options.allocator = allocator;
    ctx->reserved = ctx->reserved_peak = ctx->live_other = ctx->peak = context_bytes;
    ctx->allocations = 1;
    ctx->seed = given.seed;
    ctx->training = ctx->fusion = true;
    ctx->scope_path = "";
    th_block_allocator_init(&ctx->step_memory, th_context_chunk_source(ctx));
    th_block_allocator_init(&ctx->owned_memory, th_context_chunk_source(ctx));
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
    if (ctx->outer_depths.scopes > 0 || ctx->watch || ctx->running_op) {
        th_fail(ctx, TH_ERROR_STATE, "context_free", "the context cannot be freed while %s",
                ctx->running_op ? "an operation runs"
                : ctx->watch    ? "a gradient is being checked"
                                : "a module's forward runs");
        return;
    }
    const th_held_lock held = th_lock_take(TH_LOCK_CONTEXTS);
    th_use_context(ctx); /* under the lock: no other thread sets an error in it from now on */
    th_lock_release(&held);
    while (ctx->attachments) {
        th_attachment *first = ctx->attachments;
        ctx->attachments = first->next;
        first->release(ctx, first->object);
        th_release(ctx, first, sizeof *first);
    }
    th_release_quarantine(ctx);
    th_parameter_blocks_destroy(ctx);
    th_pool_destroy(ctx, &ctx->step_tensors);
    th_pool_destroy(ctx, &ctx->owned_tensors);
    th_block_allocator_destroy(&ctx->step_memory);
    th_block_allocator_destroy(&ctx->owned_memory);
    th_contexts_remove(ctx);
    const th_allocator allocator = ctx->options.allocator;
    allocator.release(allocator.user, ctx, context_bytes);
}
