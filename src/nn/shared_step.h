/* A step that several processes compute together: exchanges of gradients and of parameters. Each process owns a part of
 * every parameter block (th_moments). It receives the gradients of that part from all others, and sends them the
 * parameters of that part. */
#ifndef TH_NN_SHARED_STEP_H
#define TH_NN_SHARED_STEP_H

#include "nn/optimizer_state.h"

/* Allocates the memory for a step. Errors: TH_ERROR_MEMORY. */
th_status th_shared_step_reserve(th_optimizer *o);
/* Frees it. */
void th_shared_step_end(th_optimizer *o);
/* Makes the processes compare their parameters again at the next step. */
void th_shared_step_compare_again(th_optimizer *o);

/* Collective: the processes compare their errors, steps, shards, seeds and learning rates; before the first step, and
 * the first one after parameters were loaded, also their parameters. They agree on which parameters are due: those with a gradient in any process. */
th_status th_shared_step_agree(th_optimizer *o);
/* Collective: sums the gradients of all shards. Afterwards the gradients of this process's part are the sums. */
th_status th_shared_step_sum(th_optimizer *o);
/* Collective: sets *norm to the norm of the sums, and *values to the weights and losses of all shards [count]. */
th_status th_shared_step_norm(th_optimizer *o, double *norm, const th_shard_values **values);
/* Collective: gives every process the parameters that the others have updated. */
th_status th_shared_step_distribute(th_optimizer *o);

#endif
