/* cos: y = cos(x), x in radians. */
#include "ops/shared/elementwise.h"

/* dL/dx = -dL/dy * sin x  (cos_backward in kernels/elementwise/vector/unary.c) */
const th_op th_op_cos = {
    .name = "cos",
    .value = "y = cos(x)",
    .gradient = "dx = -dy * sin(x)",
    TH_UNARY(cos, cos_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-6, 6))},
};

th_tensor *th_cos(th_tensor *x)
{
    return th_apply(&th_op_cos, NULL, x);
}
