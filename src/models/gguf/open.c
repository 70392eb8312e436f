/* Opens GGUF files: reads the header into memory and checks it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/mapping.h"
#include "models/gguf/file.h"
#include "models/gguf/folder.h"

static bool fail_memory(const th_gguf *file, size_t bytes)
{
    (void)th_fail_memory(file->ctx, file->operation, bytes);
    return false;
}

/* -- the header as bytes that arrive in pieces -- */

typedef struct cursor {
    th_gguf *file;
    size_t filled, at;
} cursor;

static bool read_bytes(const th_gguf *file, int64_t begin, void *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = pread(file->descriptor, (char *)to + done, bytes - done, (off_t)(begin + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return th_gguf_refuse(file, "reading at byte %lld: %s", (long long)(begin + (int64_t)done),
                                  strerror(errno));
        if (got == 0)
            return th_gguf_refuse(file, "the file ends at byte %lld, but something is missing there",
                                  (long long)(begin + (int64_t)done));
        done += (size_t)got;
    }
    return true;
}

/* Gives the header more memory. Pointers into it become invalid. */
static bool grow_header(th_gguf *file, size_t filled, size_t needed)
{
    size_t capacity = file->capacity ? file->capacity : 1 << 14;
    while (capacity < needed)
        capacity *= 2;
    char *memory = th_allocate(file->ctx, capacity);
    if (memory == NULL)
        return fail_memory(file, capacity);
    if (filled > 0)
        memcpy(memory, file->header, filled);
    th_release(file->ctx, file->header, file->capacity);
    file->header = memory;
    file->capacity = capacity;
    return true;
}

/* Makes sure that the next `bytes` bytes of the header are in memory. */
static bool buffer_header(cursor *c, uint64_t bytes)
{
    th_gguf *file = c->file;
    const int64_t left = file->file_bytes - (int64_t)c->at;
    if (bytes > (uint64_t)left)
        return th_gguf_refuse(file, "the file is truncated: it has %lld bytes, and the header continues at byte %zu",
                              (long long)file->file_bytes, c->at);
    const size_t end = c->at + (size_t)bytes;
    if (end <= c->filled)
        return true;
    if (end > TH_GGUF_MAX_HEADER)
        return th_gguf_refuse(file, "the header has more than %d bytes", TH_GGUF_MAX_HEADER);
    if (end > file->capacity && !grow_header(file, c->filled, end))
        return false;
    const size_t rest = (size_t)(file->file_bytes - (int64_t)c->filled), room = file->capacity - c->filled;
    const size_t added = rest < room ? rest : room;
    if (!read_bytes(file, (int64_t)c->filled, file->header + c->filled, added))
        return false;
    c->filled += added;
    return true;
}

static bool parse_uint32(cursor *c, uint32_t *value)
{
    if (!buffer_header(c, sizeof *value))
        return false;
    memcpy(value, c->file->header + c->at, sizeof *value);
    c->at += sizeof *value;
    return true;
}

static bool parse_uint64(cursor *c, uint64_t *value)
{
    if (!buffer_header(c, sizeof *value))
        return false;
    memcpy(value, c->file->header + c->at, sizeof *value);
    c->at += sizeof *value;
    return true;
}

/* Parses a name or key. Its bytes move one byte to the front, so that a NUL follows them. Sets *begin to their offset. */
static bool parse_name(cursor *c, const char *what, uint64_t limit, size_t *begin)
{
    uint64_t bytes;
    if (!parse_uint64(c, &bytes))
        return false;
    if (bytes == 0 || bytes > limit)
        return th_gguf_refuse(c->file, "a %s has %llu bytes; 1 to %llu are allowed", what, (unsigned long long)bytes,
                              (unsigned long long)limit);
    if (!buffer_header(c, bytes))
        return false;
    char *text = c->file->header + c->at;
    if (memchr(text, 0, (size_t)bytes))
        return th_gguf_refuse(c->file, "a %s has a NUL character", what);
    memmove(text - 1, text, (size_t)bytes);
    text[bytes - 1] = '\0';
    *begin = c->at - 1;
    c->at += (size_t)bytes;
    return true;
}

/* -- values -- */

static size_t kind_bytes(th_gguf_kind kind)
{
    static const uint8_t bytes[TH_GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[kind];
}

static bool parse_kind(cursor *c, const char *key, th_gguf_kind *kind)
{
    uint32_t code;
    char quoted[TH_QUOTED];
    if (!parse_uint32(c, &code))
        return false;
    if (code >= TH_GGUF_KINDS)
        return th_gguf_refuse(c->file, "\"%s\" has an unknown type %u", th_quote(key, quoted), (unsigned)code);
    *kind = (th_gguf_kind)code;
    return true;
}

static bool skip_bytes(cursor *c, uint64_t bytes)
{
    if (!buffer_header(c, bytes))
        return false;
    c->at += (size_t)bytes;
    return true;
}

/* Skips an array, and checks the strings in it. */
static bool skip_items(cursor *c, const th_gguf_value *v)
{
    const size_t item_bytes = kind_bytes(v->item);
    if (v->count > TH_GGUF_MAX_HEADER)
        return th_gguf_refuse(c->file, "an array has %llu elements, too many", (unsigned long long)v->count);
    if (v->item != TH_GGUF_STRING)
        return skip_bytes(c, v->count * item_bytes);
    for (uint64_t i = 0; i < v->count; i++) {
        uint64_t bytes;
        if (!parse_uint64(c, &bytes) || !skip_bytes(c, bytes))
            return false;
    }
    return true;
}

/* Parses a value. Its pointers are offsets until the whole header is in memory. */
static bool parse_value(cursor *c, th_gguf_value *v, size_t *key, size_t *begin)
{
    char name[TH_GGUF_MAX_KEY + 1];
    if (!parse_name(c, "key", TH_GGUF_MAX_KEY, key))
        return false;
    strcpy(name, c->file->header + *key);
    if (!parse_kind(c, name, &v->kind) || (v->kind == TH_GGUF_ARRAY && !parse_kind(c, name, &v->item)))
        return false;
    if (v->item == TH_GGUF_ARRAY)
        return th_gguf_refuse(c->file, "\"%.60s\" is an array of arrays", name);
    if ((v->kind == TH_GGUF_ARRAY || v->kind == TH_GGUF_STRING) && !parse_uint64(c, &v->count))
        return false;
    *begin = c->at;
    if (v->kind == TH_GGUF_ARRAY)
        return skip_items(c, v);
    return skip_bytes(c, v->kind == TH_GGUF_STRING ? v->count : kind_bytes(v->kind));
}

/* -- tensors -- */

/* Computes the bytes of a tensor, and checks its shape and type. */
static bool set_type_and_bytes(const th_gguf *file, th_gguf_tensor *t, const char *name, uint32_t code)
{
    char quoted[TH_QUOTED];
    int64_t numbers;
    t->type = th_gguf_type_find(code);
    if (t->type == NULL)
        return th_gguf_refuse(file, "%s has the type %u, which is not known", th_quote(name, quoted), (unsigned)code);
    if (!th_checked_numel(t->shape.ndim, t->shape.size, &numbers))
        return th_gguf_refuse(file, "%s is too large: %s", th_quote(name, quoted),
                              TH_SIZES_TEXT(t->shape.ndim, t->shape.size));
    if (t->shape.size[t->shape.ndim - 1] % t->type->numbers != 0)
        return th_gguf_refuse(file, "%s is %s, but rows of %s are multiples of %d numbers", th_quote(name, quoted),
                              TH_SIZES_TEXT(t->shape.ndim, t->shape.size), t->type->name, t->type->numbers);
    /* A number has at most 8 bytes, and th_checked_numel leaves room for them. */
    t->bytes = numbers / t->type->numbers * t->type->bytes;
    return true;
}

static bool parse_tensor(cursor *c, th_gguf_tensor *t, size_t *name)
{
    uint32_t axes, code;
    uint64_t offset;
    char text[TH_GGUF_MAX_NAME + 1], quoted[TH_QUOTED];
    if (!parse_name(c, "name of a tensor", TH_GGUF_MAX_NAME, name))
        return false;
    strcpy(text, c->file->header + *name);
    if (!parse_uint32(c, &axes))
        return false;
    if (axes < 1 || axes > 4)
        return th_gguf_refuse(c->file, "%s has %u axes; 1 to 4 are allowed", th_quote(text, quoted), (unsigned)axes);
    t->shape.ndim = (int)axes;
    for (uint32_t i = 0; i < axes; i++) {
        uint64_t size;
        if (!parse_uint64(c, &size))
            return false;
        if (size > INT64_MAX / 8)
            return th_gguf_refuse(c->file, "%s is too large", th_quote(text, quoted));
        t->shape.size[axes - 1 - i] = (int64_t)size;
    }
    if (!parse_uint32(c, &code) || !parse_uint64(c, &offset) || !set_type_and_bytes(c->file, t, text, code))
        return false;
    if (offset > (uint64_t)c->file->file_bytes)
        return th_gguf_refuse(c->file, "%s begins at byte %llu of the elements, but the file has only %lld bytes",
                              th_quote(text, quoted), (unsigned long long)offset, (long long)c->file->file_bytes);
    t->begin = (int64_t)offset; /* place_tensors adds where the elements begin */
    return true;
}

/* -- all of it -- */

static bool parse_counts(cursor *c)
{
    th_gguf *file = c->file;
    uint32_t magic, version;
    uint64_t tensors, values;
    if (file->file_bytes < 24)
        return th_gguf_refuse(file, "it is not a GGUF file: it has %lld bytes", (long long)file->file_bytes);
    if (!parse_uint32(c, &magic) || !parse_uint32(c, &version))
        return false;
    if (magic != 0x46554747)
        return th_gguf_refuse(file, "it is not a GGUF file: it does not begin with \"GGUF\"");
    if (version >> 16 && (version & 0xffff) == 0)
        return th_gguf_refuse(file, "its numbers are big-endian, which is not supported");
    if (version != 2 && version != 3)
        return th_gguf_refuse(file, "it has version %u of GGUF; 2 and 3 are supported", (unsigned)version);
    if (!parse_uint64(c, &tensors) || !parse_uint64(c, &values))
        return false;
    if (tensors > TH_GGUF_MAX_TENSORS || values > TH_GGUF_MAX_VALUES)
        return th_gguf_refuse(file, "it has %llu tensors and %llu values; at most %d and %d are allowed",
                              (unsigned long long)tensors, (unsigned long long)values, TH_GGUF_MAX_TENSORS,
                              TH_GGUF_MAX_VALUES);
    /* a tensor takes at least 33 bytes, a value 14: a small file cannot ask for large tables */
    if (tensors > (uint64_t)file->file_bytes / 33 || values > (uint64_t)file->file_bytes / 14)
        return th_gguf_refuse(file,
                              "the file is truncated: it has %lld bytes, too few for %llu tensors and %llu values",
                              (long long)file->file_bytes, (unsigned long long)tensors, (unsigned long long)values);
    file->n_tensors = (int64_t)tensors;
    file->n_values = (int64_t)values;
    return true;
}

static bool make_tables(th_gguf *file)
{
    file->value_bytes = ((size_t)file->n_values + 1) * sizeof *file->value;
    file->tensor_bytes = ((size_t)file->n_tensors + 1) * sizeof *file->tensor;
    file->value = th_allocate(file->ctx, file->value_bytes);
    file->tensor = th_allocate(file->ctx, file->tensor_bytes);
    if (file->value == NULL || file->tensor == NULL)
        return fail_memory(file, file->value_bytes + file->tensor_bytes);
    memset(file->value, 0, file->value_bytes);
    memset(file->tensor, 0, file->tensor_bytes);
    return true;
}

/* Keeps an offset in a pointer until the header no longer moves. */
static const char *as_pointer(size_t offset)
{
    return (const char *)(uintptr_t)offset;
}

static const char *resolve_offset(const th_gguf *file, const char *offset)
{
    return file->header + (uintptr_t)offset;
}

static bool parse_header(cursor *c)
{
    th_gguf *file = c->file;
    size_t name, begin;
    if (!parse_counts(c) || !make_tables(file))
        return false;
    for (int64_t i = 0; i < file->n_values; i++) {
        if (!parse_value(c, &file->value[i], &name, &begin))
            return false;
        file->value[i].key = as_pointer(name);
        file->value[i].bytes = as_pointer(begin);
    }
    for (int64_t i = 0; i < file->n_tensors; i++) {
        if (!parse_tensor(c, &file->tensor[i], &name))
            return false;
        file->tensor[i].name = as_pointer(name);
    }
    for (int64_t i = 0; i < file->n_values; i++) {
        file->value[i].key = resolve_offset(file, file->value[i].key);
        file->value[i].bytes = resolve_offset(file, file->value[i].bytes);
    }
    for (int64_t i = 0; i < file->n_tensors; i++)
        file->tensor[i].name = resolve_offset(file, file->tensor[i].name);
    return true;
}

/* -- checks of the whole header -- */

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const th_gguf_value *)a)->key, ((const th_gguf_value *)b)->key);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const th_gguf_tensor *)a)->name, ((const th_gguf_tensor *)b)->name);
}

static int compare_places(const void *a, const void *b)
{
    const th_gguf_tensor *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool sort_values(th_gguf *file)
{
    char quoted[TH_QUOTED];
    qsort(file->value, (size_t)file->n_values, sizeof *file->value, compare_keys);
    for (int64_t i = 1; i < file->n_values; i++)
        if (compare_keys(&file->value[i - 1], &file->value[i]) == 0)
            return th_gguf_refuse(file, "the key \"%s\" occurs twice", th_quote(file->value[i].key, quoted));
    return true;
}

/* Checks that each tensor begins at a multiple of the alignment, inside the file and behind the one before it. */
static bool place_tensors(th_gguf *file, size_t header_end)
{
    char quoted[TH_QUOTED];
    int64_t alignment = 32;
    if (!th_gguf_integer(file, "general.alignment", 1, TH_GGUF_MAX_ALIGNMENT, &alignment))
        return false;
    if ((alignment & (alignment - 1)) != 0)
        return th_gguf_refuse(file, "general.alignment is %lld, which is not a power of two", (long long)alignment);
    const int64_t start = ((int64_t)header_end + alignment - 1) / alignment * alignment;
    qsort(file->tensor, (size_t)file->n_tensors, sizeof *file->tensor, compare_places);
    int64_t end = start;
    for (int64_t i = 0; i < file->n_tensors; i++) {
        th_gguf_tensor *t = &file->tensor[i];
        th_quote(t->name, quoted);
        if (t->begin % alignment != 0)
            return th_gguf_refuse(file, "%s begins at byte %lld of the elements, which is not a multiple of %lld",
                                  quoted, (long long)t->begin, (long long)alignment);
        t->begin += start;
        if (t->begin < end)
            return th_gguf_refuse(file, "%s overlaps the tensor before it", quoted);
        if (t->bytes > file->file_bytes - t->begin)
            return th_gguf_refuse(file, "the file is truncated: it has %lld bytes, and %s needs %lld from byte %lld on",
                                  (long long)file->file_bytes, quoted, (long long)t->bytes, (long long)t->begin);
        end = t->begin + t->bytes;
    }
    qsort(file->tensor, (size_t)file->n_tensors, sizeof *file->tensor, compare_names);
    for (int64_t i = 1; i < file->n_tensors; i++)
        if (compare_names(&file->tensor[i - 1], &file->tensor[i]) == 0)
            return th_gguf_refuse(file, "the tensor %s occurs twice", th_quote(file->tensor[i].name, quoted));
    return true;
}

static bool open_header(th_gguf *file, size_t filled)
{
    cursor c = {.file = file, .filled = filled};
    if (parse_header(&c) && sort_values(file) && place_tensors(file, c.at))
        return true;
    th_gguf_close(file);
    return false;
}

bool th_gguf_open(th_gguf *file, th_context *ctx, const char *operation, const char *path)
{
    const char *reason;
    *file = (th_gguf){.ctx = ctx, .operation = operation, .path = path ? path : "", .descriptor = -1};
    if (path == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
        return false;
    }
    file->descriptor = th_regular_descriptor(path, &file->file_bytes, &reason);
    if (file->descriptor < 0)
        return th_gguf_refuse(file, "%s", reason);
    return open_header(file, 0);
}

bool th_gguf_open_bytes(th_gguf *file, th_context *ctx, const char *operation, const char *path, const void *bytes,
                        size_t count)
{
    *file = (th_gguf){.ctx = ctx, .operation = operation, .path = path, .descriptor = -1};
    file->file_bytes = (int64_t)count;
    if (!grow_header(file, 0, count))
        return false;
    memcpy(file->header, bytes, count);
    return open_header(file, count);
}

void th_gguf_close(th_gguf *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    th_release(file->ctx, file->header, file->capacity);
    th_release(file->ctx, file->value, file->value_bytes);
    th_release(file->ctx, file->tensor, file->tensor_bytes);
    file->descriptor = -1;
    file->header = NULL;
    file->value = NULL;
    file->tensor = NULL;
    file->n_values = file->n_tensors = 0;
}

th_status th_gguf_read(const th_gguf *file, const th_gguf_tensor *tensor, void *to)
{
    const th_file_part part = {file->descriptor, tensor->begin, (size_t)tensor->bytes};
    if (th_part_read(file->ctx, &part, to) || read_bytes(file, part.begin, to, part.bytes)) /* which finds the reason */
        return TH_OK;
    return th_error_code(file->ctx);
}

bool th_gguf_is_file(const char *path)
{
    struct stat status;
    const char *problem;
    int64_t bytes;
    char magic[4];
    if (path == NULL || stat(path, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    FILE *file = th_regular_open(path, &bytes, &problem);
    const bool found = file && fread(magic, 1, sizeof magic, file) == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    if (file)
        fclose(file);
    return found;
}
