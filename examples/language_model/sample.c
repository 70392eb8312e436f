/* Text out of a model: see sample.h. */
#include "sample.h"

#include <string.h>

#include "settings.h"

typedef struct writing {
    const th_tokenizer *tokenizer;
    th_text_stream stream; /* a character may take several tokens */
    FILE *file;
    bool ignore_end; /* continues after an end token, and writes the token's name */
} writing;

static bool write_token(void *user, int64_t sequence, int64_t token)
{
    writing *w = user;
    (void)sequence;
    const bool named = w->ignore_end && token == chosen.end_token;
    if (token >= th_tokenizer_size(w->tokenizer) ||
        (!named && (token == chosen.end_token || th_tokenizer_is_special(w->tokenizer, token))))
        return true; /* the end, or what only fills up the model's vocabulary: neither has a text */
    return th_tokenizer_write(w->tokenizer, &(int32_t){(int32_t)token}, 1, &w->stream, w->file) == TH_OK &&
           fflush(w->file) == 0;
}

/* What follows the prompt (1, T). */
static th_status go_on(th_module *model, th_tensor *prompt, const th_generate_options *options, writing *w)
{
    const int64_t room = chosen.model.length - th_size(prompt, 1);
    th_generate_options how = *options;
    how.prompts = prompt;
    how.slide = how.beams <= 1;
    if (!how.slide && how.most_tokens > room) /* beams end where the model's length does */
        how.most_tokens = room;
    how.emit = write_token;
    how.user = w;
    how.end_tokens = &chosen.end_token;
    how.n_end_tokens = chosen.end_token >= 0 && !w->ignore_end ? 1 : 0;
    if (th_generate(model, &how, NULL))
        return th_error_code(model->ctx);
    return th_tokenizer_write_end(w->tokenizer, &w->stream, w->file);
}

th_status write_sample(th_module *model, th_tokenizer *tokenizer, const char *prompt,
                       const th_generate_options *options, bool ignore_end, FILE *file)
{
    writing w = {.tokenizer = tokenizer, .file = file, .ignore_end = ignore_end};
    th_token_list tokens = {0};
    size_t bytes = prompt ? strlen(prompt) : 1;
    if (prompt == NULL)
        prompt = th_tokenizer_find(tokenizer, "\n") >= 0 ? "\n" : th_tokenizer_bytes(tokenizer, 0, &bytes);
    if (th_tokenizer_encode(tokenizer, prompt, bytes, &tokens) == TH_OK &&
        th_tokenizer_write(tokenizer, tokens.token, tokens.count, &w.stream, file) == TH_OK) {
        th_tensor *t = th_from_data(model->ctx, TH_INT32, TH_SHAPE(1, (int64_t)tokens.count), tokens.token);
        (void)(go_on(model, t, options, &w) == TH_OK);
        th_tensor_free(t);
    }
    th_token_list_free(&tokens);
    return th_error_code(model->ctx);
}
