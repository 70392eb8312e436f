/* Fills tensors with random numbers of Philox (kernels/random/philox.h). */
#include "tensor/random.h"

#include <math.h>

#include "kernels/random/philox.h"
#include "kernels/wide.h"
#include "tensor/checked.h"
#include "tensor/elementwise.h"

/* Random numbers of one call of a stream that fill contiguous elements, in pieces. */
typedef struct random_fill {
    th_philox random;
    const th_kernels *kernels;
    void *data;
    th_dtype dtype;
    double a, b;    /* low and high, or mean and standard deviation */
    int64_t low;    /* of integers */
    uint64_t range; /* of integers: high - low */
} random_fill;

typedef struct fill_request {
    const char *operation;
    th_piece_task *task;
    random_fill fill;
} fill_request;

static char *piece_data(const random_fill *fill, int64_t begin)
{
    return (char *)fill->data + (size_t)begin * th_dtype_size(fill->dtype);
}

/* Rounding low + (high - low) u, u < 1, can give high, which is outside the range. It is replaced by the next smaller
 * number. */
static void draw_uniform(const void *shared, int64_t begin, int64_t end)
{
    const random_fill *fill = shared;
    void *data = piece_data(fill, begin);
    fill->kernels->random_uniform(end - begin, data, begin, &fill->random, fill->a, fill->b);
    if (!(fill->a < fill->b))
        return;
    if (fill->dtype == TH_FLOAT32) {
        float *y = data;
        const float high = (float)fill->b, below = nextafterf(high, (float)fill->a);
        for (int64_t i = 0; i < end - begin; i++)
            y[i] = y[i] < high ? y[i] : below;
    } else {
        double *y = data;
        const double below = nextafter(fill->b, fill->a);
        for (int64_t i = 0; i < end - begin; i++)
            y[i] = y[i] < fill->b ? y[i] : below;
    }
}

static void draw_normal(const void *shared, int64_t begin, int64_t end)
{
    const random_fill *fill = shared;
    fill->kernels->random_normal(end - begin, piece_data(fill, begin), begin, &fill->random, fill->a, fill->b);
}

/* Computes low + floor(range * u / 2^64). u is the 64 bits of words 0 and 1, or 2 and 3, of Philox counter i / 2. The
 * distribution differs from uniform by less than range / 2^64. */
static void draw_integers(const void *shared, int64_t begin, int64_t end)
{
    const random_fill *fill = shared;
    uint32_t words[4];
    for (int64_t i = begin; i < end; i++) {
        const uint64_t block = (uint64_t)i / 2;
        if (i % 2 == 0 || i == begin)
            th_philox_block(&fill->random, (uint32_t)block, (uint32_t)(block >> 32), words);
        const uint64_t u = (uint64_t)words[i % 2 * 2 + 1] << 32 | words[i % 2 * 2];
        const uint64_t offset = th_high_product(u, fill->range);
        const int64_t value = (int64_t)((uint64_t)fill->low + offset);
        if (fill->dtype == TH_INT32)
            ((int32_t *)fill->data)[i] = (int32_t)value;
        else
            ((int64_t *)fill->data)[i] = value;
    }
}

/* Fills t in row-major order. If t has another layout, a block of step_memory is filled first and then copied to t. */
static th_status fill_tensor(th_tensor_impl *t, th_stream stream, fill_request *request)
{
    th_context *ctx = t->ctx;
    if (th_check_writable(t, request->operation) != TH_OK)
        return ctx->error;
    const int64_t numel = th_tensor_numel(t);
    const bool contiguous = th_strides_are_contiguous(t->ndim, t->size, t->stride);
    th_array target = th_tensor_array(t);
    th_block *block = NULL;
    if (!contiguous) {
        size_t bytes;
        if (!th_checked_bytes(numel, th_dtype_size(t->dtype), &bytes))
            return th_fail(ctx, TH_ERROR_SHAPE, request->operation, "the size in bytes overflows");
        block = th_block_new(ctx, &ctx->step_memory, bytes, request->operation);
        if (block == NULL)
            return TH_ERROR_MEMORY;
        target.data = th_block_data(block);
        th_compute_contiguous_strides(t->ndim, t->size, target.stride);
    }
    const th_random_call call = th_random_next_call(ctx, stream);
    const bool skipped = ctx->skip_initialization && stream == TH_STREAM_INITIALIZATION;
    if (target.data && numel > 0 && !skipped) {
        request->fill.random = (th_philox){.key = {call.key[0], call.key[1]}, .call = call.call, .step = call.step};
        request->fill.kernels = th_context_kernels(ctx, t->dtype);
        request->fill.data = target.data;
        request->fill.dtype = t->dtype;
        th_for_pieces(ctx, numel, request->task, &request->fill);
    }
    if (block) {
        const th_array to = th_tensor_array(t);
        th_copy_array(ctx, &to, &target, false);
        th_block_free(&ctx->step_memory, block);
    }
    th_storage_mark_changed(t->storage);
    return TH_OK;
}

static bool is_finite_in(th_dtype dtype, double value)
{
    return isfinite(dtype == TH_FLOAT32 ? (double)(float)value : value);
}

th_status th_draw_uniform(th_tensor_impl *t, th_stream stream, const char *operation, double low, double high)
{
    if (!(low <= high) || !is_finite_in(t->dtype, low) || !is_finite_in(t->dtype, high) ||
        !is_finite_in(t->dtype, high - low))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "%g to %g is not a range of %s numbers", low, high,
                       th_dtype_name(t->dtype));
    return fill_tensor(t, stream, &(fill_request){operation, draw_uniform, {.a = low, .b = high}});
}

th_status th_draw_normal(th_tensor_impl *t, th_stream stream, const char *operation, double mean,
                         double standard_deviation)
{
    if (!is_finite_in(t->dtype, mean) || !(standard_deviation >= 0) || !is_finite_in(t->dtype, standard_deviation))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation,
                       "a mean of %g with a standard deviation of %g cannot be drawn in %s", mean, standard_deviation,
                       th_dtype_name(t->dtype));
    return fill_tensor(t, stream, &(fill_request){operation, draw_normal, {.a = mean, .b = standard_deviation}});
}

th_status th_draw_integers(th_tensor_impl *t, th_stream stream, const char *operation, int64_t low, int64_t high)
{
    if (low >= high)
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "there is no integer in [%lld, %lld)", (long long)low,
                       (long long)high);
    if (t->dtype == TH_INT32 && (low < INT32_MIN || high - 1 > INT32_MAX))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "int32 cannot hold all integers in [%lld, %lld)",
                       (long long)low, (long long)high);
    return fill_tensor(
        t, stream, &(fill_request){operation, draw_integers, {.low = low, .range = (uint64_t)high - (uint64_t)low}});
}
