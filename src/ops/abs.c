/* abs: y = |x|. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * sign(x), where sign(0) = 0  (abs_backward in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_abs = {
    .name = "abs",
    .value = "y = |x|",
    .gradient = "dx = dy * sign(x)",
    TH_UNARY(abs, abs_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_AWAY_FROM(0.05, 0))},
};

th_tensor *th_abs(th_tensor *x)
{
    return th_apply(&th_op_abs, NULL, x);
}
