/* The tree in which the gradients of a step's shards are summed. A node is a range of shards: of 2^k shards that begins
 * at a multiple of 2^k, or of fewer if the step has no more shards. Its gradient is the sum of its two halves. */
#ifndef TH_TRAINING_SHARED_SHARD_NODES_H
#define TH_TRAINING_SHARED_SHARD_NODES_H

#include <stdbool.h>

enum {
    TH_MAX_SHARDS = 1 << 16,
    TH_MAX_SHARD_NODES = 32 /* of one process: two of each size */
};

typedef struct th_shard_node {
    int first, count; /* shards first to first + count - 1 */
} th_shard_node;

/* Returns the first shard of a process; that of `size` is the number of shards. */
int th_shard_first(int shards, int rank, int size);
/* Returns whether the tree adds b to a: both have 2^k shards, and a is the first half of a node. */
bool th_shard_siblings(th_shard_node a, th_shard_node b);
/* Lists the nodes that shards first to end - 1 add up to. Returns their number. */
int th_shard_nodes(int first, int end, th_shard_node nodes[TH_MAX_SHARD_NODES]);

#endif
