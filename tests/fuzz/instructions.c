/* Fuzz target: chat templates and instruction data. The input is a chat template, NUL, and lines of JSON. The lines are
 * encoded by the template, as a program, and by every kind. Tokens and marks have the same length, and an error leaves
 * both as they were. */
#include "tapehead/models.h"

#include "fuzz.h"

enum { MEMORY = 64 << 20, MAX_LINES = 4096 };

static void check_lines(th_context *ctx, const th_chat_template *chat, th_tokenizer *tokenizer, fuzz_part lines)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    const th_status status =
        th_instruction_encode(chat, tokenizer, (const char *)lines.bytes, lines.count, "line", &tokens, &marks);
    if (tokens.count != marks.count || (status != TH_OK && tokens.count > 0) || (status == TH_OK && tokens.count < 2))
        abort();
    fuzz_failed(ctx, status != TH_OK);
    th_token_list_free(&tokens);
    th_text_free(&marks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_part part[2];
    fuzz_split(data, size, part, 2);
    if (part[1].count > MAX_LINES)
        part[1].count = MAX_LINES;
    th_context *ctx = fuzz_context(MEMORY);
    fuzz_write("chat_template.jinja", part[0].bytes, part[0].count);
    th_tokenizer *tokenizer = th_tokenizer_bytes_new(ctx);
    th_chat_template *loaded = th_chat_template_load(ctx, fuzz_path(""));
    fuzz_rejected(ctx, loaded == NULL, fuzz_path(""));
    if (loaded)
        check_lines(ctx, loaded, tokenizer, part[1]);
    (void)th_tokenizer_add(tokenizer, "<|im_end|>");
    for (int i = 0; th_chat_kind_name(i); i++) {
        th_chat_template *chat = th_chat_template_new(ctx, th_chat_kind_name(i), "<s>", "</s>");
        check_lines(ctx, chat, tokenizer, part[1]);
        th_chat_template_free(chat);
    }
    fuzz_context_free(ctx);
    return 0;
}
