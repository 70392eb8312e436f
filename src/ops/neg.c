/* neg: y = -x. */
#include "ops/shared/elementwise.h"

/* dL/dx = -dL/dy  (neg in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_neg = {
    .name = "neg",
    .value = "y = -x",
    .gradient = "dx = -dy",
    TH_UNARY(neg, neg),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-1, 1))},
};

th_tensor *th_neg(th_tensor *x)
{
    return th_apply(&th_op_neg, NULL, x);
}
