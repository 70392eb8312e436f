/* A leaf with known values, and a loss of any tensor, for tests of the tape. Include it instead of context.h. */
#ifndef TESTS_LEAF_AND_LOSS_H
#define TESTS_LEAF_AND_LOSS_H

#include "tapehead/ops.h"
#include "tapehead/tape.h"
#include "tapehead/tensor.h"

#include "context.h"

/* Returns a leaf that requires a gradient, with the values 1, 2, ... n. */
static inline th_tensor *counting_leaf(th_shape shape)
{
    th_tensor *t = th_zeros(ctx, TH_FLOAT32, shape);
    float *data = th_data(t);
    for (int64_t i = 0; i < th_numel(t); i++)
        data[i] = (float)(i + 1);
    return th_set_requires_gradient(t, true);
}

/* Returns the sum of all elements. */
static inline th_tensor *total(th_tensor *x)
{
    return th_sum(x, TH_ALL_AXES, NULL);
}

#endif
