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

static th_tensor *weights(const scene *s)
{
    return s->output[1];
}

/* Returns the numbers t_tt as a column (T, 1). */
static th_tensor *diagonal_of(const scene *s, th_tensor *t)
{
    const int64_t T = th_size(t, 0);
    const double *numbers = th_data_const(t);
    th_tensor *column = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, 1));
    double *d = th_data(column);
    for (int64_t i = 0; i < T; i++)
        d[i] = numbers[i * T + i];
    return column;
}

/* Returns whether no key is padding. */
static bool all_seen(const scene *s)
{
    const bool *allowed = th_data_const(s->input[ALLOWED]);
    bool all = th_numel(s->dy) > 0;
    for (int64_t j = 0; j < th_numel(s->input[ALLOWED]); j++)
        all = all && allowed[j];
    return all;
}

/* -- mistakes -- */

static th_tensor *dv_transposed(const scene *s)
{
    return th_matmul(s->output[1], s->dy);
}

static th_tensor *dv_exchanged(const scene *s) /* p_jt of the pairs seen: only t = j remains */
{
    return th_mul(diagonal_of(s, s->output[1]), s->dy);
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

static th_tensor *dq_scaled_twice(const scene *s)
{
    return dq_with(s, ds(s), scale_of(s) * scale_of(s));
}

static th_tensor *dk_scaled_twice(const scene *s)
{
    return dk_with(s, ds(s), scale_of(s) * scale_of(s));
}

static th_tensor *dq_divided_by_scale(const scene *s)
{
    return dq_with(s, ds(s), 1 / scale_of(s));
}

static th_tensor *dk_divided_by_scale(const scene *s)
{
    return dk_with(s, ds(s), 1 / scale_of(s));
}

static th_tensor *dq_from_own_q(const scene *s) /* the sum over the keys of ds_tj q_t, which is 0 */
{
    return th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[Q]));
}

static th_tensor *dk_from_own_k(const scene *s) /* the sum over the queries of ds_tj k_j */
{
    return th_scale(th_mul(row_sum(transposed(ds(s))), s->input[K]), scale_of(s));
}

static th_tensor *ds_of_sum_without_p(const scene *s)
{
    return th_mul(s->output[1], th_sub(dp(s), row_sum(dp(s))));
}

static th_tensor *dq_of_sum_without_p(const scene *s)
{
    return dq_with(s, ds_of_sum_without_p(s), scale_of(s));
}

static th_tensor *dk_of_sum_without_p(const scene *s)
{
    return dk_with(s, ds_of_sum_without_p(s), scale_of(s));
}

static th_tensor *ds_without_p(const scene *s)
{
    return masked(s, th_sub(dp(s), row_sum(th_mul(s->output[1], dp(s)))));
}

static th_tensor *dq_without_p(const scene *s)
{
    return dq_with(s, ds_without_p(s), scale_of(s));
}

static th_tensor *dk_without_p(const scene *s)
{
    return dk_with(s, ds_without_p(s), scale_of(s));
}

static th_tensor *ds_without_bracket(const scene *s)
{
    th_tensor *product = th_mul(s->output[1], dp(s));
    return masked(s, th_sub(product, row_sum(product)));
}

static th_tensor *dq_without_bracket(const scene *s)
{
    return dq_with(s, ds_without_bracket(s), scale_of(s));
}

static th_tensor *dk_without_bracket(const scene *s)
{
    return dk_with(s, ds_without_bracket(s), scale_of(s));
}

static th_tensor *ds_of_added_sum(const scene *s)
{
    return th_mul(s->output[1], th_add(dp(s), row_sum(th_mul(s->output[1], dp(s)))));
}

static th_tensor *dq_of_added_sum(const scene *s)
{
    return dq_with(s, ds_of_added_sum(s), scale_of(s));
}

static th_tensor *dk_of_added_sum(const scene *s)
{
    return dk_with(s, ds_of_added_sum(s), scale_of(s));
}

static th_tensor *dv_scaled(const scene *s)
{
    return th_scale(s->gradient[V], scale_of(s));
}

static th_tensor *dv_from_ds(const scene *s)
{
    return th_matmul(transposed(ds(s)), s->dy);
}

static th_tensor *dk_from_weights(const scene *s)
{
    return dk_with(s, s->output[1], scale_of(s));
}

/* Returns a sum over the queries of factor_tj x_t whose last term replaced the others: factor (T, T), x (T, D). */
static th_tensor *of_last_query(const scene *s, th_tensor *factor, th_tensor *x, double scale)
{
    const int64_t T = th_size(x, 0);
    return th_scale(th_mul(transposed(th_slice(factor, 0, T - 1, T, 1)), th_slice(x, 0, T - 1, T, 1)),
                    th_numel(s->dy) ? scale : 0);
}

static th_tensor *dv_of_last(const scene *s)
{
    return all_seen(s) ? of_last_query(s, s->output[1], s->dy, 1) : NULL;
}

static th_tensor *dk_of_last(const scene *s)
{
    return all_seen(s) ? of_last_query(s, ds(s), s->input[Q], scale_of(s)) : NULL;
}

static th_tensor *dq_of_last(const scene *s) /* causal: the last key of query t is t */
{
    return all_seen(s) ? th_scale(th_mul(diagonal_of(s, ds(s)), s->input[K]), scale_of(s)) : NULL;
}

/* Key t is not visited for query t. */
static th_tensor *without_diagonal(const scene *s, th_tensor *t)
{
    const int64_t T = th_size(t, 0);
    th_tensor *result = th_mul(t, th_ones(s->ctx, TH_FLOAT64, TH_SHAPE(1)));
    double *numbers = th_data(result);
    for (int64_t i = 0; i < T; i++)
        numbers[i * T + i] = 0;
    return result;
}

static th_tensor *ds_without_diagonal(const scene *s)
{
    th_tensor *p = without_diagonal(s, s->output[1]);
    return th_mul(p, th_sub(dp(s), row_sum(th_mul(p, dp(s)))));
}

static th_tensor *dq_without_diagonal(const scene *s)
{
    return dq_with(s, ds_without_diagonal(s), scale_of(s));
}

static th_tensor *dk_without_diagonal(const scene *s)
{
    return dk_with(s, ds_without_diagonal(s), scale_of(s));
}

static th_tensor *dv_without_diagonal(const scene *s)
{
    return th_matmul(transposed(without_diagonal(s, s->output[1])), s->dy);
}

#define OWN_KEY "key t is not visited for query t, but a query sees itself: j <= t"

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
    {Q, "dq contains the scale 1 / sqrt(D) twice", dq_scaled_twice},
    {K, "dk contains the scale 1 / sqrt(D) twice", dk_scaled_twice},
    {Q, "dq is divided by the scale: multiply by scale = 1 / sqrt(D)", dq_divided_by_scale},
    {K, "dk is divided by the scale: multiply by scale = 1 / sqrt(D)", dk_divided_by_scale},
    {Q, "dq is 0: the ds of a query are multiplied by its own q, and their sum is 0. The factor is k_j", dq_from_own_q},
    {K, "dk_j is multiplied by its own k, but the derivative of q k with respect to k is q", dk_from_own_k},
    {Q, "the sum over the keys adds dp_tj, but each dp_tj must be multiplied by p_tj", dq_of_sum_without_p},
    {K, "the sum over the keys adds dp_tj, but each dp_tj must be multiplied by p_tj", dk_of_sum_without_p},
    {Q, "ds lacks the factor p_tj in front of the bracket, as in exercise 4", dq_without_p},
    {K, "ds lacks the factor p_tj in front of the bracket, as in exercise 4", dk_without_p},
    {Q, "p_tj multiplies dp_tj only, but it must also multiply the sum: write p_tj (dp_tj - sum)", dq_without_bracket},
    {K, "p_tj multiplies dp_tj only, but it must also multiply the sum: write p_tj (dp_tj - sum)", dk_without_bracket},
    {Q, "the sum over the keys is added, but it must be subtracted", dq_of_added_sum},
    {K, "the sum over the keys is added, but it must be subtracted", dk_of_added_sum},
    {V, "dv contains the scale, but the scale is part of the score, not of o", dv_scaled},
    {V, "dv is computed from ds, but it needs the weights p", dv_from_ds},
    {K, "dk is computed from the weights p, but it needs ds, the gradient of the scores", dk_from_weights},
    {V, "dv has the contribution of the last query only: use +=", dv_of_last},
    {K, "dk has the contribution of the last query only: use +=", dk_of_last},
    {Q, "dq has the contribution of the last key only: use +=", dq_of_last},
    {Q, OWN_KEY, dq_without_diagonal},
    {K, OWN_KEY, dk_without_diagonal},
    {V, OWN_KEY, dv_without_diagonal},
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
    .step = {{"p", weights}, {"dp", dp}, {"ds", ds}},
};
