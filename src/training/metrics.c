/* Metrics of predictions. Sums are in the order of the arrays. */
#include "tapehead/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/context.h"
#include "tensor/memory.h"

/* -- classes -- */

void th_confusion_matrix(const int32_t *actual, const int32_t *predicted, int64_t count, int64_t classes,
                         int64_t *matrix)
{
    memset(matrix, 0, (size_t)(classes * classes) * sizeof *matrix);
    for (int64_t i = 0; i < count; i++)
        if (actual[i] >= 0 && actual[i] < classes && predicted[i] >= 0 && predicted[i] < classes)
            matrix[actual[i] * classes + predicted[i]]++;
}

double th_accuracy(const int64_t *matrix, int64_t classes)
{
    int64_t right = 0, all = 0;
    for (int64_t i = 0; i < classes * classes; i++) {
        all += matrix[i];
        right += i % (classes + 1) == 0 ? matrix[i] : 0;
    }
    return (double)right / (double)all;
}

void th_count_classes(const int64_t *matrix, int64_t classes, th_label_counts *counts)
{
    for (int64_t c = 0; c < classes; c++) {
        counts[c] = (th_label_counts){.right = matrix[c * classes + c]};
        for (int64_t i = 0; i < classes; i++) {
            counts[c].actual += matrix[c * classes + i];
            counts[c].predicted += matrix[i * classes + c];
        }
    }
}

void th_count_labels(const bool *actual, const bool *predicted, int64_t count, int64_t labels, th_label_counts *counts)
{
    memset(counts, 0, (size_t)labels * sizeof *counts);
    for (int64_t i = 0; i < count * labels; i++) {
        th_label_counts *label = &counts[i % labels];
        label->right += actual[i] && predicted[i];
        label->actual += actual[i];
        label->predicted += predicted[i];
    }
}

/* -- entities -- */

/* The entities of one sequence of labels, from the first to the last. */
typedef struct entity_reader {
    const char *label;  /* of the word before */
    int64_t begin, end; /* of the entity that was read last: its first word, and the one behind it */
    const char *type;
    bool open; /* within an entity, which begins at `begin` */
} entity_reader;

static const char outside[] = "O";

static const char *type_of_label(const char *label)
{
    const char *rest = label[0] ? label + 1 : label, *dash = strchr(rest, '-');
    rest = dash ? dash + 1 : rest;
    return *rest ? rest : "_";
}

static bool same_type(const char *a, const char *b)
{
    return strcmp(type_of_label(a), type_of_label(b)) == 0;
}

static bool is_one_of(char tag, const char *tags)
{
    return tag != 0 && strchr(tags, tag) != NULL;
}

/* Whether an entity ends between the labels of two words. */
static bool ends_entity(const char *before, const char *label)
{
    return is_one_of(before[0], "ES") || (is_one_of(before[0], "BI") && is_one_of(label[0], "BSO")) ||
           (!is_one_of(before[0], "O.") && !same_type(before, label));
}

/* Whether an entity begins there. */
static bool begins_entity(const char *before, const char *label)
{
    return is_one_of(label[0], "BS") || (is_one_of(before[0], "ESO") && is_one_of(label[0], "EI")) ||
           (!is_one_of(label[0], "O.") && !same_type(before, label));
}

/* Reads the label of word i, or O behind the last word of a sentence. Returns whether an entity ends before it. */
static bool read_label(entity_reader *r, int64_t i, const char *label, int64_t *begin)
{
    const bool ended = r->open && ends_entity(r->label, label);
    *begin = r->begin;
    if (ended) {
        r->type = type_of_label(r->label);
        r->end = i;
        r->open = false;
    }
    if (begins_entity(r->label, label)) {
        r->begin = i;
        r->open = true;
    }
    r->label = label;
    return ended;
}

/* Returns the first label with a type. */
static int64_t first_with_type(const char *const *label_names, int64_t labels, const char *type)
{
    int64_t l = 0;
    while (l + 1 < labels && (strcmp(label_names[l], outside) == 0 || strcmp(type_of_label(label_names[l]), type) != 0))
        l++;
    return l;
}

void th_count_entities(const char *const *label_names, int64_t labels, const int32_t *actual, const int32_t *predicted,
                       int64_t count, th_label_counts *counts)
{
    entity_reader reader[2] = {{.label = outside}, {.label = outside}};
    memset(counts, 0, (size_t)labels * sizeof *counts);
    for (int64_t i = 0; i <= count; i++) {
        const bool within =
            i < count && actual[i] >= 0 && actual[i] < labels && predicted[i] >= 0 && predicted[i] < labels;
        int64_t begin[2];
        const bool is_actual = read_label(&reader[0], i, within ? label_names[actual[i]] : outside, &begin[0]);
        const bool is_predicted = read_label(&reader[1], i, within ? label_names[predicted[i]] : outside, &begin[1]);
        if (is_actual)
            counts[first_with_type(label_names, labels, reader[0].type)].actual++;
        if (is_predicted)
            counts[first_with_type(label_names, labels, reader[1].type)].predicted++;
        if (is_actual && is_predicted && begin[0] == begin[1] && strcmp(reader[0].type, reader[1].type) == 0)
            counts[first_with_type(label_names, labels, reader[0].type)].right++;
    }
}

/* -- scores -- */

static double ratio(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

th_label_score th_score_label(th_label_counts counts)
{
    return (th_label_score){ratio(counts.right, counts.predicted), ratio(counts.right, counts.actual),
                            ratio(2 * counts.right, counts.predicted + counts.actual)};
}

th_label_score th_score_macro(const th_label_counts *counts, int64_t labels)
{
    th_label_score sum = {0};
    int64_t present = 0;
    for (int64_t l = 0; l < labels; l++) {
        const th_label_score score = th_score_label(counts[l]);
        sum.precision += score.precision;
        sum.recall += score.recall;
        sum.f1 += score.f1;
        present += counts[l].predicted + counts[l].actual > 0;
    }
    const double n = present > 0 ? (double)present : 1;
    return (th_label_score){sum.precision / n, sum.recall / n, sum.f1 / n};
}

th_label_score th_score_micro(const th_label_counts *counts, int64_t labels)
{
    th_label_counts sum = {0};
    for (int64_t l = 0; l < labels; l++) {
        sum.right += counts[l].right;
        sum.predicted += counts[l].predicted;
        sum.actual += counts[l].actual;
    }
    return th_score_label(sum);
}

/* -- numbers -- */

double th_pearson(const double *x, const double *y, int64_t count)
{
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (int64_t i = 0; i < count; i++) {
        mean_x += x[i] / (double)count;
        mean_y += y[i] / (double)count;
    }
    bool constant_x = true, constant_y = true;
    for (int64_t i = 0; i < count; i++) {
        const double a = x[i] - mean_x, b = y[i] - mean_y;
        constant_x &= x[i] == x[0];
        constant_y &= y[i] == y[0];
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    if (count < 2 || constant_x || constant_y) /* the mean of equal numbers may be rounded */
        return NAN;
    const double correlation = xy / (sqrt(xx) * sqrt(yy));
    return isnan(correlation) ? NAN : fmax(-1, fmin(1, correlation));
}

typedef struct ranked {
    double value;
    int64_t index;
} ranked;

static int compare_values(const void *a, const void *b)
{
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Sets rank[i] to the rank of x[i] from 1. Equal numbers share the mean of their ranks. */
static void rank_values(const double *x, int64_t count, ranked *sorted, double *rank)
{
    for (int64_t i = 0; i < count; i++)
        sorted[i] = (ranked){x[i], i};
    qsort(sorted, (size_t)count, sizeof *sorted, compare_values);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && sorted[end].value == sorted[begin].value; end++)
            ;
        for (int64_t i = begin; i < end; i++)
            rank[sorted[i].index] = (double)(begin + 1 + end) / 2;
    }
}

static bool has_nan(const double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (isnan(x[i]))
            return true;
    return false;
}

/* Returns memory for the sorted numbers and `arrays` arrays of ranks. Returns NULL with the error pending. */
static ranked *allocate_ranks(th_context *ctx, const char *operation, int64_t count, int arrays, size_t *bytes)
{
    const size_t each = sizeof(ranked) + (size_t)arrays * sizeof(double);
    *bytes = 0;
    if ((uint64_t)count <= SIZE_MAX / each / 2)
        *bytes = (size_t)count * each;
    ranked *memory = *bytes > 0 ? th_allocate(ctx, *bytes) : NULL;
    if (memory == NULL)
        (void)th_fail_memory(ctx, operation, (size_t)count);
    return memory;
}

double th_spearman(th_context *ctx, const double *x, const double *y, int64_t count)
{
    static const char operation[] = "spearman";
    size_t bytes;
    if (!th_usable_context(ctx, operation) || count < 2 || has_nan(x, count) || has_nan(y, count))
        return NAN;
    ranked *sorted = allocate_ranks(ctx, operation, count, 2, &bytes);
    if (sorted == NULL)
        return NAN;
    double *rank_x = (double *)(sorted + count), *rank_y = rank_x + count;
    rank_values(x, count, sorted, rank_x);
    rank_values(y, count, sorted, rank_y);
    const double correlation = th_pearson(rank_x, rank_y, count);
    th_release(ctx, sorted, bytes);
    return correlation;
}

/* With the ranks of all scores, the sum of the ranks of the p positive examples is p (p + 1) / 2, plus the number of
 * negative examples below each. */
double th_roc_auc(th_context *ctx, const bool *actual, const double *scores, int64_t count)
{
    static const char operation[] = "roc_auc";
    size_t bytes;
    if (!th_usable_context(ctx, operation) || count < 2 || has_nan(scores, count))
        return NAN;
    ranked *sorted = allocate_ranks(ctx, operation, count, 1, &bytes);
    if (sorted == NULL)
        return NAN;
    double *rank = (double *)(sorted + count), sum = 0, positive = 0;
    rank_values(scores, count, sorted, rank);
    for (int64_t i = 0; i < count; i++) {
        sum += actual[i] ? rank[i] : 0;
        positive += actual[i];
    }
    th_release(ctx, sorted, bytes);
    return (sum - positive * (positive + 1) / 2) / (positive * ((double)count - positive));
}

/* -- search -- */

static double reciprocal_rank(const bool *relevant, const double *scores, int64_t candidates)
{
    double best = -INFINITY;
    bool found = false;
    for (int64_t i = 0; i < candidates; i++)
        if (relevant[i]) {
            best = fmax(best, scores[i]);
            found = true;
        }
    int64_t before = 0;
    for (int64_t i = 0; i < candidates; i++)
        before += !relevant[i] && scores[i] >= best;
    return found ? 1 / (double)(before + 1) : 0;
}

double th_mean_reciprocal_rank(const bool *relevant, const double *scores, int64_t queries, int64_t candidates)
{
    double sum = 0;
    for (int64_t q = 0; q < queries; q++)
        sum += reciprocal_rank(relevant + q * candidates, scores + q * candidates, candidates);
    return sum / (double)queries;
}
