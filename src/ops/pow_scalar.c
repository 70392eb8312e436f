/* pow_scalar: y = x^exponent, the exponent a number. */
#include "ops/shared/elementwise.h"

/* dL/dx = dL/dy * exponent * x^(exponent - 1), 0 where the exponent is 0
 * (pow_scalar_backward in kernels/elementwise/vector/unary.c) */
const th_op th_op_pow_scalar = {
    .name = "pow_scalar",
    .value = "y = x^exponent",
    .gradient = "dx = dy * exponent * x^(exponent - 1)",
    TH_UNARY(pow_scalar, pow_scalar_backward),
    .saves = TH_INPUT(0),
    .attributes_size = sizeof(double),
    .samples =
        (const th_sample[]){{"reciprocal root", &(double){-0.5}, 1, {{.shape = {3, {2, 3, 7}}, TH_BETWEEN(0.3, 2)}}, 0},
                            {"square", &(double){2}, 1, {{.shape = {2, {3, 5}}}}, 0},
                            {"cube of either sign", &(double){3}, 1, {{.shape = {1, {6}}}}, 0},
                            {"zero", &(double){0}, 1, {{.shape = {1, {6}}}}, 0},
                            TH_UNARY_SAMPLES(&(double){1.7}, TH_BETWEEN(0.3, 2))},
};

th_tensor *th_pow_scalar(th_tensor *x, double exponent)
{
    return th_apply(&th_op_pow_scalar, &exponent, x);
}
