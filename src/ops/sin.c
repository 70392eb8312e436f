/* sin: y = sin(x), x in radians. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * cos x  (sin_backward in kernels/elementwise/vector/unary.c) */
const th_op th_op_sin = {
    .name = "sin",
    .value = "y = sin(x)",
    .gradient = "dx = dy * cos(x)",
    TH_UNARY(sin, sin_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-6, 6))},
};

th_tensor *th_sin(th_tensor *x)
{
    return th_apply(&th_op_sin, NULL, x);
}
