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
    const th_stored *const *x = a, *const *y = b;
    return strcmp((*x)->tensor.name, (*y)->tensor.name);
}

void th_stored_sort(const th_stored **by_name, int64_t count)
{
    if (count > 0)
        qsort(by_name, (size_t)count, sizeof *by_name, compare_names);
}

const th_stored *th_stored_search(const th_stored *const *by_name, int64_t count, const char *name)
{
    const th_stored wanted = {.tensor.name = name}, *const key = &wanted;
    const th_stored *const *found =
        count > 0 ? bsearch(&key, by_name, (size_t)count, sizeof *by_name, compare_names) : NULL;
    return found ? *found : NULL;
}

/* Returns the tensor of that name. Checks the arguments of a public function; returns NULL with the error stored. */
static const th_stored *find(const th_safetensors *file, const char *name, const char *operation)
{
    if (file == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, operation, "the file is NULL");
        return NULL;
    }
    if (!th_usable_context(file->ctx, operation))
        return NULL;
    char quoted[TH_QUOTED];
    const th_stored *stored = name ? th_stored_search(file->by_name, file->count, name) : NULL;
    if (stored == NULL)
        th_fail(file->ctx, TH_ERROR_FILE, operation, "there is no tensor \"%s\" in %.300s",
                th_quote(name ? name : "NULL", quoted), file->n_files > 0 ? file->file[0].path : "the index");
    return stored;
}

/* -- bytes and elements -- */

th_status th_stored_bytes(th_context *ctx, const th_stored_file *file, int64_t begin, void *to, size_t bytes,
                          const char *operation)
{
    const ssize_t got = th_read_bytes_at(file->descriptor, to, bytes, (off_t)begin);
    if (got >= 0 && (size_t)got == bytes)
        return TH_OK;
    return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", file->path,
                   got < 0 ? strerror(errno) : "it has become shorter since it was opened");
}

static th_status fail(const th_context *ctx, const th_stored *stored, const char *operation, const char *reason)
{
    char quoted[TH_QUOTED];
    return th_fail((th_context *)ctx, TH_ERROR_FILE, operation, "%.300s: tensor \"%s\": %s", stored->file->path,
                   th_quote(stored->tensor.name, quoted), reason);
}

static const char unfit[] = "it has a number that does not fit the requested type";

/* Reads through a buffer, and converts the elements in a second one. */
static th_status read_converted(const th_stored *stored, const th_tensor_impl *t, const char *operation)
{
    char chunk[CHUNK];
    _Alignas(8) char converted[CHUNK];
    const int64_t from_bytes = th_stored_element_bytes(stored->type, t->dtype);
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
        if (th_stored_bytes(t->ctx, stored->file, stored->begin + done * from_bytes, chunk, (size_t)(n * from_bytes),
                            operation) != TH_OK)
            return th_error_code(t->ctx);
        if (!th_stored_convert(n, t->dtype, converted, stored->type, chunk))
            return fail(t->ctx, stored, operation, unfit);
        for (int64_t moved = 0, run; moved < n; moved += run, th_iterator_advance(&iterator, run, &position)) {
            run = th_iterator_run(&iterator, &position);
            run = run < n - moved ? run : n - moved;
            th_move_run(run, to_bytes, position.at[0], iterator.array[0].stride[iterator.ndim - 1],
                        converted + moved * to_bytes, to_bytes);
        }
    }
    return TH_OK;
}

/* Reads all bytes of a tensor. After a failure reads them again on this thread, which finds the reason. */
static th_status read_bytes(th_context *ctx, const th_stored *stored, char *data, const char *operation)
{
    const th_file_part part = {stored->file->descriptor, stored->begin, (size_t)stored->tensor.bytes};
    if (th_part_read(ctx, &part, data))
        return TH_OK;
    return th_stored_bytes(ctx, stored->file, part.begin, data, part.bytes, operation);
}

th_status th_stored_read(const th_stored *stored, const th_tensor_impl *t, const char *operation)
{
    th_context *ctx = t->ctx;
    char *data = th_tensor_data(t);
    if (stored->tensor.bytes == 0 || data == NULL) /* (shapes only) */
        return TH_OK;
    if (stored->type != th_stored_type_of(t->dtype) || t->dtype == TH_BOOL ||
        !th_strides_contiguous(t->ndim, t->size, t->stride))
        return read_converted(stored, t, operation);
    return read_bytes(ctx, stored, data, operation);
}

th_status th_stored_range_checksum(th_context *ctx, const th_stored_file *file, int64_t begin, int64_t bytes,
                                   const char *operation, uint32_t *crc)
{
    char chunk[CHUNK];
    *crc = 0;
    for (int64_t done = 0, n; done < bytes; done += n) {
        n = bytes - done < CHUNK ? bytes - done : CHUNK;
        if (th_stored_bytes(ctx, file, begin + done, chunk, (size_t)n, operation) != TH_OK)
            return th_error_code(ctx);
        *crc = th_crc32c(*crc, chunk, (size_t)n);
    }
    return TH_OK;
}

/* -- public functions -- */

static th_status refuse_type(th_context *ctx, const th_stored *stored, const char *operation, const char *dtype)
{
    char quoted[TH_QUOTED];
    return th_fail(ctx, TH_ERROR_TYPE, operation, "%.300s: tensor \"%s\" is %s, which cannot be read as %s",
                   stored->file->path, th_quote(stored->tensor.name, quoted), stored->type->name, dtype);
}

th_tensor *th_safetensors_read(th_safetensors *file, const char *name)
{
    static const char operation[] = "safetensors_read";
    const th_stored *stored = find(file, name, operation);
    if (stored == NULL)
        return NULL;
    if (!stored->type->readable) {
        refuse_type(file->ctx, stored, operation, "numbers of this library");
        return NULL;
    }
    const th_shape *shape = &stored->tensor.shape;
    th_tensor_impl *t = th_tensor_new(file->ctx, stored->tensor.dtype, shape->ndim, shape->size,
                                      th_creates_owned(file->ctx), operation);
    if (t == NULL || th_stored_read(stored, t, operation) == TH_OK)
        return th_handle_of(t);
    th_tensor_free(th_handle_of(t));
    return NULL;
}

th_status th_safetensors_read_into(th_safetensors *file, const char *name, th_tensor *handle)
{
    static const char operation[] = "safetensors_read_into";
    const th_stored *stored = find(file, name, operation);
    if (stored == NULL)
        return file ? th_error_code(file->ctx) : TH_ERROR_ARGUMENT;
    th_tensor_impl *t = th_usable(handle, file->ctx, operation, "t");
    if (t == NULL)
        return th_refused(handle);
    char quoted[TH_QUOTED];
    const th_shape *shape = &stored->tensor.shape;
    if (!th_stored_type_fits(stored->type, t->dtype))
        return refuse_type(file->ctx, stored, operation, th_dtype_name(t->dtype));
    if (!th_stored_shape_fits(stored->type, shape, t->dtype, t->ndim, t->size))
        return th_fail(file->ctx, TH_ERROR_SHAPE, operation, "%.300s: tensor \"%s\" is %s, not %s", stored->file->path,
                       th_quote(name, quoted), TH_SIZES_TEXT(shape->ndim, shape->size),
                       TH_SIZES_TEXT(t->ndim, t->size));
    th_status status = th_check_writable(t, operation);
    if (status == TH_OK)
        status = th_stored_read(stored, t, operation);
    th_storage_changed(t->storage);
    return status;
}
