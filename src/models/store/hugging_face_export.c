/* Writes a language model as a folder that transformers loads. The model's options decide about the family: the first
 * one whose config.json, read again, gives the same options. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models/core.h"
#include "models/families/choice.h"
#include "models/families/tensors.h"
#include "models/store/hugging_face.h"
#include "models/store/hugging_face_files.h"
#include "tapehead/context.h"
#include "tapehead/hugging_face.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char *const operation = "language_model_export";

/* -- the family -- */

/* Writes config.json for the family to memory, reads it in another context, and compares the options with the model's.
 * Returns the number of differences; -1 if config.json could not be read, -2 without memory. */
static int differences(int i, const th_language_model_options *model, th_option_difference difference[TH_MAX_OPTIONS])
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL)
        return -2;
    th_foreign_config_write(file, th_families[i], model, -1, "float32");
    const bool written = fclose(file) == 0 && text;
    th_context *ctx = th_context_new(&(th_context_options){.shapes_only = true});
    int found = written && ctx ? -1 : -2;
    th_foreign_config again;
    if (found == -1 && th_foreign_config_parse(ctx, operation, "config.json", text, bytes, &again) == TH_OK) {
        const th_language_model_options expressed = th_options_normal(&again.options);
        found = th_options_compare(model, &expressed, difference);
        th_foreign_config_release(ctx, &again);
    }
    if (found == -1 && th_error_code(ctx) == TH_ERROR_MEMORY)
        found = -2;
    th_context_free(ctx);
    free(text);
    return found;
}

static const char *title(int i)
{
    return th_families[i]->title;
}

static const th_family *family_of(int i)
{
    return th_families[i];
}

const th_family *th_hugging_face_family(th_context *ctx, const char *asker, const th_language_model_options *options,
                                        const th_family *only)
{
    static const th_candidates families = {"family", "transformers", TH_FAMILIES, title, family_of, differences};
    int number = -1;
    for (int i = 0; i < TH_FAMILIES; i++)
        if (th_families[i] == only)
            number = i;
    const int chosen = th_choose(ctx, asker, &families, options, number);
    return chosen < 0 ? NULL : th_families[chosen];
}

/* -- the files -- */

typedef struct exporting {
    th_module *model;
    const char *folder;
    const th_family *family;
    const th_export_options *given;
    th_dtype stored_as; /* the type in the files of stored weights, without a type of the caller */
} exporting;

static th_status fail_file(const exporting *e, const char *path)
{
    return th_fail(e->model->ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
}

/* Returns the type in the files of a parameter, or of a part of it. */
static th_dtype type_in_file(const exporting *e, const th_tensor *parameter)
{
    const th_dtype own = th_dtype_of(parameter);
    return th_is_storage(e->given->type) ? e->given->type : th_is_storage(own) ? e->stored_as : own;
}

/* Writes config.json under a temporary name. */
static th_status write_config(const exporting *e, th_atomic_file *f)
{
    char path[TH_MAX_PATH];
    const th_export_options *given = e->given;
    const th_dtype type = type_in_file(e, th_module_find_parameter(e->model, "embedding.weight"));
    if (!th_hugging_face_path(e->model->ctx, operation, e->folder, "config.json", path))
        return th_error_code(e->model->ctx);
    bool written = th_atomic_begin(f, path);
    if (written) {
        errno = 0;
        th_foreign_config_write(f->file, e->family, th_language_model_options_of(e->model),
                                given->has_end_token ? given->end_token : -1, th_dtype_name(type));
        written = th_atomic_finish(f, !ferror(f->file));
    }
    return written ? TH_OK : fail_file(e, path);
}

/* Replaces the model of the folder. Meanwhile the folder has no config.json, so it is not a model. */
static th_status publish(const exporting *e, th_weight_files *files, th_atomic_file *config)
{
    if (!config->direct && !th_remove_file(config->target)) {
        const th_status status = fail_file(e, config->target);
        th_atomic_discard(config);
        return status;
    }
    const th_status status = th_weight_files_publish(files);
    if (status != TH_OK) {
        th_atomic_discard(config);
        return status;
    }
    return th_atomic_publish(config) ? TH_OK : fail_file(e, config->target);
}

/* -- the weights -- */

static th_tensor *values_of(const th_to_store *tensor)
{
    return th_foreign_tensor_values(tensor->source, tensor->array.dtype);
}

static th_to_store describe(const exporting *e, const th_foreign_tensor *t)
{
    const th_shape shape = th_foreign_tensor_numbers(t);
    th_to_store to = {
        .name = t->name, .array = {.dtype = type_in_file(e, t->view[0]), .ndim = shape.ndim}, .source = t};
    memcpy(to.array.size, shape.size, (size_t)shape.ndim * sizeof *shape.size);
    return to;
}

static th_status write_files(const exporting *e, th_weight_files *files)
{
    th_atomic_file config;
    th_status status = th_weight_files_plan(files, e->given->shard_bytes);
    if (status == TH_OK)
        status = th_weight_files_write(files, values_of);
    if (status == TH_OK)
        status = write_config(e, &config);
    if (status == TH_OK)
        status = publish(e, files, &config);
    th_weight_files_free(files);
    return status;
}

static th_status write_list(const exporting *e, const th_foreign_tensors *list)
{
    th_context *ctx = e->model->ctx;
    const size_t bytes = (size_t)list->count * sizeof(th_to_store);
    th_to_store *tensors = th_allocate(ctx, bytes);
    if (tensors == NULL)
        return th_fail_memory(ctx, operation, bytes);
    for (int64_t i = 0; i < list->count; i++)
        tensors[i] = describe(e, &list->tensor[i]);
    th_weight_files files = {
        .ctx = ctx, .operation = operation, .folder = e->folder, .tensor = tensors, .n_tensors = list->count};
    const th_status status = write_files(e, &files);
    th_release(ctx, tensors, bytes);
    return status;
}

static th_status write_folder(const exporting *e)
{
    th_context *ctx = e->model->ctx;
    th_foreign_tensors list;
    if (mkdir(e->folder, 0777) != 0 && errno != EEXIST)
        return fail_file(e, e->folder);
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    th_status status = th_foreign_tensors_list(e->model, e->family, operation, true, &list);
    if (status == TH_OK) {
        status = write_list(e, &list);
        th_foreign_tensors_free(ctx, &list);
    }
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    return status;
}

/* -- the public function -- */

static th_status check_given(th_context *ctx, const char *folder, const th_language_model_options *m,
                             const th_export_options *given)
{
    if (folder == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder is NULL");
    if (given->has_end_token && (given->end_token < 0 || given->end_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "end token %lld is outside the vocabulary of %lld",
                       (long long)given->end_token, (long long)m->vocabulary);
    if (given->type != TH_FLOAT32 && given->type != TH_BFLOAT16 && given->type != TH_FLOAT16)
        return th_fail(ctx, TH_ERROR_TYPE, operation,
                       "a folder cannot have the type %s; float32, bfloat16 and float16 are possible",
                       th_dtype_name(given->type));
    if (given->shard_bytes < 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "shard_bytes must not be negative, it is %lld",
                       (long long)given->shard_bytes);
    if (given->family && th_family_find(given->family) == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown family \"%.60s\"", given->family);
    if (th_is_shapes_only(ctx))
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return TH_OK;
}

/* Returns the type of the parameters that are not stored. */
static th_dtype floating_type(const th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (!th_is_storage(th_dtype_of(p.tensor)))
            return th_dtype_of(p.tensor);
    return TH_FLOAT32;
}

th_status th_language_model_export(th_module *model, const char *folder, const th_export_options *options)
{
    const th_export_options given = options ? *options : (th_export_options){0};
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    const th_language_model_options *m = th_language_model_options_of(model);
    if (m == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the module is a %s, not a language model", model->type);
    if (check_given(ctx, folder, m, &given) != TH_OK)
        return th_error_code(ctx);
    const th_family *family =
        th_hugging_face_family(ctx, operation, m, given.family ? th_family_find(given.family) : NULL);
    if (family == NULL)
        return th_error_code(ctx);
    return write_folder(&(exporting){model, folder, family, &given, floating_type(model)});
}
