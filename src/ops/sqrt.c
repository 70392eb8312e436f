/* sqrt: y = sqrt(x). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy / (2 sqrt(x)) = dL/dy / (2 y), infinite at 0  (sqrt_backward in kernels/elementwise/vector/unary.c) */
const th_op th_op_sqrt = {
    .name = "sqrt",
    .value = "y = sqrt(x)",
    .gradient = "dx = dy / (2 y)",
    TH_UNARY(sqrt, sqrt_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(0.2, 4))},
};

th_tensor *th_sqrt(th_tensor *x)
{
    return th_apply(&th_op_sqrt, NULL, x);
}
