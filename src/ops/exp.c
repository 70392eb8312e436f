/* exp: y = e^x. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * e^x = dL/dy * y  (mul in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_exp = {
    .name = "exp",
    .value = "y = exp(x)",
    .gradient = "dx = dy * y",
    TH_UNARY(exp, mul),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-2, 2))},
};

th_tensor *th_exp(th_tensor *x)
{
    return th_apply(&th_op_exp, NULL, x);
}
