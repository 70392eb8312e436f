/* Operations with wrong backward rules (wrong_rules.h). Plain loops in double: the page shows them, and the gradient
 * checker runs them in float64. */
#include "wrong_rules.h"

#include <math.h>

enum { RIGHT, SIGN, TRANSPOSED_K, NO_SCALE, NO_ROW_SUM, MASK_AFTER, TRANSPOSED_A, NO_SKIP, RULES };

const class_wrong_rule class_wrong_rules[] = {
    [RIGHT] = {"right", "", CLASS_SCORES, "dQ = dS K / sqrt(D), dK = dSᵀ Q / sqrt(D)", ""},
    [SIGN] = {"sign", "The gradient of the queries has the wrong sign.", CLASS_SCORES, "dQ = dS K / sqrt(D)",
              "dQ = -dS K / sqrt(D)"},
    [TRANSPOSED_K] = {"transpose in scores", "The gradient of the keys uses dS instead of its transpose.", CLASS_SCORES,
                      "dK = dSᵀ Q / sqrt(D)", "dK = dS Q / sqrt(D)"},
    [NO_SCALE] = {"missing scale", "Backward forgets the factor 1 / sqrt(D) of the scores.", CLASS_SCORES,
                  "dQ = dS K / sqrt(D), dK = dSᵀ Q / sqrt(D)", "dQ = dS K, dK = dSᵀ Q"},
    [NO_ROW_SUM] = {"missing row sum", "The gradient of softmax forgets that each row of A adds up to 1.",
                    CLASS_SOFTMAX, "dS = A (dA - rowsum(A dA))", "dS = A dA"},
    [MASK_AFTER] = {"mask after softmax",
                    "Backward differentiates a softmax over all keys whose result is masked afterwards.", CLASS_SOFTMAX,
                    "dS = A (dA - rowsum(A dA)), A = softmax(S + mask)",
                    "dS = B (m dA - rowsum(B m dA)), B = softmax(S)"},
    [TRANSPOSED_A] = {"transpose in mix", "The gradient of the values uses A instead of its transpose.", CLASS_MIX,
                      "dV = Aᵀ dO", "dV = A dO"},
    [NO_SKIP] = {"lost residual", "The residual connection passes no gradient on.", CLASS_RESIDUAL, "dH = dY, dF = dY",
                 "dH = 0, dF = dY"},
};
const int class_wrong_rule_count = RULES;

/* -- elements. Operands are contiguous (TH_OP_CONTIGUOUS) -- */

static inline double load(const th_array *a, int64_t i)
{
    return a->dtype == TH_FLOAT64 ? ((const double *)a->data)[i] : (double)((const float *)a->data)[i];
}

static inline void store(const th_array *a, int64_t i, double value)
{
    if (a->dtype == TH_FLOAT64)
        ((double *)a->data)[i] = value;
    else
        ((float *)a->data)[i] = (float)value;
}

static int64_t last_size(const th_array *a, int before_last)
{
    return a->size[a->ndim - 1 - before_last];
}

/* The number of matrices (T, columns) in an array (.., T, columns). */
static int64_t matrices(const th_array *a)
{
    int64_t count = 1;
    for (int d = 0; d < a->ndim - 2; d++)
        count *= a->size[d];
    return count;
}

static bool same_shape(const th_array *a, const th_array *b, int ndim)
{
    for (int d = 0; d < ndim; d++)
        if (a->size[d] != b->size[d])
            return false;
    return a->ndim == b->ndim;
}

/* -- scores -- */

static th_status scores_shape(th_call *c)
{
    const th_array *q = &c->input[0], *k = &c->input[1];
    if (th_call_floating(c, 0) || th_call_floating(c, 1) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    if (q->ndim < 2 || !same_shape(q, k, q->ndim))
        return th_call_fail(c, TH_ERROR_SHAPE, "q and k have one shape (.., T, D), not %s and %s", TH_TEXT(q),
                            TH_TEXT(k));
    int64_t size[TH_MAX_DIMS];
    for (int d = 0; d < q->ndim; d++)
        size[d] = q->size[d];
    size[q->ndim - 1] = last_size(q, 1);
    th_call_output(c, 0, q->dtype, q->ndim, size, NULL);
    return TH_OK;
}

static void scores_forward(const th_call *c)
{
    const th_array *q = &c->input[0], *k = &c->input[1], *x = &c->output[0];
    const int64_t T = last_size(q, 1), D = last_size(q, 0), count = matrices(q);
    const double scale = 1 / sqrt((double)D);
    for (int64_t m = 0; m < count; m++)
        for (int64_t t = 0; t < T; t++)
            for (int64_t s = 0; s < T; s++) {
                double sum = 0;
                for (int64_t d = 0; d < D; d++)
                    sum += load(q, (m * T + t) * D + d) * load(k, (m * T + s) * D + d);
                store(x, (m * T + t) * T + s, sum * scale);
            }
}

/* X_ts = scale sum_d Q_td K_sd, so dL/dQ_td = scale sum_s dX_ts K_sd, and dL/dK_sd = scale sum_t dX_ts Q_td. */
static void scores_backward_with(const th_call *c, int rule)
{
    const th_array *dx = &c->output_gradient[0];
    const int64_t T = last_size(&c->input[0], 1), D = last_size(&c->input[0], 0), count = matrices(&c->input[0]);
    const double scale = rule == NO_SCALE ? 1 : 1 / sqrt((double)D);
    for (int i = 0; i < 2; i++) {
        const th_array *other = &c->input[1 - i];
        const bool by_rows = i == 0 || rule == TRANSPOSED_K;
        for (int64_t j = 0; j < count * T * D && c->input_gradient[i].given; j++) {
            const int64_t m = j / (T * D), row = j / D % T, d = j % D;
            double sum = 0;
            for (int64_t s = 0; s < T; s++)
                sum += load(dx, by_rows ? (m * T + row) * T + s : (m * T + s) * T + row) *
                       load(other, (m * T + s) * D + d);
            store(&c->input_gradient[i], j, (rule == SIGN && i == 0 ? -sum : sum) * scale);
        }
    }
}

/* -- softmax under a mask -- */

static th_status softmax_shape(th_call *c)
{
    const th_array *x = &c->input[0], *keep = &c->input[1];
    if (th_call_floating(c, 0) || th_call_bool(c, 1))
        return TH_ERROR_TYPE;
    if (x->ndim < 2 || keep->ndim != 2 || keep->size[0] != last_size(x, 1) || keep->size[1] != last_size(x, 0))
        return th_call_fail(c, TH_ERROR_SHAPE, "x is (.., T, T) and keep (T, T), not %s and %s", TH_TEXT(x),
                            TH_TEXT(keep));
    th_call_output(c, 0, x->dtype, x->ndim, x->size, NULL);
    return TH_OK;
}

/* Returns exp(x - largest) / sum of the row that begins at x[first]; 0 where `keep` (NULL: everything) is false. A row
 * without visible keys is 0. */
static void softmax_row(const th_array *x, int64_t first, int64_t n, const bool *keep, double *y)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t s = 0; s < n; s++)
        if (!keep || keep[s])
            largest = fmax(largest, load(x, first + s));
    for (int64_t s = 0; s < n; s++) {
        y[s] = !keep || keep[s] ? exp(load(x, first + s) - largest) : 0;
        sum += y[s];
    }
    for (int64_t s = 0; s < n && sum > 0; s++)
        y[s] /= sum;
}

/* One row in scratch memory. */
static void softmax_plan(const th_call *c, bool backward, void *plan)
{
    (void)backward;
    *(size_t *)plan = th_plan_scratch(c, last_size(&c->input[0], 0), sizeof(double));
}

static void softmax_forward(const th_call *c)
{
    const th_array *x = &c->input[0], *a = &c->output[0];
    const bool *keep = c->input[1].data;
    const int64_t T = last_size(x, 1), S = last_size(x, 0), rows = matrices(x) * T;
    double *row = th_call_scratch(c, *(const size_t *)c->plan);
    for (int64_t r = 0; r < rows; r++) {
        softmax_row(x, r * S, S, keep + r % T * S, row);
        for (int64_t s = 0; s < S; s++)
            store(a, r * S + s, row[s]);
    }
}

/* A_s = exp(S_s) / sum exp(S), so dA_j/dS_s = A_j ((j = s) - A_s), and dL/dS_s = A_s (dA_s - sum_j A_j dA_j). */
static void softmax_backward_with(const th_call *c, int rule)
{
    const th_array *x = &c->input[0], *da = &c->output_gradient[0], *dx = &c->input_gradient[0];
    const bool *keep = c->input[1].data;
    const int64_t T = last_size(x, 1), S = last_size(x, 0), rows = dx->given ? matrices(x) * T : 0;
    double *row = th_call_scratch(c, *(const size_t *)c->plan);
    for (int64_t r = 0; r < rows; r++) {
        const bool *visible = keep + r % T * S;
        softmax_row(x, r * S, S, rule == MASK_AFTER ? NULL : visible, row);
        double sum = 0;
        for (int64_t s = 0; s < S; s++)
            sum += visible[s] ? row[s] * load(da, r * S + s) : 0;
        for (int64_t s = 0; s < S; s++)
            store(dx, r * S + s, row[s] * ((visible[s] ? load(da, r * S + s) : 0) - (rule == NO_ROW_SUM ? 0 : sum)));
    }
}

/* -- mix -- */

static th_status mix_shape(th_call *c)
{
    const th_array *a = &c->input[0], *v = &c->input[1];
    if (th_call_floating(c, 0) || th_call_floating(c, 1) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    if (a->ndim < 2 || !same_shape(a, v, a->ndim - 1) || last_size(a, 0) != last_size(a, 1))
        return th_call_fail(c, TH_ERROR_SHAPE, "a is (.., T, T) and v (.., T, D), not %s and %s", TH_TEXT(a),
                            TH_TEXT(v));
    th_call_output(c, 0, v->dtype, v->ndim, v->size, NULL);
    return TH_OK;
}

static void mix_forward(const th_call *c)
{
    const th_array *a = &c->input[0], *v = &c->input[1], *o = &c->output[0];
    const int64_t T = last_size(v, 1), D = last_size(v, 0), elements = th_array_numel(v);
    for (int64_t j = 0; j < elements; j++) {
        const int64_t m = j / (T * D), t = j / D % T, d = j % D;
        double sum = 0;
        for (int64_t s = 0; s < T; s++)
            sum += load(a, (m * T + t) * T + s) * load(v, (m * T + s) * D + d);
        store(o, j, sum);
    }
}

/* O_td = sum_s A_ts V_sd, so dL/dA_ts = sum_d dO_td V_sd, and dL/dV_sd = sum_t A_ts dO_td. */
static void mix_backward_with(const th_call *c, int rule)
{
    const th_array *a = &c->input[0], *v = &c->input[1], *d_o = &c->output_gradient[0];
    const th_array *da = &c->input_gradient[0], *dv = &c->input_gradient[1];
    const int64_t T = last_size(v, 1), D = last_size(v, 0);
    const int64_t pairs = da->given ? th_array_numel(a) : 0, values = dv->given ? th_array_numel(v) : 0;
    for (int64_t j = 0; j < pairs; j++) {
        const int64_t m = j / (T * T), t = j / T % T, s = j % T;
        double sum = 0;
        for (int64_t d = 0; d < D; d++)
            sum += load(d_o, (m * T + t) * D + d) * load(v, (m * T + s) * D + d);
        store(da, j, sum);
    }
    for (int64_t j = 0; j < values; j++) {
        const int64_t m = j / (T * D), s = j / D % T, d = j % D;
        double sum = 0;
        for (int64_t t = 0; t < T; t++)
            sum += load(a, rule == TRANSPOSED_A ? (m * T + s) * T + t : (m * T + t) * T + s) *
                   load(d_o, (m * T + t) * D + d);
        store(dv, j, sum);
    }
}

/* -- residual -- */

static th_status residual_shape(th_call *c)
{
    const th_array *h = &c->input[0], *f = &c->input[1];
    if (th_call_floating(c, 0) || th_call_floating(c, 1) || th_call_same_type(c))
        return TH_ERROR_TYPE;
    if (!same_shape(h, f, h->ndim))
        return th_call_fail(c, TH_ERROR_SHAPE, "h and f have one shape, not %s and %s", TH_TEXT(h), TH_TEXT(f));
    th_call_output(c, 0, h->dtype, h->ndim, h->size, NULL);
    return TH_OK;
}

static void residual_forward(const th_call *c)
{
    for (int64_t i = 0, n = th_array_numel(&c->output[0]); i < n; i++)
        store(&c->output[0], i, load(&c->input[0], i) + load(&c->input[1], i));
}

static void residual_backward_with(const th_call *c, int rule)
{
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0, n = th_array_numel(&c->output_gradient[0]); i < n && c->input_gradient[side].given; i++)
            store(&c->input_gradient[side], i, rule == NO_SKIP && side == 0 ? 0 : load(&c->output_gradient[0], i));
}

/* -- descriptors -- */

#define BACKWARD(operation, rule)                                                                                      \
    static void operation##_##rule(const th_call *c)                                                                   \
    {                                                                                                                  \
        operation##_backward_with(c, rule);                                                                            \
    }
BACKWARD(scores, RIGHT)
BACKWARD(scores, SIGN)
BACKWARD(scores, TRANSPOSED_K)
BACKWARD(scores, NO_SCALE)
BACKWARD(softmax, RIGHT)
BACKWARD(softmax, NO_ROW_SUM)
BACKWARD(softmax, MASK_AFTER)
BACKWARD(mix, RIGHT)
BACKWARD(mix, TRANSPOSED_A)
BACKWARD(residual, RIGHT)
BACKWARD(residual, NO_SKIP)

static const th_sample scores_samples[] = {
    {.name = "one head", .n_inputs = 2, .input = {{.shape = TH_SIZES(3, 4)}, {.shape = TH_SIZES(3, 4)}}},
    {.name = "heads", .n_inputs = 2, .input = {{.shape = TH_SIZES(2, 4, 3)}, {.shape = TH_SIZES(2, 4, 3)}}},
    {.name = NULL},
};
static const th_sample softmax_samples[] = {
    {.name = "random mask",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(4, 4)}, {.shape = TH_SIZES(4, 4), .kind = TH_SAMPLE_BOOL, .high = 0.6}}},
    {.name = "no mask, heads",
     .n_inputs = 2,
     .input = {{.shape = TH_SIZES(2, 3, 3)}, {.shape = TH_SIZES(3, 3), .kind = TH_SAMPLE_BOOL, .high = 1}}},
    {.name = NULL},
};
static const th_sample mix_samples[] = {
    {.name = "one head", .n_inputs = 2, .input = {{.shape = TH_SIZES(3, 3)}, {.shape = TH_SIZES(3, 2)}}},
    {.name = "heads", .n_inputs = 2, .input = {{.shape = TH_SIZES(2, 4, 4)}, {.shape = TH_SIZES(2, 4, 3)}}},
    {.name = NULL},
};
static const th_sample residual_samples[] = {
    {.name = "matrix", .n_inputs = 2, .input = {{.shape = TH_SIZES(2, 3)}, {.shape = TH_SIZES(2, 3)}}},
    {.name = NULL},
};

#define BOTH_INPUTS (TH_INPUT(0) | TH_INPUT(1))
#define SCORES(rule)                                                                                                   \
    {                                                                                                                  \
        .name = "scores", .value = "S = Q Kᵀ / sqrt(D)", .gradient = "dQ = dS K / sqrt(D), dK = dSᵀ Q / sqrt(D)",      \
        .n_inputs = 2, .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD, .saves_for = {TH_INPUT(1), TH_INPUT(0)},          \
        .shape = scores_shape, .forward = scores_forward, .backward = scores_##rule, .samples = scores_samples         \
    }
#define SOFTMAX(rule)                                                                                                  \
    {                                                                                                                  \
        .name = "softmax", .value = "A = softmax(S + mask)", .gradient = "dS = A (dA - rowsum(A dA))", .n_inputs = 2,  \
        .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD, .saves = BOTH_INPUTS, .shape = softmax_shape,                    \
        .forward = softmax_forward, .backward = softmax_##rule, .plan = softmax_plan, .plan_size = sizeof(size_t),     \
        .samples = softmax_samples                                                                                     \
    }
#define MIX(rule)                                                                                                      \
    {                                                                                                                  \
        .name = "mix", .value = "O = A V", .gradient = "dA = dO Vᵀ, dV = Aᵀ dO", .n_inputs = 2,                        \
        .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD, .saves_for = {TH_INPUT(1), TH_INPUT(0)}, .shape = mix_shape,     \
        .forward = mix_forward, .backward = mix_##rule, .samples = mix_samples                                         \
    }
#define RESIDUAL(rule)                                                                                                 \
    {                                                                                                                  \
        .name = "residual", .value = "Y = H + F", .gradient = "dH = dY, dF = dY", .n_inputs = 2,                       \
        .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD, .shape = residual_shape, .forward = residual_forward,            \
        .backward = residual_##rule, .samples = residual_samples                                                       \
    }

static const th_op right[CLASS_OPERATIONS] = {
    [CLASS_SCORES] = SCORES(RIGHT),
    [CLASS_SOFTMAX] = SOFTMAX(RIGHT),
    [CLASS_MIX] = MIX(RIGHT),
    [CLASS_RESIDUAL] = RESIDUAL(RIGHT),
};
static const th_op with_rule[RULES] = {
    [RIGHT] = SCORES(RIGHT),
    [SIGN] = SCORES(SIGN),
    [TRANSPOSED_K] = SCORES(TRANSPOSED_K),
    [NO_SCALE] = SCORES(NO_SCALE),
    [NO_ROW_SUM] = SOFTMAX(NO_ROW_SUM),
    [MASK_AFTER] = SOFTMAX(MASK_AFTER),
    [TRANSPOSED_A] = MIX(TRANSPOSED_A),
    [NO_SKIP] = RESIDUAL(NO_SKIP),
};

const th_op *class_op(class_operation operation, int rule)
{
    const bool here = rule >= 0 && rule < RULES && class_wrong_rules[rule].operation == operation;
    return here ? &with_rule[rule] : &right[operation];
}
