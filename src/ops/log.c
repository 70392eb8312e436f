/* log: y = ln x; -inf at 0, NaN for negative x. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy / x  (div in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_log = {
    .name = "log",
    .value = "y = log(x)",
    .gradient = "dx = dy / x",
    TH_UNARY(log, div),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(0.2, 4))},
};

th_tensor *th_log(th_tensor *x)
{
    return th_apply(&th_op_log, NULL, x);
}
