/* add_scalar: y = x + number. The gradient is dy itself. */
#include "ops/shared/elementwise.h"

const th_op th_op_add_scalar = {
    .name = "add_scalar",
    .value = "y = x + number",
    .gradient = "dx = dy",
    TH_UNARY(add_scalar, copy),
    .identity_gradients = TH_INPUT(0),
    .attributes_size = sizeof(double),
    .samples = (const th_sample[]){TH_UNARY_SAMPLES(&(double){2.5}, TH_BETWEEN(-1, 1))},
};

th_tensor *th_add_scalar(th_tensor *x, double number)
{
    return th_apply(&th_op_add_scalar, &number, x);
}
