/* add: y = a + b, broadcast. Both gradients are dy itself. */
#include "ops/shared/elementwise.h"

const th_op th_op_add = {
    .name = "add",
    .value = "y = a + b",
    .gradient = "da = dy; db = dy",
    TH_BINARY(add, copy, copy),
    .identity_gradients = TH_INPUT(0) | TH_INPUT(1),
    .samples = (const th_sample[]){TH_BINARY_SAMPLES(TH_BETWEEN(-1, 1), TH_BETWEEN(-1, 1))},
};

th_tensor *th_add(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_add, NULL, a, b);
}
