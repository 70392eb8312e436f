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
#include "tapehead/context.h"
#include "tapehead/hugging_face.h"
#include "tapehead/safetensors.h"
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

/* -- config.json -- */

static th_status write_config(th_context *ctx, const char *folder, const th_family *family,
                              const th_language_model_options *m, th_dtype dtype, const th_export_options *given)
{
    char path[TH_MAX_PATH];
    th_atomic_file f;
    if (!th_hugging_face_path(ctx, operation, folder, "config.json", path))
        return th_error_code(ctx);
    bool written = th_atomic_begin(&f, path);
    if (written) {
        errno = 0;
        th_foreign_config_write(f.file, family, m, given->has_end_token ? given->end_token : -1, th_dtype_name(dtype));
        written = th_atomic_end(&f, !ferror(f.file));
    }
    return written ? TH_OK : th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", path, strerror(errno));
}

/* -- model.safetensors -- */

/* Writes the tensors of the list, rounded to a storage type if that is given. */
static void write_list(th_context *ctx, const char *path, const th_foreign_tensors *list, th_dtype type)
{
    static const th_named_text metadata = {"format", "pt"}; /* transformers rejects a file without it */
    const size_t bytes = (size_t)list->count * sizeof(th_named_tensor);
    th_named_tensor *named = th_allocate(ctx, bytes);
    if (named == NULL) {
        (void)th_fail_memory(ctx, operation, bytes);
        return;
    }
    for (int64_t i = 0; i < list->count; i++) {
        th_tensor *values = th_foreign_tensor_values(&list->tensor[i]);
        named[i] = (th_named_tensor){list->tensor[i].name, th_is_storage(type) ? th_cast(values, type) : values};
    }
    if (!th_failed(ctx)) {
        th_status status = th_safetensors_write(ctx, path, named, list->count, &metadata, 1);
        (void)status; /* the error is stored */
    }
    th_release(ctx, named, bytes);
}

static void write_weights(th_module *model, const char *folder, const th_family *family, th_dtype type)
{
    char path[TH_MAX_PATH];
    th_foreign_tensors list;
    if (!th_hugging_face_path(model->ctx, operation, folder, "model.safetensors", path) ||
        th_foreign_tensors_list(model, family, operation, true, &list) != TH_OK)
        return;
    write_list(model->ctx, path, &list, type);
    th_foreign_tensors_free(model->ctx, &list);
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
    if (given->family && th_family_find(given->family) == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown family \"%.60s\"", given->family);
    if (th_is_shapes_only(ctx))
        return th_fail(ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return TH_OK;
}

/* Checks that no weight is stored. */
static th_status check_types(const th_module *model)
{
    for (th_parameter_iterator p = th_module_parameters(model); th_parameter_next(&p);)
        if (th_is_storage(th_dtype_of(p.tensor)))
            return th_fail(model->ctx, TH_ERROR_TYPE, operation,
                           "%s is stored as %s; th_module_store converts it back to float32", p.name,
                           th_dtype_name(th_dtype_of(p.tensor)));
    return TH_OK;
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
    if (check_given(ctx, folder, m, &given) != TH_OK || check_types(model) != TH_OK)
        return th_error_code(ctx);
    const th_family *family =
        th_hugging_face_family(ctx, operation, m, given.family ? th_family_find(given.family) : NULL);
    if (family == NULL)
        return th_error_code(ctx);
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return th_fail(ctx, TH_ERROR_FILE, operation, "%.300s: %s", folder, strerror(errno));
    const th_dtype own = th_dtype_of(th_module_find_parameter(model, "embedding.weight"));
    th_scope_begin(ctx, NULL);
    th_no_grad_begin(ctx);
    write_weights(model, folder, family, given.type);
    th_no_grad_end(ctx);
    th_scope_end(ctx, NULL);
    /* written last: a folder with config.json has a whole model */
    return th_failed(ctx) ? th_error_code(ctx)
                          : write_config(ctx, folder, family, m, th_is_storage(given.type) ? given.type : own, &given);
}
