/* Opens a folder of transformers and compares it with a model: see hugging_face_source.h. */
#include "models/saved_models/hugging_face_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/saved_models/differences.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

/* Returns the name without the prefix that a file may omit. */
static const char *without_prefix(const th_folder_source *s, const char *name)
{
    const char *prefix = s->config.family->prefix;
    const size_t length = strlen(prefix);
    return strncmp(name, prefix, length) == 0 ? name + length : name;
}

/* Returns the file's own name for a tensor of the text part of a model with pictures, or NULL. transformers 4 and 5 put
 * this part in different places. */
static const char *name_in_text_part(const th_folder_source *s, const char *name)
{
    static const char *const before[] = {"language_model.", "model.language_model."};
    const char *const after[] = {name, without_prefix(s, name)};
    char full[TH_FULL_NAME_SIZE];
    for (int i = 0; s->config.has_pictures && i < 2; i++) {
        snprintf(full, sizeof full, "%s%s", before[i], after[i]);
        const th_stored_tensor *found = th_safetensors_find(s->file, full);
        if (found)
            return found->name;
    }
    return NULL;
}

/* Returns the file's own name for the weight or bias of a LayerNorm, or NULL: gamma and beta in the first files of BERT. */
static const char *name_of_old_norm(const th_folder_source *s, const char *name)
{
    static const char *const ends[][2] = {{"LayerNorm.weight", "gamma"}, {"LayerNorm.bias", "beta"}};
    const char *const forms[] = {name, without_prefix(s, name)};
    char full[TH_FULL_NAME_SIZE];
    for (int end = 0; end < 2; end++)
        for (int form = 0; form < 2 && th_name_ends_with(name, ends[end][0]); form++) {
            snprintf(full, sizeof full, "%.*s%s", (int)(strrchr(forms[form], '.') + 1 - forms[form]), forms[form],
                     ends[end][1]);
            const th_stored_tensor *found = th_safetensors_find(s->file, full);
            if (found)
                return found->name;
        }
    return NULL;
}

/* Returns the file's name for a tensor, or NULL. The file may omit the prefix. */
static const char *find_name(const th_folder_source *s, const char *name)
{
    if (th_safetensors_find(s->file, name))
        return name;
    if (th_safetensors_find(s->file, without_prefix(s, name)))
        return without_prefix(s, name);
    const char *old = name_of_old_norm(s, name);
    return old ? old : name_in_text_part(s, name);
}

/* Returns the name of the classifier in the file, or NULL. */
static const char *classifier_in_file(const th_folder_source *s)
{
    const char *other = s->config.family->other_classifier, *found = find_name(s, s->config.family->classifier);
    return found || other == NULL ? found : find_name(s, other);
}

/* Returns the file's name for a tensor. The file may have another name for the classifier. A file with a tied embedding
 * may have only the classifier. */
static const char *name_in_file(const th_folder_source *s, const char *name)
{
    const char *found = find_name(s, name);
    if (found)
        return found;
    const bool tied = !s->config.options.untied && strcmp(name, s->config.family->embedding) == 0;
    const bool classifier = strcmp(name, s->config.family->classifier) == 0;
    return (tied || classifier) && classifier_in_file(s) ? classifier_in_file(s) : name;
}

/* Whether a tensor belongs to the part of a model that reads pictures. */
static bool is_of_pictures(const th_folder_source *s, const char *name)
{
    static const char *const parts[] = {"vision_tower.", "multi_modal_projector."};
    const size_t outer = strncmp(name, "model.", 6) == 0 ? 6 : 0;
    for (int i = 0; s->config.has_pictures && i < 2; i++)
        if (strncmp(name + outer, parts[i], strlen(parts[i])) == 0)
            return true;
    return false;
}

static bool has_beginning(const char *const *list, const char *name)
{
    for (const char *const *beginning = list; beginning && *beginning; beginning++)
        if (strncmp(name, *beginning, strlen(*beginning)) == 0)
            return true;
    return false;
}

/* Whether the family does not read a tensor, or a new head replaces it. */
static bool is_of_other_outputs(const th_folder_source *s, const char *name)
{
    const th_family *family = s->config.family;
    return has_beginning(family->ignored, without_prefix(s, name)) ||
           (s->new_head && has_beginning(family->outputs, without_prefix(s, name)));
}

/* Whether a tensor is ignored: buffers that older versions saved, the classifier of a model that uses the embedding,
 * and what reads pictures. */
static bool is_ignored(const th_folder_source *s, const char *name)
{
    const char *classifier = classifier_in_file(s);
    if (classifier && strcmp(name, classifier) == 0)
        return !s->config.options.untied || s->new_head;
    return is_of_pictures(s, name) || is_of_other_outputs(s, name) || th_name_ends_with(name, ".attn.bias") ||
           th_name_ends_with(name, ".attn.masked_bias") || th_name_ends_with(name, ".attention.bias") ||
           th_name_ends_with(name, ".attention.masked_bias") || th_name_ends_with(name, ".rotary_emb.inv_freq");
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const th_foreign_tensor *)a)->name, ((const th_foreign_tensor *)b)->name);
}

static void compare_tensor(const th_foreign_tensor *wanted, const th_stored_tensor *stored, th_differences *d)
{
    char quoted[TH_QUOTED];
    const th_shape *here = &wanted->shape, *in_file = &stored->shape;
    if (in_file->ndim != here->ndim ||
        memcmp(in_file->size, here->size, (size_t)here->ndim * sizeof here->size[0]) != 0)
        th_report_difference(d, TH_OTHER_SHAPE, "different shape: %s is %s in the file and %s in the model",
                             th_quote(stored->name, quoted), TH_SIZES_TEXT(in_file->ndim, in_file->size),
                             TH_SIZES_TEXT(here->ndim, here->size));
    else if (!stored->readable || !th_is_floating(stored->dtype))
        th_report_difference(d, TH_OTHER_TYPE, "different type: %s is %s in the file", th_quote(stored->name, quoted),
                             stored->type);
}

/* Checks that the file has every wanted tensor, and that all others can be ignored. Sorts the wanted tensors. */
static th_status match_tensors(const th_folder_source *s, th_foreign_tensors *wanted)
{
    th_differences d = {s->ctx, s->operation, s->folder, s->given.report, s->given.report_user, {0}, ""};
    char quoted[TH_QUOTED];
    for (int64_t i = 0; i < wanted->count; i++) {
        const th_foreign_tensor *t = &wanted->tensor[i];
        const th_stored_tensor *stored = th_safetensors_find(s->file, t->name);
        if (stored)
            compare_tensor(t, stored, &d);
        else
            th_report_difference(&d, TH_MISSING, "missing: %s", t->name);
    }
    qsort(wanted->tensor, (size_t)wanted->count, sizeof wanted->tensor[0], compare_names);
    for (int64_t i = 0; i < th_safetensors_count(s->file); i++) {
        const th_foreign_tensor found = {.name = th_safetensors_at(s->file, i)->name};
        if (!is_ignored(s, found.name) &&
            bsearch(&found, wanted->tensor, (size_t)wanted->count, sizeof found, compare_names) == NULL)
            th_report_difference(&d, TH_UNEXPECTED, "unexpected: %s", th_quote(found.name, quoted));
    }
    return th_differences_end(&d);
}

/* Whether a tensor belongs to a head. A head has parameters of its own only, so each is one view. */
static bool is_of_head(const th_family_head *head, const char *name)
{
    for (const th_tensor_name *n = head ? head->tensors : NULL; n && n->ours; n++)
        if (strcmp(n->theirs, name) == 0)
            return true;
    return false;
}

/* Whether the file has the tensor in this shape. */
static bool has_tensor(const th_folder_source *s, const th_foreign_tensor *t)
{
    const th_stored_tensor *stored = th_safetensors_find(s->file, name_in_file(s, t->name));
    return stored && stored->shape.ndim == t->shape.ndim &&
           memcmp(stored->shape.size, t->shape.size, (size_t)t->shape.ndim * sizeof t->shape.size[0]) == 0;
}

/* Removes the tensors of a new head that the file does not have: they keep their first values. */
static void remove_new_tensors(const th_folder_source *s, const th_module *model, th_foreign_tensors *list)
{
    const th_family_head *head = th_family_head_find(s->config.family, th_language_model_options_of(model)->head.kind);
    int64_t kept = 0;
    for (int64_t i = 0; i < list->count; i++)
        if (!is_of_head(head, list->tensor[i].name) || has_tensor(s, &list->tensor[i]))
            list->tensor[kept++] = list->tensor[i];
    list->count = kept;
}

th_status th_folder_list(const th_folder_source *s, th_module *model, th_foreign_tensors *list)
{
    const th_status status = th_foreign_tensors_list(model, s->config.family, s->operation, false, list);
    if (status == TH_OK && s->new_head)
        remove_new_tensors(s, model, list);
    for (int64_t i = 0; status == TH_OK && i < list->count; i++)
        list->tensor[i].name = name_in_file(s, list->tensor[i].name);
    return status;
}

th_status th_folder_match(const th_folder_source *s, th_module *model, th_foreign_tensors *list)
{
    const th_status status = th_folder_list(s, model, list);
    return status == TH_OK ? match_tensors(s, list) : status;
}

void th_folder_check_tied(const th_folder_source *s, th_tensor *embedding)
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

/* -- opening -- */

bool th_folder_open(th_folder_source *s)
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

void th_folder_close(th_folder_source *s)
{
    th_safetensors_close(s->file);
    th_foreign_config_release(s->ctx, &s->config);
}

th_status th_folder_check_options(const th_folder_source *s, const th_language_model_options *given)
{
    const th_language_model_options is = th_normal_options(given), wanted = th_normal_options(&s->config.options);
    th_option_difference difference[TH_MAX_OPTIONS];
    if (is.layers != wanted.layers)
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation,
                "the model's .layers is %lld, config.json in %.300s asks for %lld", (long long)is.layers, s->folder,
                (long long)wanted.layers);
    else if (th_options_compare(&is, &wanted, difference) > 0)
        th_fail(s->ctx, TH_ERROR_ARGUMENT, s->operation, "the model's %s is %g, config.json in %.300s asks for %g",
                difference[0].name, difference[0].a, s->folder, difference[0].b);
    return th_error_code(s->ctx);
}
