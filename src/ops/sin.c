/* sin: y = sin x, radians. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * cos x  (sin_backward in kernels/vector/unary.c) */
const th_op th_op_sin = {
    .name = "sin",
    .value = "y = sin(x)",
    .gradient = "dx = dy * cos(x)",
    .shape = th_shape_elementwise,
    UNARY(sin, (sin_backward, DY, X)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(-6, 6))},
};

th_tensor *(th_sin)(th_tensor *x)
{
    return th_apply(&th_op_sin, NULL, x);
}
