/* Fills weights with random numbers of the initialization stream. The fans of a weight determine the distribution. */
#include <math.h>

#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* Returns the implementation of a tensor of a floating type; NULL with an error pending. */
static th_tensor_impl *usable_floating(const th_tensor *handle, const char *operation)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, operation, "t");
    if (t && !th_is_floating(t->dtype)) {
        th_fail(t->ctx, TH_ERROR_TYPE, operation, "needs a floating type, not %s", th_dtype_name(t->dtype));
        return NULL;
    }
    return t;
}

typedef struct fans {
    double in, out;
} fans;

/* Computes the fans of a weight (fan_out, fan_in, ...). Further dimensions multiply both. Returns the implementation;
 * NULL with an error pending. */
static th_tensor_impl *find_fans(const th_tensor *handle, const char *operation, double gain, fans *result)
{
    th_tensor_impl *t = usable_floating(handle, operation);
    if (t == NULL)
        return NULL;
    if (t->ndim < 2) {
        th_fail(t->ctx, TH_ERROR_SHAPE, operation, "needs a weight (fan_out, fan_in) of two or more dimensions, not %s",
                TH_SIZES_TEXT(t->ndim, t->size));
        return NULL;
    }
    if (!(gain >= 0) || isinf(gain)) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "the gain is %g", gain);
        return NULL;
    }
    double receptive_field = 1;
    for (int i = 2; i < t->ndim; i++)
        receptive_field *= (double)t->size[i];
    *result = (fans){(double)t->size[1] * receptive_field, (double)t->size[0] * receptive_field};
    return t;
}

/* Returns gain * sqrt(numerator / fan); 0 for a weight without elements. */
static double fan_scale(double gain, double numerator, double fan)
{
    return fan > 0 ? gain * sqrt(numerator / fan) : 0;
}

th_status th_fill_uniform(th_tensor *handle, double low, double high)
{
    th_tensor_impl *t = usable_floating(handle, "fill_uniform");
    return t ? th_draw_uniform(t, TH_STREAM_INITIALIZATION, "fill_uniform", low, high) : th_pending_status(handle);
}

th_status th_fill_normal(th_tensor *handle, double mean, double standard_deviation)
{
    th_tensor_impl *t = usable_floating(handle, "fill_normal");
    return t ? th_draw_normal(t, TH_STREAM_INITIALIZATION, "fill_normal", mean, standard_deviation)
             : th_pending_status(handle);
}

th_status th_fill_xavier_uniform(th_tensor *handle, double gain)
{
    fans fan = {0};
    th_tensor_impl *t = find_fans(handle, "fill_xavier_uniform", gain, &fan);
    if (t == NULL)
        return th_pending_status(handle);
    const double bound = fan_scale(gain, 6, fan.in + fan.out);
    return th_draw_uniform(t, TH_STREAM_INITIALIZATION, "fill_xavier_uniform", -bound, bound);
}

th_status th_fill_xavier_normal(th_tensor *handle, double gain)
{
    fans fan = {0};
    th_tensor_impl *t = find_fans(handle, "fill_xavier_normal", gain, &fan);
    if (t == NULL)
        return th_pending_status(handle);
    return th_draw_normal(t, TH_STREAM_INITIALIZATION, "fill_xavier_normal", 0, fan_scale(gain, 2, fan.in + fan.out));
}

th_status th_fill_kaiming_uniform(th_tensor *handle, double gain)
{
    fans fan = {0};
    th_tensor_impl *t = find_fans(handle, "fill_kaiming_uniform", gain, &fan);
    if (t == NULL)
        return th_pending_status(handle);
    const double bound = fan_scale(gain, 3, fan.in);
    return th_draw_uniform(t, TH_STREAM_INITIALIZATION, "fill_kaiming_uniform", -bound, bound);
}

th_status th_fill_kaiming_normal(th_tensor *handle, double gain)
{
    fans fan = {0};
    th_tensor_impl *t = find_fans(handle, "fill_kaiming_normal", gain, &fan);
    if (t == NULL)
        return th_pending_status(handle);
    return th_draw_normal(t, TH_STREAM_INITIALIZATION, "fill_kaiming_normal", 0, fan_scale(gain, 1, fan.in));
}
