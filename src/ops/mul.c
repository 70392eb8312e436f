/* mul: y = a * b, elementwise, broadcast. */
#include "ops/shared/elementwise.h"

/* dL/da = dL/dy * b,   dL/db = dL/dy * a  (mul in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_mul = {
    .name = "mul",
    .value = "y = a * b",
    .gradient = "da = dy * b; db = dy * a",
    TH_BINARY(mul, mul, mul),
    .saves_for = {TH_INPUT(1), TH_INPUT(0)},
    .samples = (const th_sample[]){TH_BINARY_SAMPLES(TH_BETWEEN(-1, 1), TH_BETWEEN(-1, 1))},
};

th_tensor *th_mul(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_mul, NULL, a, b);
}
