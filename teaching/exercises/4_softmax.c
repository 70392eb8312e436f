/* Exercise 4: backward of softmax.
 *
 *     y_nc = exp(x_nc) / sum_k exp(x_nk)          x (N, C) -> y (N, C), each row by itself
 *
 * In one row, each x_j influences every y_k, because x_j is in the sum below the fraction line. The quotient rule gives
 *
 *     dy_k/dx_j = y_k (1[k = j] - y_j)            1[k = j] is 1 if k = j, otherwise 0
 *
 * In lesson 4 the result is called p and the input z. There y is the target, which this exercise does not have.
 *
 * Add up the contributions of all y_k to dx_j, and simplify. No matrix (C, C) is needed: a row needs one sum, and then
 * one line for each element. Backward reads the result y, which forward saved, and not x.
 *
 * The marker checks: the gradients, gradients that must be added, strided memory, probabilities of exactly 0 and 1, one
 * class, no rows. */
#include <math.h>

#include "exercise.h"

enum { X };

static th_status softmax_shape(th_call *c) /* x (N, C) -> y (N, C) */
{
    const th_array *x = &c->input[X];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2)
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N, C), not %s", TH_TEXT(x));
    th_call_output(c, 0, TH_FLOAT64, 2, x->size, NULL);
    return TH_OK;
}

/* Subtracts the row's maximum first. The result is the same, and exp cannot overflow. */
static void softmax_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *y = &c->output[0];
    const int64_t N = x->size[0], C = x->size[1];
    for (int64_t n = 0; n < N; n++) {
        double maximum = -INFINITY, sum = 0;
        for (int64_t k = 0; k < C; k++)
            maximum = fmax(maximum, at(x, n, k));
        for (int64_t k = 0; k < C; k++) {
            at(y, n, k) = exp(at(x, n, k) - maximum);
            sum += at(y, n, k);
        }
        for (int64_t k = 0; k < C; k++)
            at(y, n, k) /= sum;
    }
}

static void softmax_backward(const th_call *c)
{
    const th_array *y = &c->output[0], *dy = &c->output_gradient[0]; /* (N, C) */
    const th_array *dx = &c->input_gradient[X];                      /* (N, C) */
    const int64_t N = y->size[0], C = y->size[1];
    if (!start_gradient(c, X))
        return;

    /* ---- your lines: dx ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample softmax_samples[] = {
    {.name = "two rows", .n_inputs = 1, .input = {{.shape = TH_SIZES(2, 4), .low = -2, .high = 2}}},
    {.name = "square", .n_inputs = 1, .input = {{.shape = TH_SIZES(3, 3)}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "softmax",
    .value = "y = exp(x) / sum exp(x)",
    .n_inputs = 1,
    .saves = TH_OUTPUT(0),
    .shape = softmax_shape,
    .forward = softmax_forward,
    .backward = softmax_backward,
    .samples = softmax_samples,
};
