/* softplus: y = log(1 + exp(x)). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * exp(x) / (1 + exp(x)) = dL/dy * sigmoid(x)
 * (softplus_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_softplus = {
    .name = "softplus",
    .value = "y = log(1 + exp(x))",
    .gradient = "dx = dy * sigmoid(x)",
    TH_UNARY_WITH(th_shape_elementwise, TH_OP_RECOMPUTE, softplus, softplus_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-4, 4))},
};

th_tensor *th_softplus(th_tensor *x)
{
    return th_apply(&th_op_softplus, NULL, x);
}
