/* A step that several processes compute together: exchanges of gradients and of parameters. Each process owns a part of
 * every parameter block (th_moments). It receives the gradients of that part from all others, and sends them the
 * parameters of that part. */
#ifndef TH_TRAINING_SHARED_AGREEMENT_H
#define TH_TRAINING_SHARED_AGREEMENT_H

#include "training/optimizer.h"

/* Allocates the memory for a step. Errors: TH_ERROR_MEMORY. */
th_status th_shared_step_reserve(th_optimizer *o);
/* Frees it. */
void th_shared_step_end(th_optimizer *o);
/* Makes the processes compare their parameters again at the next step. */
void th_shared_step_compare_again(th_optimizer *o);

/* Collective: the processes compare their errors, steps, shards, seeds, learning rates and layouts of the parameters.
 * Before the first step, and before the first one after parameters were loaded, they also compare their parameters. With
 * local steps they always compare the parameters from which these began. */
th_status th_shared_step_agree(th_optimizer *o);
/* Collective, after th_shared_step_agree: the processes agree on which parameters are due: those that are due in any
 * process. In the others, their gradients become zero. */
th_status th_shared_step_gather_due(th_optimizer *o);
/* Collective: sums the gradients of all shards. Afterwards the gradients of this process's part are the sums. */
th_status th_shared_step_sum(th_optimizer *o);
/* Collective: sets *norm to the norm of the sums, and *values to the weights and losses of all shards [count].
 * differences: what is summed, in messages, instead of gradients. */
th_status th_shared_step_norm(th_optimizer *o, bool differences, double *norm, const th_shard_values **values);
/* Collective: gives every process the parameters that the others have updated. */
th_status th_shared_step_distribute(th_optimizer *o);

#endif
