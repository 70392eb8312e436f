/* The gradient norm over all processes: see shared_norm.c. */
#ifndef TH_TRAINING_SHARED_SHARED_NORM_H
#define TH_TRAINING_SHARED_SHARED_NORM_H

#include "training/optimizer.h"

/* Collective: sets *norm to the norm of the sums, and *losses to the weights and losses of all shards [count].
 * differences: the sums are the differences of an outer step, for messages. */
th_status th_shared_norm(th_optimizer *o, bool differences, double *norm, const th_weighted_loss **losses);

#endif
