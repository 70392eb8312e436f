/* Exchanges gradients and parameters between the processes of a group. Every process sends each other process the part
 * that this one owns, directly: of one sum per node of its shards (training/shared/shard_nodes.h). The owner adds them in the order of
 * the tree. If every process has one node, a process sends and receives as many bytes as in a reduce-scatter. */
#ifndef TH_TRAINING_SHARED_GRADIENT_EXCHANGE_H
#define TH_TRAINING_SHARED_GRADIENT_EXCHANGE_H

#include "training/optimizer.h"

typedef struct th_gradient_exchange th_gradient_exchange;

/* Allocates what the exchanges of o need. Returns NULL with TH_ERROR_MEMORY pending. */
th_gradient_exchange *th_gradient_exchange_new(th_optimizer *o);
/* Frees it; NULL is allowed. */
void th_gradient_exchange_free(th_context *ctx, th_gradient_exchange *x);

/* Sums the due gradients of all shards; the sums are in the gradients of this process's part. TH_ERROR_PROCESS. */
th_status th_gradient_exchange_sum(th_gradient_exchange *x, const th_optimizer *o);
/* Sends the due parameters of this process's part to all others, and receives theirs. TH_ERROR_PROCESS. */
th_status th_gradient_exchange_parameters(th_gradient_exchange *x, const th_optimizer *o);

#endif
