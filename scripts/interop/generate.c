/* generate FOLDER MODEL [OPTION VALUE]...: runs th_generate with a model that transformers saved. Reads prompts (B,
 * T) and lengths (B). Writes tokens, generated (the number of new tokens) and, for beam search, scores; with
 * log_probabilities 1, log_probabilities. */
#include "driver.h"

int main(int argc, char **argv)
{
    if (argc < 3 || argc % 2 == 0)
        return 2;
    const char *folder = argv[1];
    th_context *ctx = th_context_new(NULL);
    th_module *model = th_language_model_from_pretrained(ctx, argv[2]);
    driver_check(ctx);
    int64_t end = -1;
    th_generate_options options = {.prompts = driver_read(ctx, folder, "prompts"),
                                   .lengths = driver_read(ctx, folder, "lengths"),
                                   .end_tokens = &end};
    for (int i = 3; i < argc; i += 2) {
        const double value = atof(argv[i + 1]);
        const struct {
            const char *name;
            double *real;
            int64_t *whole;
        } names[] = {
            {"temperature", &options.temperature, NULL},
            {"top_p", &options.top_p, NULL},
            {"min_p", &options.min_p, NULL},
            {"repetition_penalty", &options.repetition_penalty, NULL},
            {"length_penalty", &options.length_penalty, NULL},
            {"top_k", NULL, &options.top_k},
            {"beams", NULL, &options.beams},
            {"sequences", NULL, &options.sequences},
            {"no_repeat_ngram_size", NULL, &options.no_repeat_ngram_size},
            {"max_new_tokens", NULL, &options.max_new_tokens},
            {"end", NULL, &end},
        };
        size_t n = 0;
        while (n < sizeof names / sizeof names[0] && strcmp(names[n].name, argv[i]) != 0)
            n++;
        if (n < sizeof names / sizeof names[0] && names[n].real)
            *names[n].real = value;
        else if (n < sizeof names / sizeof names[0])
            *names[n].whole = (int64_t)value;
        else if (strcmp(argv[i], "early_stopping") == 0)
            options.early_stopping = value != 0;
        else if (strcmp(argv[i], "log_probabilities") == 0)
            options.log_probabilities = value != 0;
        else
            return 2;
    }
    options.n_end_tokens = end >= 0;
    th_generated result = {0};
    if (th_generate(model, &options, &result))
        driver_check(ctx);
    driver_write(ctx, folder, "tokens", result.tokens);
    driver_write(ctx, folder, "generated", result.lengths);
    if (result.scores)
        driver_write(ctx, folder, "scores", result.scores);
    if (result.log_probabilities)
        driver_write(ctx, folder, "log_probabilities", result.log_probabilities);
    th_context_free(ctx);
}
