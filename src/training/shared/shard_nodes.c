/* The tree of a step's shards: see shard_nodes.h. */
#include "training/shared/shard_nodes.h"

#include <stdint.h>

int th_shard_first(int shards, int rank, int size)
{
    return (int)((int64_t)shards * rank / size);
}

bool th_shards_are_siblings(th_shard_node a, th_shard_node b)
{
    return a.count == b.count && a.first + a.count == b.first && a.first % (2 * a.count) == 0;
}

int th_shard_nodes(int first, int end, th_shard_node nodes[TH_MAX_SHARD_NODES])
{
    int n = 0;
    for (int shard = first; shard < end; shard++) {
        nodes[n++] = (th_shard_node){shard, 1};
        for (; n > 1 && th_shards_are_siblings(nodes[n - 2], nodes[n - 1]); n--)
            nodes[n - 2].count *= 2;
    }
    return n;
}
