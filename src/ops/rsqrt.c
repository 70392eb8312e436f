/* rsqrt: y = 1 / sqrt(x). */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * -x^(-3/2) / 2 = -dL/dy * y³ / 2  (rsqrt_backward in kernels/vector/unary.c) */
const th_op th_op_rsqrt = {
    .name = "rsqrt",
    .value = "y = 1 / sqrt(x)",
    .gradient = "dx = -dy * y³ / 2",
    .shape = th_shape_elementwise,
    UNARY(rsqrt, (rsqrt_backward, DY, Y)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(0.2, 4))},
};

th_tensor *(th_rsqrt)(th_tensor *x)
{
    return th_apply(&th_op_rsqrt, NULL, x);
}
