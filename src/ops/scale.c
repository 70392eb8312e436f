/* scale: y = x * factor, a number. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * factor  (scale in kernels/vector/arithmetic.c) */
const th_op th_op_scale = {
    .name = "scale",
    .value = "y = x * factor",
    .gradient = "dx = dy * factor",
    .attributes_size = sizeof(double), /* factor */
    .shape = th_shape_elementwise,
    UNARY(scale, (scale, DY)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){{"negative", &(double){-0.3}, 1, {{.shape = {3, {2, 3, 7}}}}, 0},
                                   UNARY_SAMPLES(&(double){2.5}, BETWEEN(-1, 1))},
};

th_tensor *(th_scale)(th_tensor *x, double factor)
{
    return th_apply(&th_op_scale, &factor, x);
}
