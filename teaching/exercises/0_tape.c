/* Exercise 0: backward of a tape.
 *
 * In lesson 0 a program records its operations in a list, the tape. Here the tape is given, as arrays. Value n of the
 * tape is at(value, n):
 *
 *     value_n = x_n                        for n = 0, ..., N - 1: the leaves
 *     value_(N+m) = result of operation m  for m = 0, ..., M - 1
 *
 * Operation m has a kind, ADD, MULTIPLY or TANH, and the operands a = operand(left, N, m) and b = operand(right, N, m).
 * They are numbers of earlier values. TANH has the operand a only. The result y is the last value. The derivatives are
 *
 *     ADD         value = value_a + value_b     1 for a, and 1 for b
 *     MULTIPLY    value = value_a value_b       value_b for a, and value_a for b
 *     TANH        value = tanh(value_a)         1 - value² for a: value is the result
 *
 * Backward computes the gradient dL/dvalue_n of every value. It starts with dy for the last value and 0 for all others.
 * Then it visits the operations from last to first. Each one adds its term to the gradients of its operands. At the end
 * add the gradients of the leaves to dx.
 *
 * An operand can be used many times, even twice by one operation: a = b. The marker checks: the gradients, chains, values
 * that are used twice or never, a gradient that must be added, strided memory, a tape without operations. */
#include <math.h>

#include "exercise.h"

enum { X, KIND, LEFT, RIGHT };
enum { ADD, MULTIPLY, TANH, MOST = 128 };

static th_status tape_shape(th_call *c) /* x (N), kind, left, right (M) -> y (), value (N + M) */
{
    const th_array *x = &c->input[X], *kind = &c->input[KIND];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    for (int i = KIND; i <= RIGHT; i++)
        if (c->input[i].dtype != TH_INT64 || c->input[i].ndim != 1 || c->input[i].size[0] != kind->size[0])
            return th_call_fail(c, TH_ERROR_SHAPE, "kind, left and right must be (M) of int64, not %s",
                                TH_TEXT(&c->input[i]));
    if (x->ndim != 1 || x->size[0] < 1 || x->size[0] + kind->size[0] > MOST)
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N) with N >= 1 and N + M <= %d, not %s", MOST, TH_TEXT(x));
    th_call_output(c, 0, TH_FLOAT64, 0, x->size, NULL);
    th_call_output(c, 1, TH_FLOAT64, 1, (const int64_t[]){x->size[0] + kind->size[0]}, NULL);
    return TH_OK;
}

/* Returns the number of an operand's value. left and right count back from the value before the result, which is 0. */
static int64_t operand(const th_array *back, int64_t N, int64_t m)
{
    return N + m - 1 - integer_at(back, m);
}

static double result_of(int64_t kind, double a, double b)
{
    return kind == ADD ? a + b : kind == MULTIPLY ? a * b : tanh(a);
}

static void tape_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *kind = &c->input[KIND], *left = &c->input[LEFT], *right = &c->input[RIGHT];
    const th_array *y = &c->output[0], *value = &c->output[1];
    const int64_t N = x->size[0], M = kind->size[0];
    double all[MOST]; /* (N + M) */
    for (int64_t n = 0; n < N; n++)
        all[n] = at(x, n);
    for (int64_t m = 0; m < M; m++)
        all[N + m] = result_of(integer_at(kind, m), all[operand(left, N, m)], all[operand(right, N, m)]);
    for (int64_t n = 0; n < N + M && value->given; n++) /* (not given if no gradient is needed) */
        at(value, n) = all[n];
    at(y, 0) = all[N + M - 1];
}

static void tape_backward(const th_call *c)
{
    const th_array *kind = &c->input[KIND], *left = &c->input[LEFT], *right = &c->input[RIGHT]; /* (M) */
    const th_array *value = &c->output[1];                                                      /* (N + M) */
    const th_array *dx = &c->input_gradient[X];                                                 /* (N) */
    const double dy = at(&c->output_gradient[0], 0);
    const int64_t M = kind->size[0], N = value->size[0] - M;
    double gradient[MOST]; /* (N + M), uninitialized */
    if (!start_gradient(c, X))
        return;

    /* ---- your lines: gradient, from the last value to the first, and dx ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample tape_samples[] = {
    {.name = "six operations",
     .n_inputs = 4,
     .input = {{.shape = TH_SIZES(3)},
               {.shape = TH_SIZES(6), .kind = TH_SAMPLE_INDEX, .high = 3},
               {.shape = TH_SIZES(6), .kind = TH_SAMPLE_INDEX, .high = 2},
               {.shape = TH_SIZES(6), .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {.name = "one operation",
     .n_inputs = 4,
     .input = {{.shape = TH_SIZES(2)},
               {.shape = TH_SIZES(1), .kind = TH_SAMPLE_INDEX, .high = 3},
               {.shape = TH_SIZES(1), .kind = TH_SAMPLE_INDEX, .high = 2},
               {.shape = TH_SIZES(1), .kind = TH_SAMPLE_INDEX, .high = 2}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "tape",
    .value = "y = the last value of a tape of +, * and tanh",
    .n_inputs = 4,
    .n_outputs = 2, /* y, and all values, which have no gradient */
    .saves = TH_INPUT(KIND) | TH_INPUT(LEFT) | TH_INPUT(RIGHT) | TH_OUTPUT(1),
    .shape = tape_shape,
    .forward = tape_forward,
    .backward = tape_backward,
    .samples = tape_samples,
};
