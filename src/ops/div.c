/* div: y = a / b, broadcast. */
#include "ops/shared/elementwise.h"

/* dL/da = dL/dy / b,   dL/db = dL/dy * -a / b² = -dL/dy * y / b
 * (div, div_backward in kernels/elementwise/vector/arithmetic.c) */
const th_op th_op_div = {
    .name = "div",
    .value = "y = a / b",
    .gradient = "da = dy / b; db = -dy * y / b",
    TH_BINARY(div, div, div_backward),
    .saves_for = {TH_INPUT(1), TH_INPUT(1) | TH_OUTPUT(0)},
    .samples =
        (const th_sample[]){
            {"negative divisor", NULL, 2, {{.shape = {1, {5}}}, {.shape = {1, {5}}, TH_BETWEEN(-2, -0.5)}}, 0},
            TH_BINARY_SAMPLES(TH_BETWEEN(-1, 1), TH_BETWEEN(0.5, 2))},
};

th_tensor *th_div(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_div, NULL, a, b);
}
