/* Exercise 9: backward of an attention head with a mask.
 *
 *     s_tj = scale sum_d q_td k_jd             scores; q, k, v (T, D), scale = 1 / sqrt(D)
 *     p_t  = softmax of s_t                    weights, over the keys j that query t sees
 *     o_td = sum_j p_tj v_jd                   output (T, D)
 *
 * Query t sees key j if j <= t (causal) and allowed_j is true; allowed is false for padding. The weight of a key that
 * it does not see is 0. A query that sees no key has the output 0, and no gradient.
 *
 * Backward goes the same way in reverse order. You know each step: a product (exercise 2) and a softmax (exercise 4).
 *
 *     dv_jd from p and do                      every query sends its do to value j
 *     dp_tj from do and v
 *     ds_tj from p and dp, as in exercise 4    for one query t at a time: row[] below has space for its dp,
 *                                              and is uninitialized
 *     dq_td from ds and k                      scale is part of the score: do not forget it
 *     dk_jd from ds and q
 *
 * Visit only the pairs that query t sees (sees() below). Padding may contain anything, even infinity or NaN, and
 * 0 times NaN is NaN.
 *
 * The marker checks: the gradients, each gradient alone, gradients that must be added, strided memory, padding with NaN,
 * a query that sees nothing, large scores, no tokens. */
#include <math.h>

#include "exercise.h"

enum { Q, K, V, ALLOWED, LONGEST = 64 };

static th_status attention_shape(th_call *c) /* q, k, v (T, D), allowed (T) -> o (T, D), weights (T, T) */
{
    const th_array *q = &c->input[Q], *allowed = &c->input[ALLOWED];
    if (require_float64(c))
        return TH_ERROR_TYPE;
    for (int i = Q; i <= V; i++)
        if (c->input[i].ndim != 2 || c->input[i].size[0] != q->size[0] || c->input[i].size[1] != q->size[1])
            return th_call_fail(c, TH_ERROR_SHAPE, "q, k and v must be (T, D), not %s and %s", TH_TEXT(q),
                                TH_TEXT(&c->input[i]));
    if (allowed->ndim != 1 || allowed->size[0] != q->size[0] || allowed->dtype != TH_BOOL || q->size[0] > LONGEST)
        return th_call_fail(c, TH_ERROR_SHAPE, "allowed must be (T) of bool with T <= %d, not %s", LONGEST,
                            TH_TEXT(allowed));
    th_call_output(c, 0, TH_FLOAT64, 2, q->size, NULL);
    th_call_output(c, 1, TH_FLOAT64, 2, (const int64_t[]){q->size[0], q->size[0]}, NULL);
    return TH_OK;
}

/* Returns whether query t sees key j. */
static bool sees(const th_array *allowed, int64_t t, int64_t j)
{
    return j <= t && bool_at(allowed, j);
}

/* Computes row t of the weights: weight (T). */
static void weights_row(const th_call *c, int64_t t, double *weight)
{
    const th_array *q = &c->input[Q], *k = &c->input[K], *allowed = &c->input[ALLOWED];
    const int64_t T = q->size[0], D = q->size[1];
    double maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < T; j++) {
        weight[j] = sees(allowed, t, j) ? 0 : -INFINITY; /* the score, at first */
        for (int64_t d = 0; d < D && sees(allowed, t, j); d++)
            weight[j] += at(q, t, d) * at(k, j, d) / sqrt((double)D);
        maximum = fmax(maximum, weight[j]);
    }
    for (int64_t j = 0; j < T; j++) {
        weight[j] = sees(allowed, t, j) ? exp(weight[j] - maximum) : 0;
        sum += weight[j];
    }
    for (int64_t j = 0; j < T && sum > 0; j++)
        weight[j] /= sum;
}

static void attention_forward(const th_call *c)
{
    const th_array *v = &c->input[V], *allowed = &c->input[ALLOWED], *o = &c->output[0], *p = &c->output[1];
    const int64_t T = v->size[0], D = v->size[1];
    double weight[LONGEST]; /* (T) */
    for (int64_t t = 0; t < T; t++) {
        weights_row(c, t, weight);
        for (int64_t j = 0; j < T && p->given; j++) /* (not given if no gradient is needed) */
            at(p, t, j) = weight[j];
        for (int64_t d = 0; d < D; d++) {
            at(o, t, d) = 0;
            for (int64_t j = 0; j < T; j++)
                if (sees(allowed, t, j))
                    at(o, t, d) += weight[j] * at(v, j, d);
        }
    }
}

static void attention_backward(const th_call *c)
{
    const th_array *q = &c->input[Q], *k = &c->input[K], *v = &c->input[V], *allowed = &c->input[ALLOWED];
    const th_array *p = &c->output[1], *dout = &c->output_gradient[0]; /* (T, T), (T, D): do is a word of C */
    const th_array *dq = &c->input_gradient[Q], *dk = &c->input_gradient[K], *dv = &c->input_gradient[V];
    const int64_t T = q->size[0], D = q->size[1];
    const double scale = 1 / sqrt((double)D);
    const bool need_dq = start_gradient(c, Q), need_dk = start_gradient(c, K), need_dv = start_gradient(c, V);
    double row[LONGEST]; /* (T) */

    /* ---- your lines: dq, dk and dv ---- */
    NOT_YET;
    /* ---- end of your lines ---- */
}

static const th_sample attention_samples[] = {
    {.name = "four tokens",
     .n_inputs = 4,
     .input = {{.shape = TH_SIZES(4, 3)},
               {.shape = TH_SIZES(4, 3)},
               {.shape = TH_SIZES(4, 3)},
               {.shape = TH_SIZES(4), .kind = TH_SAMPLE_BOOL, .high = 1}}},
    {.name = "padding",
     .n_inputs = 4,
     .input = {{.shape = TH_SIZES(3, 2)},
               {.shape = TH_SIZES(3, 2)},
               {.shape = TH_SIZES(3, 2)},
               {.shape = TH_SIZES(3), .kind = TH_SAMPLE_BOOL, .high = 0.6}}},
    {.name = NULL},
};

const th_op exercise = {
    .name = "attention",
    .value = "o = softmax(q kᵀ / sqrt(D), of the keys seen) v",
    .n_inputs = 4,
    .n_outputs = 2, /* o, and the weights, which have no gradient */
    .saves = TH_INPUT(Q) | TH_INPUT(K) | TH_INPUT(V) | TH_INPUT(ALLOWED) | TH_OUTPUT(1),
    .shape = attention_shape,
    .forward = attention_forward,
    .backward = attention_backward,
    .samples = attention_samples,
};
