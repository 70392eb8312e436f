/* The subcommands embed and search. */
#include <string.h>

#include "encoder/encoder.h"

static void require_embeddings(const encoder *e, const char *path)
{
    if (e->task != TASK_EMBED)
        refuse(PROGRAM, "this model has a head; embeddings need a model without one: ", path);
}

/* Returns how many bytes the UTF-8 character at text has; 0 if it is invalid. */
static int character_bytes(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    const int bytes = c[0] < 0x80                   ? 1
                      : c[0] >= 0xc2 && c[0] < 0xe0 ? 2
                      : (c[0] & 0xf0) == 0xe0       ? 3
                      : c[0] >= 0xf0 && c[0] < 0xf5 ? 4
                                                    : 0;
    for (int i = 1; i < bytes; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    const bool other = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) ||
                       (c[0] == 0xf0 && c[1] < 0x90) ||
                       (c[0] == 0xf4 && c[1] > 0x8f); /* longer than needed, a surrogate, or beyond U+10FFFF */
    return other ? 0 : bytes;
}

/* Writes a text as JSON does. Invalid bytes become U+FFFD. */
static void write_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (int bytes; *text; text += bytes ? bytes : 1)
        if ((bytes = character_bytes(text)) != 1)
            fprintf(file, "%.*s", bytes ? bytes : 3, bytes ? text : "\xef\xbf\xbd");
        else if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    fputc('"', file);
}

/* Returns the embeddings (n, E) of the lines, as a tensor that the caller owns. */
static th_tensor *embed_lines(const encoder *e, const char *const *lines, int64_t count)
{
    const int64_t width = th_sentence_dimension(e->model, &e->sentences);
    th_tensor *all = th_empty(e->ctx, TH_FLOAT32, TH_SHAPE(count, width));
    require_no_error(e->ctx);
    require_ok(e->ctx, th_sentence_encode(e->model, e->tokenizer, lines, count, &e->sentences, th_data(all)));
    return all;
}

static void print_embeddings(const char *const *lines, const th_tensor *embeddings)
{
    const int64_t count = th_size(embeddings, 0), width = th_size(embeddings, 1);
    const float *x = th_data_const(embeddings);
    for (int64_t i = 0; i < count; i++) {
        printf("{\"text\": ");
        write_json_text(stdout, lines[i]);
        printf(", \"embedding\": [");
        for (int64_t j = 0; j < width; j++)
            printf("%s%.9g", j ? ", " : "", (double)x[i * width + j]);
        printf("]}\n");
    }
}

int embed(int argc, char **argv)
{
    const char *words[2] = {NULL}, *out = NULL;
    model_use use = DEFAULT_USE;
    const program_option options[] = {
        {"out", "an npy file (n, E) for the embeddings; without it JSON lines are printed", .text = &out},
        USE_OPTIONS(use),
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM,
                                "encoder embed RUN FILE\nComputes the embedding of each line of a file, or of - .",
                                options, words, 2) < 2)
        refuse(PROGRAM, "embed needs a run or the folder of a model, and a file", "");
    encoder e = open_for_use(words[0], &use);
    require_embeddings(&e, words[0]);
    line_list lines = read_lines_or_text(words[1]);
    th_tensor *embeddings = embed_lines(&e, lines.line, lines.count);
    if (out) {
        require_ok(e.ctx, th_npy_write(embeddings, out));
        print_written(out);
    } else {
        print_embeddings(lines.line, embeddings);
    }
    free_lines(&lines);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}

typedef struct hit {
    int64_t line;
    double cosine;
} hit;

static int compare_hits(const void *a, const void *b)
{
    const hit *x = a, *y = b;
    return x->cosine != y->cosine ? (x->cosine < y->cosine) - (x->cosine > y->cosine)
                                  : (x->line > y->line) - (x->line < y->line);
}

/* Returns the lines with their cosines with the last row, sorted by them. */
static hit *rank_lines(const th_tensor *embeddings, int64_t count)
{
    const int64_t width = th_size(embeddings, 1);
    const float *x = th_data_const(embeddings), *query = x + count * width;
    hit *hits = malloc((size_t)count * sizeof *hits);
    if (hits == NULL)
        give_up(PROGRAM, "out of memory");
    for (int64_t i = 0; i < count; i++) {
        double product = 0, a = 0, b = 0;
        for (int64_t j = 0; j < width; j++) {
            const double u = (double)x[i * width + j], v = (double)query[j];
            product += u * v;
            a += u * u;
            b += v * v;
        }
        hits[i] = (hit){i, product / sqrt(a * b)};
    }
    qsort(hits, (size_t)count, sizeof *hits, compare_hits);
    return hits;
}

int search(int argc, char **argv)
{
    const char *words[3] = {NULL};
    int64_t top = 5;
    model_use use = DEFAULT_USE;
    const program_option options[] = {
        {"top", "lines to print", .integer = &top, .low = 1, .high = 1e9}, USE_OPTIONS(use), {0}};
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "encoder search RUN FILE QUERY\n"
            "Prints the lines of a file whose embeddings have the largest cosines with the query's.",
            options, words, 3) < 3)
        refuse(PROGRAM, "search needs a run or the folder of a model, a file, and a query", "");
    encoder e = open_for_use(words[0], &use);
    require_embeddings(&e, words[0]);
    line_list lines = read_lines(words[1]);
    lines.line = realloc(lines.line, (size_t)(lines.count + 1) * sizeof *lines.line);
    if (lines.line == NULL)
        give_up(PROGRAM, "out of memory");
    lines.line[lines.count] = words[2];
    hit *hits = rank_lines(embed_lines(&e, lines.line, lines.count + 1), lines.count);
    for (int64_t i = 0; i < top && i < lines.count; i++)
        printf("%.4f\t%s\n", hits[i].cosine, lines.line[hits[i].line]);
    free(hits);
    free_lines(&lines);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}
