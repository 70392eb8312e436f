/* Fills tensors with random numbers of Philox (kernels/random/philox.h). */
#include "tensor/random.h"

#include <math.h>

#include "kernels/random/philox.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"

/* One call of a stream that fills contiguous elements, in pieces. */
typedef struct draw {
    th_philox random;
    const th_kernels *kernels;
    void *data;
    th_dtype dtype;
    double a, b;    /* low and high, or mean and standard deviation */
    int64_t low;    /* of integers */
    uint64_t range; /* of integers: high - low */
} draw;

typedef struct drawing {
    const char *operation;
    th_piece_task *task;
    draw draw;
} drawing;

static char *piece_data(const draw *d, int64_t begin)
{
    return (char *)d->data + (size_t)begin * th_dtype_size(d->dtype);
}

/* Rounding low + (high - low) u, u < 1, can give high, which is outside the range. It is replaced by the next smaller
 * number. */
static void draw_uniform(const void *shared, int64_t begin, int64_t end)
{
    const draw *d = shared;
    void *data = piece_data(d, begin);
    d->kernels->random_uniform(end - begin, data, begin, &d->random, d->a, d->b);
    if (!(d->a < d->b))
        return;
    if (d->dtype == TH_FLOAT32) {
        float *y = data;
        const float high = (float)d->b, below = nextafterf(high, (float)d->a);
        for (int64_t i = 0; i < end - begin; i++)
            y[i] = y[i] < high ? y[i] : below;
    } else {
        double *y = data;
        const double below = nextafter(d->b, d->a);
        for (int64_t i = 0; i < end - begin; i++)
            y[i] = y[i] < d->b ? y[i] : below;
    }
}

static void draw_normal(const void *shared, int64_t begin, int64_t end)
{
    const draw *d = shared;
    d->kernels->random_normal(end - begin, piece_data(d, begin), begin, &d->random, d->a, d->b);
}

__extension__ typedef unsigned __int128 uint128;

/* Computes low + floor(range * u / 2^64). u is the 64 bits of words 0 and 1, or 2 and 3, of Philox counter i / 2. The
 * distribution differs from uniform by less than range / 2^64. */
static void draw_integers(const void *shared, int64_t begin, int64_t end)
{
    const draw *d = shared;
    uint32_t words[4];
    for (int64_t i = begin; i < end; i++) {
        const uint64_t block = (uint64_t)i / 2;
        if (i % 2 == 0 || i == begin)
            th_philox_block(&d->random, (uint32_t)block, (uint32_t)(block >> 32), words);
        const uint64_t u = (uint64_t)words[i % 2 * 2 + 1] << 32 | words[i % 2 * 2];
        const uint64_t offset = (uint64_t)(((uint128)u * d->range) >> 64);
        const int64_t value = (int64_t)((uint64_t)d->low + offset);
        if (d->dtype == TH_INT32)
            ((int32_t *)d->data)[i] = (int32_t)value;
        else
            ((int64_t *)d->data)[i] = value;
    }
}

/* Fills t in row-major order. If t has another layout, a block of step_memory is filled first and then copied to t. */
static th_status fill(th_tensor_impl *t, th_stream stream, drawing *work)
{
    th_context *ctx = t->ctx;
    if (th_check_writable(t, work->operation) != TH_OK)
        return ctx->error;
    const int64_t numel = th_tensor_numel(t);
    const bool contiguous = th_strides_contiguous(t->ndim, t->size, t->stride);
    th_array drawn = th_tensor_array(t);
    th_block *block = NULL;
    if (!contiguous) {
        size_t bytes;
        if (!th_checked_bytes(numel, th_dtype_size(t->dtype), &bytes))
            return th_fail(ctx, TH_ERROR_SHAPE, work->operation, "the size in bytes overflows");
        block = th_take_block(ctx, &ctx->step_memory, bytes, work->operation);
        if (block == NULL)
            return TH_ERROR_MEMORY;
        drawn.data = th_block_data(block);
        th_contiguous_strides(t->ndim, t->size, drawn.stride);
    }
    const th_random_call call = th_random_next(ctx, stream);
    const bool replaced = ctx->weights_follow && stream == TH_STREAM_INITIALIZATION;
    if (drawn.data && numel > 0 && !replaced) {
        work->draw.random = (th_philox){.key = {call.key[0], call.key[1]}, .call = call.call, .step = call.step};
        work->draw.kernels = th_context_kernels(ctx, t->dtype);
        work->draw.data = drawn.data;
        work->draw.dtype = t->dtype;
        th_for_pieces(ctx, numel, work->task, &work->draw);
    }
    if (block) {
        const th_array to = th_tensor_array(t);
        th_copy_array(ctx, &to, &drawn, false);
        th_block_free(&ctx->step_memory, block);
    }
    th_storage_changed(t->storage);
    return TH_OK;
}

static bool finite_in(th_dtype dtype, double value)
{
    return isfinite(dtype == TH_FLOAT32 ? (double)(float)value : value);
}

th_status th_draw_uniform(th_tensor_impl *t, th_stream stream, const char *operation, double low, double high)
{
    if (!(low <= high) || !finite_in(t->dtype, low) || !finite_in(t->dtype, high) || !finite_in(t->dtype, high - low))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "%g to %g is not a range of %s numbers", low, high,
                       th_dtype_name(t->dtype));
    return fill(t, stream, &(drawing){operation, draw_uniform, {.a = low, .b = high}});
}

th_status th_draw_normal(th_tensor_impl *t, th_stream stream, const char *operation, double mean,
                         double standard_deviation)
{
    if (!finite_in(t->dtype, mean) || !(standard_deviation >= 0) || !finite_in(t->dtype, standard_deviation))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation,
                       "a mean of %g with a standard deviation of %g cannot be drawn in %s", mean, standard_deviation,
                       th_dtype_name(t->dtype));
    return fill(t, stream, &(drawing){operation, draw_normal, {.a = mean, .b = standard_deviation}});
}

th_status th_draw_integers(th_tensor_impl *t, th_stream stream, const char *operation, int64_t low, int64_t high)
{
    if (low >= high)
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "there is no integer in [%lld, %lld)", (long long)low,
                       (long long)high);
    if (t->dtype == TH_INT32 && (low < INT32_MIN || high - 1 > INT32_MAX))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "int32 cannot hold all integers in [%lld, %lld)",
                       (long long)low, (long long)high);
    return fill(t, stream, &(drawing){operation, draw_integers, {.low = low, .range = (uint64_t)high - (uint64_t)low}});
}
