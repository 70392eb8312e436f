/* rms_norm: y = x r weight over the last axis, r = 1 / sqrt(mean(x²) + eps) (Zhang & Sennrich 2019).
 * This file: shape rule, value, gradient, samples. The walk over rows is in norm.c, the arithmetic of one row in
 * kernels/vector/norm.c. */
#include "ops/shared/norm.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"

/* Output 1 keeps r. */
static th_status rms_norm_shape(th_call *c)
{
    if (c->input[TH_NORM_BIAS].given)
        return th_call_fail(c, TH_ERROR_ARGUMENT, "there is no bias in this norm, but one was given: %s",
                            TH_TEXT(&c->input[TH_NORM_BIAS]));
    return th_norm_shape(c, 1);
}

static void rms_norm_forward(const th_call *c)
{
    th_norm_forward(c, th_call_kernels(c)->rms_norm);
}

/* With h = x r, g = dL/dy weight, n elements in a row:
 *   dh_i/dx_j = r (1[i=j] - h_i h_j / n)
 *   dL/dx_j = r (g_j - h_j mean(g h)),   dL/dweight_j = sum over rows of dL/dy_j h_j
 * per row one pass for the mean and the sums of the weight, one for dx. A row whose dL/dy is exactly 0 gets dx = 0 and
 * takes no part in the sums. */
static void rms_norm_backward(const th_call *c)
{
    th_norm_backward(c, th_call_kernels(c)->rms_norm_backward);
}

static const th_norm_attributes usual = {1e-5}, large_eps = {0.1};

#define ABSENT                                                                                                         \
    {                                                                                                                  \
        .kind = TH_SAMPLE_ABSENT                                                                                       \
    }

static const th_sample rms_norm_samples[] = {
    {"weight", &usual, 3, {{.shape = {2, {3, 5}}}, {.shape = {1, {5}}}, ABSENT}, 0},
    {"rows longer than a register", &usual, 3, {{.shape = {2, {2, 19}}}, {.shape = {1, {19}}}, ABSENT}, 0},
    {"no weight", &large_eps, 3, {{.shape = {3, {2, 2, 4}}}, ABSENT, ABSENT}, 0},
    {"constant x", &usual, 3, {{.shape = {2, {3, 4}}, .constant = true}, {.shape = {1, {4}}}, ABSENT}, 0},
    {"many rows", &large_eps, 3, {{.shape = {2, {12, 3}}}, {.shape = {1, {3}}}, ABSENT}, 0},
    {0},
};

const th_op th_op_rms_norm = {
    .name = "rms_norm",
    .value = "y = x / sqrt(mean(x²) + eps) * weight",
    .gradient = "dx = r (g - h mean(g h)), g = dy * weight, h = x r; dweight = sum dy * h",
    .n_inputs = 3,
    .optional = TH_SAVE_INPUT(TH_NORM_WEIGHT) | TH_SAVE_INPUT(TH_NORM_BIAS),
    .n_outputs = 2,
    .attributes_size = sizeof(th_norm_attributes),
    .flags = TH_OP_RECOMPUTE,
    .saves = TH_SAVE_INPUT(TH_NORM_X) | TH_SAVE_OUTPUT(1),
    .saves_for = {[TH_NORM_X] = TH_SAVE_INPUT(TH_NORM_WEIGHT)},
    .shape = rms_norm_shape,
    .forward = rms_norm_forward,
    .backward = rms_norm_backward,
    .scratch = th_norm_scratch,
    .samples = rms_norm_samples,
};

th_tensor *(th_rms_norm)(th_tensor *x, const th_norm_options *options)
{
    const th_norm_attributes attributes = {options ? options->eps : 0};
    return th_apply(&th_op_rms_norm, &attributes, x, options ? options->weight : NULL, options ? options->bias : NULL);
}
