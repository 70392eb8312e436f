/* Writes adapters as a folder that PEFT loads. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "models/core/context.h"
#include "models/families/writer.h"
#include "models/files/file_set.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/peft.h"
#include "models/saved_models/safetensors_write.h"
#include "tapehead/ops.h"
#include "tapehead/peft.h"
#include "tapehead/safetensors.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

static const char operation[] = "lora_save";

typedef struct saving {
    th_context *ctx;
    const char *folder;
    th_lora_save_options given;
    th_peft_slices slices;
    th_peft_adapters list;
    th_lora_setting setting; /* of the first adapter */
} saving;

/* -- adapter_config.json -- */

static const char *last_component(const char *module)
{
    const char *dot = strrchr(module, '.');
    return dot ? dot + 1 : module;
}

/* Returns whether the last component of module i's name can stand for all modules that have it: all are adapted.
 * *earlier: whether a module before i has it. */
static bool last_component_suffices(const saving *s, int64_t i, bool *earlier)
{
    bool all = true;
    *earlier = false;
    for (int64_t k = 0; k < s->list.modules && all; k++)
        if (strcmp(last_component(s->list.module[k].module), last_component(s->list.module[i].module)) == 0) {
            all = s->list.module[k].adapted;
            *earlier |= k < i;
        }
    return all;
}

static void put_targets(th_writer *w, const saving *s)
{
    const char *separator = "";
    th_put_key(w, "target_modules");
    fputs("[", w->file);
    for (int64_t i = 0; i < s->list.modules; i++) {
        bool earlier;
        if (!s->list.module[i].adapted)
            continue;
        const bool fits = last_component_suffices(s, i, &earlier);
        if (fits && earlier)
            continue;
        fprintf(w->file, "%s\"%s\"", separator,
                fits ? last_component(s->list.module[i].module) : s->list.module[i].module);
        separator = ", ";
    }
    fputs("]", w->file);
}

/* Writes an integer without a point, as PEFT does. */
static void put_real(FILE *file, double value)
{
    th_writer w = {.file = file};
    if (value == floor(value) && fabs(value) < 1e15)
        fprintf(file, "%lld", (long long)value);
    else
        th_put_value(&w, value);
}

/* Writes the ranks or alphas that differ from the first adapter. */
static void put_pattern(th_writer *w, const char *key, const saving *s, bool ranks)
{
    const char *separator = "";
    th_put_key(w, key);
    fputs("{", w->file);
    for (int64_t i = 0; i < s->list.modules; i++) {
        const th_peft_adapter *m = &s->list.module[i];
        const double value = ranks ? (double)m->rank : m->alpha;
        if (!m->adapted || value == (ranks ? (double)s->setting.rank : s->setting.alpha))
            continue;
        fprintf(w->file, "%s\"%s\": ", separator, m->module);
        put_real(w->file, value);
        separator = ", ";
    }
    fputs("}", w->file);
}

static void put_string(th_writer *w, const char *key, const char *text)
{
    json_t *string = json_string(text);
    th_put_key(w, key);
    if (string == NULL || json_dumpf(string, w->file, JSON_ENCODE_ANY) != 0)
        errno = errno ? errno : ENOMEM;
    json_decref(string);
}

static bool put_config(FILE *file, const void *content)
{
    const saving *s = content;
    th_writer w = {.file = file};
    put_pattern(&w, "alpha_pattern", s, false);
    th_put_null(&w, "auto_mapping");
    if (s->given.base_model)
        put_string(&w, "base_model_name_or_path", s->given.base_model);
    else
        th_put_null(&w, "base_model_name_or_path");
    th_put_text(&w, "bias", "none");
    th_put_flag(&w, "fan_in_fan_out", false);
    th_put_flag(&w, "inference_mode", true);
    th_put_flag(&w, "init_lora_weights", true);
    th_put_key(&w, "lora_alpha");
    put_real(file, s->setting.alpha);
    th_put_number(&w, "lora_dropout", s->setting.dropout);
    th_put_null(&w, "modules_to_save");
    th_put_text(&w, "peft_type", "LORA");
    th_put_integer(&w, "r", s->setting.rank);
    put_pattern(&w, "rank_pattern", s, true);
    put_targets(&w, s);
    th_put_text(&w, "task_type", "CAUSAL_LM");
    th_put_flag(&w, "use_dora", false);
    th_put_flag(&w, "use_rslora", s->setting.rank_stabilized);
    fputs("\n}\n", file);
    return !ferror(file) && errno == 0; /* put_string has no other way to report a lack of memory */
}

/* -- the folder -- */

/* Sets *family to the family that the caller names, or that config.json in the base's folder names; otherwise NULL. */
static th_status named_family(const saving *s, const th_family **family)
{
    th_context *ctx = s->ctx;
    char path[TH_MAX_PATH];
    *family = s->given.family ? th_family_find(s->given.family) : NULL;
    if (s->given.family && *family == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown family \"%.60s\"", s->given.family);
    if (s->given.family || s->given.base_model == NULL || !th_path_join(path, s->given.base_model, "config.json") ||
        access(path, F_OK) != 0)
        return TH_OK;
    th_foreign_config config;
    if (th_hugging_face_read_config(ctx, operation, s->given.base_model, &config) != TH_OK)
        return th_error_code(ctx);
    *family = config.family;
    th_foreign_config_release(ctx, &config);
    return TH_OK;
}

/* Checks the options, and lists the projections. */
static th_status prepare_saving(saving *s, th_module *model)
{
    th_context *ctx = s->ctx;
    const th_family *only;
    if (s->given.base_model && !th_is_utf8(s->given.base_model))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "base_model is not UTF-8");
    th_projection p = th_projections_begin(model);
    if (!th_projection_next_adapted(&p))
        return th_fail(ctx, TH_ERROR_STATE, operation, "%s has no adapter", model->type);
    s->setting = (*p.lora)->setting;
    if (named_family(s, &only) != TH_OK)
        return th_error_code(ctx);
    const th_family *family = th_hugging_face_family(ctx, operation, th_language_model_options_of(model), only);
    if (family == NULL || th_peft_slices_list(model, family, false, operation, &s->slices) != TH_OK)
        return th_error_code(ctx);
    if (s->slices.count == 0)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s has no names for all projections", family->title);
    return TH_OK;
}

/* Replaces the adapter of the folder. Meanwhile the folder has no configuration, so it is not an adapter. */
static th_status publish_adapter(th_safetensors_writer *weights, th_file_set *config)
{
    const th_status status = th_file_set_remove_old_version(config);
    if (status != TH_OK) {
        th_atomic_discard(&weights->file);
        return status;
    }
    return th_safetensors_writer_publish(weights) == TH_OK ? th_file_set_publish(config) : th_error_code(config->ctx);
}

/* Completes both files, and then replaces the files of an older adapter. */
static th_status write_files(saving *s, const char *path, th_safetensors_item *tensors)
{
    static const th_named_text metadata = {"format", "pt"};
    const th_safetensors_contents contents = {s->ctx, operation, path, tensors, s->list.tensors, &metadata, 1, NULL};
    th_safetensors_writer weights;
    th_file_set config = {.ctx = s->ctx, .operation = operation, .folder = s->folder};
    th_status status = th_file_set_make_folder(&config);
    if (status == TH_OK && (status = th_safetensors_writer_prepare(&weights, &contents)) == TH_OK) {
        status = th_file_set_add(&config, TH_PEFT_CONFIG, put_config, s);
        if (status == TH_OK)
            status = publish_adapter(&weights, &config);
        else
            th_atomic_discard(&weights.file);
    }
    th_file_set_free(&config);
    return status;
}

static void write_folder(saving *s)
{
    static const th_peft_naming naming = {TH_PEFT_PREFIX, TH_PEFT_A, TH_PEFT_B};
    char path[TH_MAX_PATH];
    size_t bytes;
    if (th_peft_adapters_list(s->ctx, operation, &s->slices, &naming, &s->list) != TH_OK ||
        !th_hugging_face_path(s->ctx, operation, s->folder, TH_PEFT_WEIGHTS, path))
        return;
    th_safetensors_item *tensors =
        th_safetensors_list_items(s->ctx, operation, s->list.tensor, s->list.tensors, &bytes);
    if (tensors == NULL)
        return;
    (void)(write_files(s, path, tensors) == TH_OK); /* the error is pending */
    th_release(s->ctx, tensors, bytes);
}

th_status th_lora_save(th_module *model, const char *folder, const th_lora_save_options *options)
{
    if (th_peft_check_model(model, folder, operation) != TH_OK)
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    th_context *ctx = model->ctx;
    saving s = {.ctx = ctx, .folder = folder};
    if (options)
        s.given = *options;
    if (prepare_saving(&s, model) == TH_OK) {
        th_scope_begin(ctx, NULL);
        th_no_grad_begin(ctx);
        write_folder(&s);
        th_no_grad_end(ctx);
        th_scope_end(ctx, NULL);
    }
    th_peft_adapters_end(ctx, &s.list);
    th_peft_slices_end(ctx, &s.slices);
    return th_error_code(ctx);
}
