/* Pooling, composed of operations: a product with a row of weights for each sequence, or a maximum. */
#include "tapehead/pooling.h"

#include <math.h>

#include "autograd/tape.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

static const char operation[] = "pooling";

static th_status check_lengths(th_context *ctx, th_tensor *handle, int64_t batch, int64_t length)
{
    const th_tensor_impl *lengths = th_usable_tensor(handle, ctx, operation, "lengths");
    if (lengths == NULL)
        return ctx->error;
    const th_array a = th_tensor_array(lengths);
    if (!th_is_index(a.dtype))
        return th_fail(ctx, TH_ERROR_TYPE, operation, "lengths must be int32 or int64; they are %s",
                       th_dtype_name(a.dtype));
    if (a.ndim != 1 || a.size[0] != batch)
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "lengths must be (B), that is (%lld); they are %s",
                       (long long)batch, TH_TEXT(&a));
    for (int64_t b = 0; a.data && b < batch; b++) {
        const int64_t n = th_load_index(a.dtype, a.data, b * a.stride[0]);
        if (n < 1 || n > length)
            return th_fail(ctx, TH_ERROR_INDEX, operation, "lengths[%lld] is %lld, outside 1 .. %lld", (long long)b,
                           (long long)n, (long long)length);
    }
    return TH_OK;
}

/* Returns the weight of row t of n. For TH_POOL_MAX: 0, or -inf for padding. */
static double weight_of(th_pooling_kind kind, int64_t t, int64_t n)
{
    if (t >= n)
        return kind == TH_POOL_MAX ? -INFINITY : 0;
    switch (kind) {
    case TH_POOL_CLS:
        return t == 0;
    case TH_POOL_MEAN:
        return 1 / (double)n;
    case TH_POOL_MEAN_SQRT_LENGTH:
        return 1 / sqrt((double)n);
    case TH_POOL_WEIGHTED_MEAN:
        return 2 * (double)(t + 1) / ((double)n * (double)(n + 1));
    case TH_POOL_LAST:
        return t == n - 1;
    case TH_POOL_MAX:
        break;
    }
    return 0;
}

/* Returns the weights of all rows, (B, T). */
static th_tensor *weights_of(th_context *ctx, th_pooling_kind kind, th_dtype dtype, th_shape shape, th_tensor *lengths)
{
    const int64_t batch = shape.size[0], length = shape.size[1], sizes[] = {batch, length};
    const th_array a = lengths ? th_tensor_array(th_tensor_impl_of(lengths)) : (th_array){0};
    th_tensor_impl *weights = th_tensor_new(ctx, dtype, 2, sizes, false, operation);
    char *data = weights ? th_tensor_data(weights) : NULL; /* NULL in a shapes-only context */
    const size_t bytes = th_dtype_size(dtype);
    for (int64_t b = 0; data && b < batch; b++) {
        const int64_t n = lengths ? th_load_index(a.dtype, a.data, b * a.stride[0]) : length;
        for (int64_t t = 0; t < length; t++, data += bytes)
            th_number_write(dtype, data, weight_of(kind, t, n));
    }
    return th_handle_of(weights);
}

static th_tensor *pool(th_context *ctx, th_tensor *x, th_shape shape, th_tensor *lengths, th_pooling_kind kind)
{
    const int64_t batch = shape.size[0], length = shape.size[1], width = shape.size[2];
    th_tensor *weights = weights_of(ctx, kind, th_dtype_of(x), shape, lengths);
    if (weights == NULL)
        return NULL;
    if (kind == TH_POOL_MAX)
        return th_max(th_add(x, th_reshape(weights, TH_SHAPE(batch, length, 1))), TH_SHAPE(1), NULL);
    /* No bit of a masked product depends on the number of terms, so none depends on the padding. */
    th_tensor *rows = th_reshape(weights, TH_SHAPE(batch, 1, length));
    return th_reshape(th_masked_matmul(rows, x, NULL, TH_MASK_RESULT), TH_SHAPE(batch, width));
}

th_tensor *th_pooling(th_tensor *x, th_tensor *lengths, th_pooling_kind kind)
{
    if (x == NULL)
        return NULL;
    th_context *ctx = th_context_of(x);
    if (ctx == NULL || th_usable_tensor(x, ctx, operation, "x") == NULL)
        return NULL;
    const th_shape shape = th_shape_of(x);
    if (shape.ndim != 3 || shape.size[1] < 1) {
        th_fail(ctx, TH_ERROR_SHAPE, operation, "x must be (B, T, E) with at least one row; it has %d axes",
                shape.ndim);
        return NULL;
    }
    if (!th_is_floating(th_dtype_of(x))) {
        th_fail(ctx, TH_ERROR_TYPE, operation, "x must be float32 or float64; it is %s", th_dtype_name(th_dtype_of(x)));
        return NULL;
    }
    if ((unsigned)kind > TH_POOL_LAST) {
        th_fail(ctx, TH_ERROR_ARGUMENT, operation, "unknown kind of pooling: %d", (int)kind);
        return NULL;
    }
    if (lengths && check_lengths(ctx, lengths, shape.size[0], shape.size[1]) != TH_OK)
        return NULL;
    th_scope_begin(ctx, operation);
    return th_scope_end(ctx, pool(ctx, x, shape, lengths, kind));
}

th_tensor *th_unit_length(th_tensor *x)
{
    if (x == NULL || th_shape_of(x).ndim < 1)
        return NULL;
    const th_shape shape = th_shape_of(x);
    const double width = (double)shape.size[shape.ndim - 1];
    return th_scale(th_rms_norm(x, &(th_norm_options){.eps = 1e-24 / width}), 1 / sqrt(width));
}
