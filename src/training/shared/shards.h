/* The loop over the shards of an optimizer's step, and the sums of their gradients in this process.
 * gradient_exchange.h continues the sums across processes. */
#ifndef TH_TRAINING_SHARED_SHARDS_H
#define TH_TRAINING_SHARED_SHARDS_H

#include "private_api.h"
#include "tapehead/optimizer.h"
#include "tensor/context_struct.h"
#include "training/shared/shard_nodes.h"

/* For one parameter block: the gradients of the open nodes. A node is open until its sum is added to its sibling's sum,
 * or to the block's gradient. */
typedef struct th_shard_sums {
    struct th_parameter_block *block;
    size_t bytes;                            /* of each gradient */
    void *node_gradient[TH_MAX_SHARD_NODES]; /* [n_allocated]: the open nodes use the first th_shard_state.n_open */
    int n_allocated;
    struct th_shard_sums *next;
} th_shard_sums;

/* The weight and the loss that the program set for a shard. */
typedef struct th_weighted_loss {
    double weight, loss;
} th_weighted_loss;

/* The sums over the shards of a step. */
typedef struct th_step_sums {
    double norm; /* of the summed gradients */
    double weight, loss;
} th_step_sums;

typedef struct th_shard_state {
    int rank, processes;                    /* this process's rank in the group, and the group's size */
    int count;                              /* shards of a step, in all processes */
    int first, end;                         /* this process has shards first to end - 1 */
    int next;                               /* the next shard to sum; `end` after the last one */
    bool loop_begun;                        /* th_optimizer_shards was called since the last step */
    th_shard_node open[TH_MAX_SHARD_NODES]; /* the nodes that `sums` has, in order */
    int n_open;
    th_shard_sums *sums;                    /* a list with an entry for each block; kept from step to step */
    th_weighted_loss *losses;               /* [end - first] */
    uint32_t random_calls[TH_STREAM_COUNT]; /* of each random stream, before the first shard */
} th_shard_state;

/* Checks the options `shards` and `group`, and allocates the state. Returns TH_ERROR_ARGUMENT or TH_ERROR_MEMORY. */
th_status th_shards_init(th_optimizer *o, int shards, th_group *group);
/* Frees the state. */
void th_shards_free(th_optimizer *o);
/* Frees the sums, for example because a block will be freed. The program must start an unfinished loop again. */
void th_shards_discard_sums(th_optimizer *o);

/* Allocates what the steps of one process keep: gradients, their sums, and moments. The first step of Adam then allocates
 * only values of the tape. Ends an unfinished loop. */
TH_PRIVATE_API th_status th_optimizer_reserve(th_optimizer *o);

/* Returns TH_ERROR_STATE if the program has not computed all shards of this process. */
th_status th_shards_check_complete(const th_optimizer *o);
/* Marks the parameters that the step must update. Without a loop, the step has one shard, and every parameter that has
 * a gradient is updated. After a loop, the step does not update a parameter whose gradient was emptied, for example
 * because it was frozen. */
void th_shards_mark_due(th_optimizer *o);
/* Adds the open nodes to the gradients of the blocks. In one process, the gradients then are sums over all shards. */
void th_shards_add_open_nodes(th_optimizer *o);
/* Writes the sums of weights and losses of `count` shards to `sums`. Returns TH_ERROR_VALUE if the summed weight is too
 * small or not finite. */
th_status th_shards_sum_losses(const th_optimizer *o, const th_weighted_loss *losses, int count, th_step_sums *sums);
/* Ends the loop, complete or not. The next loop draws the same random numbers, unless the step was done. */
void th_shards_end_loop(th_optimizer *o);

/* Returns the gradient of an open node: open[index], for the elements of a block. */
char *th_shards_node_gradient(const th_optimizer *o, const struct th_parameter_block *block, int index);

#endif
