/* Loads the weights of a model that transformers saved. It compares the file with the model before it reads
 * anything, and before a model that a file describes takes memory. */
#include <stdlib.h>
#include <string.h>

#include "models/core.h"
#include "models/families/options.h"
#include "models/families/tensors.h"
#include "models/store/differences.h"
#include "models/store/hugging_face.h"
#include "models/store/shapes_first.h"
#include "tapehead/context.h"
#include "tapehead/hugging_face.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

/* A file and the settings for reading it. */
typedef struct source {
    th_context *ctx;
    const char *operation, *folder;
    th_foreign_config config;
    th_safetensors *file;
    th_pretrained_load_options given;
} source;

/* Returns the name without the prefix that a file may omit. */
static const char *without_prefix(const source *s, const char *name)
{
    const char *prefix = s->config.family->prefix;
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

/* Returns the name of the classifier in the file, or NULL. */
static const char *classifier_in_file(const source *s)
{
    const char *name = s->config.family->classifier, *other = s->config.family->other_classifier;
    if (th_safetensors_find(s->file, name))
        return name;
    return other && th_safetensors_find(s->file, other) ? other : NULL;
}

/* Returns the file's name for a tensor. The file may omit the prefix, or have another name for the classifier. A file
 * with a tied embedding may have only the classifier. */
static const char *name_in_file(const source *s, const char *name)
{
    if (th_safetensors_find(s->file, name))
        return name;
    if (th_safetensors_find(s->file, without_prefix(s, name)))
        return without_prefix(s, name);
    const bool tied = !s->config.options.untied && strcmp(name, s->config.family->embedding) == 0;
    const bool classifier = strcmp(name, s->config.family->classifier) == 0;
    return (tied || classifier) && classifier_in_file(s) ? classifier_in_file(s) : name;
}

/* Whether a tensor is ignored: buffers that older versions saved, and the classifier of a model that uses the
 * embedding. */
static bool is_ignored(const source *s, const char *name)
{
    const char *classifier = classifier_in_file(s);
    if (classifier && strcmp(name, classifier) == 0)
        return !s->config.options.untied;
    return th_name_ends_with(name, ".attn.bias") || th_name_ends_with(name, ".attn.masked_bias") ||
           th_name_ends_with(name, ".attention.bias") || th_name_ends_with(name, ".attention.masked_bias") ||
           th_name_ends_with(name, ".rotary_emb.inv_freq");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const th_foreign_tensor *)a)->name, ((const th_foreign_tensor *)b)->name);
}

static void compare(const th_foreign_tensor *wanted, const th_stored_tensor *stored, th_differences *d)
{
    char quoted[TH_QUOTED];
    const th_shape *here = &wanted->shape, *in_file = &stored->shape;
    if (in_file->ndim != here->ndim ||
        memcmp(in_file->size, here->size, (size_t)here->ndim * sizeof here->size[0]) != 0)
        th_differ(d, TH_OTHER_SHAPE, "different shape: %s is %s in the file and %s in the model",
                  th_quote(stored->name, quoted), TH_SIZES_TEXT(in_file->ndim, in_file->size),
                  TH_SIZES_TEXT(here->ndim, here->size));
    else if (!stored->readable || !th_is_floating(stored->dtype))
        th_differ(d, TH_OTHER_TYPE, "different type: %s is %s in the file", th_quote(stored->name, quoted),
                  stored->type);
}

/* Checks that the file has every wanted tensor, and that all others can be ignored. Sorts the wanted tensors. */
static th_status match(const source *s, th_foreign_tensors *wanted)
{
    th_differences d = {s->ctx, s->operation, s->folder, s->given.report, s->given.report_user, {0}, ""};
    char quoted[TH_QUOTED];
    for (int64_t i = 0; i < wanted->count; i++) {
        const th_foreign_tensor *t = &wanted->tensor[i];
        const th_stored_tensor *stored = th_safetensors_find(s->file, t->name);
        if (stored)
            compare(t, stored, &d);
        else
            th_differ(&d, TH_MISSING, "missing: %s", t->name);
    }
    qsort(wanted->tensor, (size_t)wanted->count, sizeof wanted->tensor[0], by_name);
    for (int64_t i = 0; i < th_safetensors_count(s->file); i++) {
        const th_foreign_tensor found = {.name = th_safetensors_at(s->file, i)->name};
        if (!is_ignored(s, found.name) &&
            bsearch(&found, wanted->tensor, (size_t)wanted->count, sizeof found, by_name) == NULL)
            th_differ(&d, TH_UNEXPECTED, "unexpected: %s", th_quote(found.name, quoted));
    }
    return th_differences_end(&d);
}

/* Lists the tensors of model under the file's names, and checks that the file has all of them. Otherwise returns
 * false with the error stored in the file's context. */
static bool list_tensors(const source *s, th_module *model, th_foreign_tensors *list)
{
    if (th_foreign_tensors_list(model, s->config.family, s->operation, false, list) != TH_OK)
        return false;
    for (int64_t i = 0; i < list->count; i++)
        list->tensor[i].name = name_in_file(s, list->tensor[i].name);
    return match(s, list) == TH_OK;
}

/* Compares shapes for th_shapes_first. */
static void compare_shapes(th_module *model, void *user)
{
    const source *s = user;
    th_foreign_tensors list = {0};
    th_scope_begin(model->ctx, NULL);
    list_tensors(s, model, &list);
    th_foreign_tensors_free(model->ctx, &list);
    th_scope_end(model->ctx, NULL);
}

/* If config.json says that embedding and classifier are tied and the file has both, checks that they are equal. */
static void check_tied(const source *s, th_tensor *embedding)
{
    const char *classifier = classifier_in_file(s);
    if (s->config.options.untied || th_failed(s->ctx) || classifier == NULL)
        return;
    th_tensor *other = th_empty(s->ctx, th_dtype_of(embedding), th_shape_of(embedding));
    if (th_safetensors_read_into(s->file, classifier, other) != TH_OK)
        return;
    const size_t bytes = (size_t)th_numel(embedding) * th_dtype_size(th_dtype_of(embedding));
    if (!th_is_shapes_only(s->ctx) && memcmp(th_data(embedding), th_data(other), bytes) != 0)
        th_fail(s->ctx, TH_ERROR_FILE, s->operation,
                "%.300s: %s differs from the embedding, but config.json ties them (tie_word_embeddings)", s->folder,
                classifier);
}

/* -- reading -- */

/* Reads a tensor of the file whose rows are parts of several parameters, or have another order. */
static th_status read_parts(const source *s, const th_foreign_tensor *t)
{
    th_scope_begin(s->ctx, NULL);
    th_no_grad_begin(s->ctx);
    th_tensor *values = th_empty(s->ctx, th_dtype_of(t->view[0]), t->shape);
    if (th_safetensors_read_into(s->file, t->name, values) == TH_OK)
        (void)th_foreign_tensor_set(t, values); /* the error is stored */
    th_no_grad_end(s->ctx);
    th_scope_end(s->ctx, NULL);
    return th_error_code(s->ctx);
}

static th_status read_tensor(const source *s, const th_foreign_tensor *t)
{
    th_tensor *view = th_foreign_tensor_view(t);
    return view ? th_safetensors_read_into(s->file, t->name, view) : read_parts(s, t);
}

static void read_tensors(const source *s, th_module *model)
{
    th_foreign_tensors list = {0};
    th_scope_begin(s->ctx, NULL);
    if (list_tensors(s, model, &list))
        for (int64_t i = 0; i < list.count && !th_failed(s->ctx); i++)
            if (read_tensor(s, &list.tensor[i]) != TH_OK)
                break;
    check_tied(s, th_module_find_parameter(model, "embedding.weight"));
    th_foreign_tensors_free(s->ctx, &list);
    th_scope_end(s->ctx, NULL);
}

/* Reads config.json and opens the weights. */
static bool open_source(source *s)
{
    if (s->folder == NULL) {
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "the folder is NULL");
        return false;
    }
    if (th_hugging_face_read_config(s->ctx, s->operation, s->folder, &s->config) != TH_OK)
        return false;
    s->file = th_safetensors_open(s->ctx, s->folder);
    return s->file != NULL;
}

/* Checks the options that shapes do not show against config.json. */
static void check_options(const source *s, const th_module *model)
{
    const th_language_model_options *given = th_language_model_options_of(model);
    const th_language_model_options is = th_options_normal(given), wanted = th_options_normal(&s->config.options);
    th_option_difference difference[TH_MAX_OPTIONS];
    if (is.layers != wanted.layers)
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation,
                "the model's .layers is %lld, config.json in %.300s asks for %lld", (long long)is.layers, s->folder,
                (long long)wanted.layers);
    else if (th_options_compare(&is, &wanted, difference) > 0)
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "the model's %s is %g, config.json in %.300s asks for %g",
                difference[0].name, difference[0].a, s->folder, difference[0].b);
}

th_status th_pretrained_load(th_module *model, const char *folder, const th_pretrained_load_options *options)
{
    static const char *const operation = "pretrained_load";
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    source s = {.ctx = model->ctx, .operation = operation, .folder = folder};
    if (options)
        s.given = *options;
    if (th_language_model_options_of(model) == NULL)
        return th_fail(s.ctx, TH_ERROR_ARGUMENT, operation, "the module is a %s, not a language model", model->type);
    if (open_source(&s)) {
        check_options(&s, model);
        if (!th_failed(s.ctx))
            read_tensors(&s, model);
    }
    th_safetensors_close(s.file);
    th_foreign_config_release(s.ctx, &s.config);
    return th_error_code(s.ctx);
}

th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder)
{
    source s = {.ctx = ctx, .operation = "language_model_from_pretrained", .folder = folder};
    th_module *model = NULL;
    if (!th_usable_context(ctx, s.operation))
        return NULL;
    if (open_source(&s) && th_shapes_first(s.file, &s.config.options, folder, s.operation, compare_shapes, &s) == TH_OK)
        model = th_language_model_new(ctx, &s.config.options);
    if (model)
        read_tensors(&s, model);
    th_safetensors_close(s.file);
    th_foreign_config_release(ctx, &s.config);
    if (model == NULL || !th_failed(ctx))
        return model;
    th_module_free(model);
    return NULL;
}
