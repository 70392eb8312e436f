/* add: y = a + b, broadcast. Both gradients are handed on. */
#include "ops/shared/maps.h"

const th_op th_op_add = {
    .name = "add",
    .value = "y = a + b",
    .gradient = "da = dy; db = dy",
    .shape = th_shape_elementwise,
    BINARY(add, (copy, DY), (copy, DY)),
    .flags = ELEMENTWISE | TH_OP_BROADCASTS,
    .samples = (const th_sample[]){BINARY_SAMPLES(BETWEEN(-1, 1), BETWEEN(-1, 1))},
};

th_tensor *(th_add)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_add, NULL, a, b);
}
