/* mul: y = a * b, elementwise, broadcast. */
#include "ops/shared/maps.h"

/* dL/da = dL/dy * b,   dL/db = dL/dy * a  (mul in kernels/vector/arithmetic.c) */
const th_op th_op_mul = {
    .name = "mul",
    .value = "y = a * b",
    .gradient = "da = dy * b; db = dy * a",
    .shape = th_shape_elementwise,
    BINARY(mul, (mul, DY, B), (mul, DY, A)),
    .flags = ELEMENTWISE | TH_OP_BROADCASTS,
    .samples = (const th_sample[]){BINARY_SAMPLES(BETWEEN(-1, 1), BETWEEN(-1, 1))},
};

th_tensor *(th_mul)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_mul, NULL, a, b);
}
