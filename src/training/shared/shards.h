/* The shards of an optimizer's step: the loop over them, and the sums of their gradients in this process. gradient_exchange.h
 * continues the sums across processes. */
#ifndef TH_TRAINING_SHARED_SHARDS_H
#define TH_TRAINING_SHARED_SHARDS_H

#include "tapehead/optimizer.h"
#include "tensor/context_struct.h"
#include "training/shared/shard_nodes.h"

/* Sums of shards that are not yet added to the gradient of a parameter block. Each open node has its own memory. */
typedef struct th_shard_sums {
    struct th_parameter_block *block;
    size_t bytes;
    void *node[TH_MAX_SHARD_NODES];
    int n_nodes; /* allocated */
    struct th_shard_sums *next;
} th_shard_sums;

/* The weight and the loss that the program gave to a shard. */
typedef struct th_shard_values {
    double weight, loss;
} th_shard_values;

/* The sums over the shards of a step. */
typedef struct th_step_sums {
    double norm; /* of the sums of the gradients */
    double weight, loss;
} th_step_sums;

typedef struct th_shard_state {
    int rank, processes;                    /* of the group */
    int count;                              /* of a step, in all processes */
    int first, end;                         /* this process's shards */
    int next;                               /* the next shard to sum; `end` if all are summed */
    bool looped;                            /* th_optimizer_shards was called since the last step */
    th_shard_node open[TH_MAX_SHARD_NODES]; /* nodes whose sums are in `sums`, in order */
    int n_open;
    th_shard_sums *sums;             /* a list with an entry for each block; kept from step to step */
    th_shard_values *values;         /* [end - first] */
    uint32_t calls[TH_STREAM_COUNT]; /* of the random streams, before the first shard */
} th_shard_state;

/* Checks the options shards and group, and allocates the state. Errors: TH_ERROR_ARGUMENT, TH_ERROR_MEMORY. */
th_status th_shards_begin(th_optimizer *o, int shards, th_group *group);
/* Frees the state. */
void th_shards_end(th_optimizer *o);
/* Frees the sums, for example because a block will be freed. An unfinished loop starts again. */
void th_shards_discard_sums(th_optimizer *o);

/* Returns TH_ERROR_STATE if the program has not computed all shards of this process. */
th_status th_shards_check_complete(const th_optimizer *o);
/* Marks the parameters that are due. Without a loop, the gradients are the gradients of the only shard. After a loop,
 * parameters whose gradients were emptied since, for example by freezing the parameter, are not due. */
void th_shards_mark_due(th_optimizer *o);
/* Adds the open nodes to the gradients of the blocks. These then are sums over all shards, if one process has them all. */
void th_shards_add_open_nodes(th_optimizer *o);
/* Sums the weights and losses of `count` shards into `sums`. Returns TH_ERROR_VALUE if the weight is too small or not finite. */
th_status th_shards_sum_values(const th_optimizer *o, const th_shard_values *values, int count, th_step_sums *sums);
/* Ends the loop, complete or not. The next one draws the same random numbers, unless the step is done. */
void th_shards_end_loop(th_optimizer *o);

/* Returns the sums of an open node of a block. */
char *th_shards_node_data(const th_optimizer *o, const struct th_parameter_block *block, int open);

#endif
