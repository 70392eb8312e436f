/* Exercise 8: backward of rotary positions.
 *
 * Queries and keys are rotated by an angle that depends on their position. A row of x is a list of pairs (u, v), the
 * elements 2 i and 2 i + 1. Pair i of row t is rotated by the angle f = position_t 10000^(-2 i / D):
 *
 *     y_2i   = u cos f - v sin f               x (T, D), position (T) -> y (T, D), D even
 *     y_2i+1 = u sin f + v cos f
 *
 * u influences both elements of y, and so does v. Backward needs neither x nor y.
 *
 * A rotation is a matrix R, and backward multiplies by its transpose. What does the transpose of a rotation do? Your
 * lines are short once you have seen it.
 *
 * The marker checks: the gradients, positions in any order, gradients that must be added, strided memory, far positions,
 * no rows. */
#include <math.h>

#include "exercise.h"

enum { X, POSITION };

static th_status rotary_shape(th_call *c) /* x (T, D), position (T) -> y (T, D) */
{
    const th_array *x = &c->input[X], *position = &c->input[POSITION];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || x->size[1] % 2 || position->ndim != 1 || position->size[0] != x->size[0] ||
        position->dtype != TH_INT64)
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (T, D) with even D, and position (T) of int64, not %s and %s",
                            TH_TEXT(x), TH_TEXT(position));
    th_call_output(c, 0, TH_FLOAT64, 2, x->size, NULL);
    return TH_OK;
}

/* Returns the angle of pair i of a row of D elements. */
static double angle(int64_t position, int64_t i, int64_t D)
{
    return (double)position * pow(10000, -2 * (double)i / (double)D);
}

static void rotary_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *position = &c->input[POSITION], *y = &c->output[0];
    const int64_t T = x->size[0], D = x->size[1];
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < D / 2; i++) {
            const double f = angle(integer_at(position, t), i, D), u = at(x, t, 2 * i), v = at(x, t, 2 * i + 1);
            at(y, t, 2 * i) = u * cos(f) - v * sin(f);
            at(y, t, 2 * i + 1) = u * sin(f) + v * cos(f);
        }
}

static void rotary_backward(const th_call *c)
{
    const th_array *position = &c->input[POSITION]; /* (T) */
    const th_array *dy = &c->output_gradient[0];    /* (T, D) */
    const th_array *dx = &c->input_gradient[X];     /* (T, D) */
    const int64_t T = dy->size[0], D = dy->size[1];
    if (!start_gradient(c, X))
        return;

    /* ---- your lines: dx ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample rotary_samples[] = {
    {.name = "three rows",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(3, 4)}, {.shape = TH_SIZES(3), .kind = TH_SAMPLE_INDEX, .high = 8}}},
    {.name = "one pair",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(2, 2)}, {.shape = TH_SIZES(2), .kind = TH_SAMPLE_INDEX, .low = 1, .high = 4}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "rotary",
    .value = "y = x, with pair i of row t rotated by position_t 10000^(-2 i / D)",
    .n_inputs = 2,
    .saves = TH_INPUT(POSITION),
    .shape = rotary_shape,
    .forward = rotary_forward,
    .backward = rotary_backward,
    .samples = rotary_samples,
};
