/* minimum: y = min(a, b), broadcast; NaN if either is NaN. */
#include "ops/shared/elementwise.h"

/* dL/da = dL/dy where a < b, dL/dy / 2 where a = b (a subgradient that treats both alike), else 0;
 * dL/db is the same with a and b exchanged
 * (minimum_backward, maximum_backward in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_minimum = {
    .name = "minimum",
    .value = "y = min(a, b)",
    .gradient = "da = dy where a < b, dy / 2 where a = b, else 0; db likewise",
    TH_BINARY(minimum, minimum_backward, maximum_backward),
    .saves = TH_INPUT(0) | TH_INPUT(1),
    .samples = (const th_sample[]){TH_BINARY_SAMPLES(TH_AWAY_FROM(0.5, 0), TH_BETWEEN(-0.4, 0.4))},
};

th_tensor *th_minimum(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_minimum, NULL, a, b);
}
