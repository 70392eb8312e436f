/* The cross entropy of rows of logits with their targets: what cross_entropy and dense_cross_entropy share. The
 * arithmetic of one row is in kernels/rows/vector/loss.c.
 *
 * One counted row with target t, smoothing s, V classes, normalizer n:
 *   loss = (log sum_i exp(x_i) - (1 - s) x_t - s/V sum_i x_i) / n
 *   dL/dx_j = dL/dloss / n (p_j - (1 - s) 1[j=t] - s/V),   p = softmax(x) = exp(x_j - m) / sum_i exp(x_i - m)
 * Rows that do not count have loss 0 and gradient exactly 0, whatever their logits are. */
#ifndef TH_OPS_SHARED_CLASS_LOSS_H
#define TH_OPS_SHARED_CLASS_LOSS_H

#include "ops/shared/rows.h"
#include "tapehead/ops.h"

/* -- shape rules -- */
/* rows (N, any), targets (N). */
bool th_class_loss_fits(const th_array *rows, const th_array *targets);
/* Checks the options and declares what comes out: output 0 the loss, output 1 (N, 2) what is kept of each row. rows
 * (N, any). */
th_status th_class_loss_outputs(th_call *call, const th_array *rows, const th_cross_entropy_options *options);

/* -- targets -- */
/* Those of input `input`, -1 where they do not count, into target (N); returns how many count, or -1 with the error
 * pending. */
int64_t th_class_loss_targets(const th_call *call, int input, int64_t classes, const th_cross_entropy_options *options,
                              int64_t *target);
/* value / n of the formula, when so many rows count; 0 when none does. */
double th_class_loss_mean(const th_cross_entropy_options *options, int64_t counted, double value);
/* Output 0 from the losses of rows (N). */
void th_class_loss_put(const th_call *call, int64_t count, const double *loss, int64_t counted);

/* -- rows -- */
typedef struct th_class_loss {
    const th_cross_entropy_options *options;
    th_rows rows;   /* of the logits (N, V), in backward with their gradient */
    size_t scratch; /* the place of their scratch memory */
} th_class_loss;

/* Forward (dlogits NULL) or backward: dlogits (+)= the gradient. Without add that may be the logits' own memory. */
th_class_loss th_class_loss_of(const th_call *call, const th_array *logits, const th_array *dlogits, bool add);
/* In a plan: reserves scratch memory, none where logits and gradient are contiguous. */
void th_class_loss_reserve(const th_call *call, th_class_loss *l);

/* kept (N, 2), written by forward unless it is NULL: the largest logit m and 1 / sum exp(logit - m). target (N). loss
 * (N): of each row, not divided by n. */
void th_class_loss_forward(const th_call *call, const th_class_loss *l, const int64_t *target, void *kept,
                           double *loss);
/* factor = dL/dloss / n. Adds to dlogits where th_class_loss_of was told so. */
void th_class_loss_backward(const th_call *call, const th_class_loss *l, const int64_t *target, void *kept,
                            double factor);

#endif
