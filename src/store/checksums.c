/* The checksums of a checkpoint: one CRC-32C of each tensor in the order they lie, then one of what comes before them
 * all, together the last tensor of the file. */
#include <string.h>

#include "kernels/crc32c.h"
#include "store/checkpoint.h"

static th_status fail(const th_stored_file *file, th_context *ctx, const char *operation, const char *trouble)
{
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", file->path, trouble);
}

static th_status read_sum(th_context *ctx, const th_stored *sums, int64_t i, const char *operation, uint32_t *sum)
{
    return th_stored_bytes(ctx, sums->file, sums->begin + i * 4, sum, sizeof *sum, operation);
}

th_status th_checksums_verify(const th_safetensors *f, bool numbers, const char *operation)
{
    th_context *ctx = f->ctx;
    const th_stored_file *file = &f->file[0];
    const th_stored *sums = file->count > 0 ? &file->entry[file->count - 1] : NULL;
    if (f->n_files != 1 || sums == NULL || strcmp(sums->tensor.name, TH_CHECKSUMS_NAME) != 0 ||
        sums->tensor.shape.ndim != 1 || sums->tensor.shape.size[0] != file->count ||
        strcmp(sums->tensor.type, "U32") != 0)
        return fail(file, ctx, operation, "it is no checkpoint: its last tensor is not \"" TH_CHECKSUMS_NAME "\"");
    uint32_t saved, now;
    if (read_sum(ctx, sums, file->count - 1, operation, &saved) != TH_OK ||
        th_stored_range_checksum(ctx, file, 0, file->header_bytes, operation, &now) != TH_OK)
        return ctx->error;
    if (saved != now)
        return fail(file, ctx, operation, "the checksum of its header is wrong: the file is damaged");
    for (int64_t i = 0; numbers && i < file->count - 1; i++) {
        const th_stored *t = &file->entry[i];
        char trouble[160], quoted[TH_QUOTED];
        if (read_sum(ctx, sums, i, operation, &saved) != TH_OK ||
            th_stored_range_checksum(ctx, file, t->begin, t->tensor.bytes, operation, &now) != TH_OK)
            return ctx->error;
        if (saved != now) {
            snprintf(trouble, sizeof trouble, "the checksum of tensor \"%s\" is wrong: the file is damaged",
                     th_quote(t->tensor.name, quoted));
            return fail(file, ctx, operation, trouble);
        }
    }
    return TH_OK;
}
