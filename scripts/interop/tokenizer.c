/* Runs tokenizers for the comparisons with Hugging Face's tokenizers (bpe.py) and tiktoken (tiktoken_encodings.py):
 *     tokenizer encode|document PATH TEXTS      prints a line for each text: its ids, or "error: " and the message
 *     tokenizer train FOLDER VOCABULARY MIN_FREQUENCY MAX_BYTES PATTERN TEXT SPECIAL...   PATTERN "" means GPT-2's
 *     tokenizer word_piece FOLDER VOCABULARY MIN_FREQUENCY LIMIT_ALPHABET CASED TEXT SPECIAL...   CASED is 0 or 1
 *     tokenizer characters FOLDER TEXT          saves a tokenizer of the text's characters
 *     tokenizer bytes FOLDER                    saves a tokenizer of bytes
 *     tokenizer again PATH FOLDER               loads a tokenizer and saves it
 *     tokenizer decode|stream PATH IDS          prints the text of each line of ids, and ff fe ff; at once, or
 *                                             token by token
 * TEXTS is a file with texts that are separated by the bytes ff fe ff. Seconds of processor time are printed to standard
 * error. */
#include <time.h>

#include "driver.h"

static const char separator[] = "\xff\xfe\xff";

/* Returns the processor time of this process, which other processes change less than the time of day. */
static double now(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

static char *read_all(const char *path, size_t *bytes)
{
    enum { MAX_BYTES = 1 << 28 };
    FILE *file = fopen(path, "rb");
    char *text = malloc(MAX_BYTES);
    if (file == NULL || text == NULL) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(EXIT_FAILURE);
    }
    *bytes = fread(text, 1, MAX_BYTES - 1, file);
    text[*bytes] = 0;
    fclose(file);
    return text;
}

static size_t length_of(const char *text, const char *end)
{
    const char *at = text;
    while (end - at >= 3 && memcmp(at, separator, 3) != 0)
        at++;
    return end - at >= 3 ? (size_t)(at - text) : (size_t)(end - text);
}

static void encode(th_context *ctx, bool document, const char *path, const char *texts)
{
    size_t bytes;
    char *all = read_all(texts, &bytes);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    driver_check(ctx);
    th_token_list tokens = {0};
    double seconds = 0;
    for (const char *text = all; text <= all + bytes;) {
        const size_t length = length_of(text, all + bytes);
        tokens.count = 0;
        const double start = now();
        const th_status status = document ? th_tokenizer_encode_document(t, text, length, &tokens)
                                          : th_tokenizer_encode(t, text, length, &tokens);
        seconds += now() - start;
        if (status)
            printf("error: %s", th_error_message(ctx));
        th_error_clear(ctx);
        for (size_t i = 0; i < tokens.count; i++)
            printf("%ld ", (long)tokens.token[i]);
        printf("\n");
        text += length + 3;
    }
    fprintf(stderr, "%.4f\n", seconds);
    th_token_list_free(&tokens);
    free(all);
}

/* Reads the ids of a line. Returns the next line. */
static char *read_line(char *line, th_token_list *tokens)
{
    char *const end = line + strcspn(line, "\n");
    tokens->count = 0;
    for (char *next; line < end; line = next) {
        const long token = strtol(line, &next, 10);
        if (next == line || next > end)
            break;
        if (tokens->count == tokens->capacity) {
            tokens->capacity = 2 * tokens->capacity + 16;
            tokens->token = realloc(tokens->token, tokens->capacity * sizeof *tokens->token);
        }
        tokens->token[tokens->count++] = (int32_t)token;
    }
    return *end ? end + 1 : end;
}

static void decode(th_context *ctx, bool stream, const char *path, const char *ids)
{
    size_t bytes;
    char *all = read_all(ids, &bytes);
    th_tokenizer *t = th_tokenizer_load(ctx, path);
    driver_check(ctx);
    th_token_list tokens = {0};
    th_text text = {0};
    for (char *line = all; *line;) {
        th_text_stream state = {.count = 0};
        line = read_line(line, &tokens);
        text.count = 0;
        for (size_t i = 0; stream && i < tokens.count; i++)
            if (th_tokenizer_write(t, &tokens.token[i], 1, &state, stdout))
                driver_check(ctx);
        if (stream ? th_tokenizer_write_end(t, &state, stdout)
                   : th_tokenizer_decode(t, tokens.token, tokens.count, &text))
            driver_check(ctx);
        fwrite(text.bytes, 1, text.count, stdout);
        fwrite(separator, 1, 3, stdout);
    }
    th_token_list_free(&tokens);
    th_text_free(&text);
    free(all);
}

static th_tokenizer *train(th_context *ctx, int count, char **argument)
{
    size_t bytes;
    char *text = read_all(argument[5], &bytes);
    const double start = now();
    th_tokenizer *t = th_tokenizer_train(ctx, text, bytes,
                                         &(th_bpe_options){
                                             .vocabulary = atoll(argument[1]),
                                             .min_frequency = atoll(argument[2]),
                                             .max_bytes = atoll(argument[3]),
                                             .pattern = argument[4][0] ? argument[4] : NULL,
                                             .specials = (const char *const *)argument + 6,
                                             .n_specials = count - 6,
                                         });
    fprintf(stderr, "%.4f\n", now() - start);
    free(text);
    return t;
}

static th_tokenizer *train_word_piece(th_context *ctx, int count, char **argument)
{
    size_t bytes;
    char *text = read_all(argument[5], &bytes);
    const double start = now();
    th_tokenizer *t = th_tokenizer_train_word_piece(ctx, text, bytes,
                                                    &(th_word_piece_options){
                                                        .vocabulary = atoll(argument[1]),
                                                        .min_frequency = atoll(argument[2]),
                                                        .limit_alphabet = atoll(argument[3]),
                                                        .cased = atoll(argument[4]) != 0,
                                                        .specials = (const char *const *)argument + 6,
                                                        .n_specials = count - 6,
                                                    });
    fprintf(stderr, "%.4f\n", now() - start);
    free(text);
    return t;
}

static th_tokenizer *characters(th_context *ctx, const char *path)
{
    size_t bytes;
    char *text = read_all(path, &bytes);
    th_tokenizer *t = th_tokenizer_characters_new(ctx, text, bytes);
    free(text);
    return t;
}

int main(int count, char **argument)
{
    th_context *ctx = th_context_new(NULL);
    const char *command = count > 2 ? argument[1] : "";
    th_tokenizer *t = NULL;
    const char *folder = count > 2 ? argument[2] : "";
    if (count > 3 && (strcmp(command, "encode") == 0 || strcmp(command, "document") == 0)) {
        encode(ctx, command[0] == 'd', argument[2], argument[3]);
        th_context_free(ctx);
        return 0;
    }
    if (count > 3 && (strcmp(command, "decode") == 0 || strcmp(command, "stream") == 0)) {
        decode(ctx, command[0] == 's', argument[2], argument[3]);
        th_context_free(ctx);
        return 0;
    }
    if (strcmp(command, "train") == 0 && count > 7)
        t = train(ctx, count - 2, argument + 2);
    else if (strcmp(command, "word_piece") == 0 && count > 7)
        t = train_word_piece(ctx, count - 2, argument + 2);
    else if (strcmp(command, "characters") == 0 && count > 3)
        t = characters(ctx, argument[3]);
    else if (strcmp(command, "bytes") == 0)
        t = th_tokenizer_bytes_new(ctx);
    else if (strcmp(command, "again") == 0 && count > 3)
        t = th_tokenizer_load(ctx, argument[2]), folder = argument[3];
    driver_check(ctx);
    if (t == NULL || th_tokenizer_save(t, folder))
        driver_check(ctx);
    th_context_free(ctx);
    return t ? 0 : 2;
}
