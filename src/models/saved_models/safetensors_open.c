/* Opens safetensors, one file or the files of an index, as one table of tensors. An index is JSON,
 *     {"metadata": {...}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
 * Other tensors of its files are ignored. The files must be in the same folder as the index. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/files/json.h"
#include "models/saved_models/safetensors.h"

static const char operation[] = "safetensors_open";

/* -- closing -- */

static void release(th_context *ctx, void *object)
{
    th_safetensors *f = object;
    for (int64_t i = 0; i < f->n_files; i++)
        th_safetensors_file_close(ctx, &f->file[i]);
    th_release(ctx, f->file, (size_t)f->file_capacity * sizeof *f->file);
    th_release(ctx, f->in_order, ((size_t)f->count + 1) * sizeof *f->in_order);
    th_release(ctx, f->by_name, ((size_t)f->count + 1) * sizeof *f->by_name);
    th_release(ctx, f, sizeof *f);
}

void th_safetensors_close(th_safetensors *file)
{
    if (file == NULL)
        return;
    th_context *ctx = file->ctx;
    th_detach_object(ctx, file);
    release(ctx, file);
}

/* Allocates the tables. */
static bool make_tables(th_safetensors *f, int64_t count)
{
    const size_t bytes = ((size_t)count + 1) * sizeof *f->in_order;
    f->count = count;
    f->in_order = th_allocate(f->ctx, bytes);
    f->by_name = th_allocate(f->ctx, bytes);
    if (f->in_order && f->by_name)
        return true;
    th_fail_memory(f->ctx, operation, bytes);
    return false;
}

/* Returns the file at path, and opens it if necessary. Returns NULL with the error pending. */
static th_safetensors_file *file_at(th_safetensors *f, const char *path)
{
    for (int64_t i = f->n_files - 1; i >= 0; i--)
        if (strcmp(f->file[i].path, path) == 0)
            return &f->file[i];
    if (f->n_files == f->file_capacity) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: the index names more than %lld files", path,
                (long long)f->file_capacity);
        return NULL;
    }
    th_safetensors_file *file = &f->file[f->n_files];
    if (!th_safetensors_file_open(f->ctx, operation, path, file))
        return NULL;
    f->n_files++;
    return file;
}

static bool allocate_files(th_safetensors *f, int64_t count)
{
    f->file = th_allocate(f->ctx, (size_t)count * sizeof *f->file);
    f->file_capacity = f->file ? count : 0;
    if (f->file == NULL)
        th_fail_memory(f->ctx, operation, (size_t)count * sizeof *f->file);
    return f->file != NULL;
}

/* -- one file -- */

static bool open_single(th_safetensors *f, const char *path)
{
    th_safetensors_file *file = allocate_files(f, 1) ? file_at(f, path) : NULL;
    if (file == NULL || !make_tables(f, file->count))
        return false;
    for (int64_t i = 0; i < f->count; i++) {
        f->in_order[i] = &file->entry[i];
        f->by_name[i] = file->by_name[i];
    }
    return true;
}

/* -- an index -- */

enum { MAX_FILES = 4096 };

static bool fail_index(const th_json_source *index, const char *name, const char *reason)
{
    char quoted[TH_QUOTED];
    th_fail(index->ctx, TH_ERROR_FILE, index->operation, "%.300s: \"%s\" %s", index->name, th_quote(name, quoted),
            reason);
    return false;
}

/* Whether a name has no folder: files are in the folder of the index. */
static bool is_plain_name(const char *name)
{
    return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Returns the tensor `name` of the file `file_name` in the index's folder. Returns NULL with the error pending. */
static const th_safetensors_entry *find_in_named_file(th_safetensors *f, const th_json_source *index, const char *name,
                                                      const char *file_name)
{
    char path[TH_MAX_PATH];
    const char *slash = strrchr(index->name, '/');
    const int folder = slash ? (int)(slash - index->name) + 1 : 0;
    if (!is_plain_name(file_name) ||
        snprintf(path, sizeof path, "%.*s%s", folder, index->name, file_name) >= (int)sizeof path) {
        fail_index(index, file_name, "is not the name of a file in the index's folder");
        return NULL;
    }
    const th_safetensors_file *file = file_at(f, path);
    const th_safetensors_entry *entry = file ? th_safetensors_search(file->by_name, file->count, name) : NULL;
    if (file && entry == NULL)
        fail_index(index, name, "is not in the file that the index names for it");
    return entry;
}

static bool read_index(th_safetensors *f, const th_json_source *index, const json_t *object)
{
    json_t *map = json_object_get(object, "weight_map"), *file;
    const char *name;
    if (map == NULL)
        return fail_index(index, "weight_map", "is missing");
    if (!json_is_object(map))
        return fail_index(index, "weight_map", "is not an object");
    const int64_t count = (int64_t)json_object_size(map);
    if (!allocate_files(f, count < MAX_FILES ? count + 1 : MAX_FILES) || !make_tables(f, count))
        return false;
    const th_safetensors_entry **entry = f->in_order;
    json_object_foreach (map, name, file) {
        if (!json_is_string(file))
            return fail_index(index, name, "has no file name in the index");
        if ((*entry++ = find_in_named_file(f, index, name, json_string_value(file))) == NULL)
            return false;
    }
    memcpy(f->by_name, f->in_order, (size_t)count * sizeof *f->by_name);
    th_safetensors_sort(f->by_name, count);
    return true;
}

static bool open_index(th_safetensors *f, const char *path)
{
    static const th_json_limits limits = {.bytes = TH_SAFETENSORS_MAX_HEADER,
                                          .depth = TH_SAFETENSORS_MAX_DEPTH,
                                          .memory = 256 << 20,
                                          .plain_key = "weight_map"};
    const th_json_source index = {f->ctx, operation, path};
    size_t memory;
    json_t *object = th_json_read_file(&index, &limits, &memory);
    const bool valid = object && read_index(f, &index, object);
    th_json_release(f->ctx, object, memory);
    return valid;
}

/* -- choosing the file -- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Finds the file to open: in a folder the single file or, without one, the index. */
static bool resolve_path(th_context *ctx, const char *path, char chosen[TH_MAX_PATH])
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    struct stat status;
    int exists = th_path_exists(path, &status);
    const bool folder = exists > 0 && S_ISDIR(status.st_mode);
    bool fits = folder || snprintf(chosen, TH_MAX_PATH, "%s", path) < TH_MAX_PATH;
    bool found = !folder;
    for (int i = 0; i < 2 && fits && !found && exists >= 0; i++) {
        fits = th_path_join(chosen, path, names[i]);
        exists = fits ? th_path_exists(chosen, &status) : 0;
        found = exists > 0;
    }
    if (exists < 0)
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
    else if (!fits)
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(ENAMETOOLONG));
    else if (!found)
        th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: this folder contains neither %s nor %s", path, names[0],
                names[1]);
    return exists >= 0 && fits && found;
}

th_safetensors *th_safetensors_open(th_context *ctx, const char *path)
{
    char chosen[TH_MAX_PATH];
    if (!th_usable_context(ctx, operation))
        return NULL;
    if (path == NULL) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the path is NULL");
        return NULL;
    }
    if (!resolve_path(ctx, path, chosen))
        return NULL;
    th_safetensors *f = th_allocate(ctx, sizeof *f);
    if (f == NULL) {
        th_fail_memory(ctx, operation, sizeof *f);
        return NULL;
    }
    *f = (th_safetensors){.ctx = ctx};
    bool opened = ends_with(chosen, ".index.json") ? open_index(f, chosen) : open_single(f, chosen);
    if (opened && !th_attach_object(ctx, f, release)) {
        th_fail_memory(ctx, operation, sizeof(th_attachment));
        opened = false;
    }
    if (opened)
        return f;
    release(ctx, f);
    return NULL;
}

/* -- queries -- */

int64_t th_safetensors_count(const th_safetensors *file)
{
    return file ? file->count : 0;
}

const th_stored_tensor *th_safetensors_at(const th_safetensors *file, int64_t index)
{
    return file && index >= 0 && index < file->count ? &file->in_order[index]->tensor : NULL;
}

const th_stored_tensor *th_safetensors_find(const th_safetensors *file, const char *name)
{
    const th_safetensors_entry *entry = file && name ? th_safetensors_search(file->by_name, file->count, name) : NULL;
    return entry ? &entry->tensor : NULL;
}

const char *th_safetensors_metadata(const th_safetensors *file, const char *key)
{
    if (file == NULL || key == NULL || file->n_files == 0)
        return NULL;
    const th_safetensors_file *first = &file->file[0];
    for (int64_t i = 0; i < first->n_metadata; i++)
        if (strcmp(first->metadata[i].name, key) == 0)
            return first->metadata[i].text;
    return NULL;
}
