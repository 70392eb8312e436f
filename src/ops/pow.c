/* pow: y = a^b, broadcast; special values as C's pow. */
#include "ops/shared/elementwise.h"

/* dL/da = dL/dy * b a^(b - 1), 0 where b = 0;   dL/db = dL/dy * a^b ln a = dL/dy * y ln a, 0 where a = 0 and b >= 0
 * (pow_backward_base, pow_backward_exponent in kernels/elementwise/vector/unary.c) */
const th_op th_op_pow = {
    .name = "pow",
    .value = "y = a^b",
    .gradient = "da = dy * b * a^(b - 1); db = dy * y * log(a)",
    TH_BINARY(pow, pow_backward_base, pow_backward_exponent),
    .saves = TH_INPUT(0) | TH_INPUT(1),
    .saves_for = {0, TH_OUTPUT(0)},
    .samples = (const th_sample[]){TH_BINARY_SAMPLES(TH_BETWEEN(0.3, 2), TH_BETWEEN(-2, 2))},
};

th_tensor *th_pow(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_pow, NULL, a, b);
}
