/* Exercise 2: backward of a dense layer.
 *
 *     y_nm = sum_e x_ne w_me + b_m      x (N, E), w (M, E), b (M) -> y (N, M)
 *
 * x has N rows of E numbers, one row for each example. Find every y that an input element influences: the input's
 * gradient is the sum over all of them. For example, x_ne influences y_n0, y_n1, ..., y_n(M-1):
 *
 *     dx_ne = sum_m dy_nm dy_nm/dx_ne
 *
 * Which y does w_me influence? Which ones does b_m influence? In lesson 2, m is called j and e is called i.
 *
 * start_gradient, called above the blank, answers the two questions of exercise 1. It returns whether the gradient is
 * needed. It also sets the gradient to 0 unless it must be added to. So use += for every contribution.
 *
 * The marker checks: the gradients, one gradient alone, gradients that must be added, strided memory, no examples. */
#include "exercise.h"

enum { X, W, B };

static th_status dense_shape(th_call *c) /* x (N, E), w (M, E), b (M) -> y (N, M) */
{
    const th_array *x = &c->input[X], *w = &c->input[W], *b = &c->input[B];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || w->ndim != 2 || b->ndim != 1 || x->size[1] != w->size[1] || w->size[0] != b->size[0])
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N, E), w (M, E) and b (M), not %s, %s and %s", TH_TEXT(x),
                            TH_TEXT(w), TH_TEXT(b));
    th_call_output(c, 0, TH_FLOAT64, 2, (const int64_t[]){x->size[0], w->size[0]}, NULL);
    return TH_OK;
}

static void dense_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *w = &c->input[W], *b = &c->input[B], *y = &c->output[0];
    const int64_t N = x->size[0], E = x->size[1], M = w->size[0];
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) {
            at(y, n, m) = at(b, m);
            for (int64_t e = 0; e < E; e++)
                at(y, n, m) += at(x, n, e) * at(w, m, e);
        }
}

static void dense_backward(const th_call *c)
{
    const th_array *x = &c->input[X], *w = &c->input[W];
    const th_array *dy = &c->output_gradient[0]; /* (N, M) */
    const th_array *dx = &c->input_gradient[X];  /* (N, E) */
    const th_array *dw = &c->input_gradient[W];  /* (M, E) */
    const th_array *db = &c->input_gradient[B];  /* (M) */
    const int64_t N = x->size[0], E = x->size[1], M = w->size[0];
    const bool need_dx = start_gradient(c, X), need_dw = start_gradient(c, W), need_db = start_gradient(c, B);

    /* ---- your lines: dx, dw and db, each only if it is needed ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

/* N, E and M differ, so that exchanged indices are detected. */
static const th_sample dense_samples[] = {
    {.name = "two examples",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(2, 4)}, {.shape = TH_SIZES(3, 4)}, {.shape = TH_SIZES(3)}}},
    {.name = "one example",
     .n_inputs = 3,
     .input = {{.shape = TH_SIZES(1, 2)}, {.shape = TH_SIZES(2, 2)}, {.shape = TH_SIZES(2)}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "dense",
    .value = "y = x wᵀ + b",
    .n_inputs = 3,
    .saves = TH_INPUT(X) | TH_INPUT(W),
    .shape = dense_shape,
    .forward = dense_forward,
    .backward = dense_backward,
    .samples = dense_samples,
};
