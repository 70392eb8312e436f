/* Opening safetensors: one file, or the files that an index names, as one table of tensors. An index is JSON,
 *     {"metadata": {...}, "weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
 * and it decides: what a file has besides is not seen. Files lie beside their index, nowhere else. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/atomic_file.h"
#include "models/files/json.h"
#include "models/store/safetensors.h"

static const char operation[] = "safetensors_open";

/* -- order -- */

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

/* -- the life of an open file -- */

static void release(th_context *ctx, void *object)
{
    th_safetensors *f = object;
    for (int64_t i = 0; i < f->n_files; i++)
        th_stored_file_close(ctx, &f->file[i]);
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

/* Room for the tables. */
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

/* The file at path, opened if it is not; NULL with the error stored. */
static th_stored_file *file_at(th_safetensors *f, const char *path)
{
    for (int64_t i = f->n_files - 1; i >= 0; i--)
        if (strcmp(f->file[i].path, path) == 0)
            return &f->file[i];
    if (f->n_files == f->file_capacity) {
        th_fail(f->ctx, TH_ERROR_FILE, operation, "%.300s: the index names more than %lld files", path,
                (long long)f->file_capacity);
        return NULL;
    }
    th_stored_file *file = &f->file[f->n_files];
    if (!th_stored_file_open(f->ctx, operation, path, file))
        return NULL;
    f->n_files++;
    return file;
}

static bool make_room_for_files(th_safetensors *f, int64_t count)
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
    th_stored_file *file = make_room_for_files(f, 1) ? file_at(f, path) : NULL;
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

static bool fail_index(const th_json_source *index, const char *name, const char *trouble)
{
    char quoted[TH_QUOTED];
    th_fail(index->ctx, TH_ERROR_FILE, index->operation, "%.300s: \"%s\" %s", index->name, th_quote(name, quoted),
            trouble);
    return false;
}

/* A file's name: beside the index, so no part of it leads elsewhere. */
static bool is_plain_name(const char *name)
{
    return name[0] != 0 && strchr(name, '/') == NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The tensor `name` of the file called `file_name` in the index's folder. */
static const th_stored *indexed(th_safetensors *f, const th_json_source *index, const char *name, const char *file_name)
{
    char path[TH_MAX_PATH];
    const char *slash = strrchr(index->name, '/');
    const int folder = slash ? (int)(slash - index->name) + 1 : 0;
    if (!is_plain_name(file_name) ||
        snprintf(path, sizeof path, "%.*s%s", folder, index->name, file_name) >= (int)sizeof path) {
        fail_index(index, file_name, "is not the name of a file in the index's folder");
        return NULL;
    }
    const th_stored_file *file = file_at(f, path);
    const th_stored *stored = file ? th_stored_search(file->by_name, file->count, name) : NULL;
    if (file && stored == NULL)
        fail_index(index, name, "is not in the file that the index names for it");
    return stored;
}

/* Looks up what one member of weight_map says. */
static const th_stored *read_member(th_safetensors *f, const th_json_source *index, const th_json_walk *w)
{
    const th_stored *stored = NULL;
    json_t *name = th_json_build(index, w->key, w->key_bytes);
    json_t *file = name ? th_json_build(index, w->value, w->value_bytes) : NULL;
    if (file && json_is_string(file))
        stored = indexed(f, index, json_string_value(name), json_string_value(file));
    else if (file)
        fail_index(index, json_string_value(name), "has no file name in the index");
    json_decref(name);
    json_decref(file);
    return stored;
}

static bool read_index(th_safetensors *f, const th_json_source *index, const char *text, size_t bytes)
{
    static const char key[] = "\"weight_map\"";
    th_json_walk w = th_json_members(text, bytes);
    do {
        if (*text != '{' || !th_json_next(&w))
            return fail_index(index, "weight_map", "is missing");
    } while (w.key_bytes != sizeof key - 1 || memcmp(w.key, key, sizeof key - 1) != 0);
    if (*w.value != '{')
        return fail_index(index, "weight_map", "is not an object");
    int64_t count = 0;
    for (th_json_walk members = th_json_members(w.value, w.value_bytes); th_json_next(&members);)
        count++;
    if (!make_room_for_files(f, count < MAX_FILES ? count + 1 : MAX_FILES) || !make_tables(f, count))
        return false;
    th_json_walk members = th_json_members(w.value, w.value_bytes);
    for (int64_t i = 0; th_json_next(&members); i++)
        if ((f->in_order[i] = f->by_name[i] = read_member(f, index, &members)) == NULL)
            return false;
    th_stored_sort(f->by_name, count);
    return true;
}

static bool open_index(th_safetensors *f, const char *path)
{
    static const th_json_limits limits = {.bytes = TH_SAFETENSORS_MAX_HEADER, .depth = TH_SAFETENSORS_MAX_DEPTH};
    const th_json_source index = {f->ctx, operation, path};
    size_t bytes;
    char *text = th_json_load(&index, &limits, &bytes);
    const bool sound =
        text && th_json_check(&index, text, bytes, &limits) == TH_OK && read_index(f, &index, text, bytes);
    th_release(f->ctx, text, text ? bytes : 0);
    return sound;
}

/* -- which -- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* In a folder the file, or else the index. */
static bool choose(th_context *ctx, const char *path, char chosen[TH_MAX_PATH])
{
    static const char *const names[] = {"", "/model.safetensors", "/model.safetensors.index.json"};
    struct stat status;
    const bool folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    for (int i = folder; i < (folder ? 3 : 1); i++) {
        if (snprintf(chosen, TH_MAX_PATH, "%s%s", path, names[i]) >= TH_MAX_PATH) {
            th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(ENAMETOOLONG));
            return false;
        }
        if (!folder || stat(chosen, &status) == 0)
            return true;
    }
    th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: this folder contains neither %s nor %s", path, names[1] + 1,
            names[2] + 1);
    return false;
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
    if (!choose(ctx, path, chosen))
        return NULL;
    th_safetensors *f = th_allocate(ctx, sizeof *f);
    if (f == NULL) {
        th_fail_memory(ctx, operation, sizeof *f);
        return NULL;
    }
    *f = (th_safetensors){.ctx = ctx};
    bool opened = ends_with(chosen, ".index.json") ? open_index(f, chosen) : open_single(f, chosen);
    if (opened && !th_attach(ctx, f, release)) {
        th_fail_memory(ctx, operation, sizeof(th_attachment));
        opened = false;
    }
    if (opened)
        return f;
    release(ctx, f);
    return NULL;
}

/* -- looking -- */

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
    const th_stored *stored = file && name ? th_stored_search(file->by_name, file->count, name) : NULL;
    return stored ? &stored->tensor : NULL;
}

const char *th_safetensors_metadata(const th_safetensors *file, const char *key)
{
    if (file == NULL || key == NULL || file->n_files == 0)
        return NULL;
    const th_stored_file *first = &file->file[0];
    for (int64_t i = 0; i < first->n_metadata; i++)
        if (strcmp(first->metadata[i].name, key) == 0)
            return first->metadata[i].text;
    return NULL;
}

const th_stored *th_stored_find(const th_safetensors *file, const char *name, const char *what)
{
    if (file == NULL) {
        th_fail_last(TH_ERROR_ARGUMENT, what, "the file is NULL");
        return NULL;
    }
    if (!th_usable_context(file->ctx, what))
        return NULL;
    char quoted[TH_QUOTED];
    const th_stored *stored = name ? th_stored_search(file->by_name, file->count, name) : NULL;
    if (stored == NULL)
        th_fail(file->ctx, TH_ERROR_FILE, what, "there is no tensor \"%s\" in %.300s",
                th_quote(name ? name : "NULL", quoted), file->n_files > 0 ? file->file[0].path : "the index");
    return stored;
}
