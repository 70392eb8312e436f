/* Exercise 10: attention in tiles, with a running softmax. This blank is in forward.
 *
 *     p_t = softmax of s_t                     scores s (T, S), one row for each query
 *     o_td = sum_j p_tj v_jd                   v (S, D) -> o (T, D)
 *
 * Fused attention never stores a whole row of weights. It visits the keys in tiles of TILE and keeps, for each query,
 * three things about all keys so far:
 *
 *     maximum         the largest score
 *     sum             sum_j exp(s_j - maximum)
 *     o_d             sum_j exp(s_j - maximum) v_jd         the output before the division by sum
 *
 * A tile can raise the maximum. All earlier terms then have the wrong maximum in their exponent. Multiply sum and o_d by
 * exp(old maximum - new maximum) to correct them. Then add the terms of the tile. The last tile may be short.
 *
 * A score of -INFINITY masks its key: it adds nothing, and its value may be anything, even NaN. A tile in which all
 * scores are -INFINITY changes nothing. Beware: -INFINITY minus -INFINITY is NaN.
 *
 * After the last tile o is divided by sum. A query whose keys are all masked has the output 0. Forward also returns
 * log sum_j exp(s_j) (T), which backward needs to compute the weights again. Backward is given: it is exercise 9.
 *
 * The marker checks: the gradients, several tiles, rising and falling scores, masked keys and tiles, strided memory,
 * large scores, no keys. */
#include <math.h>

#include "exercise.h"

enum { SCORES, V, TILE = 4 };

static th_status running_shape(th_call *c) /* scores (T, S), v (S, D) -> o (T, D), log_sum (T) */
{
    const th_array *scores = &c->input[SCORES], *v = &c->input[V];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    if (scores->ndim != 2 || v->ndim != 2 || scores->size[1] != v->size[0])
        return th_call_fail(c, TH_ERROR_SHAPE, "scores must be (T, S) and v (S, D), not %s and %s", TH_TEXT(scores),
                            TH_TEXT(v));
    th_call_output(c, 0, TH_FLOAT64, 2, (const int64_t[]){scores->size[0], v->size[1]}, NULL);
    th_call_output(c, 1, TH_FLOAT64, 1, scores->size, NULL);
    return TH_OK;
}

static void running_forward(const th_call *c)
{
    const th_array *scores = &c->input[SCORES], *v = &c->input[V]; /* (T, S), (S, D) */
    const th_array *o = &c->output[0], *log_sum = &c->output[1];   /* (T, D), (T) */
    const int64_t T = scores->size[0], S = scores->size[1], D = v->size[1];
    for (int64_t t = 0; t < T; t++) {
        double maximum = -INFINITY, sum = 0;
        for (int64_t d = 0; d < D; d++)
            at(o, t, d) = 0;
        for (int64_t first = 0; first < S; first += TILE) {
            const int64_t end = first + TILE < S ? first + TILE : S;

            /* ---- your lines: add the keys first, ..., end - 1 to maximum, sum and o ---- */
            NOT_YET;
            /* ---- end of your lines ---- */
        }
        for (int64_t d = 0; d < D && sum > 0; d++)
            at(o, t, d) /= sum;
        if (log_sum->given) /* (not if no gradient is needed) */
            at(log_sum, t) = maximum + log(sum);
    }
}

static const th_sample running_samples[] = {
    {.name = "three tiles", .n_inputs = 2, .input = {{.shape = TH_SIZES(2, 10)}, {.shape = TH_SIZES(10, 3)}}},
    {.name = "one tile", .n_inputs = 2, .input = {{.shape = TH_SIZES(3, 4)}, {.shape = TH_SIZES(4, 2)}}},
    {.name = NULL},
};

void given_running_backward(const th_call *c); /* teaching/exercises/marker/given.c */

const th_op exercise = {
    .name = "running_softmax",
    .value = "o = softmax(s) v, in tiles",
    .n_inputs = 2,
    .n_outputs = 2, /* o, and log sum exp of the scores, whose gradient is not computed */
    .saves = TH_INPUT(SCORES) | TH_INPUT(V) | TH_OUTPUT(1),
    .shape = running_shape,
    .forward = running_forward,
    .backward = given_running_backward,
    .samples = running_samples,
};
