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

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_binary_cross_entropy(...) TH_AT(th_binary_cross_entropy(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
