/* scale: y = x * factor, the factor a number. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * factor  (scale in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_scale = {
    .name = "scale",
    .value = "y = x * factor",
    .gradient = "dx = dy * factor",
    TH_UNARY(scale, scale),
    .attributes_size = sizeof(double),
    .samples = (const th_sample[]){{"negative", &(double){-0.3}, 1, {{.shape = {3, {2, 3, 7}}}}, 0},
                                   TH_UNARY_SAMPLES(&(double){2.5}, TH_BETWEEN(-1, 1))},
};

th_tensor *th_scale(th_tensor *x, double factor)
{
    return th_apply(&th_op_scale, &factor, x);
}
