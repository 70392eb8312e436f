/* The error of a request that memory or the context's limit does not allow, with a hint at a probable leak. */
#include "tensor/context.h"
#include "tensor/format.h"
#include "tensor/gradient_buffer.h"

/* The live owned tensors that one line of the program created. */
typedef struct made_at {
    const char *file;
    int line;
    int64_t count;
    size_t bytes;
} made_at;

/* Counts at most LINES lines. MANY tensors of one line are probably a leak. */
enum { LINES = 64, MANY = 32 };

/* Returns the line whose owned tensors take the most bytes. */
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
    if (ctx->refused >= bytes && ctx->refused > 0) /* the allocator was asked for more, such as a page of a pool */
        return th_fail(ctx, TH_ERROR_MEMORY, operation,
                       "%zu more bytes would exceed the context's limit of %zu (%zu are in use)%s", ctx->refused,
                       ctx->options.memory_limit, ctx->reserved, hint);
    return th_fail(ctx, TH_ERROR_MEMORY, operation, "out of memory for %zu bytes%s", bytes, hint);
}
