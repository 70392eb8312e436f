/* layer_norm: y = (x - m) r weight + bias over the last axis, m the mean, r = 1 / sqrt(variance + eps) (Ba et al.
 * 2016). shared/norm.h runs it. */
#include "ops/shared/norm.h"

/* Output 1 saves m and r. */
static th_status layer_norm_shape(th_call *call)
{
    return th_norm_shape(call, 2);
}

static const th_norm_attributes usual = {1e-5}, large_eps = {0.1};

static const th_sample layer_norm_samples[] = {
    {"weight and bias", &usual, 3, {{.shape = {2, {3, 5}}}, {.shape = {1, {5}}}, {.shape = {1, {5}}}}, 0},
    {"rows longer than a register", &usual, 3,
     .input = {{.shape = {2, {2, 19}}}, {.shape = {1, {19}}}, {.shape = {1, {19}}}}},
    {"no weight", &usual, 3, {{.shape = {3, {2, 2, 4}}}, TH_ABSENT, {.shape = {1, {4}}}}, 0},
    {"no bias", &large_eps, 3, {{.shape = {3, {2, 2, 4}}}, {.shape = {1, {4}}}, TH_ABSENT}, 0},
    {"neither", &large_eps, 3, {{.shape = {1, {6}}}, TH_ABSENT, TH_ABSENT}, 0},
    {"constant x", &usual, 3, {{.shape = {2, {3, 4}}, .constant = true}, {.shape = {1, {4}}}, {.shape = {1, {4}}}}, 0},
    {"far from 0", &usual, 3,
     .input = {{.shape = {2, {3, 4}}, .low = 9, .high = 11}, {.shape = {1, {4}}}, {.shape = {1, {4}}}}},
    {"many rows", &large_eps, 3, {{.shape = {2, {12, 3}}}, {.shape = {1, {3}}}, {.shape = {1, {3}}}}, 0},
    {"no rows", &usual, 3, {{.shape = {2, {0, 3}}}, {.shape = {1, {3}}}, {.shape = {1, {3}}}}, 0},
    {.name = NULL},
};

/* With h = (x - m) r, g = dL/dy weight, n elements in a row:
 *   dL/dh_i = g_i,   dh_i/dx_j = r (1[i=j] - 1/n - h_i h_j / n)
 *   dL/dx_j = r (g_j - mean(g) - h_j mean(g h))
 *   dL/dweight_j = sum over rows of dL/dy_j h_j,   dL/dbias_j = sum over rows of dL/dy_j
 * For each row, one pass computes the two means and adds to the sums, and one computes dx (norm_gradient in
 * kernels/rows/vector/norm.c). A row whose dL/dy is exactly 0 gets dx = 0 and does not take part in the sums. */
const th_op th_op_layer_norm = {
    .name = "layer_norm",
    .value = "y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias",
    .gradient = "dx = r (g - mean(g) - h mean(g h)), g = dy * weight, h = (x - mean(x)) r; dweight = sum dy * h; dbias "
                "= sum dy",
    .shape = layer_norm_shape,
    TH_NORM(.forward = th_rows_id_layer_norm, .forward_cost = 3, .backward = th_rows_id_layer_norm_backward,
            .backward_cost = 6),
    .samples = layer_norm_samples,
};

th_tensor *th_layer_norm(th_tensor *x, const th_norm_options *options)
{
    return th_norm_apply(&th_op_layer_norm, x, options);
}
