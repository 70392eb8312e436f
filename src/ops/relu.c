/* relu: y = max(x, 0). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy where x > 0, which is where y > 0; else 0
 * (relu_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_relu = {
    .name = "relu",
    .value = "y = max(x, 0)",
    .gradient = "dx = dy where y > 0, else 0",
    TH_UNARY(relu, relu_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_AWAY_FROM(0.05, 0))},
};

th_tensor *th_relu(th_tensor *x)
{
    return th_apply(&th_op_relu, NULL, x);
}
