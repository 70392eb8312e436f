/* The cross entropy of rows of logits, for cross_entropy and dense_cross_entropy. The arithmetic of a row is in
 * kernels/rows/vector/loss.c.
 *
 * For a row that counts, with target t, smoothing s, V classes and normalizer n:
 *     loss = (log sum_i exp(x_i) - (1 - s) x_t - s/V sum_i x_i) / n
 *     dL/dx_j = dL/dloss / n (p_j - (1 - s) 1[j=t] - s/V),   p = softmax(x) = exp(x_j - m) / sum_i exp(x_i - m)
 * Here m is the largest logit of the row. Rows that do not count have loss 0 and gradient exactly 0 for any logits, NaN
 * included. */
#ifndef TH_OPS_SHARED_CLASS_LOSS_H
#define TH_OPS_SHARED_CLASS_LOSS_H

#include "ops/shared/rows.h"
#include "tapehead/ops.h"

/* -- for shape rules -- */

/* Returns whether the shapes are rows (N, any) and targets (N). */
bool th_class_loss_fits(const th_array *rows, const th_array *targets);
/* Checks the options and declares the outputs: output 0 the loss, output 1 (N, 2) two saved numbers of each row. rows
 * (N, any). */
th_status th_class_loss_outputs(th_call *call, const th_array *rows, const th_cross_entropy_options *options);

/* -- targets -- */

/* Reads the targets of input `input` into target (N), -1 for those that do not count. Returns the number that count, or
 * -1 with an error pending. */
int64_t th_class_loss_targets(const th_call *call, int input, int64_t classes, const th_cross_entropy_options *options,
                              int64_t *target);
/* Returns value / n, where n is the normalizer; 0 if no row counts. counted: the number of rows that count. */
double th_class_loss_mean(const th_cross_entropy_options *options, int64_t counted, double value);
/* Computes output 0 from the losses of rows (N). */
void th_class_loss_store(const th_call *call, int64_t count, const double *loss, int64_t counted);

/* -- rows -- */

typedef struct th_class_loss {
    const th_cross_entropy_options *options;
    th_rows rows;   /* of the logits (N, V), in backward with their gradient */
    size_t scratch; /* offset of their scratch memory */
} th_class_loss;

/* Describes forward (dlogits is NULL) or backward, which writes dlogits or, with `add`, adds to it. Without `add`,
 * dlogits may be the memory of the logits. */
th_class_loss th_class_loss_of(const th_call *call, const th_array *logits, const th_array *dlogits, bool add);
/* In .plan: reserves scratch memory; none if logits and gradient are contiguous. */
void th_class_loss_reserve(const th_call *call, th_class_loss *l);

/* Computes loss (N), not divided by n. Writes to saved (N, 2), unless it is NULL, the largest logit m and
 * 1 / sum exp(logit - m). */
void th_class_loss_forward(const th_call *call, const th_class_loss *l, const int64_t *target, void *saved,
                           double *loss);
/* Computes dlogits, or adds to it, from the saved numbers. factor = dL/dloss / n. */
void th_class_loss_backward(const th_call *call, const th_class_loss *l, const int64_t *target, void *saved,
                            double factor);

#endif
