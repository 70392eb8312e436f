/* relu_squared: y = max(x, 0)² (So et al. 2021). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * 2 max(x, 0) = dL/dy * 2 sqrt(y), so backward does not need x
 * (relu_squared_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_relu_squared = {
    .name = "relu_squared",
    .value = "y = max(x, 0)²",
    .gradient = "dx = dy * 2 sqrt(y)",
    TH_UNARY(relu_squared, relu_squared_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_AWAY_FROM(0.05, 0))},
};

th_tensor *th_relu_squared(th_tensor *x)
{
    return th_apply(&th_op_relu_squared, NULL, x);
}
