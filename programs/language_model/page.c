/* Writes a page: see page.h. */
#include "page.h"

#include <string.h>

void append_first_tokens(first_tokens *first, const int32_t *tokens, size_t count)
{
    for (size_t i = 0; i < count && first->count < PAGE_TOKENS; i++)
        first->token[first->count++] = tokens[i];
}

/* Copies the texts of the tokens, each with its final 0. A long one is cut. */
static void spell_tokens(const th_tokenizer *tokenizer, const first_tokens *first, char text[PAGE_TOKENS][24],
                         const char *token[PAGE_TOKENS])
{
    for (int i = 0; i < first->count; i++) {
        size_t bytes = 0;
        const char *from = th_tokenizer_bytes(tokenizer, first->token[i], &bytes);
        bytes = bytes < sizeof text[i] ? bytes : sizeof text[i] - 1;
        if (from)
            memcpy(text[i], from, bytes);
        text[i][from ? bytes : 0] = 0;
        token[i] = text[i];
    }
}

th_status write_page(th_module *model, const th_tokenizer *tokenizer, const first_tokens *first, const char *path)
{
    th_context *ctx = model->ctx;
    char text[PAGE_TOKENS][24];
    const char *token[PAGE_TOKENS];
    const int64_t max_length = th_language_model_options_of(model)->length;
    const int count = first->count - 1 < max_length ? first->count - 1 : (int)max_length;
    const th_shape shape = TH_SHAPE(1, count);
    spell_tokens(tokenizer, first, text, token);
    th_tape_clear(ctx);
    th_set_training(ctx, false); /* without dropout */
    th_keep_values(ctx, true);
    th_step_begin(ctx);
    th_tensor *tokens = th_set_name(th_from_data(ctx, TH_INT32, shape, first->token), "tokens");
    th_tensor *targets = th_set_name(th_from_data(ctx, TH_INT32, shape, first->token + 1), "targets");
    th_tensor *loss = th_set_name(th_language_model_loss(model, tokens, targets, NULL), "loss");
    const th_html_options options = {.title = "A language model on a text", .tokens = token, .n_tokens = count};
    return th_backward(loss, NULL) ? th_error_code(ctx) : th_tape_write_html(ctx, path, &options);
}
