/* Metrics of predictions, from arrays of numbers: without tensors and gradients. The values are those of scikit-learn, SciPy
 * and seqeval. A metric without a value, such as a correlation with a constant, is NaN. */
#ifndef TAPEHEAD_METRICS_H
#define TAPEHEAD_METRICS_H

#include "tapehead/base.h"

TH_BEGIN_DECLS

/* -- classes -- */

/* Counts pairs: matrix[a * classes + p] is the number of i with actual[i] = a and predicted[i] = p. matrix
 * [classes * classes] is overwritten. Pairs with a number outside [0, classes) do not count, such as TH_IGNORE's. */
TH_API void th_confusion_matrix(const int32_t *actual, const int32_t *predicted, int64_t count, int64_t classes,
                                int64_t *matrix);
/* Returns the share of pairs on the diagonal. */
TH_API double th_accuracy(const int64_t *matrix, int64_t classes);

/* The counts of one class, or of one label among several. */
typedef struct th_label_counts {
    int64_t right; /* predicted and actual */
    int64_t predicted, actual;
} th_label_counts;
/* Sets counts[c] for each class c of a confusion matrix. */
TH_API void th_count_classes(const int64_t *matrix, int64_t classes, th_label_counts *counts);
/* Sets counts[l] for each of several labels. actual and predicted are [count][labels]. */
TH_API void th_count_labels(const bool *actual, const bool *predicted, int64_t count, int64_t labels,
                            th_label_counts *counts);

/* Counts the entities that labels of words mark: B-PER begins an entity of the type PER, I-PER continues it, E-PER ends it,
 * S-PER is an entity of one word, and O is outside (Ramshaw and Marcus 1995: BIO, IOB, IOE and BIOES). An entity is right if
 * its type and both ends are. A label that does not fit, such as I-PER after O, begins an entity, as in conlleval and in
 * seqeval's default mode. The type is what follows the first "-" behind the first character, or all that follows this
 * character.
 * actual and predicted [count] are indices into label_names [labels]. Sentences are separated by a number outside
 * [0, labels) in either array, such as -1. counts [labels] is overwritten: counts[l] is for the type of label l if no label
 * before it has this type; otherwise, and for O, it is 0. So th_score_micro and th_score_macro of counts are those of
 * seqeval. */
TH_API void th_count_entities(const char *const *label_names, int64_t labels, const int32_t *actual,
                              const int32_t *predicted, int64_t count, th_label_counts *counts);

/* precision = right / predicted, recall = right / actual, f1 = 2 right / (predicted + actual). 0 / 0 is 0. */
typedef struct th_label_score {
    double precision, recall, f1;
} th_label_score;
/* Returns the score of one label. */
TH_API th_label_score th_score_label(th_label_counts counts);
/* Returns the mean of the labels' scores. Labels that are neither predicted nor actual do not count. */
TH_API th_label_score th_score_macro(const th_label_counts *counts, int64_t labels);
/* Returns the score of the summed counts. */
TH_API th_label_score th_score_micro(const th_label_counts *counts, int64_t labels);

/* -- numbers -- */

/* Returns Pearson's correlation of x and y [count]. */
TH_API double th_pearson(const double *x, const double *y, int64_t count);
/* Returns Spearman's correlation: Pearson's of the ranks, where equal numbers share the mean of their ranks. Needs memory;
 * without it, NaN with the error pending. */
TH_API double th_spearman(th_context *ctx, const double *x, const double *y, int64_t count);
/* Returns the area under the ROC curve: the probability that a random positive example has a higher score than a random
 * negative one. Equal scores count half. Needs memory as th_spearman does. */
TH_API double th_roc_auc(th_context *ctx, const bool *actual, const double *scores, int64_t count);

/* -- search -- */

/* Returns the mean of 1 / rank over queries, where rank is the place of the relevant candidate with the highest score. An
 * irrelevant candidate with an equal score is before it. A query without a relevant candidate has 0. relevant and scores
 * are [queries][candidates]. */
TH_API double th_mean_reciprocal_rank(const bool *relevant, const double *scores, int64_t queries, int64_t candidates);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_spearman(...) TH_AT_NUMBER(th_spearman(__VA_ARGS__))
#define th_roc_auc(...) TH_AT_NUMBER(th_roc_auc(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
