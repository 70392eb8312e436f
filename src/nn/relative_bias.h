/* T5's bias of the scores, which depends on how far a key is from the query (Raffel et al. 2020). */
#ifndef TH_NN_RELATIVE_BIAS_H
#define TH_NN_RELATIVE_BIAS_H

#include "tapehead/tensor.h"

/* The buckets of distances. Distances below a half of the buckets of a side have one bucket each. The others share
 * buckets whose width grows like the logarithm, up to `farthest`. */
typedef struct th_relative_buckets {
    int64_t count;
    int64_t farthest;   /* all greater distances have the last bucket */
    bool bidirectional; /* the second half of the buckets is of later keys. Otherwise later keys have bucket 0 */
} th_relative_buckets;

/* Returns the biases (H, T, T) of T queries and keys: rows of the table (count, H). NULL with the error pending. */
th_tensor *th_relative_bias(th_context *ctx, th_tensor *table, const th_relative_buckets *buckets, int64_t length);

#endif
