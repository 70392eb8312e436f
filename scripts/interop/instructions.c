/* Encodes instruction data for the comparison with TRL (instructions.py):
 *     instructions encode FOLDER LINES [KIND]         prints for each line its tokens, a bar and its marks; or "error: " ...
 *     instructions write FOLDER LINES PROMPT [KIND]   prints the text of each line, a conversation, as JSON; PROMPT 0 or 1
 * FOLDER: a transformers folder with tokenizer and chat template. KIND: of the template, otherwise it is the folder's. */
#define _POSIX_C_SOURCE 200809L /* getline */
#include <jansson.h>
#include <sys/types.h>

#include "driver.h"

static void print_tokens(const th_token_list *tokens, const th_text *marks)
{
    for (size_t i = 0; i < tokens->count; i++)
        printf("%d ", tokens->token[i]);
    putchar('|');
    for (size_t i = 0; i < marks->count; i++)
        printf(" %d", marks->bytes[i] & TH_TOKEN_GIVEN ? 0 : 1);
    putchar('\n');
}

static void encode(th_context *ctx, const th_chat_template *chat, th_tokenizer *tokenizer, const char *line,
                   size_t bytes)
{
    th_token_list tokens = {0};
    th_text marks = {0};
    if (th_instruction_encode(chat, tokenizer, line, bytes, "line", &tokens, &marks) == TH_OK)
        print_tokens(&tokens, &marks);
    else
        printf("error: %s\n", th_error_text(ctx));
    th_error_clear(ctx);
    th_token_list_free(&tokens);
    th_text_free(&marks);
}

static void write_text(th_context *ctx, const th_chat_template *chat, const char *line, size_t bytes, bool prompt)
{
    th_text text = {0};
    const bool written = th_chat_write_json(chat, line, bytes, &(th_chat_options){.prompt = prompt}, &text) == TH_OK;
    json_t *shown = json_object();
    json_object_set_new(shown, written ? "text" : "error",
                        written ? json_stringn(text.bytes, text.count) : json_string(th_error_text(ctx)));
    th_error_clear(ctx);
    json_dumpf(shown, stdout, JSON_ENSURE_ASCII);
    putchar('\n');
    json_decref(shown);
    th_text_free(&text);
}

int main(int argc, char **argv)
{
    if (argc < 4 || (strcmp(argv[1], "write") == 0 && argc < 5))
        return 2;
    th_context *ctx = th_context_new(NULL);
    const bool encodes = strcmp(argv[1], "encode") == 0;
    th_chat_template *chat = th_chat_template_load_as(ctx, argv[2], argv[encodes ? 4 : 5]);
    driver_check(ctx);
    th_tokenizer *tokenizer = encodes ? th_tokenizer_load(ctx, argv[2]) : NULL;
    driver_check(ctx);
    FILE *file = fopen(argv[3], "r");
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; file && (length = getline(&line, &capacity, file)) > 0;)
        if (tokenizer)
            encode(ctx, chat, tokenizer, line, (size_t)length);
        else
            write_text(ctx, chat, line, (size_t)length, argv[4][0] == '1');
    free(line);
    if (file)
        fclose(file);
    th_context_free(ctx);
    return EXIT_SUCCESS;
}
