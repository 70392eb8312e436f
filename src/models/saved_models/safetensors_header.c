/* Verifies a safetensors file: eight bytes with the header's length, the header, the elements. The header is JSON,
 *     {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 * All of it is checked here, so that the other files need not check shapes, sizes and offsets. Tensors are built one
 * at a time: only the table and the metadata take memory, not the whole JSON. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/saved_models/safetensors.h"

enum { MAX_DESCRIPTION = 4096 }; /* bytes of a tensor's JSON, including spaces; ten times the longest that is useful */

static const char metadata_key[] = "\"__metadata__\"";

/* A file that is being opened. */
typedef struct opening {
    th_json_source source; /* the name is the path */
    th_safetensors_file *file;
    char *text; /* the header */
    size_t text_bytes;
    json_t *metadata; /* NULL: none */
    int64_t data_bytes;
    char *names; /* the next name or text is written here */
} opening;

static bool fail(const opening *o, const char *reason)
{
    th_fail(o->source.ctx, TH_ERROR_FILE, o->source.operation, "%.300s: %s", o->source.name, reason);
    return false;
}

/* -- one member -- */

static bool fail_entry(const opening *o, const th_safetensors_entry *entry, const char *format, ...) TH_FORMAT(3, 4);
static bool fail_entry(const opening *o, const th_safetensors_entry *entry, const char *format, ...)
{
    char reason[256], quoted[TH_QUOTED];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    th_fail(o->source.ctx, TH_ERROR_FILE, o->source.operation, "%.300s: tensor \"%s\": %s", o->source.name,
            th_quote(entry->tensor.name, quoted), reason);
    return false;
}

/* Copies a string after the strings copied before. Returns the copy. */
static const char *copy_string(opening *o, const json_t *string)
{
    char *copy = memcpy(o->names, json_string_value(string), json_string_length(string) + 1);
    o->names += json_string_length(string) + 1;
    return copy;
}

static bool read_shape(const opening *o, th_safetensors_entry *entry, const json_t *shape)
{
    th_stored_tensor *t = &entry->tensor;
    if (!json_is_array(shape))
        return fail_entry(o, entry, "its shape is not a list");
    if (json_array_size(shape) > TH_MAX_DIMS)
        return fail_entry(o, entry, "it has %zu dimensions, more than %d", json_array_size(shape), TH_MAX_DIMS);
    t->shape.ndim = (int)json_array_size(shape);
    for (int i = 0; i < t->shape.ndim; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return fail_entry(o, entry, "a size in its shape is not a non-negative integer");
        t->shape.size[i] = json_integer_value(size);
    }
    return true;
}

static bool read_offsets(const opening *o, th_safetensors_entry *entry, const json_t *offsets)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return fail_entry(o, entry, "its data_offsets are not two integers");
    entry->begin = json_integer_value(begin);
    const int64_t last = json_integer_value(end);
    if (entry->begin < 0 || last < entry->begin || last > o->data_bytes)
        return fail_entry(o, entry, "its data_offsets %lld to %lld are outside the %lld bytes that follow the header",
                          (long long)entry->begin, (long long)last, (long long)o->data_bytes);
    entry->tensor.bytes = last - entry->begin;
    return true;
}

/* Checks that the length follows from shape and type. */
static bool check_length(const opening *o, const th_safetensors_entry *entry)
{
    int64_t numel, bits;
    if (!th_checked_numel(entry->tensor.shape.ndim, entry->tensor.shape.size, &numel) ||
        !th_checked_multiply(numel, entry->type->bits, &bits))
        return fail_entry(o, entry, "the size of its shape in bytes overflows");
    if (bits % 8 != 0 || bits / 8 != entry->tensor.bytes)
        return fail_entry(o, entry, "its shape takes %lld bits of %s, but its data_offsets span %lld bytes",
                          (long long)bits, entry->type->name, (long long)entry->tensor.bytes);
    return true;
}

static bool read_entry(opening *o, const th_json_iterator *member, th_safetensors_entry *entry)
{
    json_t *name = th_json_build(&o->source, member->key, member->key_bytes);
    if (name == NULL)
        return false;
    entry->tensor.name = copy_string(o, name);
    json_decref(name);
    if (strcmp(entry->tensor.name, "__metadata__") == 0)
        return fail(o, "its \"__metadata__\" contains escapes");
    if (member->value_bytes > MAX_DESCRIPTION)
        return fail_entry(o, entry, "its description takes %zu bytes, more than %d", member->value_bytes,
                          MAX_DESCRIPTION);
    json_t *value = th_json_build(&o->source, member->value, member->value_bytes);
    if (value == NULL)
        return false;
    const char *type = json_string_value(json_object_get(value, "dtype"));
    const json_t *shape = json_object_get(value, "shape"), *offsets = json_object_get(value, "data_offsets");
    char quoted[TH_QUOTED];
    bool valid = false;
    if (type == NULL || shape == NULL || offsets == NULL || json_object_size(value) != 3)
        fail_entry(o, entry, "it must have dtype, shape, data_offsets, and nothing else");
    else if ((entry->type = th_safetensors_type_find(type)) == NULL)
        fail_entry(o, entry, "unknown type \"%s\"", th_quote(type, quoted));
    else
        valid = read_shape(o, entry, shape) && read_offsets(o, entry, offsets) && check_length(o, entry);
    json_decref(value);
    if (!valid)
        return false;
    entry->file = o->file;
    entry->tensor.type = entry->type->name;
    entry->tensor.readable = entry->type->readable;
    entry->tensor.dtype = entry->type->dtype;
    return true;
}

static bool is_metadata(const th_json_iterator *member)
{
    return member->key_bytes == sizeof metadata_key - 1 && memcmp(member->key, metadata_key, member->key_bytes) == 0;
}

static bool read_metadata(opening *o)
{
    th_named_text *pair = o->file->metadata;
    const char *key;
    json_t *value;
    json_object_foreach (o->metadata, key, value) {
        if (!json_is_string(value))
            return fail(o, "a value of its \"__metadata__\" is not a string");
        const size_t bytes = strlen(key) + 1;
        pair->name = memcpy(o->names, key, bytes);
        o->names += bytes;
        pair++->text = copy_string(o, value);
    }
    return true;
}

/* -- all members -- */

/* Builds the metadata, the member `it`. */
static bool build_metadata(opening *o, const th_json_source *header, const th_json_iterator *it)
{
    static const th_json_limits limits = {.bytes = TH_SAFETENSORS_MAX_HEADER, .depth = 1, .memory = 256 << 20};
    if (*it->value != '{')
        return fail(o, "its \"__metadata__\" is not an object");
    if (o->metadata)
        return fail(o, "the key \"__metadata__\" appears twice in one object");
    o->metadata = th_json_read(header, it->value, it->value_bytes, &limits);
    o->file->n_metadata = (int64_t)json_object_size(o->metadata);
    return o->metadata != NULL;
}

/* Counts the tensors and builds the metadata. */
static bool count_members(opening *o, const th_json_source *header)
{
    th_json_iterator it = th_json_iterate(header, o->text, o->text_bytes);
    while (th_json_next(&it)) {
        if (is_metadata(&it)) {
            if (!build_metadata(o, header, &it))
                return false;
        } else if (*it.value != '{') {
            return fail(o, "a tensor's description in its header is not an object");
        } else {
            o->file->count++;
        }
    }
    return !it.failed;
}

static int compare_offsets(const void *a, const void *b)
{
    const th_safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->tensor.bytes > y->tensor.bytes) - (x->tensor.bytes < y->tensor.bytes);
}

/* Checks that the tensors fill the file without gaps or overlaps. Makes the offsets relative to the file. */
static bool check_offsets(opening *o)
{
    th_safetensors_file *file = o->file;
    if (file->count > 0)
        qsort(file->entry, (size_t)file->count, sizeof *file->entry, compare_offsets);
    int64_t end = 0;
    for (int64_t i = 0; i < file->count; i++) {
        th_safetensors_entry *entry = &file->entry[i];
        if (entry->begin != end)
            return fail_entry(o, entry, "it begins at byte %lld of the data, but the previous tensor ends at %lld",
                              (long long)entry->begin, (long long)end);
        end += entry->tensor.bytes;
        entry->begin += file->header_bytes;
    }
    if (end == o->data_bytes)
        return true;
    char reason[128];
    snprintf(reason, sizeof reason, "its tensors take %lld bytes, but %lld follow the header", (long long)end,
             (long long)o->data_bytes);
    return fail(o, reason);
}

/* Two keys of the header may have the same name, perhaps with escapes. */
static bool check_names(const opening *o)
{
    const th_safetensors_file *file = o->file;
    char reason[128], quoted[TH_QUOTED];
    for (int64_t i = 1; i < file->count; i++)
        if (strcmp(file->by_name[i - 1]->tensor.name, file->by_name[i]->tensor.name) == 0) {
            snprintf(reason, sizeof reason, "the key \"%s\" appears twice in one object",
                     th_quote(file->by_name[i]->tensor.name, quoted));
            return fail(o, reason);
        }
    return true;
}

/* Makes the table, in one block of memory with all names. A decoded name is never longer than the quoted one. */
static bool make_table(opening *o)
{
    th_safetensors_file *file = o->file;
    const size_t path = strlen(o->source.name) + 1;
    const size_t entries = (size_t)file->count * sizeof *file->entry;
    const size_t metadata = (size_t)file->n_metadata * sizeof *file->metadata;
    const size_t sorted = (size_t)file->count * sizeof *file->by_name;
    file->bytes = entries + metadata + sorted + path + o->text_bytes;
    file->memory = th_allocate(o->source.ctx, file->bytes);
    if (file->memory == NULL) {
        th_fail_memory(o->source.ctx, o->source.operation, file->bytes);
        return false;
    }
    memset(file->memory, 0, entries + metadata);
    file->entry = file->memory;
    file->metadata = (th_named_text *)((char *)file->memory + entries);
    file->by_name = (const th_safetensors_entry **)((char *)file->memory + entries + metadata);
    char *const copy = (char *)file->memory + entries + metadata + sorted;
    file->path = copy;
    o->names = (char *)memcpy(copy, o->source.name, path) + path;
    th_safetensors_entry *entry = file->entry;
    for (th_json_iterator it = th_json_iterate(&o->source, o->text, o->text_bytes); th_json_next(&it);)
        if (!is_metadata(&it) && !read_entry(o, &it, entry++))
            return false;
    if (!read_metadata(o) || !check_offsets(o))
        return false;
    for (int64_t i = 0; i < file->count; i++)
        file->by_name[i] = &file->entry[i];
    th_safetensors_sort(file->by_name, file->count);
    return check_names(o);
}

/* -- the file -- */

static bool read_header(opening *o)
{
    static const th_json_limits limits = {.bytes = TH_SAFETENSORS_MAX_HEADER, .depth = TH_SAFETENSORS_MAX_DEPTH};
    if (th_safetensors_file_read(o->source.ctx, o->file, 8, o->text, o->text_bytes, o->source.operation) != TH_OK)
        return false;
    if (o->text[0] != '{')
        return fail(o, "its header does not begin with {");
    char name[400];
    snprintf(name, sizeof name, "%.300s: the header", o->source.name);
    const th_json_source header = {o->source.ctx, o->source.operation, name};
    size_t memory;
    const bool valid = th_json_measure(&header, o->text, o->text_bytes, &limits, &memory) == TH_OK &&
                       count_members(o, &header) && make_table(o);
    json_decref(o->metadata);
    return valid;
}

static bool read_file(opening *o, int64_t file_bytes)
{
    char reason[128];
    unsigned char length[8];
    if (file_bytes < 8)
        return fail(o, "it is too short for a safetensors file");
    if (th_safetensors_file_read(o->source.ctx, o->file, 0, length, sizeof length, o->source.operation) != TH_OK)
        return false;
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--)
        header = header << 8 | length[i];
    if (header > (uint64_t)file_bytes - 8 || header > TH_SAFETENSORS_MAX_HEADER || header == 0) {
        snprintf(reason, sizeof reason, "its header claims %llu bytes, but %lld follow, and at most %d are accepted",
                 (unsigned long long)header, (long long)file_bytes - 8, (int)TH_SAFETENSORS_MAX_HEADER);
        return fail(o, reason);
    }
    o->text_bytes = (size_t)header;
    o->file->header_bytes = 8 + (int64_t)header;
    o->data_bytes = file_bytes - o->file->header_bytes;
    o->text = th_allocate(o->source.ctx, o->text_bytes);
    if (o->text == NULL) {
        th_fail_memory(o->source.ctx, o->source.operation, o->text_bytes);
        return false;
    }
    const bool valid = read_header(o);
    th_release(o->source.ctx, o->text, o->text_bytes);
    return valid;
}

bool th_safetensors_file_open(th_context *ctx, const char *operation, const char *path, th_safetensors_file *file)
{
    int64_t bytes = 0;
    const char *reason = NULL;
    *file = (th_safetensors_file){.path = path, .descriptor = th_regular_descriptor(path, &bytes, &reason)};
    opening o = {.source = {ctx, operation, path}, .file = file};
    const bool valid = reason ? fail(&o, reason) : read_file(&o, bytes);
    if (!valid)
        th_safetensors_file_close(ctx, file);
    return valid;
}

void th_safetensors_file_close(th_context *ctx, th_safetensors_file *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    th_release(ctx, file->memory, file->bytes);
    *file = (th_safetensors_file){.descriptor = -1};
}
