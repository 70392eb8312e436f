/* logical_and, logical_or, logical_not: y = a and b, a or b, not a, of bool tensors, broadcast. Without a gradient. */
#include "kernels/elementwise/compare.h"
#include "ops/shared/elementwise.h"

static th_status logical_shape(th_call *call)
{
    for (int i = 0; i < call->n_inputs; i++) {
        const th_status status = th_call_bool(call, i);
        if (status)
            return status;
    }
    return th_shape_broadcast(call, TH_BOOL);
}

#define LOGICAL .kind = TH_SAMPLE_BOOL

static const th_sample unary_samples[] = {TH_UNARY_SAMPLES(NULL, LOGICAL)};
static const th_sample binary_samples[] = {TH_BINARY_SAMPLES(LOGICAL, LOGICAL)};

const th_op th_op_logical_and = {.name = "logical_and",
                                 .value = "y = a and b",
                                 TH_ELEMENTWISE_BY_DTYPE(2, th_logical_and_kernels),
                                 .shape = logical_shape,
                                 .samples = binary_samples};
const th_op th_op_logical_or = {.name = "logical_or",
                                .value = "y = a or b",
                                TH_ELEMENTWISE_BY_DTYPE(2, th_logical_or_kernels),
                                .shape = logical_shape,
                                .samples = binary_samples};
const th_op th_op_logical_not = {.name = "logical_not",
                                 .value = "y = not a",
                                 TH_ELEMENTWISE_BY_DTYPE(1, th_logical_not_kernels),
                                 .shape = logical_shape,
                                 .samples = unary_samples};

th_tensor *th_logical_and(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_logical_and, NULL, a, b);
}

th_tensor *th_logical_or(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_logical_or, NULL, a, b);
}

th_tensor *th_logical_not(th_tensor *a)
{
    return th_apply(&th_op_logical_not, NULL, a);
}
