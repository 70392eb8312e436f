/* Loads the weights of a model that transformers saved. It compares the file with the model before it reads
 * anything, and before a model that a file describes takes memory. */
#include <stdlib.h>
#include <string.h>

#include "models/core.h"
#include "models/files/json.h"
#include "models/store/differences.h"
#include "models/store/hugging_face.h"
#include "models/store/shapes_first.h"
#include "tapehead/context.h"
#include "tapehead/hugging_face.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char *const embeddings[] = {
    [TH_GPT2] = "transformer.wte.weight", [TH_LLAMA] = "model.embed_tokens.weight"};
static const char classifier[] = "lm_head.weight";

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
    const char *prefix = th_foreign_prefix(s->config.architecture);
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

/* Returns the file's name for a tensor. The file may omit the prefix. A file with a tied embedding may have only the
 * classifier. */
static const char *name_in_file(const source *s, const char *name)
{
    if (th_safetensors_find(s->file, name))
        return name;
    if (th_safetensors_find(s->file, without_prefix(s, name)))
        return without_prefix(s, name);
    const bool tied = !s->config.options.untied && strcmp(name, embeddings[s->config.architecture]) == 0;
    return tied && th_safetensors_find(s->file, classifier) ? classifier : name;
}

/* Whether a tensor is ignored: buffers that older versions saved, and the classifier of a model that uses the
 * embedding. */
static bool is_ignored(const source *s, const char *name)
{
    if (strcmp(name, classifier) == 0)
        return !s->config.options.untied;
    return th_name_ends_with(name, ".attn.bias") || th_name_ends_with(name, ".attn.masked_bias") ||
           th_name_ends_with(name, ".rotary_emb.inv_freq");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const th_named_tensor *)a)->name, ((const th_named_tensor *)b)->name);
}

static void compare(const th_named_tensor *wanted, const th_stored_tensor *stored, th_differences *d)
{
    char quoted[TH_QUOTED];
    const th_shape here = th_shape_of(wanted->tensor), *in_file = &stored->shape;
    if (in_file->ndim != here.ndim || memcmp(in_file->size, here.size, (size_t)here.ndim * sizeof here.size[0]) != 0)
        th_differ(d, TH_OTHER_SHAPE, "different shape: %s is %s in the file and %s in the model",
                  th_quote(stored->name, quoted), TH_SIZES_TEXT(in_file->ndim, in_file->size),
                  TH_SIZES_TEXT(here.ndim, here.size));
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
        const th_named_tensor *t = &wanted->tensor[i];
        const th_stored_tensor *stored = th_safetensors_find(s->file, t->name);
        if (stored)
            compare(t, stored, &d);
        else
            th_differ(&d, TH_MISSING, "missing: %s", t->name);
    }
    qsort(wanted->tensor, (size_t)wanted->count, sizeof wanted->tensor[0], by_name);
    for (int64_t i = 0; i < th_safetensors_count(s->file); i++) {
        const th_named_tensor found = {.name = th_safetensors_at(s->file, i)->name};
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
    if (th_foreign_tensors_list(model, s->config.architecture, s->operation, list) != TH_OK)
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
    if (s->config.options.untied || th_failed(s->ctx) || th_safetensors_find(s->file, classifier) == NULL)
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

static void read_tensors(const source *s, th_module *model)
{
    th_foreign_tensors list = {0};
    th_scope_begin(s->ctx, NULL);
    if (list_tensors(s, model, &list))
        for (int64_t i = 0; i < list.count && !th_failed(s->ctx); i++)
            if (th_safetensors_read_into(s->file, list.tensor[i].name, list.tensor[i].tensor) != TH_OK)
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

/* Checks that the factors of LongRoPE are those of config.json. */
static void check_factors(const source *s, const th_rotary_scaling *is, const th_rotary_scaling *wanted)
{
    for (int64_t i = 0; i < is->n_factors && !th_failed(s->ctx); i++)
        if (is->short_factor[i] != wanted->short_factor[i] || is->long_factor[i] != wanted->long_factor[i])
            th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation,
                    "the model's .block.scores.rotary_scaling has the factors %g (short) and %g (long) for pair %lld, "
                    "config.json in %.300s asks for %g and %g",
                    is->short_factor[i], is->long_factor[i], (long long)i, s->folder, wanted->short_factor[i],
                    wanted->long_factor[i]);
}

/* Returns the number of elements of each head that are rotated; 0: all. */
static double rotated(const th_language_model_options *o)
{
    const int64_t width = o->block.scores.rotary_width;
    return width == o->block.head_width ? 0 : (double)width;
}

/* Checks the options that shapes do not show against config.json. */
static void check_options(const source *s, const th_module *model)
{
    const th_language_model_options *is = th_language_model_options_of(model), *wanted = &s->config.options;
    const th_rotary_scaling *scaling = &is->block.scores.rotary_scaling, *asked = &wanted->block.scores.rotary_scaling;
    const struct {
        const char *name;
        double is, wanted;
    } fields[] = {
        {"heads", (double)is->heads, (double)wanted->heads},
        {"block.activation", is->block.activation, wanted->block.activation},
        {"block.norm", is->block.norm, wanted->block.norm},
        {"block.post_norm", is->block.post_norm, wanted->block.post_norm},
        {"block.output_norm", is->block.output_norm, wanted->block.output_norm},
        {"block.parallel", is->block.parallel, wanted->block.parallel},
        {"block.unit_offset", is->block.unit_offset, wanted->block.unit_offset},
        {"block.scale", is->block.scale, wanted->block.scale},
        {"block.eps", is->block.eps, wanted->block.eps},
        {"embedding_scale", is->embedding_scale, wanted->embedding_scale},
        {"logit_soft_cap", is->logit_soft_cap, wanted->logit_soft_cap},
        {"other_layers", is->other_layers != NULL, wanted->other_layers != NULL},
        {"scale_by_layer", is->scale_by_layer, wanted->scale_by_layer},
        {"positions", is->positions, wanted->positions},
        {"block.scores.rotary", is->block.scores.rotary, wanted->block.scores.rotary},
        {"block.scores.rotary_pairing", is->block.scores.rotary_pairing, wanted->block.scores.rotary_pairing},
        {"block.scores.rotary_base", is->block.scores.rotary_base, wanted->block.scores.rotary_base},
        {"block.scores.rotary_width", rotated(is), rotated(wanted)},
        {"block.scores.alibi", is->block.scores.alibi, wanted->block.scores.alibi},
        {"block.scores.soft_cap", is->block.scores.soft_cap, wanted->block.scores.soft_cap},
        {"block.scores.window", (double)is->block.scores.window, (double)wanted->block.scores.window},
        {"block.scores.rotary_scaling.kind", scaling->kind, asked->kind},
        {"block.scores.rotary_scaling.factor", scaling->factor, asked->factor},
        {"block.scores.rotary_scaling.low_freq_factor", scaling->low_freq_factor, asked->low_freq_factor},
        {"block.scores.rotary_scaling.high_freq_factor", scaling->high_freq_factor, asked->high_freq_factor},
        {"block.scores.rotary_scaling.original_length", (double)scaling->original_length,
         (double)asked->original_length},
        {"block.scores.rotary_scaling.attention_factor", scaling->attention_factor, asked->attention_factor},
        {"block.scores.rotary_scaling.beta_fast", scaling->beta_fast, asked->beta_fast},
        {"block.scores.rotary_scaling.beta_slow", scaling->beta_slow, asked->beta_slow},
        {"block.scores.rotary_scaling.mscale", scaling->mscale, asked->mscale},
        {"block.scores.rotary_scaling.mscale_all_dim", scaling->mscale_all_dim, asked->mscale_all_dim},
        {"block.scores.rotary_scaling.no_truncate", scaling->no_truncate, asked->no_truncate},
        {"block.scores.rotary_scaling.n_factors", (double)scaling->n_factors, (double)asked->n_factors},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].is != fields[i].wanted) {
            th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "the model's .%s is %g, config.json in %.300s asks for %g",
                    fields[i].name, fields[i].is, s->folder, fields[i].wanted);
            return;
        }
    check_factors(s, scaling, asked);
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

/* Returns the model. Its large weights have no values until they are read. */
static th_module *new_model(const source *s)
{
    th_weights_follow(s->ctx, true);
    th_module *model = th_language_model_new(s->ctx, &s->config.options);
    th_weights_follow(s->ctx, false);
    return model;
}

th_module *th_language_model_from_pretrained(th_context *ctx, const char *folder)
{
    source s = {.ctx = ctx, .operation = "language_model_from_pretrained", .folder = folder};
    th_module *model = NULL;
    if (!th_usable_context(ctx, s.operation))
        return NULL;
    if (open_source(&s) && th_shapes_first(s.file, &s.config.options, folder, s.operation, compare_shapes, &s) == TH_OK)
        model = new_model(&s);
    if (model)
        read_tensors(&s, model);
    th_safetensors_close(s.file);
    th_foreign_config_release(ctx, &s.config);
    if (model == NULL || !th_failed(ctx))
        return model;
    th_module_free(model);
    return NULL;
}
