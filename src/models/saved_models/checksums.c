/* The checksums of a checkpoint are the last tensor of the file. It has one CRC-32C for each tensor in the order of the
 * file. The last one is for all bytes before the tensors. */
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"

static th_status fail(const th_safetensors_file *file, th_context *ctx, const char *operation, const char *reason)
{
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", file->path, reason);
}

static th_status read_sum(th_context *ctx, const th_safetensors_entry *sums, int64_t i, const char *operation,
                          uint32_t *sum)
{
    return th_safetensors_file_bytes(ctx, sums->file, sums->begin + i * 4, sum, sizeof *sum, operation);
}

/* Returns the tensor of the checksums, the last one of the file. Returns NULL after storing an error. */
static const th_safetensors_entry *find_sums(const th_safetensors *f, const char *operation)
{
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *sums = file->count > 0 ? &file->entry[file->count - 1] : NULL;
    if (f->n_files == 1 && sums && strcmp(sums->tensor.name, TH_CHECKSUMS_NAME) == 0 && sums->tensor.shape.ndim == 1 &&
        sums->tensor.shape.size[0] == file->count && strcmp(sums->tensor.type, "U32") == 0)
        return sums;
    fail(file, f->ctx, operation, "it is not a checkpoint: its last tensor is not \"" TH_CHECKSUMS_NAME "\"");
    return NULL;
}

th_status th_checksums_verify_header(const th_safetensors *f, const char *operation)
{
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *sums = find_sums(f, operation);
    uint32_t saved, now;
    if (sums == NULL || read_sum(f->ctx, sums, file->count - 1, operation, &saved) != TH_OK ||
        th_safetensors_range_checksum(f->ctx, file, 0, file->header_bytes, operation, &now) != TH_OK)
        return th_error_code(f->ctx);
    if (saved != now)
        return fail(file, f->ctx, operation, "the checksum of its header is wrong: the file is damaged");
    return TH_OK;
}

th_status th_checksums_verify_tensor(const th_safetensors *f, const th_safetensors_entry *t, const char *operation)
{
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *sums = find_sums(f, operation);
    char reason[160], quoted[TH_QUOTED];
    uint32_t saved, now;
    if (sums == NULL || read_sum(f->ctx, sums, t - file->entry, operation, &saved) != TH_OK ||
        th_safetensors_range_checksum(f->ctx, file, t->begin, t->tensor.bytes, operation, &now) != TH_OK)
        return th_error_code(f->ctx);
    if (saved == now)
        return TH_OK;
    snprintf(reason, sizeof reason, "the checksum of tensor \"%s\" is wrong: the file is damaged",
             th_quote(t->tensor.name, quoted));
    return fail(file, f->ctx, operation, reason);
}

th_status th_checksums_verify_tensors(const th_safetensors *f, const char *operation)
{
    th_status status = TH_OK;
    for (int64_t i = 0; i < f->file[0].count - 1 && status == TH_OK; i++)
        status = th_checksums_verify_tensor(f, &f->file[0].entry[i], operation);
    return status;
}
