/* sentence_embeddings FOLDER MODEL TEXTS: writes the embeddings (n, E) of the lines of a file, with a folder of
 * sentence-transformers. Batches have 32 texts. */
#include "driver.h"

enum { MAX_TEXTS = 4096, MAX_BYTES = 1 << 16, BATCH = 32 };

int main(int argc, char **argv)
{
    static char *text[MAX_TEXTS], line[MAX_BYTES];
    if (argc != 4)
        return 2;
    th_context *ctx = th_context_new(NULL);
    th_sentence_options options;
    if (th_sentence_options_read(ctx, argv[2], &options))
        driver_check(ctx);
    th_module *model = th_language_model_from_pretrained(ctx, argv[2]);
    th_tokenizer *tokenizer = th_tokenizer_load(ctx, argv[2]);
    driver_check(ctx);
    th_set_training(ctx, false);
    FILE *file = fopen(argv[3], "r");
    int count = 0;
    while (file && count < MAX_TEXTS && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        text[count] = malloc(strlen(line) + 1);
        if (text[count] == NULL)
            return EXIT_FAILURE;
        strcpy(text[count++], line);
    }
    th_tensor *part[MAX_TEXTS / BATCH];
    int parts = 0;
    for (int i = 0; i < count; i += BATCH)
        part[parts++] = th_sentence_embeddings(model, tokenizer, (const char *const *)text + i,
                                               count - i < BATCH ? count - i : BATCH, &options);
    driver_write(ctx, argv[1], "embeddings", th_concat(part, parts, 0));
    driver_check(ctx);
    th_context_free(ctx);
    for (int i = 0; i < count; i++)
        free(text[i]);
    if (file)
        fclose(file);
}
