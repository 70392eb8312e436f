/* Memory of a context: reserve and unreserve call its allocator, count the bytes and keep the limit. */
#include "tensor/context.h"

static size_t round_to_cache_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static void update_peak(th_context *ctx)
{
    const size_t live = ctx->step_memory.live + ctx->owned_memory.live + ctx->live_other;
    ctx->peak = live > ctx->peak ? live : ctx->peak;
}

/* Takes `size` bytes (whole cache lines) from the allocator, within the limit. With without_memory, only counts them
 * and sets *memory to NULL. Returns false if memory runs out. */
static bool reserve(th_context *ctx, size_t size, bool without_memory, void **memory)
{
    const size_t limit = ctx->options.memory_limit;
    const bool past_limit = limit && (size > limit || ctx->reserved > limit - size);
    ctx->refused_bytes = past_limit ? size : 0;
    *memory = NULL;
    if (past_limit || size > SIZE_MAX - ctx->reserved) /* (with shapes_only and 32 bits the sum may overflow) */
        return false;
    ctx->allocations++;
    if (!without_memory)
        *memory = ctx->options.allocator.allocate(ctx->options.allocator.user, size);
    if (!without_memory && *memory == NULL)
        return false;
    if (!th_is_aligned(*memory)) { /* kernels read and write whole cache lines */
        ctx->options.allocator.release(ctx->options.allocator.user, *memory, size);
        *memory = NULL;
        th_fail(ctx, TH_ERROR_ARGUMENT, "allocator", "the memory that it returned is not aligned to 64 bytes");
        return false;
    }
    ctx->reserved += size;
    ctx->reserved_peak = ctx->reserved > ctx->reserved_peak ? ctx->reserved : ctx->reserved_peak;
    return true;
}

size_t th_set_memory_limit(th_context *ctx, size_t limit)
{
    const size_t before = ctx->options.memory_limit;
    ctx->options.memory_limit = limit;
    return before;
}

static void unreserve(th_context *ctx, size_t size, void *memory)
{
    if (memory)
        ctx->options.allocator.release(ctx->options.allocator.user, memory, size);
    ctx->reserved -= size;
}

/* -- the source of the block allocators -- */

static void *allocate_record(void *owner, size_t bytes)
{
    void *memory = NULL;
    const size_t size = round_to_cache_lines(bytes);
    return size >= bytes && reserve(owner, size, false, &memory) ? memory : NULL;
}

static void release_memory(void *owner, void *memory, size_t bytes)
{
    unreserve(owner, round_to_cache_lines(bytes), memory);
}

static bool allocate_chunk(void *owner, size_t bytes, void **memory)
{
    const size_t size = round_to_cache_lines(bytes);
    const th_context *ctx = owner;
    return size >= bytes && reserve(owner, size, ctx->options.shapes_only, memory);
}

th_chunk_source th_context_chunk_source(th_context *ctx)
{
    return (th_chunk_source){allocate_record, release_memory, allocate_chunk, release_memory, ctx};
}

/* -- memory outside the block allocators -- */

static bool allocate_counted(th_context *ctx, size_t bytes, bool without_memory, void **memory)
{
    const size_t size = round_to_cache_lines(bytes);
    *memory = NULL;
    if (size < bytes || !reserve(ctx, size, without_memory, memory))
        return false;
    ctx->live_other += size;
    update_peak(ctx);
    return true;
}

void *th_allocate(th_context *ctx, size_t bytes)
{
    void *memory;
    (void)allocate_counted(ctx, bytes, false, &memory);
    return memory;
}

void th_release(th_context *ctx, void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    ctx->live_other -= round_to_cache_lines(bytes);
    release_memory(ctx, memory, bytes);
}

static void release_oldest(th_context *ctx)
{
    th_quarantined *q = &ctx->quarantine;
    const size_t i = q->first;
    q->first = (i + 1) % TH_QUARANTINE_OBJECTS;
    q->count--;
    q->bytes -= q->object[i].bytes;
    release_memory(ctx, q->object[i].memory, q->object[i].bytes);
}

void th_quarantine(th_context *ctx, void *memory, size_t bytes)
{
    th_quarantined *q = &ctx->quarantine;
    ctx->live_other -= round_to_cache_lines(bytes);
    if (q->count == TH_QUARANTINE_OBJECTS)
        release_oldest(ctx);
    const size_t last = (q->first + q->count++) % TH_QUARANTINE_OBJECTS;
    q->object[last].memory = memory;
    q->object[last].bytes = bytes;
    q->bytes += bytes;
    while (q->bytes > TH_QUARANTINE_BYTES)
        release_oldest(ctx);
}

void th_release_quarantine(th_context *ctx)
{
    while (ctx->quarantine.count > 0)
        release_oldest(ctx);
}

th_status th_allocate_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation)
{
    return allocate_counted(ctx, bytes, ctx->options.shapes_only, memory) ? TH_OK
                                                                          : th_fail_memory(ctx, operation, bytes);
}

void th_release_numbers(th_context *ctx, void *memory, size_t bytes)
{
    ctx->live_other -= round_to_cache_lines(bytes);
    unreserve(ctx, round_to_cache_lines(bytes), memory);
}

th_status th_reserve_numbers(th_context *ctx, size_t bytes, void **memory, const char *operation)
{
    return allocate_chunk(ctx, bytes, memory) ? TH_OK : th_fail_memory(ctx, operation, bytes);
}

void th_unreserve_numbers(th_context *ctx, void *memory, size_t bytes)
{
    release_memory(ctx, memory, bytes);
}

void th_count_live(th_context *ctx, size_t bytes)
{
    ctx->live_other += bytes;
    update_peak(ctx);
}

void th_uncount_live(th_context *ctx, size_t bytes)
{
    ctx->live_other -= bytes;
}

th_status th_count_memory(th_context *ctx, size_t bytes, const char *operation)
{
    void *none;
    return allocate_counted(ctx, bytes, true, &none) ? TH_OK : th_fail_memory(ctx, operation, bytes);
}

void th_uncount_memory(th_context *ctx, size_t bytes)
{
    th_release_numbers(ctx, NULL, bytes);
}

void th_count_mapped(th_context *ctx, size_t bytes)
{
    ctx->mapped += bytes;
    th_count_live(ctx, bytes);
}

void th_uncount_mapped(th_context *ctx, size_t bytes)
{
    ctx->mapped -= bytes;
    th_uncount_live(ctx, bytes);
}

th_block *th_block_new(th_context *ctx, th_block_allocator *allocator, size_t bytes, const char *operation)
{
    th_block *block = th_block_allocate(allocator, bytes);
    if (block == NULL)
        th_fail_memory(ctx, operation, bytes);
    else
        update_peak(ctx);
    return block;
}

th_memory_usage th_memory(const th_context *ctx)
{
    if (ctx == NULL)
        return (th_memory_usage){0};
    return (th_memory_usage){
        .live = ctx->step_memory.live + ctx->owned_memory.live + ctx->live_other,
        .peak = ctx->peak,
        .reserved = ctx->reserved,
        .reserved_peak = ctx->reserved_peak,
        .allocations = ctx->allocations,
        .owned = ctx->owned_memory.live,
        .mapped = ctx->mapped,
    };
}

void th_memory_reset_peak(th_context *ctx)
{
    if (ctx) {
        ctx->peak = 0;
        update_peak(ctx);
        ctx->reserved_peak = ctx->reserved;
    }
}
