/* Reads what follows the encoder in a folder of sentence-transformers: modules.json, and the files that it names. */
#include <string.h>

#include "models/core/context.h"
#include "models/core/files.h"
#include "models/families/fields.h"
#include "models/saved_models/hugging_face.h"
#include "tapehead/sentence_embedding.h"

static const char operation[] = "sentence_options_read";

typedef struct reading {
    th_context *ctx;
    const char *folder;
    th_sentence_options *options;
    bool encoder, pooling;
} reading;

/* Opens a JSON file of the folder; NULL with the error pending. */
static json_t *read_file(const reading *r, const char *name, char path[TH_MAX_PATH], size_t *memory)
{
    if (!th_hugging_face_path(r->ctx, operation, r->folder, name, path))
        return NULL;
    const th_json_source source = {r->ctx, operation, path};
    return th_json_read_file(&source, &th_config_limits, memory);
}

/* -- pooling -- */

static const struct {
    const char *flag, *name; /* in files of older and of newer versions */
    th_pooling_kind kind;
} kinds[] = {
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
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(name, kinds[i].name) == 0 || th_config_flag(c, kinds[i].flag, false)) {
            options->pooling = kinds[i].kind;
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

/* -- modules -- */

/* Reads sentence_bert_config.json, if the folder has it. */
static void read_length(const reading *r)
{
    char path[TH_MAX_PATH];
    struct stat status;
    size_t memory;
    static const char name[] = "sentence_bert_config.json";
    if (!th_hugging_face_path(r->ctx, operation, r->folder, name, path) || th_path_exists(path, &status) == 0)
        return;
    json_t *file = read_file(r, name, path, &memory);
    const th_config c = {{r->ctx, operation, path}, file};
    if (file == NULL)
        return;
    r->options->length = th_config_integer(&c, "max_seq_length", 1, 0);
    const char *task = th_config_string(&c, "transformer_task", "feature-extraction");
    if (strcmp(task, "feature-extraction") != 0)
        th_config_refuse(&c, "the transformer_task \"%s\" is not supported; feature-extraction is", task);
    if (th_config_flag(&c, "do_lower_case", false))
        th_config_refuse(&c, "\"%s\" is true, which is not supported", "do_lower_case");
    th_json_release(r->ctx, file, memory);
}

static void read_pooling_module(reading *r, const char *path)
{
    char name[TH_MAX_PATH], full[TH_MAX_PATH];
    size_t memory;
    if (!th_path_join(name, path, "config.json")) {
        th_fail(r->ctx, TH_ERROR_FILE, operation, "%.300s: a path is too long", r->folder);
        return;
    }
    json_t *file = read_file(r, name, full, &memory);
    if (file)
        read_pooling(&(th_config){{r->ctx, operation, full}, file}, r->options);
    th_json_release(r->ctx, file, memory);
    r->pooling = true;
}

/* Reads a module, whose type ends with the name of its class. The modules must be an encoder, a pooling, and perhaps a
 * normalization, in this order. */
static void read_module(reading *r, const th_config *c)
{
    const char *type = th_config_string(c, "type", ""), *path = th_config_string(c, "path", "");
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : type;
    if (path[0] == '/' || strstr(path, ".."))
        th_config_refuse(c, "the path \"%s\" leaves the folder", path);
    else if (strcmp(name, "Transformer") == 0 && !r->encoder && path[0] == 0)
        r->encoder = true;
    else if (strcmp(name, "Pooling") == 0 && r->encoder && !r->pooling)
        read_pooling_module(r, path);
    else if (strcmp(name, "Normalize") == 0 && r->pooling && !r->options->normalize)
        r->options->normalize = true;
    else
        th_config_refuse(c,
                         "the module \"%s\" is not supported here; a Transformer in the folder itself, a Pooling and a "
                         "Normalize are, in this order",
                         type);
}

th_status th_sentence_options_read(th_context *ctx, const char *folder, th_sentence_options *options)
{
    char path[TH_MAX_PATH];
    size_t memory, i;
    const json_t *module;
    th_sentence_options read = {0};
    reading r = {.ctx = ctx, .folder = folder, .options = &read};
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || options == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "the folder or the options are NULL");
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
        *options = read;
    return th_error_code(ctx);
}
