/* Writes a language model as a folder that transformers loads. The model's options decide about the family: the first
 * one whose config.json, read again, gives the same options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/core/modules.h"
#include "models/core/tensors.h"
#include "models/families/family.h"
#include "models/families/options.h"
#include "models/families/tensors.h"
#include "models/files/file_set.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/hugging_face_files.h"
#include "models/text/tokenizer.h"
#include "tapehead/context.h"
#include "tapehead/hugging_face.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char *const operation = "language_model_export";

/* -- the family -- */

/* Writes config.json for the family to memory, reads it in another context, and compares the options with the model's.
 * Returns the number of differences; -1 if config.json could not be read, -2 without memory. */
static int count_differences(int i, const th_language_model_options *model,
                             th_option_difference difference[TH_MAX_OPTIONS])
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file == NULL)
        return -2;
    th_foreign_config_write(file, th_families[i], model, -1, -1, "float32");
    const bool written = fclose(file) == 0 && text;
    th_context *ctx = th_context_new(&(th_context_options){.shapes_only = true});
    int found = written && ctx ? -1 : -2;
    th_foreign_config again;
    if (found == -1 && th_foreign_config_parse(ctx, operation, "config.json", text, bytes, &again) == TH_OK) {
        const th_language_model_options expressed = th_normal_options(&again.options);
        found = th_options_compare(model, &expressed, difference);
        th_foreign_config_release(ctx, &again);
    }
    if (found == -1 && th_error_code(ctx) == TH_ERROR_MEMORY)
        found = -2;
    th_context_free(ctx);
    free(text);
    return found;
}

static const char *family_title(int i)
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
    static const th_candidates families = {"family",     "transformers", TH_FAMILIES,
                                           family_title, family_of,      count_differences};
    int number = -1;
    for (int i = 0; i < TH_FAMILIES; i++)
        if (th_families[i] == only)
            number = i;
    const int chosen = th_first_candidate(ctx, asker, &families, options, number);
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

/* Returns the type in the files of a parameter, or of a part of it. */
static th_dtype type_in_file(const exporting *e, const th_tensor *parameter)
{
    const th_dtype own = th_dtype_of(parameter);
    return th_is_storage_type(e->given->type) ? e->given->type : th_is_storage_type(own) ? e->stored_as : own;
}

static bool write_config(FILE *file, const void *content)
{
    const exporting *e = content;
    const th_export_options *given = e->given;
    const th_dtype type = type_in_file(e, th_module_find_parameter(e->model, "embedding.weight"));
    const int64_t end = given->has_end_token ? given->end_token : -1;
    th_foreign_config_write(file, e->family, th_language_model_options_of(e->model),
                            given->has_begin_token ? given->begin_token : end, end, th_dtype_name(type));
    return !ferror(file);
}

static bool write_bytes(FILE *file, const void *content)
{
    const th_export_file *from = content;
    return from->count == 0 || fwrite(from->bytes, 1, from->count, file) == from->count;
}

/* Writes the tokenizer, the caller's files and config.json under temporary names. */
static th_status write_others(const exporting *e, th_file_set *others)
{
    const th_export_options *given = e->given;
    th_status status = given->tokenizer ? th_tokenizer_add_files(given->tokenizer, others) : TH_OK;
    for (int i = 0; i < given->n_files && status == TH_OK; i++) {
        const th_export_file *file = &given->files[i];
        status = file->bytes ? th_file_set_add(others, file->name, write_bytes, file)
                             : th_file_set_add_removal(others, file->name);
    }
    return status == TH_OK ? th_file_set_add(others, "config.json", write_config, e) : status;
}

/* Replaces the model of the folder. Meanwhile the folder has no config.json, so it is not a model. */
static th_status publish_model(th_weight_files *files, th_file_set *others)
{
    th_status status = th_file_set_remove_old_version(others);
    if (status == TH_OK)
        status = th_weight_files_publish(files);
    return status == TH_OK ? th_file_set_publish(others) : status;
}

/* -- the weights -- */

static th_tensor *tensor_values(const th_safetensors_item *tensor)
{
    return th_foreign_tensor_values(tensor->source, tensor->array.dtype);
}

static th_safetensors_item item_of_tensor(const exporting *e, const th_foreign_tensor *t)
{
    const th_shape shape = th_foreign_tensor_numbers(t);
    th_safetensors_item to = {
        .name = t->name, .array = {.dtype = type_in_file(e, t->view[0]), .ndim = shape.ndim}, .source = t};
    memcpy(to.array.size, shape.size, (size_t)shape.ndim * sizeof *shape.size);
    return to;
}

static th_status write_files(const exporting *e, th_weight_files *files, th_file_set *others)
{
    th_status status = th_weight_files_plan(files, e->given->shard_bytes);
    if (status == TH_OK)
        status = th_weight_files_write(files, tensor_values);
    if (status == TH_OK)
        status = write_others(e, others);
    if (status == TH_OK)
        status = publish_model(files, others);
    th_weight_files_free(files);
    return status;
}

static th_status write_list(const exporting *e, const th_foreign_tensors *list, th_file_set *others)
{
    th_context *ctx = e->model->ctx;
    const size_t bytes = (size_t)list->count * sizeof(th_safetensors_item);
    th_safetensors_item *tensors = th_allocate(ctx, bytes);
    if (tensors == NULL)
        return th_fail_memory(ctx, operation, bytes);
    for (int64_t i = 0; i < list->count; i++)
        tensors[i] = item_of_tensor(e, &list->tensor[i]);
    th_weight_files files = {
        .ctx = ctx, .operation = operation, .folder = e->folder, .tensor = tensors, .n_tensors = list->count};
    const th_status status = write_files(e, &files, others);
    th_release(ctx, tensors, bytes);
    return status;
}

static th_status write_folder(const exporting *e)
{
    th_context *ctx = e->model->ctx;
    th_foreign_tensors list;
    th_file_set others = {.ctx = ctx, .operation = operation, .folder = e->folder};
    if (th_file_set_make_folder(&others) != TH_OK)
        return th_error_code(ctx);
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    th_status status = th_foreign_tensors_list(e->model, e->family, operation, true, &list);
    if (status == TH_OK) {
        status = write_list(e, &list, &others);
        th_foreign_tensors_free(ctx, &list);
    }
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    th_file_set_free(&others);
    return status;
}

/* -- the public function -- */

/* Whether a caller's file may have this name: it is in the folder, and the export writes no file of this name. */
static bool is_free_name(const char *name)
{
    const size_t length = name ? strlen(name) : 0;
    static const char weights[] = ".safetensors", index[] = ".index.json";
    return length > 0 && length < 200 && strchr(name, '/') == NULL && name[0] != '.' &&
           strcmp(name, "config.json") != 0 && strstr(name, weights) == NULL && strstr(name, index) == NULL;
}

static th_status check_files(th_context *ctx, const th_language_model_options *m, const th_export_options *given)
{
    if (given->n_files < 0 || (given->n_files > 0 && given->files == NULL))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "n_files is %d, and files is %s", given->n_files,
                       given->files ? "given" : "NULL");
    for (int i = 0; i < given->n_files; i++)
        if (!is_free_name(given->files[i].name))
            return th_fail(ctx, TH_ERROR_ARGUMENT, operation,
                           "files[%d] cannot have the name \"%.60s\": it needs the name of a file in the folder that "
                           "is neither config.json nor a file of weights",
                           i, given->files[i].name ? given->files[i].name : "");
    if (given->tokenizer == NULL)
        return TH_OK;
    if (!th_tokenizer_usable(given->tokenizer, operation))
        return th_failed(ctx)
                   ? th_error_code(ctx)
                   : th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer was freed, or its context has an error");
    if (th_tokenizer_size(given->tokenizer) > m->vocabulary)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the tokenizer has %lld tokens, the model only %lld",
                       (long long)th_tokenizer_size(given->tokenizer), (long long)m->vocabulary);
    return TH_OK;
}

static th_status check_given(th_context *ctx, const char *folder, const th_language_model_options *m,
                             const th_export_options *given)
{
    if (folder == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder is NULL");
    if (given->has_end_token && (given->end_token < 0 || given->end_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "end token %lld is outside the vocabulary of %lld",
                       (long long)given->end_token, (long long)m->vocabulary);
    if (given->has_begin_token && (given->begin_token < -1 || given->begin_token >= m->vocabulary))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "begin token %lld is outside the vocabulary of %lld",
                       (long long)given->begin_token, (long long)m->vocabulary);
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
    return check_files(ctx, m, given);
}

/* Returns the type of the parameters that are not stored. */
static th_dtype floating_type(const th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (!th_is_storage_type(th_dtype_of(p.tensor)))
            return th_dtype_of(p.tensor);
    return TH_FLOAT32;
}

th_status th_language_model_export(th_module *model, const char *folder, const th_export_options *options)
{
    const th_export_options given = options ? *options : (th_export_options){0};
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    const th_language_model_options *m = th_require_language_model(model, operation);
    if (m == NULL)
        return th_error_code(ctx);
    if (check_given(ctx, folder, m, &given) != TH_OK)
        return th_error_code(ctx);
    const th_family *family =
        th_hugging_face_family(ctx, operation, m, given.family ? th_family_find(given.family) : NULL);
    if (family == NULL)
        return th_error_code(ctx);
    return write_folder(&(exporting){model, folder, family, &given, floating_type(model)});
}
