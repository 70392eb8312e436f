/* The subcommands eval and predict. */
#include <errno.h>
#include <string.h>

#include "encoder/encoder.h"
#include "shared/system.h"

enum { BATCH = 32 };

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

encoder open_for_use(const char *path, const model_use *use)
{
    encoder e = {.ctx = th_context_new(&(th_context_options){.threads = (int)use->threads,
                                                             .precision = parse_precision(PROGRAM, use->precision)})};
    require_no_error(e.ctx);
    open_encoder(&e, path, parse_weights(use->weights));
    (void)note_int8(PROGRAM, e.model, "; --weights q8_0 stores weights so");
    return e;
}

int eval(int argc, char **argv)
{
    const char *words[2] = {NULL};
    model_use use = DEFAULT_USE;
    const program_option options[] = {
        {"text", "the columns of the texts, between commas", .text = &chosen.text_columns},
        {"label", "the column of the label or the score", .text = &chosen.label_column},
        {"columns", "the names of all columns of a table without a header", .text = &chosen.columns},
        USE_OPTIONS(use),
        {0}};
    if (parse_options_and_words(argc, argv, PROGRAM, "encoder eval RUN DATA\nMeasures a model on examples.", options,
                                words, 2) < 2)
        refuse(PROGRAM, "eval needs a run or the folder of a model, and a file of examples", "");
    encoder e = open_for_use(words[0], &use);
    const th_text_example_options read = example_options(e.task, &e);
    th_text_examples data = {.count = 0};
    evaluation result;
    read_examples(e.ctx, words[1], &read, &data);
    check_examples(&e, &data, words[1]);
    int64_t *rows = order_rows(data.count, false, 0);
    require_ok(e.ctx, evaluate(&e, &(selection){&data, rows, data.count}, BATCH, NULL, &result));
    free(rows);
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

/* Prints the answer of a question, which a tab divides from its text, and its probability. */
static void predict_answer(const encoder *e, const char *line)
{
    const char *tab = strchr(line, '\t');
    char *question = tab ? strndup(line, (size_t)(tab - line)) : NULL;
    answer_span span;
    if (tab == NULL)
        refuse(PROGRAM, "a line needs a question, a tab and a text: ", line);
    if (question == NULL)
        give_up(PROGRAM, "out of memory");
    require_ok(e->ctx, answer_questions(e, (const char *const[]){question, tab + 1}, 1, &span));
    printf("%.*s\t%.4f\t%s\n", (int)(span.end - span.begin), tab + 1 + span.begin, span.probability, question);
    free(question);
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
            "Tags of words follow each word. A tab divides a question from the text with its answer, which\n"
            "is printed with its probability.",
            options, words, 2) < 2)
        refuse(PROGRAM, "predict needs a run or the folder of a model, and a text or a file", "");
    encoder e = open_for_use(words[0], &use);
    if (e.task == TASK_EMBED)
        refuse(PROGRAM, "this model has no head; embed and search use it: ", words[0]);
    line_list lines = read_lines_or_text(words[1]);
    th_no_grad_begin(e.ctx);
    for (int64_t i = 0; i < lines.count; i++) {
        if (e.task == TASK_TOKENS)
            predict_words(&e, (char *)(uintptr_t)lines.line[i]);
        else if (e.task == TASK_SPANS)
            predict_answer(&e, lines.line[i]);
        else
            predict_text(&e, lines.line[i]);
        th_tape_clear(e.ctx);
    }
    free_lines(&lines);
    th_context_free(e.ctx);
    return EXIT_SUCCESS;
}
