/* Encodes instruction data for the comparison with TRL (instructions.py):
 *     instructions encode FOLDER LINES         prints for each line its tokens, a bar and its marks; or "error: " ...
 *     instructions write FOLDER LINES PROMPT   prints the text of the messages of each line as a JSON string; PROMPT 0 or 1
 * FOLDER: a transformers folder with tokenizer and chat template. */
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
    enum { MAX_MESSAGES = 100 };
    th_chat_message messages[MAX_MESSAGES];
    th_text text = {0};
    json_t *object = json_loadb(line, bytes, 0, NULL), *list = json_object_get(object, "messages");
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count && i < MAX_MESSAGES; i++) {
        const json_t *m = json_array_get(list, i);
        messages[i] = (th_chat_message){json_string_value(json_object_get(m, "role")),
                                        json_string_value(json_object_get(m, "content"))};
    }
    json_t *written = NULL;
    if (th_chat_write(chat, messages, count, &(th_chat_options){.prompt = prompt}, &text) == TH_OK)
        written = json_stringn(text.bytes, text.count);
    else
        written = json_sprintf("error: %s", th_error_text(ctx));
    th_error_clear(ctx);
    char *shown = json_dumps(written, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    printf("%s\n", shown);
    free(shown);
    json_decref(written);
    json_decref(object);
    th_text_free(&text);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    th_context *ctx = th_context_new(NULL);
    th_chat_template *chat = th_chat_template_load(ctx, argv[2]);
    driver_check(ctx);
    th_tokenizer *tokenizer = strcmp(argv[1], "encode") == 0 ? th_tokenizer_load(ctx, argv[2]) : NULL;
    driver_check(ctx);
    FILE *file = fopen(argv[3], "r");
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t length; file && (length = getline(&line, &capacity, file)) > 0;)
        if (tokenizer)
            encode(ctx, chat, tokenizer, line, (size_t)length);
        else
            write_text(ctx, chat, line, (size_t)length, argc > 4 && argv[4][0] == '1');
    free(line);
    if (file)
        fclose(file);
    th_context_free(ctx);
    return EXIT_SUCCESS;
}
