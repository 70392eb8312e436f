/* Every byte that a context takes goes through here: aligned, counted, limited. */
#include <stdlib.h>

#include "tensor/context.h"

static size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void count_peak(th_context *ctx)
{
    const size_t live = ctx->step_arena.live + ctx->owned_arena.live + ctx->live_other;
    ctx->peak = live > ctx->peak ? live : ctx->peak;
}

/* From the allocator, within the limit. */
static void *take(void *owner, size_t bytes)
{
    th_context *ctx = owner;
    const size_t size = whole_lines(bytes);
    const size_t limit = ctx->options.memory_limit;
    const bool past_limit = limit && (size > limit || ctx->reserved > limit - size);
    ctx->refused = past_limit ? size : 0;
    if (size < bytes || past_limit)
        return NULL;
    ctx->allocations++;
    void *memory = ctx->options.allocator.allocate(ctx->options.allocator.user, size);
    if (memory)
        ctx->reserved += size;
    return memory;
}

static void give(void *owner, void *memory, size_t bytes)
{
    th_context *ctx = owner;
    const size_t size = whole_lines(bytes);
    ctx->options.allocator.release(ctx->options.allocator.user, memory, size);
    ctx->reserved -= size;
}

th_chunk_source th_context_chunks(th_context *ctx)
{
    return (th_chunk_source){take, give, ctx};
}

void *th_allocate(th_context *ctx, size_t bytes)
{
    void *memory = take(ctx, bytes);
    if (memory) {
        ctx->live_other += whole_lines(bytes);
        count_peak(ctx);
    }
    return memory;
}

void th_release(th_context *ctx, void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    ctx->live_other -= whole_lines(bytes);
    give(ctx, memory, bytes);
}

static void give_oldest(th_context *ctx)
{
    th_resting *r = &ctx->resting;
    const size_t i = r->first;
    r->first = (i + 1) % TH_RESTING_OBJECTS;
    r->count--;
    r->bytes -= r->object[i].bytes;
    give(ctx, r->object[i].memory, r->object[i].bytes);
}

void th_rest(th_context *ctx, void *memory, size_t bytes)
{
    th_resting *r = &ctx->resting;
    ctx->live_other -= whole_lines(bytes);
    if (r->count == TH_RESTING_OBJECTS)
        give_oldest(ctx);
    const size_t last = (r->first + r->count++) % TH_RESTING_OBJECTS;
    r->object[last].memory = memory;
    r->object[last].bytes = bytes;
    r->bytes += bytes;
    while (r->bytes > TH_RESTING_BYTES)
        give_oldest(ctx);
}

void th_rest_end(th_context *ctx)
{
    while (ctx->resting.count > 0)
        give_oldest(ctx);
}

th_status th_allocate_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation)
{
    *memory = NULL;
    if (ctx->options.shapes_only) {
        ctx->live_other += whole_lines(bytes);
        count_peak(ctx);
        return TH_OK;
    }
    *memory = th_allocate(ctx, bytes);
    return *memory ? TH_OK : th_fail_memory(ctx, operation, bytes);
}

void th_release_numbers(th_context *ctx, void *memory, size_t bytes)
{
    if (ctx->options.shapes_only)
        ctx->live_other -= whole_lines(bytes);
    else
        th_release(ctx, memory, bytes);
}

th_block *th_take_block(th_context *ctx, th_arena *arena, size_t bytes, const char *operation)
{
    th_block *block = th_arena_take(arena, bytes);
    if (block == NULL)
        th_fail_memory(ctx, operation, bytes);
    else
        count_peak(ctx);
    return block;
}

th_memory_usage th_memory(const th_context *ctx)
{
    if (ctx == NULL)
        return (th_memory_usage){0};
    return (th_memory_usage){
        .live = ctx->step_arena.live + ctx->owned_arena.live + ctx->live_other,
        .peak = ctx->peak,
        .reserved = ctx->reserved,
        .allocations = ctx->allocations,
    };
}

void th_memory_reset_peak(th_context *ctx)
{
    if (ctx) {
        ctx->peak = 0;
        count_peak(ctx);
    }
}
