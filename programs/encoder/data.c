/* Examples from files, and batches of them. */
#include <string.h>

#include "encoder/encoder.h"
#include "shared/texts.h"

void read_examples(th_context *ctx, const char *path, const th_text_example_options *options, th_text_examples *data)
{
    texts file = open_texts(&path, 1, NULL);
    if (th_text_examples_read(ctx, file.bytes, file.count, file.name, options, data)) {
        const bool names = strstr(th_error_text(ctx), "its fields are") != NULL;
        fprintf(stderr, PROGRAM ": %s%s\n", th_error_text(ctx),
                names ? ". --text and --label name other columns, and --columns those of a table without a header"
                      : "");
        exit(EXIT_FAILURE);
    }
    close_texts(&file);
}

/* Divides --text at its commas. */
static void split_columns(const char *columns, const char *text[3])
{
    static char copy[1024];
    char *rest = copy;
    if (snprintf(copy, sizeof copy, "%s", columns) >= (int)sizeof copy)
        refuse(PROGRAM, "--text is too long: ", columns);
    for (int i = 0; rest; i++) {
        if (i == 3)
            refuse(PROGRAM, "--text takes at most three columns, not ", columns);
        text[i] = rest;
        if ((rest = strchr(rest, ',')) != NULL)
            *rest++ = 0;
    }
}

th_text_example_options example_options(encoder_task task, const encoder *e)
{
    static const th_text_example_kind kinds[] = {[TASK_EMBED] = TH_EXAMPLES_TEXTS,
                                                 [TASK_CLASSIFY] = TH_EXAMPLES_LABELS,
                                                 [TASK_TOKENS] = TH_EXAMPLES_WORDS,
                                                 [TASK_REGRESS] = TH_EXAMPLES_SCORES,
                                                 [TASK_SPANS] = TH_EXAMPLES_ANSWERS};
    th_text_example_options options = {.kind = kinds[task], .label = chosen.label_column, .columns = chosen.columns};
    if (chosen.text_columns)
        split_columns(chosen.text_columns, options.text);
    if (e && (task == TASK_CLASSIFY || task == TASK_TOKENS)) {
        options.label_names = e->label_names;
        options.n_labels = e->n_labels;
    }
    return options;
}

selection part_of(const selection *s, int64_t begin, int64_t count)
{
    return (selection){s->data, s->rows + begin, count < s->count - begin ? count : s->count - begin};
}

/* -- whether a model can use examples -- */

bool have_several_labels(const th_text_examples *data)
{
    for (int64_t i = 0; i < data->count; i++)
        if (data->label_begin[i + 1] - data->label_begin[i] != 1)
            return true;
    return false;
}

static void refuse_data(const char *path, const char *problem)
{
    fprintf(stderr, PROGRAM ": %s: %s\n", path, problem);
    exit(EXIT_FAILURE);
}

void check_examples(const encoder *e, const th_text_examples *data, const char *path)
{
    if (e->task == TASK_EMBED && texts_of(data) < 2)
        refuse_data(path, "embed needs pairs or triplets of texts, such as the columns anchor and positive");
    if (e->task == TASK_CLASSIFY && !e->several_labels && have_several_labels(data))
        refuse_data(path, "an example has no label or several, and the model gives each text one label");
}

void check_training_examples(const encoder *e, const th_text_examples *data, const th_text_examples *validation)
{
    const char *loss = chosen.loss ? chosen.loss : "";
    check_examples(e, data, chosen.data);
    if (e->task == TASK_EMBED && data->score == NULL && (strcmp(loss, "cosent") == 0 || strcmp(loss, "cosine") == 0))
        refuse_data(chosen.data, "the loss needs a score of each pair, such as the column score");
    if (e->task == TASK_EMBED && texts_of(data) < 3 && strcmp(loss, "triplet") == 0)
        refuse_data(chosen.data,
                    "the loss triplet needs three texts, such as the columns anchor, positive and negative");
    if (validation->count == 0)
        return;
    check_examples(e, validation, chosen.validation_file);
    if ((e->task == TASK_CLASSIFY || e->task == TASK_REGRESS) && texts_of(validation) != texts_of(data))
        refuse_data(chosen.validation_file, "its examples have another number of texts than those for training");
    if (e->task == TASK_EMBED && (validation->score == NULL) != (data->score == NULL))
        refuse_data(chosen.validation_file, "scores must be in both files, or in none");
}

/* -- orders -- */

typedef struct sized_row {
    size_t bytes; /* of the example's texts */
    int64_t row;
} sized_row;

static size_t bytes_of(const th_text_examples *data, int64_t row)
{
    size_t bytes = 0;
    for (int64_t i = data->text_begin[row]; i < data->text_begin[row + 1]; i++)
        bytes += strlen(data->text[i]);
    return bytes;
}

static int compare_rows(const void *a, const void *b)
{
    const sized_row *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes) : (x->row > y->row) - (x->row < y->row);
}

int64_t *order_rows(int64_t count, bool shuffle, uint64_t seed)
{
    th_batches all = {.count = count, .batch = count, .shuffle = shuffle, .seed = seed};
    int64_t *rows = malloc((size_t)count * sizeof *rows);
    if (rows == NULL || th_batches_next(&all, rows) != count)
        give_up(PROGRAM, "out of memory");
    return rows;
}

int64_t *sort_rows_by_length(const selection *s)
{
    const size_t count = (size_t)s->count;
    sized_row *sized = malloc(count * sizeof *sized);
    int64_t *rows = malloc(count * sizeof *rows);
    if (sized == NULL || rows == NULL)
        give_up(PROGRAM, "out of memory");
    for (size_t i = 0; i < count; i++)
        sized[i] = (sized_row){bytes_of(s->data, s->rows[i]), s->rows[i]};
    qsort(sized, count, sizeof *sized, compare_rows);
    for (size_t i = 0; i < count; i++)
        rows[i] = sized[i].row;
    free(sized);
    return rows;
}

/* -- batches -- */

int64_t texts_of(const th_text_examples *data)
{
    return data->text_begin[1] - data->text_begin[0];
}

/* Returns memory for so many texts, which is valid until the next call. */
static const char **text_list(int64_t count)
{
    static const char **list;
    const char **grown = realloc(list, (size_t)count * sizeof *list);
    if (grown == NULL)
        give_up(PROGRAM, "out of memory");
    list = grown;
    return list;
}

/* Returns the texts of the examples in `columns` places from `column` on: all texts in the first place, then all in the
 * next one. */
static const char *const *list_texts(const selection *s, int64_t column, int64_t columns)
{
    const char **list = text_list(s->count * columns);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < s->count; i++)
            list[j * s->count + i] = s->data->text[s->data->text_begin[s->rows[i]] + column + j];
    return list;
}

const char *const *list_pairs(const selection *s)
{
    const char **list = text_list(2 * s->count);
    for (int64_t i = 0; i < 2 * s->count; i++)
        list[i] = s->data->text[s->data->text_begin[s->rows[i / 2]] + i % 2];
    return list;
}

/* Makes a batch of words: their texts and beginnings are copied in the order of the rows. */
static th_status make_word_batch(const encoder *e, const selection *s, th_text_batch *batch)
{
    int64_t count = 0;
    const int64_t *begin = s->data->text_begin;
    for (int64_t i = 0; i < s->count; i++)
        count += begin[s->rows[i] + 1] - begin[s->rows[i]];
    const char **words = malloc((size_t)count * sizeof *words);
    int64_t *word_begin = calloc((size_t)s->count + 1, sizeof *word_begin);
    if (words == NULL || word_begin == NULL)
        give_up(PROGRAM, "out of memory");
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t from = begin[s->rows[i]], n = begin[s->rows[i] + 1] - from;
        memcpy(words + word_begin[i], s->data->text + from, (size_t)n * sizeof *words);
        word_begin[i + 1] = word_begin[i] + n;
    }
    const th_status status = th_text_batch_make_words(e->tokenizer, words, word_begin, s->count, e->length, batch);
    free(words);
    free(word_begin);
    return status;
}

th_status make_text_batch(const encoder *e, const selection *s, th_text_batch *batch)
{
    if (e->task == TASK_TOKENS)
        return make_word_batch(e, s, batch);
    if (texts_of(s->data) == 2)
        return th_text_batch_make_pairs(e->tokenizer, list_pairs(s), s->count, e->length, batch);
    return th_text_batch_make(e->tokenizer, list_texts(s, 0, 1), s->count, e->length, batch);
}

void embed_columns(const encoder *e, const selection *s, int64_t column, int64_t columns, th_tensor **embeddings)
{
    th_tensor *all = th_sentence_embeddings(e->model, e->tokenizer, list_texts(s, column, columns), s->count * columns,
                                            &e->sentences);
    for (int64_t j = 0; j < columns; j++)
        embeddings[j] = th_slice(all, 0, j * s->count, (j + 1) * s->count, 1);
}

th_tensor *compute_logits(const encoder *e, const th_text_batch *batch)
{
    const bool typed =
        th_language_model_options_of(e->model)->token_types > 0; /* (DistilBERT's pairs have types, too) */
    return th_language_model_logits(
        e->model, batch->tokens,
        &(th_language_model_logits_options){.lengths = batch->lengths, .types = typed ? batch->types : NULL});
}
