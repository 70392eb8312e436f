/* tanh: y = tanh(x). */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * (1 - tanh² x) = dL/dy * (1 - y²)  (tanh_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_tanh = {
    .name = "tanh",
    .value = "y = tanh(x)",
    .gradient = "dx = dy * (1 - y²)",
    TH_UNARY(tanh, tanh_backward),
    .saves = TH_OUTPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-2, 2))},
};

th_tensor *th_tanh(th_tensor *x)
{
    return th_apply(&th_op_tanh, NULL, x);
}
