/* What differs between the tasks: the targets and the loss of a batch, and the measures of an evaluation. */
#include <string.h>

#include "encoder/encoder.h"

/* -- the loss of a batch -- */

/* Returns the scores of the selection, (B). */
static th_tensor *scores_of(const encoder *e, const selection *s)
{
    th_tensor *scores = th_zeros(e->ctx, TH_FLOAT32, TH_SHAPE(s->count));
    float *score = scores ? th_data(scores) : NULL;
    for (int64_t i = 0; score && i < s->count; i++)
        score[i] = (float)s->data->score[s->rows[i]];
    return scores;
}

static bool is_loss(const char *name)
{
    return chosen.loss && strcmp(chosen.loss, name) == 0;
}

static th_tensor *embedding_loss(const encoder *e, const selection *s)
{
    const int64_t n_texts = texts_of(s->data);
    th_tensor *embeddings[3] = {NULL};
    embed_columns(e, s, 0, n_texts, embeddings);
    if (th_error_code(e->ctx))
        return NULL;
    if (s->data->score && is_loss("cosine"))
        return th_cosine_similarity_loss(embeddings[0], embeddings[1], scores_of(e, s));
    if (s->data->score && !is_loss("ranking"))
        return th_cosent_loss(embeddings[0], embeddings[1], scores_of(e, s), 0);
    if (n_texts == 3 && is_loss("triplet"))
        return th_triplet_loss(embeddings[0], embeddings[1], embeddings[2], NULL);
    return th_ranking_loss(embeddings[0], embeddings[1], embeddings[2], NULL);
}

/* Returns the labels of the selection: (B) integers, or (B, L) with 1 for each label of a text. */
static th_tensor *labels_of(const encoder *e, const selection *s)
{
    const int64_t n = s->count;
    th_tensor *targets = e->several_labels ? th_zeros(e->ctx, TH_FLOAT32, TH_SHAPE(n, e->n_labels))
                                           : th_zeros(e->ctx, TH_INT32, TH_SHAPE(n));
    void *data = targets ? th_data(targets) : NULL;
    for (int64_t i = 0; data && i < n; i++)
        for (int64_t j = s->data->label_begin[s->rows[i]]; j < s->data->label_begin[s->rows[i] + 1]; j++) {
            if (e->several_labels)
                ((float *)data)[i * e->n_labels + s->data->label[j]] = 1;
            else
                ((int32_t *)data)[i] = s->data->label[j];
        }
    return targets;
}

enum { IGNORED = -100 };

/* Returns the labels of the tokens, (B, T): that of its word for the first token of a word, otherwise IGNORED. */
static th_tensor *labels_of_words(const encoder *e, const selection *s, const th_text_batch *batch)
{
    const int64_t length = th_size(batch->words, 1);
    th_tensor *targets = th_zeros(e->ctx, TH_INT32, TH_SHAPE(s->count, length));
    int32_t *target = targets ? th_data(targets) : NULL;
    const int32_t *word = target ? th_data_const(batch->words) : NULL;
    for (int64_t i = 0; word && i < s->count; i++)
        for (int64_t t = 0; t < length; t++) {
            const int32_t w = word[i * length + t];
            target[i * length + t] = w < 0 ? IGNORED : s->data->label[s->data->label_begin[s->rows[i]] + w];
        }
    return targets;
}

th_tensor *compute_loss(const encoder *e, const selection *s)
{
    static const th_cross_entropy_options ignored = {TH_IGNORE(IGNORED)};
    th_text_batch batch;
    if (e->task == TASK_EMBED)
        return embedding_loss(e, s);
    if (e->task == TASK_SPANS)
        return span_batch_loss(e, s);
    if (make_text_batch(e, s, &batch))
        return NULL;
    th_tensor *logits = compute_logits(e, &batch);
    if (logits == NULL)
        return NULL;
    if (e->task == TASK_TOKENS)
        return th_head_loss(e->model, logits, labels_of_words(e, s, &batch), &ignored);
    return th_head_loss(e->model, logits, e->task == TASK_REGRESS ? scores_of(e, s) : labels_of(e, s), NULL);
}

/* -- the outputs of all examples, for the measures -- */

typedef struct outputs {
    int32_t *label, *predicted; /* [count] */
    double *score, *computed;   /* [count] */
    int64_t count, capacity;
    double loss;    /* the sum over all examples, words with a label, or windows */
    int64_t losses; /* how many it has */
} outputs;

static void reserve(outputs *o, int64_t more)
{
    if (o->count + more <= o->capacity)
        return;
    o->capacity = 2 * (o->count + more);
    const size_t n = (size_t)o->capacity;
    o->label = realloc(o->label, n * sizeof *o->label);
    o->predicted = realloc(o->predicted, n * sizeof *o->predicted);
    o->score = realloc(o->score, n * sizeof *o->score);
    o->computed = realloc(o->computed, n * sizeof *o->computed);
    if (!o->label || !o->predicted || !o->score || !o->computed)
        give_up(PROGRAM, "out of memory");
}

static void free_outputs(outputs *o)
{
    free(o->label);
    free(o->predicted);
    free(o->score);
    free(o->computed);
}

/* Notes one label and what the model takes it for. */
static void add_label(outputs *o, int32_t label, int32_t predicted)
{
    reserve(o, 1);
    o->label[o->count] = label;
    o->predicted[o->count++] = predicted;
}

static void add_score(outputs *o, double score, double computed)
{
    reserve(o, 1);
    o->score[o->count] = score;
    o->computed[o->count++] = computed;
}

/* Adds the mean loss of a batch with `count` examples or words. Batches have different sizes. */
static void add_loss(outputs *o, double mean, int64_t count)
{
    o->loss += count > 0 ? mean * (double)count : 0;
    o->losses += count;
}

static int64_t count_labelled(const th_tensor *targets)
{
    const int32_t *target = th_data_const(targets);
    int64_t count = 0;
    for (int64_t i = 0; i < th_numel(targets); i++)
        count += target[i] != IGNORED;
    return count;
}

static int32_t largest(const float *row, int64_t count)
{
    int32_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (row[i] > row[best])
            best = (int32_t)i;
    return best;
}

/* Notes the outputs of a classifier, a tagger or a regression. */
static void add_outputs(const encoder *e, const selection *s, const th_tensor *logits, const th_tensor *targets,
                        outputs *o)
{
    const float *x = th_data_const(logits);
    const int64_t rows = th_numel(targets);
    if (e->task == TASK_REGRESS) {
        for (int64_t i = 0; i < s->count; i++)
            add_score(o, s->data->score[s->rows[i]], (double)x[i]);
        return;
    }
    if (e->several_labels) { /* each label of each text is a decision: 1 or 0 */
        const float *target = th_data_const(targets);
        for (int64_t i = 0; i < rows; i++)
            add_label(o, target[i] > 0.5f, x[i] > 0);
        return;
    }
    const int32_t *target = th_data_const(targets);
    const int64_t words = rows / s->count; /* 1 without words */
    for (int64_t i = 0; i < rows; i++) {
        if (target[i] != IGNORED)
            add_label(o, target[i], largest(x + i * e->n_labels, e->n_labels));
        if (e->task == TASK_TOKENS && i % words == words - 1)
            add_label(o, IGNORED, IGNORED); /* the end of a sentence */
    }
}

static th_status evaluate_batch(const encoder *e, const selection *s, outputs *o)
{
    th_text_batch batch;
    if (make_text_batch(e, s, &batch))
        return th_error_code(e->ctx);
    th_tensor *logits = th_cast(compute_logits(e, &batch), TH_FLOAT32);
    th_tensor *targets = e->task == TASK_TOKENS    ? labels_of_words(e, s, &batch)
                         : e->task == TASK_REGRESS ? scores_of(e, s)
                                                   : labels_of(e, s);
    const double loss =
        th_item(th_head_loss(e->model, logits, targets, &(th_cross_entropy_options){TH_IGNORE(IGNORED)}));
    if (th_error_code(e->ctx) == TH_OK) {
        const int64_t count = e->task == TASK_TOKENS ? count_labelled(targets) : s->count;
        add_loss(o, loss, count);
        add_outputs(e, s, logits, targets, o);
    }
    return th_error_code(e->ctx);
}

/* -- answers of questions -- */

/* Notes the exact match and the F1 of each example's answer. */
static th_status evaluate_answers(const encoder *e, const selection *s, outputs *o)
{
    answer_span *span = malloc((size_t)s->count * sizeof *span);
    double loss, exact, f1;
    int64_t windows;
    if (span == NULL)
        give_up(PROGRAM, "out of memory");
    const th_status status = evaluate_spans(e, s, span, &loss, &windows);
    if (status == TH_OK)
        add_loss(o, loss, windows);
    for (int64_t i = 0; status == TH_OK && i < s->count; i++) {
        score_answer(s->data, s->rows[i], &span[i], &exact, &f1);
        add_score(o, exact, f1);
    }
    free(span);
    return status;
}

/* -- measures -- */

static void add_measure(evaluation *result, const char *name, double value)
{
    result->measure[result->measures].name = name;
    result->measure[result->measures++].value = value;
}

/* -- embeddings -- */

/* Notes the cosine of the first two embeddings of each example, with its score. */
static th_status evaluate_scored_pairs(const encoder *e, const selection *s, outputs *o)
{
    th_tensor *embeddings[2];
    embed_columns(e, s, 0, 2, embeddings);
    th_tensor *cosines = th_cast(th_cosine_similarity(embeddings[0], embeddings[1]), TH_FLOAT32);
    const float *cosine = cosines ? th_data_const(cosines) : NULL;
    for (int64_t i = 0; cosine && i < s->count; i++)
        add_score(o, s->data->score[s->rows[i]], (double)cosine[i]);
    return th_error_code(e->ctx);
}

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Computes the unit embeddings of a column for all rows: [count * E] in memory that the caller frees. */
static float *embed_all(const encoder *e, const selection *s, int64_t column, int64_t batch, int64_t *width)
{
    float *all = NULL;
    for (int64_t i = 0; i < s->count && th_error_code(e->ctx) == TH_OK; i += batch) {
        const selection part = part_of(s, i, batch);
        th_tensor *x;
        embed_columns(e, &part, column, 1, &x);
        x = th_cast(th_unit_length(x), TH_FLOAT32);
        if (x == NULL)
            break;
        *width = th_size(x, 1);
        if (all == NULL && (all = malloc((size_t)(s->count * *width) * sizeof *all)) == NULL)
            give_up(PROGRAM, "out of memory");
        memcpy(all + i * *width, th_data_const(x), (size_t)(part.count * *width) * sizeof *all);
        th_tape_clear(e->ctx);
    }
    return all;
}

/* Ranks the second text of each example among the second texts of all: the mean reciprocal rank, and the share at the
 * first place. Equal texts count as one. */
static void rank_pairs(const selection *s, const float *a, const float *b, int64_t width, evaluation *result)
{
    double reciprocal = 0, first = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const double own = dot(a + i * width, b + i * width, width);
        int64_t rank = 1;
        for (int64_t j = 0; j < s->count; j++)
            rank += j != i && dot(a + i * width, b + j * width, width) > own;
        reciprocal += 1 / (double)rank;
        first += rank == 1;
    }
    add_measure(result, "mrr", reciprocal / (double)s->count);
    add_measure(result, "first", first / (double)s->count);
}

static th_status evaluate_pairs(const encoder *e, const selection *s, int64_t batch, evaluation *result)
{
    enum { MOST = 2000 }; /* examples, because the ranks take the square of their number */
    const selection some = part_of(s, 0, MOST);
    int64_t width = 0;
    float *a = embed_all(e, &some, 0, batch, &width), *b = embed_all(e, &some, 1, batch, &width);
    if (th_error_code(e->ctx) == TH_OK)
        rank_pairs(&some, a, b, width, result);
    free(a);
    free(b);
    return th_error_code(e->ctx);
}

/* -- all measures -- */

/* Draws which label the model takes for which: each row of the confusion matrix is divided by its sum. */
static th_status draw_confusion(const encoder *e, const int64_t *matrix, const char *path)
{
    enum { MOST = 60 };
    const int64_t n = e->n_labels;
    if (n > MOST)
        return TH_OK;
    th_tensor *shares = th_zeros(e->ctx, TH_FLOAT32, TH_SHAPE(n, n));
    float *share = shares ? th_data(shares) : NULL;
    for (int64_t i = 0; share && i < n; i++) {
        int64_t sum = 0;
        for (int64_t j = 0; j < n; j++)
            sum += matrix[i * n + j];
        for (int64_t j = 0; j < n && sum > 0; j++)
            share[i * n + j] = (float)((double)matrix[i * n + j] / (double)sum);
    }
    const th_heatmap_options options = {.title = "Shares of the predicted labels",
                                        .row_label = "label",
                                        .column_label = "predicted",
                                        .row_names = e->label_names,
                                        .column_names = e->label_names,
                                        .high = 1};
    return shares ? th_picture_heatmaps(shares, path, &options) : th_error_code(e->ctx);
}

/* Of decisions between 1 and 0. */
static void measure_decisions(const outputs *o, evaluation *result)
{
    th_label_counts counts = {0};
    for (int64_t i = 0; i < o->count; i++) {
        counts.right += o->label[i] && o->predicted[i];
        counts.predicted += o->predicted[i];
        counts.actual += o->label[i];
    }
    const th_label_score score = th_score_label(counts);
    add_measure(result, "micro_f1", score.f1);
    add_measure(result, "precision", score.precision);
    add_measure(result, "recall", score.recall);
}

/* Whether the labels of words mark entities: O, and B-TYPE or I-TYPE, also E-TYPE and S-TYPE. */
static bool mark_entities(const encoder *e)
{
    int64_t marks = 0;
    for (int64_t i = 0; i < e->n_labels; i++) {
        const char *name = e->label_names[i];
        const bool marked = strchr("BIES", name[0]) && name[0] && name[1] == '-';
        if (!marked && strcmp(name, "O") != 0)
            return false;
        marks += marked;
    }
    return e->task == TASK_TOKENS && marks > 0;
}

/* Of entities with all their words: the measure of named entity recognition. */
static void measure_entities(const encoder *e, const outputs *o, th_label_counts *counts, evaluation *result)
{
    th_count_entities(e->label_names, e->n_labels, o->label, o->predicted, o->count, counts);
    const th_label_score score = th_score_micro(counts, e->n_labels);
    add_measure(result, "entity_f1", score.f1);
    add_measure(result, "precision", score.precision);
    add_measure(result, "recall", score.recall);
}

static th_status measure_labels(const encoder *e, const outputs *o, const char *confusion, evaluation *result)
{
    const size_t n = (size_t)e->n_labels;
    int64_t *matrix = calloc(n * n, sizeof *matrix);
    th_label_counts *counts = calloc(n, sizeof *counts);
    if (matrix == NULL || counts == NULL)
        give_up(PROGRAM, "out of memory");
    th_confusion_matrix(o->label, o->predicted, o->count, e->n_labels, matrix);
    if (mark_entities(e))
        measure_entities(e, o, counts, result);
    add_measure(result, "accuracy", th_accuracy(matrix, e->n_labels));
    if (!mark_entities(e)) {
        th_count_classes(matrix, e->n_labels, counts);
        add_measure(result, "macro_f1", th_score_macro(counts, e->n_labels).f1);
    }
    const th_status status = confusion ? draw_confusion(e, matrix, confusion) : TH_OK;
    free(matrix);
    free(counts);
    return status;
}

static void measure_scores(const encoder *e, const outputs *o, evaluation *result)
{
    add_measure(result, "spearman", th_spearman(e->ctx, o->score, o->computed, o->count));
    add_measure(result, "pearson", th_pearson(o->score, o->computed, o->count));
}

static void measure_answers(const outputs *o, evaluation *result)
{
    double exact = 0, f1 = 0;
    for (int64_t i = 0; i < o->count; i++) {
        exact += o->score[i];
        f1 += o->computed[i];
    }
    add_measure(result, "f1", f1 / (double)o->count);
    add_measure(result, "exact_match", exact / (double)o->count);
}

/* Runs a function on batches of all examples, sorted by length. */
static th_status for_batches(const encoder *e, const selection *s, int64_t batch,
                             th_status (*run)(const encoder *e, const selection *s, outputs *o), outputs *o)
{
    for (int64_t i = 0; i < s->count; i += batch) {
        const selection part = part_of(s, i, batch);
        if (run(e, &part, o))
            return th_error_code(e->ctx);
        th_tape_clear(e->ctx);
    }
    return TH_OK;
}

static th_status evaluate_rows(const encoder *e, const selection *s, int64_t batch, const char *confusion,
                               evaluation *result)
{
    outputs o = {.count = 0};
    th_status status;
    if (e->task == TASK_EMBED && s->data->score == NULL)
        return evaluate_pairs(e, s, batch, result);
    if (e->task == TASK_EMBED) {
        status = for_batches(e, s, batch, evaluate_scored_pairs, &o);
    } else {
        status = for_batches(e, s, batch, e->task == TASK_SPANS ? evaluate_answers : evaluate_batch, &o);
        result->loss = o.loss / (double)o.losses; /* (0 / 0, which is none, without any label) */
    }
    if (status == TH_OK && (e->task == TASK_EMBED || e->task == TASK_REGRESS))
        measure_scores(e, &o, result);
    else if (status == TH_OK && e->task == TASK_SPANS)
        measure_answers(&o, result);
    else if (status == TH_OK && e->several_labels)
        measure_decisions(&o, result);
    else if (status == TH_OK)
        status = measure_labels(e, &o, confusion, result);
    free_outputs(&o);
    return status ? status : th_error_code(e->ctx);
}

th_status evaluate(const encoder *e, const selection *s, int64_t batch, const char *confusion, evaluation *result)
{
    int64_t *rows = sort_rows_by_length(s);
    *result = (evaluation){.loss = NAN};
    th_no_grad_begin(e->ctx);
    th_set_training(e->ctx, false);
    const th_status status = evaluate_rows(e, &(selection){s->data, rows, s->count}, batch, confusion, result);
    th_tape_clear(e->ctx);
    th_set_training(e->ctx, true);
    th_no_grad_end(e->ctx);
    free(rows);
    return status;
}
