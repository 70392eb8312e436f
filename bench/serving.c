/* Times th_sentence_encode on the lines of a file: a frozen model, some lines in each call. Prints one line of name=value
 * pairs. encoder_serving.py compares it with onnxruntime and llama.cpp. */
#include <tapehead/models.h>

#include "measure.h"
#include "options.h"
#include "precision.h"
#include "suggest.h"

#include <string.h>

static const char program[] = "serving";
static const char *folder, *texts, *embeddings_file, *precision = "float32";
static int64_t batch = 1, threads;
static double seconds = 1;
static bool q8;
static const program_option options[] = {
    {"folder", "of sentence-transformers", .text = &folder},
    {"texts", "a file with a text in each line", .text = &texts},
    {"embeddings", "a file for the embeddings (lines, E), float32", .text = &embeddings_file},
    {"q8", "weights in q8_0", .flag = &q8},
    {"precision", "of matrix products: float32, bfloat16x3, bfloat16 or int8", .text = &precision},
    {"batch", "texts in each call", .integer = &batch, .low = 1, .high = 1e6},
    {"threads", "0: one for each processor", .integer = &threads, .low = 0, .high = 1024},
    {"seconds", "to measure; the fastest pass over the file counts", .real = &seconds, .low = 0, .high = 1000},
    {0},
};

/* What a pass over the file needs. */
typedef struct pass {
    th_context *ctx;
    th_module *model;
    th_tokenizer *tokenizer;
    th_sentence_options sentence;
    const char **line;
    int64_t lines, width;
    float *embeddings; /* (lines, width) */
} pass;

static void read_lines(pass *p)
{
    size_t bytes = 0;
    FILE *file = fopen(texts, "r");
    char *text = NULL;
    if (file == NULL || getdelim(&text, &bytes, 0, file) < 1)
        give_up(program, "--texts cannot be read");
    fclose(file);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        p->line = realloc(p->line, (size_t)(p->lines + 1) * sizeof *p->line);
        if (p->line == NULL)
            give_up(program, "out of memory");
        p->line[p->lines++] = line;
    }
}

static void encode_all(void *what)
{
    const pass *p = what;
    for (int64_t i = 0; i < p->lines; i += batch) {
        const int64_t n = p->lines - i < batch ? p->lines - i : batch;
        if (th_sentence_encode(p->model, p->tokenizer, p->line + i, n, &p->sentence, p->embeddings + i * p->width))
            give_up(program, th_error_message(p->ctx));
    }
}

static void write_embeddings(const pass *p)
{
    FILE *file = fopen(embeddings_file, "w");
    const size_t count = (size_t)(p->lines * p->width);
    if (file == NULL || fwrite(p->embeddings, sizeof *p->embeddings, count, file) != count || fclose(file) != 0)
        give_up(program, "--embeddings cannot be written");
}

int main(int argc, char **argv)
{
    parse_options(argc, argv, program, "serving: sentence embeddings of the lines of a file", options);
    if (folder == NULL || texts == NULL)
        give_up(program, "--folder and --texts are required");
    th_context *ctx = th_context_new(
        &(th_context_options){.threads = (int)threads, .precision = precision_named(program, precision)});
    pass p = {.ctx = ctx};
    read_lines(&p);
    p.model = th_language_model_from_folder(
        ctx, folder, &(th_folder_load_options){.frozen = true, .type = q8 ? TH_Q8_0 : TH_FLOAT32});
    p.tokenizer = th_tokenizer_load(ctx, folder);
    if (p.model == NULL || p.tokenizer == NULL || th_sentence_options_read(ctx, folder, &p.sentence))
        give_up(program, th_error_message(ctx));
    p.width = th_sentence_dimension(p.model, &p.sentence);
    p.embeddings = malloc((size_t)(p.lines * p.width) * sizeof *p.embeddings);
    if (p.embeddings == NULL)
        give_up(program, "out of memory");
    const double least = least_seconds(encode_all, &p, seconds);
    printf("texts=%lld batch=%lld ms_of_a_text=%.4f peak_rss_mib=%.0f build=\"%s\"\n", (long long)p.lines,
           (long long)batch, least * 1e3 / (double)p.lines, peak_rss_mib(), th_build_info(ctx));
    if (embeddings_file)
        write_embeddings(&p);
    th_context_free(ctx);
    return end_with_suggestion(program, argv[0], NULL, "serving", (const char *const[]){"--batch", "32", NULL});
}
