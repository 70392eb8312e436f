/* Writes a folder of sentence-transformers: the encoder and its tokenizer as th_language_model_export does, and the
 * modules that follow it. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "models/core/context.h"
#include "models/core/modules.h"
#include "models/families/options.h"
#include "models/files/file_set.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/sentence_pooling.h"
#include "tapehead/safetensors.h"
#include "tapehead/sentence_embedding.h"
#include "tapehead/tensor.h"

static const char operation[] = "sentence_export";

typedef struct exporting {
    th_context *ctx;
    th_module *model;
    const char *folder;
    const th_sentence_options *sentence;
    const th_language_model_options *options; /* of the model */
} exporting;

/* -- the contents of the files -- */

static json_t *module_json(int number, const char *path, const char *type)
{
    char name[12];
    snprintf(name, sizeof name, "%d", number);
    json_t *full = json_sprintf("sentence_transformers.models.%s", type);
    return json_pack("{s:i, s:s, s:s, s:o}", "idx", number, "name", name, "path", path, "type", full);
}

static json_t *modules_json(const exporting *e)
{
    json_t *list = json_array();
    json_array_append_new(list, module_json(0, "", "Transformer"));
    json_array_append_new(list, module_json(1, "1_Pooling", "Pooling"));
    if (e->sentence->dense)
        json_array_append_new(list, module_json(2, "2_Dense", "Dense"));
    if (e->sentence->normalize)
        json_array_append_new(list, e->sentence->dense ? module_json(3, "3_Normalize", "Normalize")
                                                       : module_json(2, "2_Normalize", "Normalize"));
    return list;
}

static json_t *pooling_json(const exporting *e)
{
    json_t *object =
        json_pack("{s:I, s:b}", "word_embedding_dimension", (json_int_t)e->options->width, "include_prompt", 1);
    for (int i = 0; i < TH_POOLING_NAMES; i++)
        json_object_set_new(object, th_pooling_names[i].flag,
                            json_boolean(th_pooling_names[i].kind == e->sentence->pooling));
    return object;
}

static json_t *dense_json(const exporting *e)
{
    const th_tensor *weight = th_module_find_parameter(e->sentence->dense, "weight");
    return json_pack("{s:I, s:I, s:b, s:s}", "in_features", (json_int_t)th_size(weight, 1), "out_features",
                     (json_int_t)th_size(weight, 0), "bias",
                     th_module_find_parameter(e->sentence->dense, "bias") != NULL, "activation_function",
                     e->sentence->dense_tanh ? "torch.nn.modules.activation.Tanh" : "torch.nn.modules.linear.Identity");
}

static json_t *length_json(const exporting *e)
{
    const int64_t given = e->sentence->length, longest = e->options->length;
    return json_pack("{s:I, s:b}", "max_seq_length", (json_int_t)(given > 0 && given < longest ? given : longest),
                     "do_lower_case", 0);
}

static json_t *prompts_json(const exporting *e)
{
    const char *prompt = e->sentence->prompt;
    return prompt[0] ? json_pack("{s:{s:s}, s:s}", "prompts", "default", prompt, "default_prompt_name", "default")
                     : json_pack("{s:{}, s:n}", "prompts", "default_prompt_name");
}

/* -- files -- */

static bool write_text(FILE *file, const void *text)
{
    return fputs(text, file) >= 0;
}

/* Returns the value as text, which the caller frees, and releases the value. NULL with the error pending. */
static char *text_of(const exporting *e, json_t *value)
{
    char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (text == NULL)
        (void)th_fail_memory(e->ctx, operation, 0);
    return text;
}

/* Writes a file with the value in a folder, which it creates if necessary. Releases the value. */
static th_status write_value(const exporting *e, const char *folder, const char *name, json_t *value)
{
    th_file_set set = {.ctx = e->ctx, .operation = operation, .folder = folder};
    char *text = text_of(e, value);
    th_status status = text ? th_file_set_make_folder(&set) : th_error_code(e->ctx);
    if (status == TH_OK)
        status = th_file_set_add(&set, name, write_text, text);
    if (status == TH_OK)
        status = th_file_set_publish(&set);
    th_file_set_free(&set);
    free(text);
    return status;
}

static th_status write_dense(const exporting *e)
{
    char folder[TH_MAX_PATH], path[TH_MAX_PATH];
    if (!th_hugging_face_path(e->ctx, operation, e->folder, "2_Dense", folder) ||
        !th_hugging_face_path(e->ctx, operation, folder, "model.safetensors", path) ||
        write_value(e, folder, "config.json", dense_json(e)) != TH_OK)
        return th_error_code(e->ctx);
    th_named_tensor tensors[] = {{"linear.weight", th_module_find_parameter(e->sentence->dense, "weight")},
                                 {"linear.bias", th_module_find_parameter(e->sentence->dense, "bias")}};
    return th_safetensors_write(e->ctx, path, tensors, tensors[1].tensor ? 2 : 1, NULL, 0);
}

static th_status write_modules(const exporting *e)
{
    char folder[TH_MAX_PATH];
    th_status status = th_hugging_face_path(e->ctx, operation, e->folder, "1_Pooling", folder)
                           ? write_value(e, folder, "config.json", pooling_json(e))
                           : th_error_code(e->ctx);
    if (status == TH_OK && e->sentence->dense)
        status = write_dense(e);
    return status == TH_OK ? write_value(e, e->folder, "modules.json", modules_json(e)) : status;
}

/* Writes the encoder, its tokenizer and the other files of the folder itself, which then has no modules.json. */
static th_status write_encoder(const exporting *e, const th_export_options *given)
{
    th_export_options options = *given;
    char *length = text_of(e, length_json(e)), *prompts = text_of(e, prompts_json(e));
    th_export_file *files = calloc((size_t)given->n_files + 3, sizeof *files);
    th_status status = length && prompts ? TH_OK : th_error_code(e->ctx);
    if (status == TH_OK && files == NULL)
        status = th_fail_memory(e->ctx, operation, 0);
    if (status == TH_OK) {
        files[0] = (th_export_file){.name = "modules.json"};
        files[1] = (th_export_file){"sentence_bert_config.json", length, strlen(length)};
        files[2] = (th_export_file){"config_sentence_transformers.json", prompts, strlen(prompts)};
        if (given->n_files > 0)
            memcpy(files + 3, given->files, (size_t)given->n_files * sizeof *files);
        options.files = files;
        options.n_files += 3;
        status = th_language_model_export(e->model, e->folder, &options);
    }
    free(files);
    free(length);
    free(prompts);
    return status;
}

/* -- the public function -- */

static bool is_dense(const th_module *m)
{
    const th_tensor *weight = m ? th_module_find_parameter(m, "weight") : NULL;
    return weight && th_ndim(weight) == 2;
}

th_status th_sentence_export(th_module *model, const char *folder, const th_sentence_options *sentence,
                             const th_export_options *options)
{
    if (!th_module_usable(model, operation))
        return model ? th_error_code(model->ctx) : TH_ERROR_ARGUMENT;
    const exporting e = {model->ctx, model, folder, sentence, th_require_language_model(model, operation)};
    if (e.options == NULL)
        return th_error_code(e.ctx);
    if (folder == NULL || sentence == NULL || options == NULL || options->tokenizer == NULL || options->n_files < 0 ||
        (options->n_files > 0 && options->files == NULL))
        return th_fail(e.ctx, TH_ERROR_ARGUMENT, operation,
                       "needs a folder, sentence options, a tokenizer, and files if n_files is not 0");
    if ((unsigned)sentence->pooling > TH_POOL_LAST || (sentence->dense && !is_dense(sentence->dense)))
        return th_fail(e.ctx, TH_ERROR_ARGUMENT, operation, "%s",
                       sentence->dense ? "dense has no matrix \"weight\"" : "unknown kind of pooling");
    if (write_encoder(&e, options) != TH_OK)
        return th_error_code(e.ctx);
    return write_modules(&e);
}
