/* The error of a request that memory or the context's limit does not allow, with a hint at a probable leak. */
#include "tensor/context.h"
#include "tensor/format.h"
#include "tensor/gradient_buffer.h"

/* The live owned tensors that one line of the program created. */
typedef struct line_usage {
    const char *file;
    int line;
    int64_t count;
    size_t bytes;
} line_usage;

/* Counts at most MAX_LINES lines. PROBABLE_LEAK tensors of one line are probably a leak. */
enum { MAX_LINES = 64, PROBABLE_LEAK = 32 };

/* Returns the line whose owned tensors take the most bytes. */
static line_usage find_largest_line(const th_context *ctx)
{
    line_usage lines[MAX_LINES] = {{.count = 0}}, max = {.count = 0};
    int known = 0;
    for (int64_t i = 0; i < ctx->owned_tensors.count; i++) {
        const th_owned_tensor_impl *t = th_pool_at(&ctx->owned_tensors, i);
        if (t->impl.life != TH_LIFE_LIVE || t->impl.parameter || t->made_file == NULL)
            continue;
        int index = 0;
        while (index < known && (lines[index].line != t->made_line || lines[index].file != t->made_file))
            index++;
        if (index == MAX_LINES)
            continue;
        known += index == known;
        lines[index] = (line_usage){t->made_file, t->made_line, lines[index].count + 1,
                                    lines[index].bytes + t->impl.own_storage.bytes};
        if (lines[index].bytes > max.bytes)
            max = lines[index];
    }
    return max;
}

th_status th_fail_memory(th_context *ctx, const char *operation, size_t bytes)
{
    char hint[256] = "";
    if (ctx->error != TH_OK)
        return TH_ERROR_MEMORY;
    const line_usage max = find_largest_line(ctx);
    if (max.count >= PROBABLE_LEAK)
        th_append(hint, sizeof hint,
                  "; %lld tensors created at %s:%d hold %zu bytes: th_tensor_free frees one, and those created after "
                  "th_step_begin end with the step",
                  (long long)max.count, th_base_name(max.file), max.line, max.bytes);
    if (ctx->refused_bytes >= bytes &&
        ctx->refused_bytes > 0) /* the allocator was asked for more, such as a page of a pool */
        return th_fail(ctx, TH_ERROR_MEMORY, operation,
                       "%zu more bytes would exceed the context's limit of %zu (%zu are in use)%s", ctx->refused_bytes,
                       ctx->options.memory_limit, ctx->reserved, hint);
    return th_fail(ctx, TH_ERROR_MEMORY, operation, "out of memory for %zu bytes%s", bytes, hint);
}
