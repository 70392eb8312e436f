/* gelu: y = x Φ(x), Φ the cumulative distribution function of the standard normal (Hendrycks & Gimpel 2016). */
#include "ops/shared/elementwise.h"

/* d(x Φ(x))/dx = Φ(x) + x φ(x), φ(x) = exp(-x²/2) / sqrt(2π):  dL/dx = dL/dy * (Φ(x) + x φ(x))
 * (gelu_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_gelu = {
    .name = "gelu",
    .value = "y = x * Φ(x)",
    .gradient = "dx = dy * (Φ(x) + x * φ(x))",
    TH_UNARY_WITH(th_shape_elementwise, TH_OP_RECOMPUTE, gelu, gelu_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-3, 3))},
};

th_tensor *th_gelu(th_tensor *x)
{
    return th_apply(&th_op_gelu, NULL, x);
}
