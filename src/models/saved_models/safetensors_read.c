/* Finds and reads tensors of a safetensors file, and computes checksums of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/files/mapping.h"
#include "models/saved_models/safetensors.h"

enum { CHUNK = 16 * 1024 }; /* a thread of musl has 128 KiB of stack */

/* -- order by name -- */

static int compare_names(const void *a, const void *b)
{
    const th_safetensors_entry *const *x = a, *const *y = b;
    return strcmp((*x)->tensor.name, (*y)->tensor.name);
}

void th_safetensors_sort(const th_safetensors_entry **by_name, int64_t count)
{
    if (count > 0)
        qsort(by_name, (size_t)count, sizeof *by_name, compare_names);
}

const th_safetensors_entry *th_safetensors_search(const th_safetensors_entry *const *by_name, int64_t count,
                                                  const char *name)
{
    const th_safetensors_entry wanted = {.tensor.name = name}, *const key = &wanted;
    const th_safetensors_entry *const *found =
        count > 0 ? bsearch(&key, by_name, (size_t)count, sizeof *by_name, compare_names) : NULL;
    return found ? *found : NULL;
}

/* Returns the tensor of that name. Checks the arguments of a public function; returns NULL with the error pending. */
static const th_safetensors_entry *find_entry(const th_safetensors *file, const char *name, const char *operation)
{
    if (file == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the file is NULL");
        return NULL;
    }
    if (!th_usable_context(file->ctx, operation))
        return NULL;
    char quoted[TH_QUOTED];
    const th_safetensors_entry *entry = name ? th_safetensors_search(file->by_name, file->count, name) : NULL;
    if (entry == NULL)
        th_fail(file->ctx, TH_ERROR_FILE, operation, "there is no tensor \"%s\" in %.300s",
                th_quote(name ? name : "NULL", quoted), file->n_files > 0 ? file->file[0].path : "the index");
    return entry;
}

/* -- bytes and elements -- */

th_status th_safetensors_file_read(th_context *ctx, const th_safetensors_file *file, int64_t begin, void *to,
                                   size_t bytes, const char *operation)
{
    const ssize_t got = th_read_bytes_at(file->descriptor, to, bytes, (off_t)begin);
    if (got >= 0 && (size_t)got == bytes)
        return TH_OK;
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", file->path,
                   got < 0 ? strerror(errno) : "it has become shorter since it was opened");
}

static th_status fail(const th_context *ctx, const th_safetensors_entry *entry, const char *operation,
                      const char *reason)
{
    char quoted[TH_QUOTED];
    return th_fail((th_context *)ctx, TH_ERROR_FILE, operation, "%.300s: tensor \"%s\": %s", entry->file->path,
                   th_quote(entry->tensor.name, quoted), reason);
}

static const char unfit[] = "it has a number that does not fit the requested type";

/* Reads through a buffer, and converts the elements in a second one. */
static th_status read_converted(const th_safetensors_entry *entry, const th_tensor_impl *t, const char *operation)
{
    char chunk[CHUNK];
    _Alignas(8) char converted[CHUNK];
    const int64_t from_bytes = th_safetensors_element_bytes(entry->type, t->dtype);
    const int64_t to_bytes = (int64_t)th_dtype_size(t->dtype), numel = th_tensor_numel(t);
    const int64_t max = CHUNK / (from_bytes > 8 ? from_bytes : 8);
    const th_array array = th_tensor_array(t);
    th_iterator iterator;
    th_iterator_position position;
    if (!th_iterator_build_row_major(&iterator, &array, 0, NULL))
        return TH_OK;
    th_iterator_seek(&iterator, 0, &position);
    for (int64_t done = 0, n; done < numel; done += n) {
        n = numel - done < max ? numel - done : max;
        if (th_safetensors_file_read(t->ctx, entry->file, entry->begin + done * from_bytes, chunk,
                                     (size_t)(n * from_bytes), operation) != TH_OK)
            return th_error_code(t->ctx);
        if (!th_safetensors_convert(n, t->dtype, converted, entry->type, chunk))
            return fail(t->ctx, entry, operation, unfit);
        for (int64_t moved = 0, run; moved < n; moved += run, th_iterator_advance(&iterator, run, &position)) {
            run = th_iterator_run_length(&iterator, &position);
            run = run < n - moved ? run : n - moved;
            th_copy_strided(run, to_bytes, position.address[0], iterator.array[0].stride[iterator.ndim - 1],
                            converted + moved * to_bytes, to_bytes);
        }
    }
    return TH_OK;
}

/* Reads all bytes of a tensor. After a failure reads them again on this thread, which finds the reason. */
static th_status read_bytes(th_context *ctx, const th_safetensors_entry *entry, char *data, const char *operation)
{
    const th_file_part part = {entry->file->descriptor, entry->begin, (size_t)entry->tensor.bytes};
    if (th_part_read(ctx, &part, data))
        return TH_OK;
    return th_safetensors_file_read(ctx, entry->file, part.begin, data, part.bytes, operation);
}

th_status th_safetensors_entry_read(const th_safetensors_entry *entry, const th_tensor_impl *t, const char *operation)
{
    th_context *ctx = t->ctx;
    char *data = th_tensor_data(t);
    if (entry->tensor.bytes == 0 || data == NULL) /* (shapes only) */
        return TH_OK;
    if (entry->type != th_safetensors_type_of(t->dtype) || t->dtype == TH_BOOL ||
        !th_strides_are_contiguous(t->ndim, t->size, t->stride))
        return read_converted(entry, t, operation);
    return read_bytes(ctx, entry, data, operation);
}

th_status th_safetensors_range_checksum(th_context *ctx, const th_safetensors_file *file, int64_t begin, int64_t bytes,
                                        const char *operation, uint32_t *crc)
{
    char chunk[CHUNK];
    *crc = 0;
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < CHUNK ? bytes - done : CHUNK;
        if (th_safetensors_file_read(ctx, file, begin + done, chunk, (size_t)n, operation) != TH_OK)
            return th_error_code(ctx);
        *crc = th_crc32c(*crc, chunk, (size_t)n);
    }
    return TH_OK;
}

/* -- public functions -- */

static th_status refuse_type(th_context *ctx, const th_safetensors_entry *entry, const char *operation,
                             const char *dtype)
{
    char quoted[TH_QUOTED];
    return th_fail(ctx, TH_ERROR_TYPE, operation, "%.300s: tensor \"%s\" is %s, which cannot be read as %s",
                   entry->file->path, th_quote(entry->tensor.name, quoted), entry->type->name, dtype);
}

th_tensor *th_safetensors_read(th_safetensors *file, const char *name)
{
    static const char operation[] = "safetensors_read";
    const th_safetensors_entry *entry = find_entry(file, name, operation);
    if (entry == NULL)
        return NULL;
    if (!entry->type->readable) {
        refuse_type(file->ctx, entry, operation, "numbers of this library");
        return NULL;
    }
    const th_shape *shape = &entry->tensor.shape;
    th_tensor_impl *t =
        th_tensor_new(file->ctx, entry->tensor.dtype, shape->ndim, shape->size, th_creates_owned(file->ctx), operation);
    if (t == NULL || th_safetensors_entry_read(entry, t, operation) == TH_OK)
        return th_handle_of(t);
    th_tensor_free(th_handle_of(t));
    return NULL;
}

th_status th_safetensors_read_into(th_safetensors *file, const char *name, th_tensor *handle)
{
    static const char operation[] = "safetensors_read_into";
    const th_safetensors_entry *entry = find_entry(file, name, operation);
    if (entry == NULL)
        return file ? th_error_code(file->ctx) : TH_ERROR_ARGUMENT;
    th_tensor_impl *t = th_usable_tensor(handle, file->ctx, operation, "t");
    if (t == NULL)
        return th_pending_status(handle);
    char quoted[TH_QUOTED];
    const th_shape *shape = &entry->tensor.shape;
    if (!th_safetensors_type_fits(entry->type, t->dtype))
        return refuse_type(file->ctx, entry, operation, th_dtype_name(t->dtype));
    if (!th_safetensors_shape_fits(entry->type, shape, t->dtype, t->ndim, t->size))
        return th_fail(file->ctx, TH_ERROR_SHAPE, operation, "%.300s: tensor \"%s\" is %s, not %s", entry->file->path,
                       th_quote(name, quoted), TH_SIZES_TEXT(shape->ndim, shape->size),
                       TH_SIZES_TEXT(t->ndim, t->size));
    th_status status = th_check_writable(t, operation);
    if (status == TH_OK)
        status = th_safetensors_entry_read(entry, t, operation);
    th_storage_mark_changed(t->storage);
    return status;
}
