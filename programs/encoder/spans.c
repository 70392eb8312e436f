/* Extractive question answering: an answer is a span of a text. Long texts have several windows. */
#include <string.h>

#include "encoder/encoder.h"

enum { MAX_ANSWER = 30 }; /* tokens, as in transformers' examples */

/* Makes the windows of pairs. Each has up to 128 tokens of the window before, so that an answer at an edge is in one as a
 * whole. */
static th_status make_windows(const encoder *e, const char *const *texts, int64_t n, th_text_windows *windows)
{
    const int64_t overlap = e->length / 4 < 128 ? e->length / 4 : 128;
    return th_text_windows_make(e->tokenizer, texts, n, e->length, overlap, windows);
}

/* -- the loss -- */

/* Sets target[0] and target[1] to the first and the last token of bytes begin to end - 1. A window without all of them has
 * its first token as the target, [CLS]. */
static void find_tokens(const int32_t *token_begin, const int32_t *token_end, int64_t length, int64_t begin,
                        int64_t end, int32_t *target)
{
    int64_t first = -1, last = -1;
    for (int64_t t = 0; t < length; t++) {
        if (first < 0 && token_begin[t] >= 0 && token_begin[t] <= begin && token_end[t] > begin)
            first = t;
        if (token_begin[t] >= 0 && token_begin[t] < end && token_end[t] >= end)
            last = t;
    }
    const bool found = first >= 0 && last >= first;
    target[0] = found ? (int32_t)first : 0;
    target[1] = found ? (int32_t)last : 0;
}

/* Returns the targets (B, 2) of the windows: the first of each example's answers. */
static th_tensor *targets_of(const encoder *e, const selection *s, const th_text_windows *w)
{
    const int64_t rows = th_size(w->pair, 0), length = th_size(w->begin, 1);
    th_tensor *targets = th_zeros(e->ctx, TH_INT32, TH_SHAPE(rows, 2));
    int32_t *target = targets ? th_data(targets) : NULL;
    const int32_t *pair = th_data_const(w->pair), *begin = th_data_const(w->begin), *end = th_data_const(w->end);
    for (int64_t i = 0; target && i < rows; i++) {
        const int64_t answer = s->data->label_begin[s->rows[pair[i]]], from = s->data->answer_begin[answer];
        const char *text = s->data->label_names[s->data->label[answer]];
        find_tokens(begin + i * length, end + i * length, length, from, from + (int64_t)strlen(text), target + 2 * i);
    }
    return targets;
}

th_tensor *span_batch_loss(const encoder *e, const selection *s)
{
    th_text_windows w;
    if (make_windows(e, list_pairs(s), s->count, &w))
        return NULL;
    th_tensor *logits = compute_logits(e, &w.batch);
    return logits ? th_head_loss(e->model, logits, targets_of(e, s, &w), NULL) : NULL;
}

/* -- answers -- */

/* Sets *best to the span of a window with the largest sum of both logits, if it is larger than that of *best. x: (T, 2). */
static void improve_span(const float *x, const int32_t *begin, const int32_t *end, int64_t length, answer_span *best)
{
    double sum[2] = {0, 0};
    const double before = best->score;
    int64_t tokens[2] = {0, 0};
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = i; begin[i] >= 0 && j < length && j < i + MAX_ANSWER && begin[j] >= 0; j++) {
            const double score = (double)x[2 * i] + (double)x[2 * j + 1];
            if (score > best->score) {
                *best = (answer_span){.begin = begin[i], .end = end[j], .score = score};
                tokens[0] = i;
                tokens[1] = j;
            }
        }
    if (!(best->score > before))
        return;
    for (int64_t t = 0; t < length; t++)
        for (int side = 0; side < 2; side++)
            sum[side] += exp((double)x[2 * t + side] - (double)x[2 * tokens[side] + side]);
    best->probability = 1 / (sum[0] * sum[1]);
}

/* Sets span[i] to the best span of pair i, [n]. */
static void choose_spans(const th_text_windows *w, const th_tensor *logits, int64_t n, answer_span *span)
{
    const int64_t rows = th_size(w->pair, 0), length = th_size(w->begin, 1);
    const int32_t *pair = th_data_const(w->pair), *begin = th_data_const(w->begin), *end = th_data_const(w->end);
    const float *x = th_data_const(logits);
    for (int64_t i = 0; i < n; i++)
        span[i] = (answer_span){.score = -INFINITY};
    for (int64_t i = 0; i < rows; i++)
        improve_span(x + 2 * i * length, begin + i * length, end + i * length, length, &span[pair[i]]);
}

th_status answer_questions(const encoder *e, const char *const *texts, int64_t n, answer_span *span)
{
    th_text_windows w;
    if (make_windows(e, texts, n, &w))
        return th_error_code(e->ctx);
    th_tensor *logits = th_cast(compute_logits(e, &w.batch), TH_FLOAT32);
    if (logits)
        choose_spans(&w, logits, n, span);
    return th_error_code(e->ctx);
}

th_status evaluate_spans(const encoder *e, const selection *s, answer_span *span, double *loss, int64_t *windows)
{
    th_text_windows w;
    if (make_windows(e, list_pairs(s), s->count, &w))
        return th_error_code(e->ctx);
    th_tensor *logits = th_cast(compute_logits(e, &w.batch), TH_FLOAT32);
    *loss = th_item(th_head_loss(e->model, logits, targets_of(e, s, &w), NULL));
    *windows = th_size(w.pair, 0);
    if (logits)
        choose_spans(&w, logits, s->count, span);
    return th_error_code(e->ctx);
}

/* -- measures of SQuAD -- */

typedef struct answer_words {
    char *text; /* lower case, without ASCII punctuation */
    char **word;
    int64_t count;
} answer_words;

static bool is_punctuation(char c)
{
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7f);
}

/* Divides an answer into words as SQuAD's script does: without punctuation and articles. */
static answer_words split_answer(const char *text, size_t bytes)
{
    answer_words words = {.text = malloc(bytes + 1), .word = malloc((bytes / 2 + 1) * sizeof *words.word)};
    size_t count = 0;
    if (words.text == NULL || words.word == NULL)
        give_up(PROGRAM, "out of memory");
    for (size_t i = 0; i < bytes; i++)
        if (!is_punctuation(text[i]))
            words.text[count++] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
    words.text[count] = 0;
    for (char *rest = words.text, *word; (word = strsep(&rest, " \t\n\r\f\v")) != NULL;)
        if (*word && strcmp(word, "a") != 0 && strcmp(word, "an") != 0 && strcmp(word, "the") != 0)
            words.word[words.count++] = word;
    return words;
}

static void free_words(answer_words *words)
{
    free(words->text);
    free(words->word);
}

/* Sets *exact to whether both have the same words, and *f1 to the F1 of their words, each as often as it occurs. */
static void compare_answers(const answer_words *a, const answer_words *b, double *exact, double *f1)
{
    bool *used = calloc((size_t)b->count + 1, sizeof *used);
    int64_t common = 0;
    bool same = a->count == b->count;
    if (used == NULL)
        give_up(PROGRAM, "out of memory");
    for (int64_t i = 0; i < a->count; i++) {
        same = same && strcmp(a->word[i], b->word[i]) == 0;
        for (int64_t j = 0; j < b->count; j++)
            if (!used[j] && strcmp(a->word[i], b->word[j]) == 0) {
                used[j] = true;
                common++;
                break;
            }
    }
    free(used);
    *exact = same;
    *f1 = common > 0 ? 2 * (double)common / (double)(a->count + b->count) : 0;
}

void score_answer(const th_text_examples *data, int64_t row, const answer_span *span, double *exact, double *f1)
{
    const char *context = data->text[data->text_begin[row] + 1];
    answer_words predicted = split_answer(context + span->begin, (size_t)(span->end - span->begin));
    *exact = *f1 = 0;
    for (int64_t i = data->label_begin[row]; i < data->label_begin[row + 1]; i++) {
        const char *answer = data->label_names[data->label[i]];
        double one_exact, one_f1;
        answer_words actual = split_answer(answer, strlen(answer));
        compare_answers(&predicted, &actual, &one_exact, &one_f1);
        *exact = one_exact > *exact ? one_exact : *exact;
        *f1 = one_f1 > *f1 ? one_f1 : *f1;
        free_words(&actual);
    }
    free_words(&predicted);
}
