/* sqrt: y = the square root of x. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy / (2 sqrt(x)) = dL/dy / (2 y), infinite at 0  (sqrt_backward in kernels/vector/unary.c) */
const th_op th_op_sqrt = {
    .name = "sqrt",
    .value = "y = sqrt(x)",
    .gradient = "dx = dy / (2 y)",
    .shape = th_shape_elementwise,
    UNARY(sqrt, (sqrt_backward, DY, Y)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(0.2, 4))},
};

th_tensor *(th_sqrt)(th_tensor *x)
{
    return th_apply(&th_op_sqrt, NULL, x);
}
