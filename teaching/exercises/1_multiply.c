/* Exercise 1: backward of a multiplication.
 *
 *     y_i = a_i b_i                     a, b and y have the shape (N)
 *
 * The loss L depends on a_i only through y_i. The chain rule multiplies the derivatives along the way:
 *
 *     dL/da_i = dL/dy_i dy_i/da_i       and the same for b_i
 *
 * In the code dy is dL/dy, and da is dL/da. Backward receives dy and the saved inputs a and b. It writes da and db.
 *
 * Two questions belong to every gradient that you write:
 *
 *   - Is it needed? If c->input_gradient[A].given is false, nobody asks for da. Then do not touch it.
 *   - Is it the first? A variable that is used twice receives two gradients, and its gradient is their sum. If
 *     c->add[A] is true, da already contains one: add to it. If it is false, the memory is uninitialized: overwrite it.
 *     Lesson 1 sets every gradient to 0 and then always adds. Writing the first one instead gives the same sum.
 *
 * The marker checks: the gradients, one gradient alone, a gradient that must be added, strided memory, no elements. */
#include "exercise.h"

enum { A, B };

static th_status multiply_shape(th_call *c) /* a (N), b (N) -> y (N) */
{
    const th_array *a = &c->input[A], *b = &c->input[B];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (a->ndim != 1 || b->ndim != 1 || a->size[0] != b->size[0])
        return th_call_fail(c, TH_ERROR_SHAPE, "a and b must be (N), not %s and %s", TH_TEXT(a), TH_TEXT(b));
    th_call_output(c, 0, TH_FLOAT64, 1, a->size, NULL);
    return TH_OK;
}

static void multiply_forward(const th_call *c)
{
    const th_array *a = &c->input[A], *b = &c->input[B], *y = &c->output[0];
    for (int64_t i = 0; i < a->size[0]; i++)
        at(y, i) = at(a, i) * at(b, i);
}

static void multiply_backward(const th_call *c)
{
    const th_array *a = &c->input[A], *b = &c->input[B];
    const th_array *dy = &c->output_gradient[0];                             /* (N) */
    const th_array *da = &c->input_gradient[A], *db = &c->input_gradient[B]; /* (N) */
    const int64_t N = a->size[0];

    /* ---- your lines: da_i and db_i for all i ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

/* The inputs on which the gradient checker runs the operation. */
static const th_sample multiply_samples[] = {
    {.name = "five numbers", .n_inputs = 2, .input = {{.shape = TH_SIZES(5)}, {.shape = TH_SIZES(5)}}},
    {.name = "one number", .n_inputs = 2, .input = {{.shape = TH_SIZES(1)}, {.shape = TH_SIZES(1)}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "multiply",
    .value = "y = a b",
    .n_inputs = 2,
    .saves = TH_INPUT(A) | TH_INPUT(B),
    .shape = multiply_shape,
    .forward = multiply_forward,
    .backward = multiply_backward,
    .samples = multiply_samples,
};
