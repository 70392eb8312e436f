/* The description of a model in a folder of transformers: its options, and the token that ends a text. */
#include <unistd.h>

#include "models/core/context.h"
#include "models/families/family.h"
#include "models/gguf/folder.h"
#include "models/saved_models/hugging_face.h"
#include "tapehead/hugging_face.h"

bool th_hugging_face_path(th_context *ctx, const char *operation, const char *folder, const char *name,
                          char path[TH_MAX_PATH])
{
    if (th_path_join(path, folder, name))
        return true;
    th_fail(ctx, TH_ERROR_FILE, operation, "%.300s...: the path is too long", folder);
    return false;
}

th_status th_hugging_face_read_config(th_context *ctx, const char *operation, const char *folder,
                                      th_foreign_config *described)
{
    char path[TH_MAX_PATH];
    if (th_gguf_is_file(folder))
        return th_gguf_describe(ctx, operation, folder, described);
    return th_hugging_face_path(ctx, operation, folder, "config.json", path)
               ? th_foreign_config_read(ctx, operation, path, described)
               : th_error_code(ctx);
}

/* -- the public functions -- */

static void release_kept(th_context *ctx, void *kept)
{
    th_foreign_config_release(ctx, kept);
    th_release(ctx, kept, sizeof(th_foreign_config));
}

/* Gives the arrays of the options to the context, because th_language_model_options has no function that frees them. */
static th_status keep_arrays(th_context *ctx, const char *operation, th_foreign_config *read)
{
    const th_language_model_options *o = &read->options;
    if (o->block.scores.rotary_scaling.n_factors == 0 && o->other_layers == NULL && o->head.label_names == NULL)
        return TH_OK;
    th_foreign_config *kept = th_allocate(ctx, sizeof *kept);
    if (kept)
        *kept = *read;
    if (kept && th_attach_object(ctx, kept, release_kept))
        return TH_OK;
    th_release(ctx, kept, sizeof *kept);
    th_foreign_config_release(ctx, read);
    return th_fail_memory(ctx, operation, sizeof *kept);
}

th_status th_pretrained_options(th_context *ctx, const char *folder, th_language_model_options *options)
{
    static const char *const operation = "pretrained_options";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || options == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is NULL", folder ? "options" : "the folder");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) == TH_OK &&
        keep_arrays(ctx, operation, &read) == TH_OK)
        *options = read.options;
    return th_error_code(ctx);
}

th_status th_pretrained_end_token(th_context *ctx, const char *folder, int64_t *token)
{
    static const char *const operation = "pretrained_end_token";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || token == NULL)
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%s is NULL", folder ? "token" : "the folder");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) == TH_OK) {
        *token = read.end_token;
        th_foreign_config_release(ctx, &read);
    }
    return th_error_code(ctx);
}

/* Replaces the end tokens by those of generation_config.json, if that file exists and has any. */
static void read_generation_config(th_context *ctx, const char *operation, const char *folder, th_foreign_config *read)
{
    char path[TH_MAX_PATH];
    if (th_hugging_face_path(ctx, operation, folder, "generation_config.json", path) && access(path, F_OK) == 0)
        th_end_tokens_read_generation_config(ctx, operation, path, read);
}

th_status th_pretrained_end_tokens(th_context *ctx, const char *folder, int64_t *tokens, int max_tokens, int *count)
{
    static const char *const operation = "pretrained_end_tokens";
    th_foreign_config read;
    if (!th_usable_context(ctx, operation))
        return th_error_code(ctx);
    if (folder == NULL || count == NULL || max_tokens < 0 || (tokens == NULL && max_tokens > 0))
        return th_fail(ctx, TH_ERROR_ARGUMENT, operation, "needs a folder, memory for tokens and a count");
    if (th_hugging_face_read_config(ctx, operation, folder, &read) != TH_OK)
        return th_error_code(ctx);
    read_generation_config(ctx, operation, folder, &read);
    if (!th_failed(ctx) && read.n_end_tokens > max_tokens)
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "%.300s has %d end tokens, but there is memory for %d", folder,
                read.n_end_tokens, max_tokens);
    if (!th_failed(ctx)) {
        *count = read.n_end_tokens;
        for (int i = 0; i < read.n_end_tokens; i++)
            tokens[i] = read.end_tokens[i];
    }
    th_foreign_config_release(ctx, &read);
    return th_error_code(ctx);
}
