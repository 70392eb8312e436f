/* Exercise 9: the right results, the checks, and typical mistakes (marker.h). */
#include <math.h>

#include "marker.h"

enum { Q, K, V, ALLOWED };

static th_tensor *transposed(th_tensor *t)
{
    return th_transpose(t, TH_AXES(1, 0));
}

static double scale_of(const scene *s)
{
    return 1 / sqrt((double)th_size(s->input[Q], 1));
}

/* Returns which pairs (T, T) are seen. */
static th_tensor *seen(const scene *s)
{
    return th_mask_keep(s->ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT, .keep = s->input[ALLOWED]},
                        TH_SHAPE(th_size(s->input[Q], 0), th_size(s->input[Q], 0)));
}

static void compute(scene *s)
{
    const th_mask mask = {.causal = TH_CAUSAL_TOP_LEFT, .keep = s->input[ALLOWED]};
    s->output[0] = th_scaled_dot_product_attention(s->input[Q], s->input[K], s->input[V],
                                                   &(th_attention_options){.mask = &mask, .weights = &s->output[1]});
}

/* -- the steps of backward, (T, T); a masked pair is 0 -- */

static th_tensor *masked(const scene *s, th_tensor *t)
{
    return th_where(seen(s), t, th_zeros(s->ctx, TH_FLOAT64, th_shape_of(t)));
}

static th_tensor *dp(const scene *s)
{
    return masked(s, th_matmul(s->dy, transposed(s->input[V])));
}

static th_tensor *row_sum(th_tensor *t)
{
    return th_sum(t, TH_AXES(1), &(th_reduce_options){.keep_axes = true});
}

/* Returns ds of this dp (T, T). */
static th_tensor *ds_of(const scene *s, th_tensor *dp_)
{
    th_tensor *p = s->output[1];
    return th_mul(p, th_sub(dp_, row_sum(th_mul(p, dp_))));
}

static th_tensor *ds(const scene *s)
{
    return ds_of(s, dp(s));
}

static th_tensor *dq_with(const scene *s, th_tensor *ds_, double scale)
{
    return th_scale(th_matmul(ds_, s->input[K]), scale);
}

static th_tensor *dk_with(const scene *s, th_tensor *ds_, double scale)
{
    return th_scale(th_matmul(transposed(ds_), s->input[Q]), scale);
}

/* -- mistakes -- */

static th_tensor *dv_transposed(const scene *s)
{
    return th_matmul(s->output[1], s->dy);
}

static th_tensor *dv_exchanged(const scene *s) /* p_jt of the pairs seen: only t = j remains */
{
    const int64_t T = th_size(s->dy, 0);
    const double *p = th_data_const(s->output[1]);
    th_tensor *diagonal = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, 1));
    double *d = th_data(diagonal);
    for (int64_t t = 0; t < T; t++)
        d[t] = p[t * T + t];
    return th_mul(diagonal, s->dy);
}

static th_tensor *dv_without_p(const scene *s)
{
    return th_matmul(transposed(masked(s, th_ones(s->ctx, TH_FLOAT64, th_shape_of(s->output[1])))), s->dy);
}

static th_tensor *dq_unscaled(const scene *s)
{
    return dq_with(s, ds(s), 1);
}

static th_tensor *dk_unscaled(const scene *s)
{
    return dk_with(s, ds(s), 1);
}

static th_tensor *dq_without_sum(const scene *s)
{
    return dq_with(s, th_mul(s->output[1], dp(s)), scale_of(s));
}

static th_tensor *dk_without_sum(const scene *s)
{
    return dk_with(s, th_mul(s->output[1], dp(s)), scale_of(s));
}

static th_tensor *ds_unfinished(const scene *s) /* one loop adds to the sum over the keys and computes ds */
{
    const int64_t T = th_size(s->dy, 0);
    th_tensor *p = s->output[1], *upper = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, T));
    double *u = th_data(upper);
    for (int64_t i = 0; i < T * T; i++)
        u[i] = i / T <= i % T;
    return th_mul(p, th_sub(dp(s), th_matmul(th_mul(p, dp(s)), upper)));
}

static th_tensor *dq_unfinished(const scene *s)
{
    return dq_with(s, ds_unfinished(s), scale_of(s));
}

static th_tensor *dk_unfinished(const scene *s)
{
    return dk_with(s, ds_unfinished(s), scale_of(s));
}

static th_tensor *ds_of_unfinished_dp(const scene *s) /* the loop over d adds p dp to the sum each time */
{
    const int64_t T = th_size(s->dy, 0), D = th_size(s->dy, 1);
    const double *dy = th_data_const(s->dy);
    th_tensor *p = s->output[1], *counted = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->dy));
    double *c = th_data(counted);
    for (int64_t i = 0; i < T * D; i++)
        c[i] = dy[i] * (double)(D - i % D); /* element d is in D - d of the unfinished dp */
    th_tensor *sum = row_sum(th_mul(p, masked(s, th_matmul(counted, transposed(s->input[V])))));
    return th_mul(p, th_sub(dp(s), sum));
}

static th_tensor *dq_of_unfinished_dp(const scene *s)
{
    return dq_with(s, ds_of_unfinished_dp(s), scale_of(s));
}

static th_tensor *dk_of_unfinished_dp(const scene *s)
{
    return dk_with(s, ds_of_unfinished_dp(s), scale_of(s));
}

static th_tensor *dq_without_softmax(const scene *s)
{
    return dq_with(s, dp(s), scale_of(s));
}

static th_tensor *dq_from_weights(const scene *s) /* the mean of the keys */
{
    return dq_with(s, s->output[1], scale_of(s));
}

/* Returns row t plus all rows before it, for each row t of x (T, ..). */
static th_tensor *with_rows_before(const scene *s, th_tensor *x)
{
    const int64_t T = th_size(x, 0);
    th_tensor *before = th_mask_keep(s->ctx, &(th_mask){.causal = TH_CAUSAL_TOP_LEFT}, TH_SHAPE(T, T));
    return th_matmul(th_cast(before, TH_FLOAT64), x);
}

static th_tensor *ds_of_kept_rows(const scene *s)
{
    return ds_of(s, with_rows_before(s, dp(s)));
}

static th_tensor *dq_of_kept_rows(const scene *s)
{
    return dq_with(s, ds_of_kept_rows(s), scale_of(s));
}

static th_tensor *dk_of_kept_rows(const scene *s)
{
    return dk_with(s, ds_of_kept_rows(s), scale_of(s));
}

static th_tensor *ds_of_kept_sum(const scene *s)
{
    th_tensor *p = s->output[1], *sum = with_rows_before(s, row_sum(th_mul(p, dp(s))));
    return th_mul(p, th_sub(dp(s), sum));
}

static th_tensor *dq_of_kept_sum(const scene *s)
{
    return dq_with(s, ds_of_kept_sum(s), scale_of(s));
}

static th_tensor *dk_of_kept_sum(const scene *s)
{
    return dk_with(s, ds_of_kept_sum(s), scale_of(s));
}

static th_tensor *ds_of_last_term(const scene *s)
{
    const int64_t D = th_size(s->input[Q], 1);
    th_tensor *of_do = th_slice(s->dy, 1, D - 1, D, 1), *of_v = th_slice(s->input[V], 1, D - 1, D, 1);
    return ds_of(s, masked(s, th_matmul(of_do, transposed(of_v))));
}

static th_tensor *dq_of_last_term(const scene *s)
{
    return dq_with(s, ds_of_last_term(s), scale_of(s));
}

static th_tensor *dk_of_last_term(const scene *s)
{
    return dk_with(s, ds_of_last_term(s), scale_of(s));
}

static th_tensor *dk_transposed(const scene *s)
{
    return th_scale(th_matmul(ds(s), s->input[Q]), scale_of(s));
}

static th_tensor *dq_from_q(const scene *s)
{
    return th_scale(th_matmul(ds(s), s->input[Q]), scale_of(s));
}

static th_tensor *dk_from_k(const scene *s)
{
    return th_scale(th_matmul(transposed(ds(s)), s->input[K]), scale_of(s));
}

#define KEPT_ROWS "dp of a query contains dp of the queries before it: set row[j] to 0 for each query t and key j"
#define KEPT_SUM "the sum over the keys contains the sums of the queries before it: set it to 0 for each query t"
#define LAST_TERM "dp_tj is its last term only: use += in the loop over d"
#define UNFINISHED_DP "the sum over the keys adds p_tj dp_tj before dp_tj is complete: add it after the loop over d"

static const mark_mistake mistakes[] = {
    {V, "dv uses p_tj where it needs the weight of key j for query t: sum over the queries t, not over the keys",
     dv_transposed},
    {V, "dv uses p_jt, but the weight of key j for query t is p_tj", dv_exchanged},
    {V, "dv lacks the weights: query t sends p_tj do_t to value j", dv_without_p},
    {Q, "dq lacks the scale 1 / sqrt(D): it is part of the score", dq_unscaled},
    {K, "dk lacks the scale 1 / sqrt(D): it is part of the score", dk_unscaled},
    {Q, "ds is p dp: the sum over the keys of exercise 4 is missing", dq_without_sum},
    {K, "ds is p dp: the sum over the keys of exercise 4 is missing", dk_without_sum},
    {Q, "ds uses the sum over the keys before it is complete: finish the sum in a separate loop first", dq_unfinished},
    {K, "ds uses the sum over the keys before it is complete: finish the sum in a separate loop first", dk_unfinished},
    {Q, UNFINISHED_DP, dq_of_unfinished_dp},
    {K, UNFINISHED_DP, dk_of_unfinished_dp},
    {Q, "dp is used as ds: the softmax of exercise 4 is missing between them", dq_without_softmax},
    {Q, KEPT_ROWS, dq_of_kept_rows},
    {K, KEPT_ROWS, dk_of_kept_rows},
    {Q, KEPT_SUM, dq_of_kept_sum},
    {K, KEPT_SUM, dk_of_kept_sum},
    {Q, LAST_TERM, dq_of_last_term},
    {K, LAST_TERM, dk_of_last_term},
    {Q, "dq is computed from the weights p, but it needs ds, the gradient of the scores", dq_from_weights},
    {K, "dk_j sums ds over the keys of query j: sum over the queries t that see key j", dk_transposed},
    {Q, "dq is multiplied by q, but the derivative of q k with respect to q is k", dq_from_q},
    {K, "dk is multiplied by k, but the derivative of q k with respect to k is q", dk_from_k},
    {Q, "dq is not a number: visit only the pairs that the query sees, because 0 times NaN is NaN", NULL},
    {K, "dk is not a number: visit only the pairs that the query sees, because 0 times NaN is NaN", NULL},
    {V, "dv is not a number: visit only the pairs that the query sees, because 0 times NaN is NaN", NULL},
    {.sentence = NULL},
};

#define SIZES(T, D)                                                                                                    \
    {.shape = TH_SIZES(T, D), .low = -2, .high = 2}, {.shape = TH_SIZES(T, D), .low = -2, .high = 2},                  \
        {.shape = TH_SIZES(T, D)},                                                                                     \
    {                                                                                                                  \
        .shape = TH_SIZES(T), .kind = TH_SAMPLE_BOOL, .high = 1                                                        \
    }
static const double q_values[] = {1, 0, 0, 2, 1, 1}, k_values[] = {1, 0.5, -1, 1.5, 0.5, -1};
static const double v_values[] = {1, 2, 3, -1, -2, 0.5};
static const double k_padding[] = {1, 2, NAN, NAN, 0, 1, INFINITY, NAN},
                    v_padding[] = {1, -1, NAN, INFINITY, 2, 1, NAN, 0};
static const double padding[] = {1, 0, 1, 0}, first_hidden[] = {0, 1, 1};
static const double large[] = {300, -200, 100, 400, -300, 100};

static const mark_check checks[] = {
    {.name = "the three tokens of docs/attention-backward.md, causal",
     .input = {SIZES(3, 2)},
     .values = {q_values, k_values, v_values}},
    {.name = "random numbers", .input = {SIZES(5, 3)}},
    {.name = "only dk is needed", .input = {SIZES(4, 2)}, .requested = TH_INPUT(K)},
    {.name = "only dv is needed", .input = {SIZES(4, 2)}, .requested = TH_INPUT(V)},
    {.name = "gradients that must be added", .input = {SIZES(3, 4)}, .add = true},
    {.name = "strided memory", .input = {SIZES(4, 3)}, .strided = true},
    {.name = "padding that contains NaN", .input = {SIZES(4, 2)}, .values = {NULL, k_padding, v_padding, padding}},
    {.name = "a query that sees no key", .input = {SIZES(3, 2)}, .values = {NULL, NULL, NULL, first_hidden}},
    {.name = "large scores", .input = {SIZES(3, 2)}, .values = {large, large}},
    {.name = "no tokens", .input = {SIZES(0, 2)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1)}},
    {.name = NULL},
};

const mark_subject attention_subject = {
    .name = "attention",
    .title = "backward of an attention head with a mask",
    .n_inputs = 4,
    .n_outputs = 2,
    .input_name = {"q", "k", "v", "allowed"},
    .output_name = {"o", "p"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};
