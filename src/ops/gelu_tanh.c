/* gelu_tanh: y = x/2 (1 + tanh u), u = sqrt(2/π) (x + 0.044715 x³), computed as x sigmoid(2u). */
#include "ops/shared/elementwise.h"

/* (1 + tanh u) / 2 = sigmoid(2u) = s, ds/dx = s (1 - s) 2u', 2u' = 2 sqrt(2/π) (1 + 3 * 0.044715 x²):
 * dL/dx = dL/dy * (s + x s (1 - s) 2u')
 * (gelu_tanh_backward in kernels/elementwise/vector/activation.c) */
const th_op th_op_gelu_tanh = {
    .name = "gelu_tanh",
    .value = "y = x / 2 * (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))",
    .gradient = "dx = dy * (s + x * s * (1 - s) * 2u'), s = sigmoid(2u)",
    TH_UNARY_WITH(th_shape_elementwise, TH_OP_RECOMPUTE, gelu_tanh, gelu_tanh_backward),
    .saves = TH_INPUT(0),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(NULL, TH_BETWEEN(-3, 3))},
};

th_tensor *th_gelu_tanh(th_tensor *x)
{
    return th_apply(&th_op_gelu_tanh, NULL, x);
}
