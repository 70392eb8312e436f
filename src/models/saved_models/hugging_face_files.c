/* Writes the weights of a folder of transformers as one file or several: see hugging_face_files.h. */
#include "models/saved_models/hugging_face_files.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/tensors.h"
#include "models/files/json.h"
#include "models/saved_models/hugging_face.h"
#include "tapehead/tape.h"

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";
enum { NAME_SIZE = 80 };

static th_status fail(const th_weight_files *s, const char *path, const char *reason)
{
    return th_fail(s->ctx, TH_ERROR_FILE, s->operation, "%.300s: %s", path, reason);
}

/* -- which tensors each file has -- */

static void make_file_name(int64_t number, int64_t count, char name[NAME_SIZE])
{
    if (count == 1)
        strcpy(name, single_name);
    else
        snprintf(name, NAME_SIZE, "model-%05lld-of-%05lld.safetensors", (long long)number, (long long)count);
}

/* Adds the sizes of a tensor to the sums. Returns false if they overflow. */
static bool add_sizes(const th_safetensors_item *t, int64_t *numbers, int64_t *bytes)
{
    int64_t own_numbers, own_bytes;
    return th_checked_numel(t->array.ndim, t->array.size, &own_numbers) &&
           th_checked_multiply(own_numbers, (int64_t)th_dtype_size(t->array.dtype), &own_bytes) &&
           th_checked_add(*numbers, own_numbers, numbers) && th_checked_add(*bytes, own_bytes, bytes);
}

/* Returns the end of the tensors in the file that begins with this tensor. The sizes do not overflow. */
static int64_t end_of_tensors(const th_weight_files *s, int64_t begin, int64_t max_bytes)
{
    int64_t bytes = 0, numbers = 0, i = begin;
    while (i < s->n_tensors && add_sizes(&s->tensor[i], &numbers, &bytes) && (i == begin || bytes <= max_bytes))
        i++;
    return i;
}

static int64_t count_files(const th_weight_files *s, int64_t max_bytes)
{
    int64_t count = 0;
    for (int64_t i = 0; i < s->n_tensors; count++)
        i = end_of_tensors(s, i, max_bytes);
    return count;
}

th_status th_weight_files_plan(th_weight_files *s, int64_t max_bytes)
{
    char name[NAME_SIZE];
    if (max_bytes == 0)
        max_bytes = INT64_MAX;
    for (int64_t i = 0; i < s->n_tensors; i++)
        if (!add_sizes(&s->tensor[i], &s->numbers, &s->bytes))
            return fail(s, s->folder, "the size in bytes overflows");
    s->count = count_files(s, max_bytes);
    const size_t bytes = (size_t)s->count * sizeof *s->file;
    s->file = th_allocate(s->ctx, bytes);
    if (s->file == NULL)
        return th_fail_memory(s->ctx, s->operation, bytes);
    for (int64_t i = 0, begin = 0; i < s->count; i++) {
        th_weight_file *f = &s->file[i];
        f->begin = begin;
        f->end = begin = end_of_tensors(s, begin, max_bytes);
        make_file_name(i + 1, s->count, name);
        if (!th_hugging_face_path(s->ctx, s->operation, s->folder, name, f->path))
            return th_error_code(s->ctx);
    }
    return TH_OK;
}

/* -- the index -- */

/* Adds the file of each tensor. */
static bool map_tensors_to_files(const th_weight_files *s, json_t *map)
{
    char name[NAME_SIZE];
    bool added = map != NULL;
    for (int64_t i = 0; i < s->count; i++) {
        make_file_name(i + 1, s->count, name);
        for (int64_t j = s->file[i].begin; added && j < s->file[i].end; j++)
            added = th_json_add(map, s->tensor[j].name, json_string(name));
    }
    return added;
}

/* Returns the index as transformers writes it; NULL if memory runs out. */
static json_t *make_index(const th_weight_files *s)
{
    json_t *index = json_object(), *sums = json_object(), *map = json_object();
    const bool made = index && sums && th_json_add(sums, "total_parameters", json_integer(s->numbers)) &&
                      th_json_add(sums, "total_size", json_integer(s->bytes)) && map_tensors_to_files(s, map) &&
                      json_object_set(index, "metadata", sums) == 0 && json_object_set(index, "weight_map", map) == 0;
    json_decref(sums);
    json_decref(map);
    if (made)
        return index;
    json_decref(index);
    return NULL;
}

static th_status write_index(th_weight_files *s)
{
    char path[TH_MAX_PATH];
    if (!th_hugging_face_path(s->ctx, s->operation, s->folder, index_name, path))
        return th_error_code(s->ctx);
    json_t *index = make_index(s);
    if (index == NULL)
        return th_fail_memory(s->ctx, s->operation, sizeof(json_t));
    if (!th_atomic_begin(&s->index, path)) {
        json_decref(index);
        return fail(s, path, strerror(errno));
    }
    errno = 0;
    const bool dumped = json_dumpf(index, s->index.file, JSON_INDENT(2) | JSON_SORT_KEYS) == 0;
    const bool no_memory = !dumped && s->index.write_error == 0;
    fputc('\n', s->index.file);
    json_decref(index);
    s->has_index = th_atomic_finish(&s->index, dumped);
    if (no_memory)
        return th_fail_memory(s->ctx, s->operation, sizeof(json_t));
    return s->has_index ? TH_OK : fail(s, path, strerror(errno));
}

/* -- writing -- */

/* Writes one tensor after another, so that only one is converted at a time. */
static th_status write_file(th_weight_files *s, th_weight_file *f,
                            th_tensor *(*values)(const th_safetensors_item *tensor))
{
    static const th_named_text metadata = {"format", "pt"}; /* transformers rejects a file without it */
    f->contents = (th_safetensors_contents){.ctx = s->ctx,
                                            .operation = s->operation,
                                            .path = f->path,
                                            .tensor = s->tensor + f->begin,
                                            .count = f->end - f->begin,
                                            .metadata = &metadata,
                                            .n_metadata = 1};
    th_status status = th_safetensors_writer_begin(&f->file, &f->contents);
    if (status != TH_OK)
        return status;
    for (int64_t i = f->begin; i < f->end && status == TH_OK && f->file.error_number == 0; i++) {
        th_scope_begin(s->ctx, NULL);
        th_tensor *t = values(&s->tensor[i]);
        if (t) {
            const th_array elements = th_tensor_array(th_tensor_impl_of(t));
            th_safetensors_writer_next(&f->file, &elements);
        }
        th_scope_end(s->ctx, NULL);
        status = th_error_code(s->ctx);
    }
    return th_safetensors_writer_finish(&f->file, status);
}

th_status th_weight_files_write(th_weight_files *s, th_tensor *(*values)(const th_safetensors_item *tensor))
{
    th_status status = TH_OK;
    for (; status == TH_OK && s->finished < s->count; s->finished += status == TH_OK)
        status = write_file(s, &s->file[s->finished], values);
    return status == TH_OK && s->count > 1 ? write_index(s) : status;
}

/* -- publishing -- */

static th_status remove_path(const th_weight_files *s, const char *path)
{
    return th_remove_file(path) ? TH_OK : fail(s, path, strerror(errno));
}

static th_status remove_file(const th_weight_files *s, const char *name)
{
    char path[TH_MAX_PATH];
    if (!th_hugging_face_path(s->ctx, s->operation, s->folder, name, path))
        return th_error_code(s->ctx);
    return remove_path(s, path);
}

/* Returns what follows the name of a shard, model-00001-of-00002.safetensors; NULL for other names. */
static const char *after_shard_name(const char *name)
{
    for (const char *form = "model-#####-of-#####.safetensors"; *form; form++, name++)
        if (*form == '#' ? !isdigit((unsigned char)*name) : *form != *name)
            return NULL;
    return name;
}

/* Whether this is the end of the name of a temporary file. */
static bool is_unfinished(const char *end)
{
    static const char mark[] = ".unfinished";
    if (strncmp(end, mark, strlen(mark)) != 0 || end[strlen(mark)] == 0)
        return false;
    end += strlen(mark);
    return end[strspn(end, "0123456789")] == 0;
}

/* Whether a file is new, or a link to a new one. */
static bool is_published(const th_weight_files *s, const char *path)
{
    for (int64_t i = 0; i < s->count; i++)
        if (strcmp(s->file[i].path, path) == 0 || strcmp(s->file[i].file.file.target, path) == 0)
            return true;
    return false;
}

/* Removes a shard of an older model, or what a killed process left of one. Anything else stays. */
static th_status remove_old_shard(const th_weight_files *s, const char *name)
{
    char path[TH_MAX_PATH];
    struct stat status;
    const char *after = after_shard_name(name);
    if (after == NULL || !th_path_join(path, s->folder, name))
        return TH_OK;
    if (is_unfinished(after))
        (void)th_remove_leftover(path);
    if (*after || is_published(s, path) || lstat(path, &status) != 0 ||
        !(S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)))
        return TH_OK;
    return remove_path(s, path);
}

static th_status remove_old_files(const th_weight_files *s)
{
    DIR *folder = th_open_folder(s->folder);
    if (folder == NULL)
        return fail(s, s->folder, strerror(errno));
    th_status status = TH_OK;
    bool has_entry = true;
    while (status == TH_OK && has_entry) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        has_entry = entry != NULL;
        if (has_entry)
            status = remove_old_shard(s, entry->d_name);
        else if (errno != 0)
            status = fail(s, s->folder, strerror(errno));
    }
    closedir(folder);
    return status;
}

/* Both kinds of weights must not be in a folder: readers prefer the single file. If the index is a link, the file that
 * it leads to is replaced, so the link stays. */
th_status th_weight_files_publish(th_weight_files *s)
{
    th_status status = s->has_index ? remove_path(s, s->index.target) : remove_file(s, index_name);
    if (status == TH_OK && s->count > 1)
        status = remove_file(s, single_name);
    while (status == TH_OK && s->published < s->finished)
        status = th_safetensors_writer_publish(&s->file[s->published++].file);
    if (status == TH_OK)
        status = remove_old_files(s);
    if (status == TH_OK && s->has_index) {
        s->has_index = false;
        status = th_atomic_publish(&s->index) ? TH_OK : fail(s, s->index.target, strerror(errno));
    }
    return status;
}

void th_weight_files_free(th_weight_files *s)
{
    for (int64_t i = s->published; i < s->finished; i++)
        th_atomic_discard(&s->file[i].file.file);
    if (s->has_index)
        th_atomic_discard(&s->index);
    th_release(s->ctx, s->file, (size_t)s->count * sizeof *s->file);
}
