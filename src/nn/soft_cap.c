/* The soft cap of logits, and the loss of logits with a cap or a bias, composed of operations. A vocabulary of 256,000 makes the
 * logits of 1,024 tokens 1 GB large, and cap and loss need several tensors of this size. So the loss is the sum of the
 * losses of chunks of rows, each in a recomputed scope. This costs one more product of the classifier. */
#include "nn/layers.h"

#include "tapehead/context.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/tensor.h"

enum {
    CHUNK_LOGITS = 2 << 20, /* of a chunk, but at least LEAST_ROWS rows: each chunk reads all weights */
    LEAST_ROWS = 64
};

th_tensor *th_soft_capped(th_tensor *logits, double cap)
{
    return cap == 0 ? logits : th_scale(th_tanh(th_scale(logits, 1 / cap)), cap);
}

static th_tensor *capped_loss(th_tensor *x, th_tensor *weight, th_tensor *bias, double cap, th_tensor *targets,
                              const th_cross_entropy_options *options)
{
    return th_cross_entropy(th_soft_capped(th_dense(x, weight, &(th_dense_options){.bias = bias}), cap), targets,
                            options);
}

/* Returns whether targets are (B, T) for x (B, T, E). */
static bool targets_fit(th_tensor *x, th_tensor *targets)
{
    const th_shape shape = th_shape_of(x), target_shape = th_shape_of(targets);
    bool fit = target_shape.ndim == shape.ndim - 1;
    for (int i = 0; i < target_shape.ndim && fit; i++)
        fit = target_shape.size[i] == shape.size[i];
    return fit;
}

th_tensor *th_soft_capped_cross_entropy(th_tensor *x, th_tensor *weight, th_tensor *bias, double cap,
                                        th_tensor *targets, const th_cross_entropy_options *options)
{
    if (x == NULL || !th_usable_tensor(targets, th_context_of(x), "soft_capped_cross_entropy", "targets"))
        return NULL;
    th_context *ctx = th_context_of(x);
    const int64_t width = th_size(x, -1), rows_per_chunk = CHUNK_LOGITS / th_size(weight, 0);
    const int64_t count = th_numel(targets), rows = rows_per_chunk > LEAST_ROWS ? rows_per_chunk : LEAST_ROWS;
    if (count <= rows || !targets_fit(x, targets)) /* capped_loss reports targets that do not fit */
        return capped_loss(x, weight, bias, cap, targets, options);
    th_cross_entropy_options chunk_options = options ? *options : (th_cross_entropy_options){0};
    if (chunk_options.normalizer == 0) {
        const int64_t counted = th_target_count(targets, &chunk_options);
        chunk_options.normalizer = counted > 0 ? (double)counted : 1; /* the loss is 0 without counted targets */
    }
    x = th_reshape(x, TH_SHAPE(count, width));
    targets = th_reshape(targets, TH_SHAPE(count));
    th_tensor *sum = NULL;
    for (int64_t first = 0; first < count && !th_failed(ctx); first += rows) {
        const int64_t end = first + rows < count ? first + rows : count;
        th_tensor *chunk = th_slice(x, 0, first, end, 1), *target = th_slice(targets, 0, first, end, 1);
        th_scope_begin_recomputed(ctx, NULL);
        th_tensor *loss = th_scope_end(ctx, capped_loss(chunk, weight, bias, cap, target, &chunk_options));
        sum = sum ? th_add(sum, loss) : loss;
    }
    return sum;
}
