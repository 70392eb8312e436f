/* Exercise 3: backward of a multiplication with broadcast, with your own strides.
 *
 *     y_ne = x_ne s_e                   x (N, E), s (E) -> y (N, E)
 *
 * s is broadcast: every row of x is multiplied by the same s. So s_e influences all y_0e, y_1e, ..., y_(N-1)e, and its
 * gradient is a sum. Broadcasting forward means summing backward.
 *
 * This time you find the elements in memory yourself. A transposed tensor is a view: the same memory with other strides.
 * The strides are the distances between neighbors on each axis. They count elements and may be negative.
 * The strides of two arrays may differ: x may be a view while dx is not. Element x_ne is
 *
 *     xp[n * x->stride[0] + e * x->stride[1]]
 *
 * An array with one axis has a stride too: s->stride[0] is not always 1.
 *
 * start_gradient sets a needed gradient to 0 unless it must be added to. So use += for every contribution.
 *
 * The marker checks: the gradients, one gradient alone, gradients that must be added, transposed, spaced and reversed
 * memory, no rows. */
#include "exercise.h"

enum { X, S };

static th_status broadcast_shape(th_call *c) /* x (N, E), s (E) -> y (N, E) */
{
    const th_array *x = &c->input[X], *s = &c->input[S];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || s->ndim != 1 || x->size[1] != s->size[0])
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N, E) and s (E), not %s and %s", TH_TEXT(x), TH_TEXT(s));
    th_call_output(c, 0, TH_FLOAT64, 2, x->size, NULL);
    return TH_OK;
}

static void broadcast_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *s = &c->input[S], *y = &c->output[0];
    for (int64_t n = 0; n < x->size[0]; n++)
        for (int64_t e = 0; e < x->size[1]; e++)
            at(y, n, e) = at(x, n, e) * at(s, e);
}

static void broadcast_backward(const th_call *c)
{
    const th_array *x = &c->input[X], *s = &c->input[S], *dy = &c->output_gradient[0];
    const th_array *dx = &c->input_gradient[X], *ds = &c->input_gradient[S];
    const double *xp = x->data, *sp = s->data, *dyp = dy->data; /* (N, E), (E), (N, E) */
    double *dxp = dx->data, *dsp = ds->data;                    /* (N, E), (E) */
    const int64_t N = x->size[0], E = x->size[1];
    const bool need_dx = start_gradient(c, X), need_ds = start_gradient(c, S);

    /* ---- your lines: dx and ds, by pointers and strides, without at() ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample broadcast_samples[] = {
    {.name = "three rows", .n_inputs = 2, .input = {{.shape = TH_SIZES(3, 2)}, {.shape = TH_SIZES(2)}}},
    {.name = "one row", .n_inputs = 2, .input = {{.shape = TH_SIZES(1, 4)}, {.shape = TH_SIZES(4)}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "broadcast",
    .value = "y = x s, with s in every row",
    .n_inputs = 2,
    .saves = TH_INPUT(X) | TH_INPUT(S),
    .shape = broadcast_shape,
    .forward = broadcast_forward,
    .backward = broadcast_backward,
    .samples = broadcast_samples,
};
