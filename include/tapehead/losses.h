/* Losses for classifiers and for embeddings, composed of operations (tapehead/ops.h has th_cross_entropy and th_mse). Each
 * returns a scalar, and NULL with the error pending. N pairs, rows or examples, E width, L labels. */
#ifndef TAPEHEAD_LOSSES_H
#define TAPEHEAD_LOSSES_H

#include "tapehead/ops.h"

TH_BEGIN_DECLS

/* The mean over all elements of the cross entropy of independent yes/no decisions:
 *
 *   -(p t log sigmoid(x) + (1 - t) log(1 - sigmoid(x)))
 *
 * logits x (N, L), targets t (N, L) in [0, 1] of the same type and shape. positive_weight p: broadcasts to (N, L), such as
 * (L); NULL: 1. Large logits do not overflow. Errors: TH_ERROR_SHAPE. */
TH_API th_tensor *th_binary_cross_entropy(th_tensor *logits, th_tensor *targets, th_tensor *positive_weight);

/* th_cross_entropy in which class c has the weight w[c], as torch.nn.CrossEntropyLoss with weight:
 *
 *   -sum_n w[t_n] log softmax(x_n)[t_n] / sum_n w[t_n]
 *
 * logits x (N, V), targets t (N) int32/int64, class_weights w (V), which get no gradient. Rows of ignored targets do not
 * count. With label_smoothing s the first sum is sum_n sum_c ((1 - s) w[c] [c = t_n] + s w[c] / V) log softmax(x_n)[c].
 * options.normalizer replaces the divisor. 0 if no target counts. Errors: TH_ERROR_INDEX for a target outside [0, V) that
 * is not ignored, TH_ERROR_SHAPE, TH_ERROR_TYPE, TH_ERROR_ARGUMENT for label_smoothing outside [0, 1]. */
TH_API th_tensor *th_weighted_cross_entropy(th_tensor *logits, th_tensor *targets, th_tensor *class_weights,
                                            const th_cross_entropy_options *options);

/* -- embeddings -- */

/* Returns the cosine of the angle between each row of a and the same row of b: (N, E), (N, E) -> (N). */
TH_API th_tensor *th_cosine_similarity(th_tensor *a, th_tensor *b);

/* mean((cosine(a_n, b_n) - t_n)^2): a, b (N, E), targets t (N). CosineSimilarityLoss of sentence-transformers. */
TH_API th_tensor *th_cosine_similarity_loss(th_tensor *a, th_tensor *b, th_tensor *targets);

/* log(1 + sum over pairs with t_i > t_j of exp(scale (cosine(a_j, b_j) - cosine(a_i, b_i)))): pairs with a higher target
 * have a higher cosine (Su 2022; CoSENTLoss). a, b (N, E), targets t (N), which get no gradient. scale 0: 20. It needs
 * N^2 numbers. */
TH_API th_tensor *th_cosent_loss(th_tensor *a, th_tensor *b, th_tensor *targets, double scale);

/* Options of th_ranking_loss. */
typedef struct th_ranking_options {
    double scale;   /* of the cosines; 0: 20 */
    bool symmetric; /* the mean with the loss of finding anchor i among all anchors for positive i */
} th_ranking_options;
/* The multiple negatives ranking loss (Henderson et al. 2017), also called InfoNCE: finds positive i among all positives
 * and negatives for anchor i.
 *
 *   cross entropy of scale cosine(anchor_i, candidate_j), with the target i
 *
 * anchors and positives (N, E); negatives (M, E), the hard negatives of all anchors in any order, or NULL. The candidates
 * are the positives, then the negatives. MultipleNegativesRankingLoss and MultipleNegativesSymmetricRankingLoss of
 * sentence-transformers. options may be NULL. */
TH_API th_tensor *th_ranking_loss(th_tensor *anchors, th_tensor *positives, th_tensor *negatives,
                                  const th_ranking_options *options);

typedef enum th_distance {
    TH_EUCLIDEAN, /* sqrt(sum_e (a_e - b_e)^2 + 1e-24): the gradient of equal vectors is 0 */
    TH_COSINE     /* 1 - cosine(a, b) */
} th_distance;
/* Options of th_triplet_loss. */
typedef struct th_triplet_options {
    th_distance distance;
    double margin; /* 0: 5 for TH_EUCLIDEAN, 0.5 for TH_COSINE */
} th_triplet_options;
/* mean(max(distance(anchor_n, positive_n) - distance(anchor_n, negative_n) + margin, 0)): three tensors (N, E). TripletLoss
 * of sentence-transformers. options may be NULL. */
TH_API th_tensor *th_triplet_loss(th_tensor *anchors, th_tensor *positives, th_tensor *negatives,
                                  const th_triplet_options *options);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_weighted_cross_entropy(...) TH_AT(th_weighted_cross_entropy(__VA_ARGS__))
#define th_cosine_similarity(...) TH_AT(th_cosine_similarity(__VA_ARGS__))
#define th_cosine_similarity_loss(...) TH_AT(th_cosine_similarity_loss(__VA_ARGS__))
#define th_cosent_loss(...) TH_AT(th_cosent_loss(__VA_ARGS__))
#define th_ranking_loss(...) TH_AT(th_ranking_loss(__VA_ARGS__))
#define th_triplet_loss(...) TH_AT(th_triplet_loss(__VA_ARGS__))
#define th_binary_cross_entropy(...) TH_AT(th_binary_cross_entropy(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
