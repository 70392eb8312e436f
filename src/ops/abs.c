/* abs: y = |x|. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * sign(x), where sign(0) = 0  (abs_backward in kernels/vector/arithmetic.c) */
const th_op th_op_abs = {
    .name = "abs",
    .value = "y = |x|",
    .gradient = "dx = dy * sign(x)",
    .shape = th_shape_elementwise,
    UNARY(abs, (abs_backward, DY, X)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, AWAY_FROM(0.05, 0))},
};

th_tensor *(th_abs)(th_tensor *x)
{
    return th_apply(&th_op_abs, NULL, x);
}
