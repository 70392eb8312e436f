/* Reads what follows the encoder in a folder of sentence-transformers: modules.json, and the files that it names. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/families/fields.h"
#include "models/gguf/folder.h"
#include "models/saved_models/hugging_face.h"
#include "models/saved_models/sentence_pooling.h"
#include "models/text/tokenizer.h"
#include "tapehead/safetensors.h"
#include "tapehead/sentence_embedding.h"
#include "tapehead/tensor.h"

typedef struct reading {
    th_context *ctx;
    const char *operation;
    const char *folder;
    th_sentence_options *options;
    bool encoder, pooling;
} reading;

/* Opens a JSON file of the folder; NULL with the error pending. */
static json_t *read_file(const reading *r, const char *name, char path[TH_MAX_PATH], size_t *memory)
{
    if (!th_hugging_face_path(r->ctx, r->operation, r->folder, name, path))
        return NULL;
    const th_json_source source = {r->ctx, r->operation, path};
    return th_json_read_file(&source, &th_config_limits, memory);
}

/* -- pooling -- */

const th_pooling_name th_pooling_names[TH_POOLING_NAMES] = {
    {"pooling_mode_cls_token", "cls", TH_POOL_CLS},
    {"pooling_mode_mean_tokens", "mean", TH_POOL_MEAN},
    {"pooling_mode_max_tokens", "max", TH_POOL_MAX},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", TH_POOL_MEAN_SQRT_LENGTH},
    {"pooling_mode_weightedmean_tokens", "weightedmean", TH_POOL_WEIGHTED_MEAN},
    {"pooling_mode_lasttoken", "lasttoken", TH_POOL_LAST},
};

static void read_pooling(const th_config *c, th_sentence_options *options)
{
    const char *name = th_config_string(c, "pooling_mode", "");
    int found = 0;
    for (int i = 0; i < TH_POOLING_NAMES; i++)
        if (strcmp(name, th_pooling_names[i].name) == 0 || th_config_flag(c, th_pooling_names[i].flag, false)) {
            options->pooling = th_pooling_names[i].kind;
            found++;
        }
    if (found != 1)
        th_config_fail(c,
                       "it has %d kinds of pooling; exactly one of cls, mean, max, mean_sqrt_len_tokens, weightedmean "
                       "and lasttoken is supported",
                       found);
    if (!th_config_flag(c, "include_prompt", true))
        th_config_refuse(c, "\"%s\" is false, which is not supported", "include_prompt");
}

/* -- dense layer -- */

/* Reads the weights, which must have the sizes of the file's configuration. */
static void read_dense_weights(const reading *r, const th_config *c, const char *path)
{
    th_safetensors *file = th_safetensors_open(r->ctx, path);
    const th_stored_tensor *weight = file ? th_safetensors_find(file, "linear.weight") : NULL;
    const bool bias = th_config_flag(c, "bias", true);
    const int64_t in = th_config_integer(c, "in_features", 1, 0), out = th_config_integer(c, "out_features", 1, 0);
    if (file &&
        (weight == NULL || weight->shape.ndim != 2 || weight->shape.size[0] != out || weight->shape.size[1] != in))
        th_config_fail(c, "its \"linear.weight\" in model.safetensors is not (%lld, %lld)", (long long)out,
                       (long long)in);
    th_module *dense =
        th_failed(r->ctx) ? NULL : th_dense_new(r->ctx, in, out, &(th_dense_layer_options){.no_bias = !bias});
    th_status status = dense
                           ? th_safetensors_read_into(file, "linear.weight", th_module_find_parameter(dense, "weight"))
                           : th_error_code(r->ctx);
    if (status == TH_OK && bias)
        status = th_safetensors_read_into(file, "linear.bias", th_module_find_parameter(dense, "bias"));
    th_safetensors_close(file);
    if (status != TH_OK)
        th_module_free(dense);
    r->options->dense = status == TH_OK ? dense : NULL;
}

static void read_dense(const reading *r, const th_config *c, const char *path)
{
    static const char same[] = "sentence_embedding";
    const char *activation = th_config_string(c, "activation_function", "torch.nn.modules.activation.Tanh");
    const char *dot = strrchr(activation, '.');
    r->options->dense_tanh = dot && strcmp(dot, ".Tanh") == 0;
    if (!r->options->dense_tanh && (dot == NULL || strcmp(dot, ".Identity") != 0))
        th_config_refuse(c, "the activation \"%s\" is not supported; Tanh and Identity are", activation);
    if (th_config_flag(c, "use_residual", false))
        th_config_refuse(c, "\"%s\" is true, which is not supported", "use_residual");
    if (strcmp(th_config_string(c, "module_input_name", same), same) != 0 ||
        strcmp(th_config_string(c, "module_output_name", same), same) != 0)
        th_config_refuse(c, "it does not read and write the \"%s\"", same);
    if (!th_failed(r->ctx))
        read_dense_weights(r, c, path);
}

/* -- modules -- */

/* Opens a file that a folder may lack. Returns false without it, or with the error pending. */
static bool open_optional(const reading *r, const char *name, char path[TH_MAX_PATH], th_config *c, size_t *memory)
{
    struct stat status;
    if (!th_hugging_face_path(r->ctx, r->operation, r->folder, name, path) || th_path_exists(path, &status) == 0)
        return false;
    *c = (th_config){{r->ctx, r->operation, path}, NULL};
    c->object = read_file(r, name, path, memory);
    return c->object != NULL;
}

/* Checks that the folder's tokenizer makes letters small, as do_lower_case demands: then sentence-transformers changes no
 * token. */
static void check_lower_case(const reading *r, const th_config *c)
{
    th_tokenizer *t = th_tokenizer_load(r->ctx, r->folder);
    if (t && !th_normalizer_lowers(&t->normalizer))
        th_config_refuse(c, "\"%s\" is true, but the tokenizer keeps capital letters, which is not supported",
                         "do_lower_case");
    th_tokenizer_free(t);
}

/* Reads sentence_bert_config.json, if the folder has it. */
static void read_length(const reading *r)
{
    char path[TH_MAX_PATH];
    size_t memory;
    th_config c;
    if (!open_optional(r, "sentence_bert_config.json", path, &c, &memory))
        return;
    r->options->length = th_config_integer(&c, "max_seq_length", 1, 0);
    const char *task = th_config_string(&c, "transformer_task", "feature-extraction");
    if (strcmp(task, "feature-extraction") != 0)
        th_config_refuse(&c, "the transformer_task \"%s\" is not supported; feature-extraction is", task);
    if (th_config_flag(&c, "do_lower_case", false))
        check_lower_case(r, &c);
    th_json_release(r->ctx, (json_t *)(uintptr_t)c.object, memory);
}

/* Copies a prompt of config_sentence_transformers.json, if the folder has it. name: NULL for the default. */
static void read_prompt(const reading *r, const char *name)
{
    char path[TH_MAX_PATH];
    size_t memory;
    th_config c;
    if (!open_optional(r, "config_sentence_transformers.json", path, &c, &memory)) {
        if (name && !th_failed(r->ctx))
            th_fail(r->ctx, TH_ERROR_FILE, r->operation, "%.300s has no prompts", r->folder);
        return;
    }
    const char *chosen = name ? name : th_config_string(&c, "default_prompt_name", NULL);
    const char *prompt = chosen ? json_string_value(json_object_get(json_object_get(c.object, "prompts"), chosen)) : "";
    if (prompt == NULL)
        th_config_refuse(&c, "it has no prompt \"%s\"", chosen);
    else if (strlen(prompt) >= TH_PROMPT_SIZE)
        th_config_fail(&c, "a prompt has %zu bytes; at most %d are supported", strlen(prompt), TH_PROMPT_SIZE - 1);
    else
        strcpy(r->options->prompt, prompt);
    th_json_release(r->ctx, (json_t *)(uintptr_t)c.object, memory);
}

/* Reads the config.json of a module in its own folder. */
static void read_module_folder(const reading *r, const char *path, bool pooling)
{
    char name[TH_MAX_PATH], folder[TH_MAX_PATH], full[TH_MAX_PATH];
    size_t memory;
    if (!th_path_join(name, path, "config.json")) {
        th_fail(r->ctx, TH_ERROR_FILE, r->operation, "%.300s: a path is too long", r->folder);
        return;
    }
    json_t *file = read_file(r, name, full, &memory);
    const th_config c = {{r->ctx, r->operation, full}, file};
    if (file && pooling)
        read_pooling(&c, r->options);
    else if (file && th_hugging_face_path(r->ctx, r->operation, r->folder, path, folder))
        read_dense(r, &c, folder);
    th_json_release(r->ctx, file, memory);
}

/* Reads a module, whose type ends with the name of its class. The modules must be an encoder, a pooling, and perhaps a
 * dense layer and a normalization, in this order. */
static void read_module(reading *r, const th_config *c)
{
    const char *type = th_config_string(c, "type", ""), *path = th_config_string(c, "path", "");
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
    if (path[0] == '/' || strstr(path, ".."))
        th_config_refuse(c, "the path \"%s\" leaves the folder", path);
    else if (strcmp(name, "Transformer") == 0 && !r->encoder && path[0] == 0)
        r->encoder = true;
    else if (strcmp(name, "Pooling") == 0 && r->encoder && !r->pooling)
        read_module_folder(r, path, r->pooling = true);
    else if (strcmp(name, "Dense") == 0 && r->pooling && !r->options->dense && !r->options->normalize)
        read_module_folder(r, path, false);
    else if (strcmp(name, "Normalize") == 0 && r->pooling && !r->options->normalize)
        r->options->normalize = true;
    else
        th_config_refuse(c,
                         "the module \"%s\" is not supported here; a Transformer in the folder itself, a Pooling, "
                         "a Dense and a Normalize are, in this order",
                         type);
}

th_status th_sentence_options_read(th_context *ctx, const char *folder, th_sentence_options *options)
{
    char path[TH_MAX_PATH];
    size_t memory, i;
    const json_t *module;
    static const char operation[] = "sentence_options_read";
    th_sentence_options read = {.prompt = ""};
    reading r = {.ctx = ctx, .operation = operation, .folder = folder, .options = &read};
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || options == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder or the options are NULL");
    if (th_gguf_is_file(folder))
        return th_gguf_read_sentence(ctx, operation, folder, options);
    json_t *modules = read_file(&r, "modules.json", path, &memory);
    if (modules == NULL)
        return th_error_code(ctx);
    const th_config whole = {{ctx, operation, path}, modules};
    json_array_foreach (modules, i, module) {
        if (!th_failed(ctx))
            read_module(&r, &(th_config){whole.source, module});
    }
    if (!th_failed(ctx) && !r.pooling)
        th_config_refuse(&whole, "it has no %s", "Pooling");
    th_json_release(ctx, modules, memory);
    if (!th_failed(ctx))
        read_length(&r);
    if (!th_failed(ctx))
        read_prompt(&r, NULL);
    if (!th_failed(ctx))
        *options = read;
    else if (read.dense)
        th_module_free(read.dense);
    return th_error_code(ctx);
}

th_status th_sentence_prompt_read(th_context *ctx, const char *folder, const char *name, th_sentence_options *options)
{
    static const char operation[] = "sentence_prompt_read";
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || name == NULL || options == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder, the name or the options are NULL");
    read_prompt(&(reading){.ctx = ctx, .operation = operation, .folder = folder, .options = options}, name);
    return th_error_code(ctx);
}
