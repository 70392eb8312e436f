/* Exercise 6: backward of layer norm.
 *
 *     h_e = (x_e - mean) r                   for each row of x (N, E); mean is the row's mean, and
 *     r = 1 / sqrt(variance + EPS)           variance is the mean of (x_e - mean)² in the row
 *     y_e = h_e w_e + b_e                    w (E), b (E) -> y (N, E)
 *
 * Lesson 5 divides by σ, which is 1 / r. So where the lesson divides by σ, multiply by r. The lesson calls h n and g dn;
 * here n is the number of the row.
 *
 * w and b are broadcast to all rows, as s in exercise 3. Their gradients need no new idea.
 *
 * x_e influences the row's y in three ways: directly, through the mean, and through r. Start with g_e = dy_e w_e, the
 * gradient of h_e. The derivatives of the mean and of r are
 *
 *     dmean/dx_e = 1/E                       dr/dx_e = -r² h_e / E
 *
 * Add the three contributions to dx_e. Two sums over the row are enough: sum_e g_e and sum_e g_e h_e.
 *
 * The marker checks: the gradients, each gradient alone, gradients that must be added, strided memory, rows of equal
 * numbers, rows with a large mean, no rows. */
#include <math.h>

#include "exercise.h"

enum { X, W, B };
#define EPS 1e-5

static th_status layer_norm_shape(th_call *c) /* x (N, E), w (E), b (E) -> y (N, E) */
{
    const th_array *x = &c->input[X], *w = &c->input[W], *b = &c->input[B];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || w->ndim != 1 || b->ndim != 1 || w->size[0] != x->size[1] || b->size[0] != x->size[1])
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N, E), w and b (E), not %s, %s and %s", TH_TEXT(x),
                            TH_TEXT(w), TH_TEXT(b));
    th_call_output(c, 0, TH_FLOAT64, 2, x->size, NULL);
    return TH_OK;
}

static double mean_of(const th_array *x, int64_t n)
{
    double sum = 0;
    for (int64_t e = 0; e < x->size[1]; e++)
        sum += at(x, n, e);
    return sum / (double)x->size[1];
}

static double r_of(const th_array *x, int64_t n, double mean)
{
    double sum = 0;
    for (int64_t e = 0; e < x->size[1]; e++)
        sum += (at(x, n, e) - mean) * (at(x, n, e) - mean);
    return 1 / sqrt(sum / (double)x->size[1] + EPS);
}

static void layer_norm_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *w = &c->input[W], *b = &c->input[B], *y = &c->output[0];
    for (int64_t n = 0; n < x->size[0]; n++) {
        const double mean = mean_of(x, n), r = r_of(x, n, mean);
        for (int64_t e = 0; e < x->size[1]; e++)
            at(y, n, e) = (at(x, n, e) - mean) * r * at(w, e) + at(b, e);
    }
}

static void layer_norm_backward(const th_call *c)
{
    const th_array *x = &c->input[X], *w = &c->input[W], *dy = &c->output_gradient[0]; /* (N, E), (E), (N, E) */
    const th_array *dx = &c->input_gradient[X];                                        /* (N, E) */
    const th_array *dw = &c->input_gradient[W], *db = &c->input_gradient[B];           /* (E), (E) */
    const int64_t N = x->size[0], E = x->size[1];
    const bool need_dx = start_gradient(c, X), need_dw = start_gradient(c, W), need_db = start_gradient(c, B);

    for (int64_t n = 0; n < N; n++) {
        const double mean = mean_of(x, n), r = r_of(x, n, mean);

        /* ---- your lines: the contributions of row n to dx, dw and db ---- */
        NOT_YET;
        /* ---- end of your lines ---- */
    }
}

static const th_sample layer_norm_samples[] = {
    {.name = "two rows",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(2, 4)}, {.shape = TH_SIZES(4)}, {.shape = TH_SIZES(4)}}},
    {.name = "one row",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(1, 3)}, {.shape = TH_SIZES(3)}, {.shape = TH_SIZES(3)}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "layer_norm",
    .value = "y = (x - mean) r w + b, r = 1 / sqrt(variance + eps)",
    .n_inputs = 3,
    .saves = TH_INPUT(X) | TH_INPUT(W),
    .shape = layer_norm_shape,
    .forward = layer_norm_forward,
    .backward = layer_norm_backward,
    .samples = layer_norm_samples,
};
