/* silu: y = x sigmoid(x). */
#include "ops/shared/elementwise.h"

/* s = sigmoid(x), ds/dx = s (1 - s):  dL/dx = dL/dy * (s + x s (1 - s))
 * (silu_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_silu = {
    .name = "silu",
    .value = "y = x * sigmoid(x)",
    .gradient = "dx = dy * (s + x * s * (1 - s)), s = sigmoid(x)",
    TH_UNARY_WITH(th_shape_elementwise, TH_OP_RECOMPUTE, silu, silu_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-4, 4))},
};

th_tensor *th_silu(th_tensor *x)
{
    return th_apply(&th_op_silu, NULL, x);
}
