/* tanh: y = the hyperbolic tangent of x. */
#include "ops/shared/maps.h"

/* dL/dx = dL/dy * (1 - tanh² x) = dL/dy * (1 - y²)  (tanh_backward in kernels/vector/activation.c) */
const th_op th_op_tanh = {
    .name = "tanh",
    .value = "y = tanh(x)",
    .gradient = "dx = dy * (1 - y²)",
    .shape = th_shape_elementwise,
    UNARY(tanh, (tanh_backward, DY, Y)),
    .flags = ELEMENTWISE,
    .samples = (const th_sample[]){UNARY_SAMPLES(NULL, BETWEEN(-2, 2))},
};

th_tensor *(th_tanh)(th_tensor *x)
{
    return th_apply(&th_op_tanh, NULL, x);
}
