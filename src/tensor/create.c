/* Creates tensors: empty, constant, from data, counting, random, copies. (Freeing: handle.c.) */
#include <math.h>
#include <string.h>

#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static th_tensor_impl *new_tensor(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape)
{
    if (!th_usable_context(ctx, operation) || th_check_creation(ctx, operation, dtype, shape) != TH_OK)
        return NULL;
    return th_tensor_new(ctx, dtype, shape->ndim, shape->size, th_creates_owned(ctx), operation);
}

/* Returns t's handle if it was filled (status is TH_OK). Otherwise frees t and returns NULL. */
static th_tensor *return_or_free(th_tensor_impl *t, th_status status)
{
    if (status == TH_OK)
        return th_handle_of(t);
    th_tensor_free(th_handle_of(t));
    return NULL;
}

th_tensor *th_empty(th_context *ctx, th_dtype dtype, th_shape shape)
{
    return th_handle_of(new_tensor(ctx, "empty", dtype, &shape));
}

static th_tensor *new_constant(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape,
                               double value)
{
    if (value != 0 && th_usable_context(ctx, operation) && !th_check_elements(ctx, operation, dtype))
        return NULL;
    th_tensor_impl *t = new_tensor(ctx, operation, dtype, shape);
    if (t == NULL)
        return NULL;
    const th_array array = th_tensor_array(t);
    th_fill_array(ctx, &array, value);
    return th_handle_of(t);
}

th_tensor *th_zeros(th_context *ctx, th_dtype dtype, th_shape shape)
{
    return new_constant(ctx, "zeros", dtype, &shape, 0);
}

th_tensor *th_ones(th_context *ctx, th_dtype dtype, th_shape shape)
{
    return new_constant(ctx, "ones", dtype, &shape, 1);
}

th_tensor *th_full(th_context *ctx, th_dtype dtype, th_shape shape, double value)
{
    if (th_usable_context(ctx, "full") && th_check_elements(ctx, "full", dtype) && !th_number_fits(dtype, value))
        th_fail(ctx, TH_ERROR_ARGUMENT, "full", "%s cannot hold %g", th_dtype_name(dtype), value);
    return new_constant(ctx, "full", dtype, &shape, value);
}

th_tensor *th_from_data(th_context *ctx, th_dtype dtype, th_shape shape, const void *data)
{
    th_tensor_impl *t = new_tensor(ctx, "from_data", dtype, &shape);
    if (t == NULL)
        return NULL;
    const size_t bytes = (size_t)th_tensor_numel(t) * th_dtype_size(dtype);
    if (data == NULL && bytes > 0)
        return return_or_free(t, th_fail(ctx, TH_ERROR_ARGUMENT, "from_data", "data is NULL"));
    if (bytes > 0 && th_tensor_data(t))
        memcpy(th_tensor_data(t), data, bytes);
    return th_handle_of(t);
}

th_tensor *th_arange(th_context *ctx, th_dtype dtype, double start, double stop, double step)
{
    if (!th_usable_context(ctx, "arange"))
        return NULL;
    if (dtype == TH_BOOL) {
        th_fail(ctx, TH_ERROR_TYPE, "arange", "bool is not supported");
        return NULL;
    }
    if (!th_check_elements(ctx, "arange", dtype))
        return NULL;
    const double count = ceil((stop - start) / step);
    if (!isfinite(start) || !isfinite(stop) || step == 0 || !isfinite(step) || !(count < 0x1p62)) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "arange", "cannot count from %g to %g in steps of %g", start, stop, step);
        return NULL;
    }
    const int64_t n = count > 0 ? (int64_t)count : 0;
    if (n > 0 && (!th_number_fits(dtype, start) || !th_number_fits(dtype, start + (double)(n - 1) * step))) {
        th_fail(ctx, TH_ERROR_ARGUMENT, "arange", "%s cannot hold all numbers from %g to %g", th_dtype_name(dtype),
                start, stop);
        return NULL;
    }
    th_tensor_impl *t = new_tensor(ctx, "arange", dtype, &TH_SHAPE(n));
    char *data = t ? th_tensor_data(t) : NULL;
    if (data == NULL)
        return th_handle_of(t);
    const size_t element = th_dtype_size(dtype);
    for (int64_t i = 0; i < n; i++)
        th_number_write(dtype, data + (size_t)i * element, start + (double)i * step);
    return th_handle_of(t);
}

/* -- random numbers of the data stream -- */

static void require_floating(th_context *ctx, const char *operation, th_dtype dtype)
{
    if (th_usable_context(ctx, operation) && !th_is_floating(dtype))
        th_fail(ctx, TH_ERROR_TYPE, operation, "needs a floating type, not %s", th_dtype_name(dtype));
}

th_tensor *th_uniform(th_context *ctx, th_dtype dtype, th_shape shape, double low, double high)
{
    require_floating(ctx, "uniform", dtype);
    th_tensor_impl *t = new_tensor(ctx, "uniform", dtype, &shape);
    return t ? return_or_free(t, th_draw_uniform(t, TH_STREAM_DATA, "uniform", low, high)) : NULL;
}

static th_tensor *new_normal(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape, double mean,
                             double standard_deviation)
{
    require_floating(ctx, operation, dtype);
    th_tensor_impl *t = new_tensor(ctx, operation, dtype, shape);
    return t ? return_or_free(t, th_draw_normal(t, TH_STREAM_DATA, operation, mean, standard_deviation)) : NULL;
}

th_tensor *th_normal(th_context *ctx, th_dtype dtype, th_shape shape, double mean, double standard_deviation)
{
    return new_normal(ctx, "normal", dtype, &shape, mean, standard_deviation);
}

th_tensor *th_randn(th_context *ctx, th_dtype dtype, th_shape shape)
{
    return new_normal(ctx, "randn", dtype, &shape, 0, 1);
}

th_tensor *th_random_integers(th_context *ctx, th_dtype dtype, th_shape shape, int64_t low, int64_t high)
{
    if (th_usable_context(ctx, "random_integers") && !th_is_index(dtype))
        th_fail(ctx, TH_ERROR_TYPE, "random_integers", "needs int32 or int64, not %s", th_dtype_name(dtype));
    th_tensor_impl *t = new_tensor(ctx, "random_integers", dtype, &shape);
    return t ? return_or_free(t, th_draw_integers(t, TH_STREAM_DATA, "random_integers", low, high)) : NULL;
}

/* -- copies -- */

th_tensor *th_keep(th_tensor *handle)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, "keep", "t");
    if (t == NULL)
        return NULL;
    th_tensor_impl *copy = th_tensor_new(t->ctx, t->dtype, t->ndim, t->size, true, "keep");
    if (copy == NULL)
        return NULL;
    memcpy(copy->axes, t->axes, sizeof copy->axes);
    const th_array to = th_tensor_array(copy), from = th_tensor_array(t);
    th_copy_array(t->ctx, &to, &from, false);
    return th_handle_of(copy);
}
