/* sentence_embeddings FOLDER MODEL TEXTS DIMENSIONS [EXPORT [STEPS]]: writes the embeddings (n, D) of the lines of a file,
 * with a folder of sentence-transformers or a GGUF file. With STEPS, first trains so many steps: the embeddings of
 * lines 2 i and 2 i + 1 become similar. With EXPORT, writes the folder EXPORT of sentence-transformers, or the GGUF file EXPORT.gguf. */
#include "driver.h"

enum { MAX_TEXTS = 4096, MAX_BYTES = 1 << 16 };

/* Trains with batches of 16 pairs: of all second texts, the one that belongs to the first text should be the closest. */
static void tune(th_module *model, th_tokenizer *tokenizer, const char *const *text, int count,
                 const th_sentence_options *options, int steps)
{
    enum { PAIRS = 16 };
    th_context *ctx = th_context_of(th_module_find_parameter(model, "embedding.weight"));
    th_optimizer *optimizer = th_adam_new(model, &(th_adam_options){.learning_rate = 2e-5});
    const char *batch[2 * PAIRS];
    for (int step = 0; step < steps; step++) {
        for (int i = 0; i < PAIRS; i++) {
            const int pair = (step * PAIRS + i) % (count / 2);
            batch[i] = text[2 * pair];
            batch[PAIRS + i] = text[2 * pair + 1];
        }
        th_tensor *x = th_sentence_embeddings(model, tokenizer, batch, 2 * PAIRS, options);
        th_tensor *a = th_slice(x, 0, 0, PAIRS, 1), *b = th_slice(x, 0, PAIRS, 2 * PAIRS, 1);
        th_tensor *scores = th_scale(th_matmul(a, th_swap_axes(b, 0, 1)), 20);
        th_tensor *loss = th_cross_entropy(scores, th_arange(ctx, TH_INT32, 0, PAIRS, 1), NULL);
        driver_check(ctx);
        if (step % 10 == 0 || step == steps - 1)
            fprintf(stderr, "step %d: loss %.4f\n", step, th_item(loss));
        if (th_backward(loss, NULL) || th_optimizer_step(optimizer))
            driver_check(ctx);
        th_tape_clear(ctx);
    }
}

static void export_model(th_context *ctx, th_module *model, th_tokenizer *tokenizer, const th_sentence_options *options,
                         const char *path)
{
    const size_t length = strlen(path);
    const bool gguf = length > 5 && strcmp(path + length - 5, ".gguf") == 0;
    const th_gguf_export_options file = {.tokenizer = tokenizer, .sentence = options};
    if (gguf ? th_language_model_export_gguf(model, path, &file)
             : th_sentence_export(model, path, options, &(th_export_options){.tokenizer = tokenizer}))
        driver_check(ctx);
}

int main(int argc, char **argv)
{
    static char *text[MAX_TEXTS], line[MAX_BYTES];
    if (argc < 5 || argc > 7)
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
    if (argc == 7)
        tune(model, tokenizer, (const char *const *)text, count, &options, atoi(argv[6]));
    options.dimensions = atoi(argv[4]);
    th_tensor *embeddings = th_empty(ctx, TH_FLOAT32, TH_SHAPE(count, th_sentence_dimension(model, &options)));
    driver_check(ctx);
    if (th_sentence_encode(model, tokenizer, (const char *const *)text, count, &options, th_data(embeddings)))
        driver_check(ctx);
    driver_write(ctx, argv[1], "embeddings", embeddings);
    driver_check(ctx);
    options.dimensions = 0;
    if (argc > 5)
        export_model(ctx, model, tokenizer, &options, argv[5]);
    th_context_free(ctx);
    for (int i = 0; i < count; i++)
        free(text[i]);
    if (file)
        fclose(file);
}
