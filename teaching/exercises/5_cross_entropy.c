/* Exercise 5: backward of the cross entropy of logits.
 *
 *     p_n = softmax(x_n)                               x (N, C): a row of logits for each example. Logits are the
 *                                                      scores of lesson 4: the numbers before the softmax
 *     loss = 1/K sum_n -log p_n[target_n]              target (N) -> loss, one number
 *
 * The sum is over the examples that count, and K is their number. An example whose target is IGNORED does not count:
 * for example padding at the end of a sequence. Its row of dx is 0.
 *
 * -log p_t = log sum_k exp(x_k) - x_t. Differentiate this with respect to x_j: the first term gives a probability, the
 * second one only for j = t. Backward reads x, not p. Compute p as softmax_forward of exercise 4 does: without the
 * maximum exp overflows.
 *
 * dloss is the gradient of the loss. It is 1 if the loss is the end of the tape, but it may be any number. By the chain
 * rule every element of dx has it as a factor.
 *
 * In lesson 4 every example counts, so K is N there.
 *
 * The marker checks: the gradients, any dloss, a gradient that must be added, strided memory, ignored examples, large
 * logits, no counted example, no rows. */
#include <math.h>

#include "exercise.h"

enum { X, TARGET, IGNORED = -100 };

static th_status cross_entropy_shape(th_call *c) /* x (N, C), target (N) -> loss () */
{
    const th_array *x = &c->input[X], *target = &c->input[TARGET];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (x->ndim != 2 || target->ndim != 1 || target->size[0] != x->size[0] || target->dtype != TH_INT64)
        return th_call_fail(c, TH_ERROR_SHAPE, "x must be (N, C) and target (N) of int64, not %s and %s", TH_TEXT(x),
                            TH_TEXT(target));
    th_call_output(c, 0, TH_FLOAT64, 0, x->size, NULL);
    return TH_OK;
}

static int64_t counted(const th_array *target) /* K */
{
    int64_t count = 0;
    for (int64_t n = 0; n < target->size[0]; n++)
        count += integer_at(target, n) != IGNORED;
    return count;
}

/* Returns log sum_k exp(x_nk). */
static double log_sum_exp(const th_array *x, int64_t n)
{
    double maximum = -INFINITY, sum = 0;
    for (int64_t k = 0; k < x->size[1]; k++)
        maximum = fmax(maximum, at(x, n, k));
    for (int64_t k = 0; k < x->size[1]; k++)
        sum += exp(at(x, n, k) - maximum);
    return maximum + log(sum);
}

static void cross_entropy_forward(const th_call *c)
{
    const th_array *x = &c->input[X], *target = &c->input[TARGET];
    double sum = 0;
    for (int64_t n = 0; n < x->size[0]; n++)
        if (integer_at(target, n) != IGNORED)
            sum += log_sum_exp(x, n) - at(x, n, integer_at(target, n));
    const int64_t K = counted(target);
    at(&c->output[0], 0) = K ? sum / (double)K : 0;
}

static void cross_entropy_backward(const th_call *c)
{
    const th_array *x = &c->input[X], *target = &c->input[TARGET]; /* (N, C), (N) */
    const th_array *dx = &c->input_gradient[X];                    /* (N, C) */
    const double dloss = at(&c->output_gradient[0], 0);
    const int64_t N = x->size[0], C = x->size[1], K = counted(target);
    if (!start_gradient(c, X))
        return;

    /* ---- your lines: dx; integer_at(target, n) is the target of example n ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample cross_entropy_samples[] = {
    {.name = "four examples",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(4, 3)}, {.shape = TH_SIZES(4), .kind = TH_SAMPLE_INDEX, .high = 3}}},
    {.name = "one example",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(1, 5)}, {.shape = TH_SIZES(1), .kind = TH_SAMPLE_INDEX, .high = 5}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "cross_entropy",
    .value = "mean of -log softmax(x)[target]",
    .n_inputs = 2,
    .saves = TH_INPUT(X) | TH_INPUT(TARGET),
    .shape = cross_entropy_shape,
    .forward = cross_entropy_forward,
    .backward = cross_entropy_backward,
    .samples = cross_entropy_samples,
};
