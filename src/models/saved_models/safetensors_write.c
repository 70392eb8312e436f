/* Writes safetensors files: the header first, from shapes alone, then the elements from the tensors' memory. */
#include "models/saved_models/safetensors_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/files/json.h"
#include "models/saved_models/safetensors.h"

static th_status fail(const th_safetensors_contents *s, const char *reason)
{
    return th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: %s", s->path, reason);
}

static th_status fail_name(const th_safetensors_contents *s, const char *name, const char *reason)
{
    char quoted[TH_QUOTED];
    return th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "tensor \"%s\" %s", th_quote(name ? name : "NULL", quoted),
                   reason);
}

/* Blocks begin with two bytes. */
static size_t alignment_of(th_dtype dtype)
{
    return th_dtype_numbers(dtype) > 1 ? 2 : th_dtype_size(dtype);
}

/* Sorts by the length of the elements, the longest first. Tensors of equal length keep the caller's order: the earlier
 * one has the lower address in the array. */
void th_safetensors_sort_items(th_safetensors_item *tensor, int64_t count)
{
    int64_t placed = 0;
    for (size_t element = 8; element > 0; element /= 2)
        for (int64_t i = placed; i < count; i++)
            if (alignment_of(tensor[i].array.dtype) == element) {
                const th_safetensors_item next = tensor[i];
                memmove(&tensor[placed + 1], &tensor[placed], (size_t)(i - placed) * sizeof next);
                tensor[placed++] = next;
            }
}

/* -- the header -- */

/* Returns the header's entry of a tensor, whose last size in the file is `last`. NULL if out of memory. */
static json_t *make_entry(const char *type, int ndim, const int64_t *size, int64_t last, int64_t begin, int64_t end)
{
    json_t *entry = json_object(), *shape = json_array(), *offsets = json_array();
    bool made = entry && shape && offsets;
    for (int i = 0; made && i < ndim; i++)
        made = json_array_append_new(shape, json_integer(i == ndim - 1 ? last : size[i])) == 0;
    made = made && json_array_append_new(offsets, json_integer(begin)) == 0 &&
           json_array_append_new(offsets, json_integer(end)) == 0;
    if (made && th_json_add(entry, "dtype", json_string(type)) && json_object_set(entry, "shape", shape) == 0 &&
        json_object_set(entry, "data_offsets", offsets) == 0) {
        json_decref(shape);
        json_decref(offsets);
        return entry;
    }
    json_decref(entry);
    json_decref(shape);
    json_decref(offsets);
    return NULL;
}

static th_status add_tensor(const th_safetensors_contents *s, json_t *header, const char *name, json_t *entry)
{
    if (entry == NULL)
        return th_fail_memory(s->ctx, s->operation, sizeof(json_t));
    const bool taken = json_object_get(header, name) != NULL;
    if (!taken && th_json_add(header, name, json_incref(entry))) {
        json_decref(entry);
        return TH_OK;
    }
    json_decref(entry);
    if (!taken && th_is_utf8(name))
        return th_fail_memory(s->ctx, s->operation, strlen(name));
    return fail_name(s, name, taken ? "is given twice" : "has a name that is not UTF-8");
}

static bool is_allowed(const json_t *texts, const th_named_text *t)
{
    return t->name && t->text && th_is_utf8(t->name) && th_is_utf8(t->text) && !json_object_get(texts, t->name);
}

static th_status add_metadata(const th_safetensors_contents *s, json_t *header)
{
    json_t *texts = json_object();
    bool made = texts != NULL;
    for (int64_t i = 0; made && i < s->n_metadata; i++) {
        if (!is_allowed(texts, &s->metadata[i])) {
            json_decref(texts);
            return th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation,
                           "text %lld of the metadata is NULL, not UTF-8, or its name is given twice", (long long)i);
        }
        made = th_json_add(texts, s->metadata[i].name, json_string(s->metadata[i].text));
    }
    if (made && th_json_add(header, "__metadata__", json_incref(texts))) {
        json_decref(texts);
        return TH_OK;
    }
    json_decref(texts);
    return th_fail_memory(s->ctx, s->operation, sizeof(json_t));
}

/* Fills the header, except its length. */
static th_status fill_header(const th_safetensors_contents *s, json_t *header)
{
    th_status status = s->n_metadata > 0 ? add_metadata(s, header) : TH_OK;
    int64_t end = 0;
    for (int64_t i = 0; status == TH_OK && i < s->count; i++) {
        const th_array *a = &s->tensor[i].array;
        int64_t numel = 0, bytes = 0;
        const int64_t begin = end;
        if (s->tensor[i].name == NULL || strcmp(s->tensor[i].name, "__metadata__") == 0)
            return fail_name(s, s->tensor[i].name, "has a name that is not allowed");
        if (!th_checked_numel(a->ndim, a->size, &numel) ||
            !th_checked_multiply(numel, (int64_t)th_dtype_size(a->dtype), &bytes) ||
            !th_checked_add(begin, bytes, &end))
            return fail(s, "the size in bytes overflows");
        const int64_t last = a->ndim > 0 ? th_safetensors_last_size(a->dtype, a->size[a->ndim - 1]) : 1;
        status = add_tensor(s, header, s->tensor[i].name,
                            make_entry(th_safetensors_type_of(a->dtype)->name, a->ndim, a->size, last, begin, end));
    }
    if (status != TH_OK || s->checksums == NULL)
        return status;
    const int64_t sums = s->count + 1;
    return add_tensor(s, header, s->checksums, make_entry("U32", 1, &sums, sums, end, end + sums * 4));
}

/* Formats length and header in one block of memory, padded to a multiple of 8 bytes. */
static th_status format_members(const th_safetensors_contents *s, const json_t *header, char **memory, size_t *bytes)
{
    const size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT);
    if (length == 0) /* even an empty header has two bytes */
        return th_fail_memory(s->ctx, s->operation, sizeof(json_t));
    if (length > TH_SAFETENSORS_MAX_HEADER)
        return fail(s, "its header would be longer than 16 MiB");
    const size_t padded = (length + 7) / 8 * 8;
    const uint64_t stored_length = padded;
    *bytes = 8 + padded;
    *memory = th_allocate(s->ctx, *bytes);
    if (*memory == NULL)
        return th_fail_memory(s->ctx, s->operation, *bytes);
    memset(*memory, ' ', *bytes);
    memcpy(*memory, &stored_length, sizeof stored_length);
    if (json_dumpb(header, *memory + 8, length, JSON_COMPACT) == length)
        return TH_OK;
    th_release(s->ctx, *memory, *bytes);
    *memory = NULL;
    return th_fail_memory(s->ctx, s->operation, length);
}

static th_status format_header(const th_safetensors_contents *s, char **memory, size_t *bytes)
{
    json_t *header = json_object();
    th_status status = header ? fill_header(s, header) : th_fail_memory(s->ctx, s->operation, sizeof(json_t));
    *memory = NULL;
    *bytes = 0;
    if (status == TH_OK)
        status = format_members(s, header, memory, bytes);
    json_decref(header);
    return status;
}

/* -- the file -- */

/* Keeps the reason of a write that failed. */
static void note_write(th_safetensors_writer *f, bool written)
{
    if (!written)
        f->error_number = errno ? errno : EIO;
}

static void release(const th_safetensors_writer *f)
{
    const th_safetensors_contents *s = f->contents;
    th_release(s->ctx, f->sums, ((size_t)s->count + 1) * sizeof *f->sums);
    th_release(s->ctx, f->header, f->header_bytes);
}

/* Allocates the checksums. */
static th_status reserve_sums(th_safetensors_writer *f)
{
    const th_safetensors_contents *s = f->contents;
    const size_t bytes = ((size_t)s->count + 1) * sizeof *f->sums;
    if (s->checksums == NULL)
        return TH_OK;
    f->sums = th_allocate(s->ctx, bytes);
    if (f->sums == NULL)
        return th_fail_memory(s->ctx, s->operation, bytes);
    memset(f->sums, 0, bytes);
    f->sums[s->count] = th_crc32c(0, f->header, f->header_bytes);
    return TH_OK;
}

th_status th_safetensors_writer_begin(th_safetensors_writer *f, const th_safetensors_contents *s)
{
    f->contents = s;
    f->sums = NULL;
    f->next = 0;
    f->error_number = 0;
    th_safetensors_sort_items(s->tensor, s->count);
    th_status status = format_header(s, &f->header, &f->header_bytes);
    if (status == TH_OK)
        status = reserve_sums(f);
    if (status == TH_OK && !th_atomic_begin(&f->file, s->path))
        status = fail(s, strerror(errno));
    if (status != TH_OK) {
        release(f);
        return status;
    }
    errno = 0;
    note_write(f, fwrite(f->header, 1, f->header_bytes, f->file.file) == f->header_bytes);
    return TH_OK;
}

void th_safetensors_writer_next(th_safetensors_writer *f, const th_array *elements)
{
    uint32_t *sum = f->sums ? &f->sums[f->next] : NULL;
    f->next++;
    errno = 0;
    if (f->error_number == 0)
        note_write(f, th_write_elements(elements, f->file.file, sum));
}

th_status th_safetensors_writer_finish(th_safetensors_writer *f, th_status status)
{
    const th_safetensors_contents *s = f->contents;
    const size_t sums = (size_t)s->count + 1;
    errno = 0;
    if (status == TH_OK && f->error_number == 0 && f->sums)
        note_write(f, fwrite(f->sums, sizeof *f->sums, sums, f->file.file) == sums);
    errno = f->error_number;
    if (!th_atomic_finish(&f->file, status == TH_OK && f->error_number == 0) && status == TH_OK)
        status = fail(s, strerror(errno));
    release(f);
    return status;
}

th_status th_safetensors_writer_publish(th_safetensors_writer *f)
{
    return th_atomic_publish(&f->file) ? TH_OK : fail(f->contents, strerror(errno));
}

th_status th_safetensors_writer_end(th_safetensors_writer *f, th_status status)
{
    status = th_safetensors_writer_finish(f, status);
    return status == TH_OK ? th_safetensors_writer_publish(f) : status;
}

th_status th_safetensors_writer_prepare(th_safetensors_writer *f, const th_safetensors_contents *s)
{
    const th_status status = th_safetensors_writer_begin(f, s);
    if (status != TH_OK)
        return status;
    for (int64_t i = 0; i < s->count; i++)
        th_safetensors_writer_next(f, &s->tensor[i].array);
    return th_safetensors_writer_finish(f, TH_OK);
}

th_status th_safetensors_write_contents(const th_safetensors_contents *s)
{
    th_safetensors_writer file;
    const th_status status = th_safetensors_writer_prepare(&file, s);
    return status == TH_OK ? th_safetensors_writer_publish(&file) : status;
}

/* -- tensors by their names -- */

static th_status make_item(th_context *ctx, const char *operation, const th_named_tensor *from, th_safetensors_item *to)
{
    const th_tensor_impl *t = th_usable_tensor(from->tensor, ctx, operation, "a tensor");
    if (t == NULL)
        return th_pending_status(from->tensor);
    if (th_tensor_data(t) == NULL && th_tensor_numel(t) > 0)
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    *to = (th_safetensors_item){.name = from->name, .array = th_tensor_array(t)};
    return TH_OK;
}

th_safetensors_item *th_safetensors_list_items(th_context *ctx, const char *operation, const th_named_tensor *tensors,
                                               int64_t count, size_t *bytes)
{
    *bytes = ((size_t)count + 1) * sizeof(th_safetensors_item);
    th_safetensors_item *list = th_allocate(ctx, *bytes);
    if (list == NULL)
        th_fail_memory(ctx, operation, *bytes);
    th_status status = TH_OK;
    for (int64_t i = 0; list && status == TH_OK && i < count; i++)
        status = make_item(ctx, operation, &tensors[i], &list[i]);
    if (status == TH_OK)
        return list;
    th_release(ctx, list, *bytes);
    return NULL;
}

/* -- public functions -- */

th_status th_safetensors_write(th_context *ctx, const char *path, const th_named_tensor *tensors, int64_t count,
                               const th_named_text *metadata, int64_t n_metadata)
{
    static const char operation[] = "safetensors_write";
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (path == NULL || count < 0 || n_metadata < 0 || (count > 0 && tensors == NULL) ||
        (n_metadata > 0 && metadata == NULL) || count > INT64_MAX / (int64_t)sizeof(th_safetensors_item))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path or a list is NULL, or a count is negative");
    size_t bytes;
    th_safetensors_item *list = th_safetensors_list_items(ctx, operation, tensors, count, &bytes);
    if (list == NULL)
        return th_failed(ctx) ? th_error_code(ctx) : TH_ERROR_ARGUMENT;
    const th_status status = th_safetensors_write_contents(
        &(th_safetensors_contents){ctx, operation, path, list, count, metadata, n_metadata, NULL});
    th_release(ctx, list, bytes);
    return status;
}
