/* Initialisers: random numbers of the initialisation stream, in place, by the fans of a weight. */
#include <math.h>

#include "tensor/random.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static th_status usable(th_tensor *t, const char *operation)
{
    if (!th_usable(t, NULL, operation, "t"))
        return th_refused(t);
    if (!th_is_floating(t->dtype))
        return th_fail(t->ctx, TH_ERROR_TYPE, operation, "needs a floating type, not %s", th_dtype_name(t->dtype));
    return TH_OK;
}

typedef struct fans {
    double in, out;
} fans;

/* Of a weight (fan_out, fan_in, ...): further dimensions multiply both. */
static th_status find_fans(th_tensor *t, const char *operation, double gain, fans *result)
{
    const th_status status = usable(t, operation);
    if (status != TH_OK)
        return status;
    if (t->ndim < 2)
        return th_fail(t->ctx, TH_ERROR_SHAPE, operation,
                       "needs a weight (fan_out, fan_in) of two or more dimensions, not %s",
                       TH_SIZES_TEXT(t->ndim, t->size));
    if (!(gain >= 0) || isinf(gain))
        return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "the gain is %g", gain);
    double field = 1;
    for (int i = 2; i < t->ndim; i++)
        field *= (double)t->size[i];
    *result = (fans){(double)t->size[1] * field, (double)t->size[0] * field};
    return TH_OK;
}

/* gain * sqrt(numerator / fan), 0 for a weight without elements. */
static double scale(double gain, double numerator, double fan)
{
    return fan > 0 ? gain * sqrt(numerator / fan) : 0;
}

th_status(th_fill_uniform)(th_tensor *t, double low, double high)
{
    const th_status status = usable(t, "fill_uniform");
    return status == TH_OK ? th_draw_uniform(t, TH_STREAM_INITIALISATION, "fill_uniform", low, high) : status;
}

th_status(th_fill_normal)(th_tensor *t, double mean, double standard_deviation)
{
    const th_status status = usable(t, "fill_normal");
    return status == TH_OK ? th_draw_normal(t, TH_STREAM_INITIALISATION, "fill_normal", mean, standard_deviation)
                           : status;
}

th_status(th_fill_xavier_uniform)(th_tensor *t, double gain)
{
    fans fan = {0};
    const th_status status = find_fans(t, "fill_xavier_uniform", gain, &fan);
    if (status != TH_OK)
        return status;
    const double bound = scale(gain, 6, fan.in + fan.out);
    return th_draw_uniform(t, TH_STREAM_INITIALISATION, "fill_xavier_uniform", -bound, bound);
}

th_status(th_fill_xavier_normal)(th_tensor *t, double gain)
{
    fans fan = {0};
    const th_status status = find_fans(t, "fill_xavier_normal", gain, &fan);
    if (status != TH_OK)
        return status;
    return th_draw_normal(t, TH_STREAM_INITIALISATION, "fill_xavier_normal", 0, scale(gain, 2, fan.in + fan.out));
}

th_status(th_fill_kaiming_uniform)(th_tensor *t, double gain)
{
    fans fan = {0};
    const th_status status = find_fans(t, "fill_kaiming_uniform", gain, &fan);
    if (status != TH_OK)
        return status;
    const double bound = scale(gain, 3, fan.in);
    return th_draw_uniform(t, TH_STREAM_INITIALISATION, "fill_kaiming_uniform", -bound, bound);
}

th_status(th_fill_kaiming_normal)(th_tensor *t, double gain)
{
    fans fan = {0};
    const th_status status = find_fans(t, "fill_kaiming_normal", gain, &fan);
    if (status != TH_OK)
        return status;
    return th_draw_normal(t, TH_STREAM_INITIALISATION, "fill_kaiming_normal", 0, scale(gain, 1, fan.in));
}
