/* The tree in which the gradients of a step's shards are summed. A node is a range of 2^k shards that begins at a
 * multiple of 2^k. The last range may have fewer shards. The gradient of a node is the sum of its two halves. */
#ifndef TH_TRAINING_SHARED_SHARD_NODES_H
#define TH_TRAINING_SHARED_SHARD_NODES_H

#include <stdbool.h>

enum {
    TH_MAX_SHARDS = 1 << 16,
    TH_MAX_SHARD_NODES = 32 /* of one process: at most two of each size */
};

typedef struct th_shard_node {
    int first, count; /* shards first to first + count - 1 */
} th_shard_node;

/* Returns the first shard of the process `rank` of `size`, or the number of shards if rank is size. */
int th_shard_first(int shards, int rank, int size);
/* Returns whether a and b are the two halves of a node: each has 2^k shards, and a comes first. */
bool th_shards_are_siblings(th_shard_node a, th_shard_node b);
/* Lists the largest nodes inside shards first to end - 1, in order. Returns their number. */
int th_shard_nodes(int first, int end, th_shard_node nodes[TH_MAX_SHARD_NODES]);

#endif
