/* relu: y = x where it is positive, else 0. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy where x > 0, which is where y > 0; else 0  (relu_backward in kernels/vector/activation.c) */
const th_op th_op_relu = {
    .name = "relu",
    .value = "y = max(x, 0)",
    .gradient = "dx = dy where y > 0, else 0",
    .shape = th_shape_elementwise,
    UNARY(relu, (relu_backward, DY, Y)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, AWAY_FROM(0.05, 0))},
};

th_tensor *(th_relu)(th_tensor *x)
{
    return th_apply(&th_op_relu, NULL, x);
}
