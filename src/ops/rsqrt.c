/* rsqrt: y = 1 / sqrt(x). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * -x^(-3/2) / 2 = -dL/dy * y³ / 2  (rsqrt_backward in kernels/elementwise/vector/unary.c) */
const th_op th_op_rsqrt = {
    .name = "rsqrt",
    .value = "y = 1 / sqrt(x)",
    .gradient = "dx = -dy * y³ / 2",
    TH_UNARY(rsqrt, rsqrt_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(0.2, 4))},
};

th_tensor *th_rsqrt(th_tensor *x)
{
    return th_apply(&th_op_rsqrt, NULL, x);
}
