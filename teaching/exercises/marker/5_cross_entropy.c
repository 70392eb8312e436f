/* Exercise 5: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { X, TARGET };

static void compute(scene *s)
{
    s->output[0] = th_cross_entropy(s->input[X], s->input[TARGET], &(th_cross_entropy_options){TH_IGNORE(-100)});
}

static double counted(const scene *s)
{
    return (double)th_target_count(s->input[TARGET], &(th_cross_entropy_options){TH_IGNORE(-100)});
}

/* Returns a column (N, 1): the first number for an example that counts, and the second for the others. */
static th_tensor *column_of(const scene *s, double counts, double ignored)
{
    const int64_t N = th_numel(s->input[TARGET]);
    const int64_t *target = th_data_const(s->input[TARGET]);
    th_tensor *column = th_empty(s->ctx, TH_FLOAT64, TH_SHAPE(N, 1));
    double *factor = th_data(column);
    for (int64_t n = 0; n < N; n++)
        factor[n] = target[n] >= 0 ? counts : ignored;
    return column;
}

/* Returns dloss / K for an example that counts and 0 for the others; all: dloss / K for all. */
static th_tensor *factors(const scene *s, bool all)
{
    const double factor = th_item(s->dy) / counted(s);
    return column_of(s, factor, all ? factor : 0);
}

static th_tensor *without_minus_one(const scene *s)
{
    return th_mul(th_softmax(s->input[X], -1), factors(s, false));
}

static th_tensor *plus_one(const scene *s)
{
    return th_sub(th_scale(without_minus_one(s), 2), s->gradient[X]);
}

static th_tensor *sum_not_mean(const scene *s)
{
    return counted(s) > 1 ? th_scale(s->gradient[X], counted(s)) : NULL;
}

static th_tensor *divided_by_all(const scene *s)
{
    const double N = (double)th_numel(s->input[TARGET]);
    return counted(s) < N ? th_scale(s->gradient[X], counted(s) / N) : NULL;
}

static th_tensor *without_dloss(const scene *s)
{
    return th_scale(s->gradient[X], 1 / th_item(s->dy));
}

static th_tensor *ignored_rows(const scene *s) /* the right rows, and p in those that do not count */
{
    th_tensor *difference = th_sub(factors(s, true), factors(s, false));
    return th_add(s->gradient[X], th_mul(th_softmax(s->input[X], -1), difference));
}

static th_tensor *all_count(const scene *s) /* the formula of lesson 4, in which no example is ignored */
{
    const double N = (double)th_numel(s->input[TARGET]);
    th_tensor *ignored = th_mul(th_softmax(s->input[X], -1), column_of(s, 0, th_item(s->dy) / N));
    return counted(s) < N ? th_add(th_scale(s->gradient[X], counted(s) / N), ignored) : NULL;
}

static th_tensor *opposite(const scene *s)
{
    return th_neg(s->gradient[X]);
}

/* Returns dx if each row is computed from these numbers, minus 1 at `one`. */
static th_tensor *minus_one_hot(const scene *s, th_tensor *numbers, bool at_row)
{
    const int64_t N = th_size(s->input[X], 0), C = th_size(s->input[X], 1);
    const int64_t *target = th_data_const(s->input[TARGET]);
    th_tensor *one_hot = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(N, C));
    double *one = th_data(one_hot);
    for (int64_t n = 0; n < N; n++)
        if (target[n] >= 0 && (!at_row || n < C))
            one[n * C + (at_row ? n : target[n])] = 1;
    return th_mul(th_sub(numbers, one_hot), factors(s, false));
}

static th_tensor *without_softmax(const scene *s)
{
    return minus_one_hot(s, s->input[X], false);
}

static th_tensor *without_division(const scene *s)
{
    return minus_one_hot(s, th_exp(s->input[X]), false);
}

static th_tensor *log_p(const scene *s)
{
    return minus_one_hot(s, th_log_softmax(s->input[X], -1), false);
}

static th_tensor *one_at_row(const scene *s)
{
    return minus_one_hot(s, th_softmax(s->input[X], -1), true);
}

static th_tensor *target_only(const scene *s)
{
    th_tensor *p = th_softmax(s->input[X], -1), *zero = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(p));
    return th_mul(minus_one_hot(s, zero, false), th_sub(th_ones(s->ctx, TH_FLOAT64, th_shape_of(p)), p));
}

static th_tensor *derivative_by_p(const scene *s) /* -1 / p at the target */
{
    th_tensor *zero = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[X]));
    return th_div(minus_one_hot(s, zero, false), th_softmax(s->input[X], -1));
}

static th_tensor *divided_twice(const scene *s)
{
    return counted(s) > 1 ? th_scale(s->gradient[X], 1 / counted(s)) : NULL;
}

static th_tensor *integer_division(const scene *s) /* 1 / K of integers */
{
    return th_scale(s->gradient[X], counted(s) > 1 ? 0 : 1);
}

static th_tensor *ends_at_ignored(const scene *s)
{
    th_tensor *dx = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[X]));
    const int64_t *target = th_data_const(s->input[TARGET]);
    const double *right = th_data_const(s->gradient[X]);
    const int64_t C = th_size(s->input[X], 1);
    double *numbers = th_data(dx);
    for (int64_t n = 0; n < th_size(s->input[X], 0) && target[n] >= 0; n++)
        for (int64_t j = n * C; j < (n + 1) * C; j++)
            numbers[j] = right[j];
    return dx;
}

static th_tensor *probability(const scene *s)
{
    return th_softmax(s->input[X], -1);
}

static const mark_mistake mistakes[] = {
    {X, "rows after an ignored example are 0: continue skips one row, but break and return end the loop",
     ends_at_ignored},
    {X, "dx is x minus 1 at the target: x must first become p, by softmax", without_softmax},
    {X, "p is exp(x) without the division by the row's sum: write exp(x - log_sum)", without_division},
    {X, "dx contains log p = x - log_sum: p is its exp", log_p},
    {X, "1 is subtracted at the row's index n, but the right class is the target of row n", one_at_row},
    {X, "only the target's element is written, but all classes are in the sum of softmax: the others get p",
     target_only},
    {X, "dx is -1 / p at the target, the derivative with respect to p: continue to x, and simplify", derivative_by_p},
    {X, "dx is divided by K twice", divided_twice},
    {X, "1 / K divides two integers, and gives 0: write 1 / (double)K", integer_division},
    {X, "dx is p: subtract 1 at the target", without_minus_one},
    {X, "1 is added at the target, but it must be subtracted", plus_one},
    {X, "dx is not divided by K, the number of examples that count: the loss is a mean", sum_not_mean},
    {X, "dx is divided by N, but examples that are ignored do not count: divide by K", divided_by_all},
    {X, "dx is not multiplied by dloss, the gradient of the loss", without_dloss},
    {X, "rows of ignored examples have a gradient, but they do not influence the loss", ignored_rows},
    {X, "ignored examples are treated as the others: skip their rows, and divide by K, not by N", all_count},
    {X, "dx has the opposite sign: it is p - 1 at the target and p elsewhere", opposite},
    {X,
     "dx is infinite or not a number: exp overflows or K is 0. Subtract the row's maximum, or log_sum_exp, before exp",
     NULL},
    {.sentence = NULL},
};

#define SIZES(N, C)                                                                                                    \
    {.shape = TH_SIZES(N, C)},                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(N), .kind = TH_SAMPLE_INDEX, .high = C                                                       \
    }
static const double x_values[] = {0, 1, 2, 2, 2, 2}, targets[] = {2, 0};
static const double large[] = {1000, 0, -1000, -5000, -5001, -5002}, large_targets[] = {1, 0};
static const double some[] = {1, -100, 0, -100}, none[] = {-100, -100};

static const mark_check checks[] = {
    {.name = "two examples with dloss = 1", .input = {SIZES(2, 3)}, .values = {x_values, targets}, .ones = true},
    {.name = "random numbers and dloss", .input = {SIZES(5, 4)}},
    {.name = "a gradient that must be added", .input = {SIZES(3, 2)}, .add = true},
    {.name = "strided memory", .input = {SIZES(3, 4)}, .strided = true},
    {.name = "ignored examples", .input = {SIZES(4, 3)}, .values = {NULL, some}},
    {.name = "large logits", .input = {SIZES(2, 3)}, .values = {large, large_targets}},
    {.name = "no example counts", .input = {SIZES(2, 3)}, .values = {NULL, none}},
    {.name = "no rows", .input = {SIZES(0, 3)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1)}},
    {.name = NULL},
};

const mark_subject cross_entropy_subject = {
    .name = "cross_entropy",
    .title = "backward of the cross entropy of logits",
    .n_inputs = 2,
    .n_outputs = 1,
    .input_name = {"x", "target"},
    .output_name = {"loss"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
    .step = {{"p", probability}},
};
