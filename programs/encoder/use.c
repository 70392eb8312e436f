/* The subcommands that use a model: eval, predict, embed, search, export. */
#include <errno.h>
#include <string.h>

#include "encoder/encoder.h"
#include "shared/system.h"
#include "shared/texts.h"

enum { BATCH = 32 };

/* How the subcommands use a model. */
typedef struct model_use {
    int64_t threads;
    const char *weights, *precision;
} model_use;
#define USE_OPTIONS(use)                                                                                               \
    {"weights", "store them as bfloat16, float16, q8_0 or q4_0 (default: float32)", .text = &(use).weights},           \
        {"precision", PRECISION_HELP, .text = &(use).precision},                                                       \
    {                                                                                                                  \
        "threads", "0: one for each processor", .integer = &(use).threads, .low = 0, .high = 1024                      \
    }
#define DEFAULT_USE                                                                                                    \
    {                                                                                                                  \
        .precision = "float32"                                                                                         \
    }

/* Returns the storage type of --weights. Ends the program for another word. */
static th_dtype parse_weights(const char *word)
{
    static const th_dtype types[] = {TH_FLOAT32, TH_BFLOAT16, TH_FLOAT16, TH_Q8_0, TH_Q4_0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (word == NULL || strcmp(word, th_dtype_name(types[i])) == 0)
            return types[i];
    refuse(PROGRAM, "--weights takes float32, bfloat16, float16, q8_0 or q4_0, not ", word);
    return TH_FLOAT32;
}

static encoder open_for(const char *path, const model_use *use)
{
    encoder e = {.ctx = th_context_new(&(th_context_options){.threads = (int)use->threads,
                                                             .precision = parse_precision(PROGRAM, use->precision)})};
    require_no_error(e.ctx);
    open_encoder(&e, path, parse_weights(use->weights));
    (void)note_int8(PROGRAM, e.model, "; --weights q8_0 stores weights so");
    return e;
}

static void require_embeddings(const encoder *e, const char *path)
{
    if (e->task != TASK_EMBED)
        refuse(PROGRAM, "this model has a head; embeddings need a model without one: ", path);
}

int eval(int argc, char **argv)
{
    const char *words[2] = {NULL};
    model_use use = DEFAULT_USE;
    const program_option options[] = {
        {"text", "the columns of the texts, between commas", .text = &chosen.text_columns},
        {"label", "the column of the label or the score", .text = &chosen.label_column},
        USE_OPTIONS(use),
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM, "encoder eval RUN DATA\nMeasures a model on examples.", options,
                                words, 2) < 2)
        refuse(PROGRAM, "eval needs a run or the folder of a model, and a file of examples", "");
    encoder e = open_for(words[0], &use);
    const th_text_example_options read = example_options(e.task, &e);
    th_text_examples data = {.count = 0};
    evaluation result;
    read_examples(e.ctx, words[1], &read, &data);
    if (e.task == TASK_EMBED && texts_of(&data) < 2)
        refuse(PROGRAM, "eval of embeddings needs pairs of texts: ", words[1]);
    require_ok(e.ctx, evaluate(&e, &data, BATCH, NULL, &result));
    printf(PROGRAM ": examples=%lld", (long long)data.count);
    if (!isnan(result.loss))
        printf(" loss=%.4f", result.loss);
    for (int i = 0; i < result.measures; i++)
        printf(" %s=%.4f", result.measure[i].name, result.measure[i].value);
    printf("\n");
    th_text_examples_free(&data);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}

/* -- lines -- */

/* The lines of a file that are not empty, without their line breaks. */
typedef struct line_list {
    char *bytes;
    const char **line;
    int64_t count;
} line_list;

static line_list split_lines(const char *bytes, size_t count)
{
    line_list list = {.bytes = malloc(count + 1)};
    size_t capacity = 1;
    for (size_t i = 0; i < count; i++)
        capacity += bytes[i] == '\n';
    list.line = malloc(capacity * sizeof *list.line);
    if (list.bytes == NULL || list.line == NULL)
        give_up(PROGRAM, "out of memory");
    memcpy(list.bytes, bytes, count);
    list.bytes[count] = 0;
    for (char *at = list.bytes, *end = list.bytes + count; at < end;) {
        char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        *line_end = 0;
        if (line_end > at && line_end[-1] == '\r')
            line_end[-1] = 0;
        if (*at)
            list.line[list.count++] = at;
        at = line_end + 1;
    }
    return list;
}

static line_list read_lines(const char *path)
{
    texts file = open_texts(&path, 1, NULL);
    line_list list = split_lines(file.bytes, file.count);
    close_texts(&file);
    if (list.count == 0)
        refuse(PROGRAM, "the file has no line with text: ", path);
    return list;
}

/* Returns the lines of a file or of "-", or else the word itself as a line. */
static line_list read_lines_or_text(const char *word)
{
    struct stat status;
    return strcmp(word, "-") == 0 || stat(word, &status) == 0 ? read_lines(word) : split_lines(word, strlen(word));
}

static void free_lines(line_list *list)
{
    free(list->bytes);
    free(list->line);
}

/* Writes a text as JSON does. */
static void write_json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(file, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, file);
    fputc('"', file);
}

/* -- predict -- */

/* Prints each label with a probability of at least 0.5, or the most probable one. */
static void print_labels(const encoder *e, const float *logits)
{
    double sum = 0, best = -INFINITY;
    int64_t argmax = 0;
    for (int64_t i = 0; i < e->n_labels; i++)
        if ((double)logits[i] > best) {
            best = (double)logits[i];
            argmax = i;
        }
    for (int64_t i = 0; i < e->n_labels; i++)
        sum += exp((double)logits[i] - best);
    if (!e->several_labels) {
        printf("%s %.4f", e->label_names[argmax], 1 / sum);
        return;
    }
    const char *separator = "";
    for (int64_t i = 0; i < e->n_labels; i++) {
        const double p = 1 / (1 + exp(-(double)logits[i]));
        if (p >= 0.5) {
            printf("%s%s %.4f", separator, e->label_names[i], p);
            separator = ", ";
        }
    }
}

/* A line with a tab is a pair of texts. */
static void predict_text(const encoder *e, const char *text)
{
    th_text_batch batch;
    const char *tab = strchr(text, '\t');
    char *first = tab ? strndup(text, (size_t)(tab - text)) : NULL;
    if (tab && first == NULL)
        give_up(PROGRAM, "out of memory");
    require_ok(e->ctx,
               tab ? th_text_batch_make_pairs(e->tokenizer, (const char *const[]){first, tab + 1}, 1, e->length, &batch)
                   : th_text_batch_make(e->tokenizer, &text, 1, e->length, &batch));
    free(first);
    th_tensor *logits = th_cast(compute_logits(e, &batch), TH_FLOAT32);
    require_no_error(e->ctx);
    if (e->task == TASK_REGRESS)
        printf("%.6g", (double)*(const float *)th_data_const(logits));
    else
        print_labels(e, th_data_const(logits));
    printf("\t%s\n", text);
}

/* Prints each word with its label. Words are separated by spaces. */
static void predict_words(const encoder *e, char *text)
{
    const size_t most = strlen(text) / 2 + 1;
    const char **words = malloc(most * sizeof *words);
    int64_t begin[2] = {0, 0};
    th_text_batch batch;
    if (words == NULL)
        give_up(PROGRAM, "out of memory");
    for (char *word; (word = strsep(&text, " \t")) != NULL;)
        if (*word)
            words[begin[1]++] = word;
    require_ok(e->ctx, th_text_batch_make_words(e->tokenizer, words, begin, 1, e->length, &batch));
    th_tensor *logits = th_cast(compute_logits(e, &batch), TH_FLOAT32);
    require_no_error(e->ctx);
    const int32_t *word = th_data_const(batch.words);
    const float *x = th_data_const(logits);
    for (int64_t t = 0; t < th_size(batch.words, 1); t++)
        if (word[t] >= 0) {
            const float *row = x + t * e->n_labels;
            int64_t best = 0;
            for (int64_t i = 1; i < e->n_labels; i++)
                best = row[i] > row[best] ? i : best;
            printf("%s\t%s\n", words[word[t]], e->label_names[best]);
        }
    printf("\n");
    free(words);
}

int predict(int argc, char **argv)
{
    const char *words[2] = {NULL};
    model_use use = DEFAULT_USE;
    const program_option options[] = {USE_OPTIONS(use), {0}};
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "encoder predict RUN TEXT\n"
            "Prints the label and its probability, or the score, before each text. TEXT is a text, a file\n"
            "with a text in each line, or - for the standard input. A tab divides the texts of a pair.\n"
            "Tags of words follow each word.",
            options, words, 2) < 2)
        refuse(PROGRAM, "predict needs a run or the folder of a model, and a text or a file", "");
    encoder e = open_for(words[0], &use);
    if (e.task == TASK_EMBED)
        refuse(PROGRAM, "this model has no head; embed and search use it: ", words[0]);
    line_list lines = read_lines_or_text(words[1]);
    th_no_grad_begin(e.ctx);
    for (int64_t i = 0; i < lines.count; i++) {
        if (e.task == TASK_TOKENS)
            predict_words(&e, (char *)(uintptr_t)lines.line[i]);
        else
            predict_text(&e, lines.line[i]);
        th_tape_clear(e.ctx);
    }
    free_lines(&lines);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}

/* -- embed and search -- */

/* Returns the embeddings (n, E) of the lines, as a tensor that the caller owns. */
static th_tensor *embed_lines(const encoder *e, const char *const *lines, int64_t count)
{
    th_tensor *all = NULL;
    th_no_grad_begin(e->ctx);
    for (int64_t i = 0; i < count; i += BATCH) {
        const int64_t n = count - i < BATCH ? count - i : BATCH;
        th_tensor *part =
            th_cast(th_sentence_embeddings(e->model, e->tokenizer, lines + i, n, &e->sentences), TH_FLOAT32);
        require_no_error(e->ctx);
        if (all == NULL)
            all = th_empty(e->ctx, TH_FLOAT32, TH_SHAPE(count, th_size(part, 1)));
        require_no_error(e->ctx);
        const int64_t width = th_size(part, 1);
        memcpy((float *)th_data(all) + i * width, th_data_const(part), (size_t)(n * width) * sizeof(float));
        th_tape_clear(e->ctx);
    }
    th_no_grad_end(e->ctx);
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
    encoder e = open_for(words[0], &use);
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
    encoder e = open_for(words[0], &use);
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

/* -- export -- */

int export_folder(int argc, char **argv)
{
    const char *words[2] = {NULL}, *type = "float32";
    bool force = false;
    const program_option options[] = {{"type", "of weights: float32, float16 or bfloat16", .text = &type},
                                      {"force", "replace a model that is there", .flag = &force},
                                      {0}};
    if (parse_options_and_words(
            argc, argv, PROGRAM,
            "encoder export RUN FOLDER\n"
            "Writes the best model of a run for transformers, or for sentence-transformers if it has no\n"
            "head.",
            options, words, 2) < 2)
        refuse(PROGRAM, "export needs a run, and a folder to write", "");
    const th_dtype wanted = strcmp(type, "float16") == 0    ? TH_FLOAT16
                            : strcmp(type, "bfloat16") == 0 ? TH_BFLOAT16
                                                            : TH_FLOAT32;
    if (wanted == TH_FLOAT32 && strcmp(type, "float32") != 0)
        refuse(PROGRAM, "--type takes float32, float16 or bfloat16, not ", type);
    if (!force && access(path_in(words[1], "config.json"), F_OK) == 0)
        refuse(PROGRAM, "there is a model already (--force replaces it): ", words[1]);
    encoder e = open_for(words[0], &(model_use)DEFAULT_USE);
    save_encoder(&e, words[1], wanted);
    print_written(path_in(words[1], "config.json"));
    print_written(path_in(words[1], "model.safetensors"));
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}
