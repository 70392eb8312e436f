/* Computes T5's bias of the scores: see relative_bias.h. */
#include "nn/relative_bias.h"

#include "kernels/elementwise/scalar.h"
#include "kernels/sizes.h"
#include "tapehead/ops.h"
#include "tensor/tensor.h"

/* Returns the bucket of a key at key - query = offset. */
static int64_t bucket_of(const th_relative_buckets *b, int64_t offset)
{
    const int64_t count = b->bidirectional ? b->count / 2 : b->count, exact = count / 2;
    const int64_t first = b->bidirectional && offset > 0 ? count : 0;
    const int64_t distance = offset < 0 ? -offset : b->bidirectional ? offset : 0;
    if (distance < exact)
        return first + distance;
    const double part =
        th_scalar_log((double)distance / (double)exact) / th_scalar_log((double)b->farthest / (double)exact);
    return first + (part < 1 ? exact + (int64_t)(part * (double)(count - exact)) : count - 1);
}

th_tensor *th_relative_bias(th_context *ctx, th_tensor *table, const th_relative_buckets *buckets, int64_t length)
{
    th_tensor_impl *numbers =
        th_tensor_new(ctx, TH_INT32, 2, (const int64_t[]){length, length}, false, "language_model");
    int32_t *bucket = numbers ? th_tensor_data(numbers) : NULL; /* NULL in a shapes-only context */
    for (int64_t query = 0; bucket && query < length; query++)
        for (int64_t key = 0; key < length; key++)
            bucket[query * length + key] = query > 0 && key > 0 ? bucket[(query - 1) * length + key - 1]
                                                                : (int32_t)bucket_of(buckets, key - query);
    th_tensor *biases = th_embedding(table, th_handle_of(numbers)); /* (T, T, H) */
    return th_contiguous(th_transpose(biases, TH_SHAPE(2, 0, 1)));
}
