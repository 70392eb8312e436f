/* sub: y = a - b, broadcast. The gradient of a is dy itself. */
#include "ops/shared/elementwise.h"

/* dL/db = -dL/dy  (neg in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_sub = {
    .name = "sub",
    .value = "y = a - b",
    .gradient = "da = dy; db = -dy",
    TH_BINARY(sub, copy, neg),
    .identity_gradients = TH_INPUT(0),
    .samples = (const th_sample[]){TH_BINARY_SAMPLES(TH_BETWEEN(-1, 1), TH_BETWEEN(-1, 1))},
};

th_tensor *th_sub(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_sub, NULL, a, b);
}
