/* rms_norm: y = x r weight over the last axis, r = 1 / sqrt(mean(x²) + eps) (Zhang & Sennrich 2019).
 * shared/norm.h runs it. */
#include "ops/shared/norm.h"

/* Output 1 saves r. */
static th_status rms_norm_shape(th_call *call)
{
    if (call->input[TH_NORM_BIAS].given)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "this norm has no bias, but one was given: %s",
                            TH_TEXT(&call->input[TH_NORM_BIAS]));
    return th_norm_shape(call, 1);
}

static const th_norm_attributes usual = {1e-5}, large_eps = {0.1};

static const th_sample rms_norm_samples[] = {
    {"weight", &usual, 3, {{.shape = {2, {3, 5}}}, {.shape = {1, {5}}}, TH_ABSENT}, 0},
    {"rows longer than a register", &usual, 3, {{.shape = {2, {2, 19}}}, {.shape = {1, {19}}}, TH_ABSENT}, 0},
    {"no weight", &large_eps, 3, {{.shape = {3, {2, 2, 4}}}, TH_ABSENT, TH_ABSENT}, 0},
    {"constant x", &usual, 3, {{.shape = {2, {3, 4}}, .constant = true}, {.shape = {1, {4}}}, TH_ABSENT}, 0},
    {"many rows", &large_eps, 3, {{.shape = {2, {12, 3}}}, {.shape = {1, {3}}}, TH_ABSENT}, 0},
    {.name = NULL},
};

/* With h = x r, g = dL/dy weight, n elements in a row:
 *   dh_i/dx_j = r (1[i=j] - h_i h_j / n)
 *   dL/dx_j = r (g_j - h_j mean(g h)),   dL/dweight_j = sum over rows of dL/dy_j h_j
 * For each row, one pass computes the mean and adds to the weight's sums, and one computes dx (norm_gradient in
 * kernels/rows/vector/norm.c). A row whose dL/dy is exactly 0 gets dx = 0 and does not take part in the sums. */
const th_op th_op_rms_norm = {
    .name = "rms_norm",
    .value = "y = x / sqrt(mean(x²) + eps) * weight",
    .gradient = "dx = r (g - h mean(g h)), g = dy * weight, h = x r; dweight = sum dy * h",
    .shape = rms_norm_shape,
    TH_NORM(.forward = th_rows_id_rms_norm, .forward_cost = 3, .backward = th_rows_id_rms_norm_backward,
            .backward_cost = 6),
    .samples = rms_norm_samples,
};

th_tensor *th_rms_norm(th_tensor *x, const th_norm_options *options)
{
    return th_norm_apply(&th_op_rms_norm, x, options);
}
