/* equal, not_equal, less, less_equal, greater, greater_equal: y = a == b, ..., bool, broadcast. a and b have the same
 * type, which may be any. Without a gradient. */
#include "kernels/elementwise/compare.h"
#include "ops/shared/elementwise.h"

static th_status compare_shape(th_call *call)
{
    const th_array *a = &call->input[0], *b = &call->input[1];
    if (a->dtype != b->dtype)
        return th_call_fail(call, TH_ERROR_TYPE, "types are mixed: a is %s, b is %s (th_cast converts)",
                            th_dtype_name(a->dtype), th_dtype_name(b->dtype));
    return th_shape_broadcast(call, TH_BOOL);
}

static const th_sample compare_samples[] = {
    {"indices", NULL, 2,
     .input = {{.shape = {2, {3, 4}}, .kind = TH_SAMPLE_INDEX, .high = 3},
               {.shape = {1, {4}}, .kind = TH_SAMPLE_INDEX, .high = 3}}},
    TH_BINARY_SAMPLES(TH_BETWEEN(-1, 1), TH_BETWEEN(-1, 1)),
};

#define COMPARISON(kernels) TH_ELEMENTWISE_BY_DTYPE(2, kernels), .shape = compare_shape, .samples = compare_samples

const th_op th_op_equal = {.name = "equal", .value = "y = a == b", COMPARISON(th_compare_equal)};
const th_op th_op_not_equal = {.name = "not_equal", .value = "y = a != b", COMPARISON(th_compare_not_equal)};
const th_op th_op_less = {.name = "less", .value = "y = a < b", COMPARISON(th_compare_less)};
const th_op th_op_less_equal = {.name = "less_equal", .value = "y = a <= b", COMPARISON(th_compare_less_equal)};
const th_op th_op_greater = {.name = "greater", .value = "y = a > b", COMPARISON(th_compare_greater)};
const th_op th_op_greater_equal = {
    .name = "greater_equal", .value = "y = a >= b", COMPARISON(th_compare_greater_equal)};

th_tensor *th_equal(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_equal, NULL, a, b);
}

th_tensor *th_not_equal(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_not_equal, NULL, a, b);
}

th_tensor *th_less(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_less, NULL, a, b);
}

th_tensor *th_less_equal(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_less_equal, NULL, a, b);
}

th_tensor *th_greater(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_greater, NULL, a, b);
}

th_tensor *th_greater_equal(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_greater_equal, NULL, a, b);
}
