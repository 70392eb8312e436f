/* clamp: y = x limited to [low, high]; NaN stays NaN. */
#include <math.h>

#include "ops/shared/attributes.h"
#include "ops/shared/elementwise.h"

static th_status clamp_shape(th_call *call)
{
    const th_clamp_attributes *attributes = call->attributes;
    if (!(attributes->low <= attributes->high))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "low = %g is above high = %g, or one of them is NaN",
                            attributes->low, attributes->high);
    return th_shape_elementwise(call);
}

static const th_clamp_attributes one_side = {-INFINITY, 0.2}, both_sides = {-0.4, 0.6};

/* dL/dx = dL/dy where low <= x <= high, else 0  (clamp_backward in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_clamp = {
    .name = "clamp",
    .value = "y = min(max(x, low), high)",
    .gradient = "dx = dy where low <= x <= high, else 0",
    TH_UNARY_WITH(clamp_shape, 0, clamp, clamp_backward),
    .saves = TH_INPUT(0),
    .attributes_size = sizeof(th_clamp_attributes),
    .samples = (const th_sample[]){{"one side", &one_side, 1, {{.shape = {1, {9}}, TH_AWAY_FROM(0.05, 0.2)}}, 0},
                                   TH_UNARY_SAMPLES(&both_sides, TH_AWAY_FROM(0.05, -0.4, 0.6))},
};

th_tensor *th_clamp(th_tensor *x, double low, double high)
{
    return th_apply(&th_op_clamp, (&(th_clamp_attributes){low, high}), x);
}
