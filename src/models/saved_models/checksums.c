/* The last tensor of a checkpoint contains the checksums (CRC-32C) of the file. There is one checksum for each other
 * tensor, in the order of the file. The last checksum is for all bytes before the tensors. */
#include <string.h>

#include "models/core/context.h"
#include "models/saved_models/checkpoint.h"

static th_status fail_file(const th_safetensors_file *file, th_context *ctx, const char *operation, const char *reason)
{
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", file->path, reason);
}

static th_status read_checksum(th_context *ctx, const th_safetensors_entry *checksums, int64_t i, const char *operation,
                               uint32_t *checksum)
{
    return th_safetensors_file_read(ctx, checksums->file, checksums->begin + i * 4, checksum, sizeof *checksum,
                                    operation);
}

/* Returns the tensor with the checksums. Returns NULL with the error pending if there is no such tensor. */
static const th_safetensors_entry *find_checksums(const th_safetensors *f, const char *operation)
{
    if (f->n_files != 1) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "a checkpoint is one file, but the index names %lld files",
                (long long)f->n_files);
        return NULL;
    }
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *checksums = file->count > 0 ? &file->entry[file->count - 1] : NULL;
    if (checksums == NULL || strcmp(checksums->tensor.name, TH_CHECKSUMS_NAME) != 0) {
        fail_file(file, f->ctx, operation, "it is not a checkpoint: its last tensor is not \"" TH_CHECKSUMS_NAME "\"");
        return NULL;
    }
    const th_shape *shape = &checksums->tensor.shape;
    if (shape->ndim == 1 && shape->size[0] == file->count && strcmp(checksums->tensor.type, "U32") == 0)
        return checksums;
    th_fail(f->ctx, TH_ERROR_FILE, operation,
            "%.300s: it is not a checkpoint: \"" TH_CHECKSUMS_NAME "\" is %s %s; it must be U32 %s", file->path,
            checksums->tensor.type, TH_SIZES_TEXT(shape->ndim, shape->size), TH_SIZES_TEXT(1, &file->count));
    return NULL;
}

th_status th_checksums_verify_header(const th_safetensors *f, const char *operation)
{
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *checksums = find_checksums(f, operation);
    uint32_t saved, computed;
    if (checksums == NULL || read_checksum(f->ctx, checksums, file->count - 1, operation, &saved) != TH_OK ||
        th_safetensors_range_checksum(f->ctx, file, 0, file->header_bytes, operation, &computed) != TH_OK)
        return th_error_code(f->ctx);
    if (saved != computed)
        return fail_file(file, f->ctx, operation, "the checksum of its header is wrong, so the file is damaged");
    return TH_OK;
}

th_status th_checksums_verify_tensor(const th_safetensors *f, const th_safetensors_entry *entry, const char *operation)
{
    const th_safetensors_file *file = &f->file[0];
    const th_safetensors_entry *checksums = find_checksums(f, operation);
    char reason[160], quoted[TH_QUOTED];
    uint32_t saved, computed;
    if (checksums == NULL || read_checksum(f->ctx, checksums, entry - file->entry, operation, &saved) != TH_OK ||
        th_safetensors_range_checksum(f->ctx, file, entry->begin, entry->tensor.bytes, operation, &computed) != TH_OK)
        return th_error_code(f->ctx);
    if (saved == computed)
        return TH_OK;
    snprintf(reason, sizeof reason, "the checksum of tensor \"%s\" is wrong, so the file is damaged",
             th_quote(entry->tensor.name, quoted));
    return fail_file(file, f->ctx, operation, reason);
}

th_status th_checksums_verify_tensors(const th_safetensors *f, const char *operation)
{
    th_status status = TH_OK;
    for (int64_t i = 0; i < f->file[0].count - 1 && status == TH_OK; i++)
        status = th_checksums_verify_tensor(f, &f->file[0].entry[i], operation);
    return status;
}
