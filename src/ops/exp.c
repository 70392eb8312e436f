/* exp: y = e^x. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * e^x = dL/dy * y  (mul in kernels/vector/arithmetic.c) */
const th_op th_op_exp = {
    .name = "exp",
    .value = "y = exp(x)",
    .gradient = "dx = dy * y",
    .shape = th_shape_elementwise,
    UNARY(exp, (mul, DY, Y)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(-2, 2))},
};

th_tensor *(th_exp)(th_tensor *x)
{
    return th_apply(&th_op_exp, NULL, x);
}
