/* sigmoid: y = 1 / (1 + exp(-x)). */
#include "ops/shared/elementwise.h"

/* dy/dx = exp(-x) / (1 + exp(-x))² = y (1 - y):  dL/dx = dL/dy * y (1 - y)
 * (sigmoid_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_sigmoid = {
    .name = "sigmoid",
    .value = "y = 1 / (1 + exp(-x))",
    .gradient = "dx = dy * y * (1 - y)",
    TH_UNARY(sigmoid, sigmoid_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-4, 4))},
};

th_tensor *th_sigmoid(th_tensor *x)
{
    return th_apply(&th_op_sigmoid, NULL, x);
}
