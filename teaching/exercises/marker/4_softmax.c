/* Exercise 4: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

static void compute(scene *s)
{
    s->output[0] = th_softmax(s->input[0], -1);
}

/* sum over a row, as a column */
static th_tensor *row_sum(th_tensor *t)
{
    return th_sum(t, TH_AXES(1), &(th_reduce_options){.keep_axes = true});
}

static th_tensor *without_sum(const scene *s)
{
    return th_mul(s->output[0], s->dy);
}

static th_tensor *sum_without_y(const scene *s)
{
    return th_mul(s->output[0], th_sub(s->dy, row_sum(s->dy)));
}

static th_tensor *without_y(const scene *s)
{
    return th_sub(s->dy, row_sum(th_mul(s->output[0], s->dy)));
}

static th_tensor *diagonal(const scene *s)
{
    return th_mul(without_sum(s), th_sub(th_ones(s->ctx, TH_FLOAT64, th_shape_of(s->dy)), s->output[0]));
}

static th_tensor *plus(const scene *s)
{
    return th_mul(s->output[0], th_add(s->dy, row_sum(without_sum(s))));
}

static th_tensor *sum_of_columns(const scene *s)
{
    return th_mul(s->output[0],
                  th_sub(s->dy, th_sum(without_sum(s), TH_AXES(0), &(th_reduce_options){.keep_axes = true})));
}

static th_tensor *last_term(const scene *s)
{
    const int64_t C = th_size(s->dy, 1);
    return th_mul(s->output[0], th_sub(s->dy, th_slice(without_sum(s), 1, C - 1, C, 1)));
}

static th_tensor *running_sum(const scene *s) /* the sum is not set to 0 for each row */
{
    th_tensor *sums = row_sum(without_sum(s));
    const int64_t N = th_size(sums, 0);
    th_tensor *lower = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(N, N));
    double *l = th_data(lower);
    for (int64_t i = 0; i < N * N; i++)
        l[i] = i % N <= i / N;
    return th_mul(s->output[0], th_sub(s->dy, th_matmul(lower, sums)));
}

static th_tensor *unfinished_sum(const scene *s) /* one loop adds to the sum and computes dx */
{
    const int64_t C = th_size(s->dy, 1);
    th_tensor *upper = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(C, C));
    double *u = th_data(upper);
    for (int64_t i = 0; i < C * C; i++)
        u[i] = i / C <= i % C;
    return th_mul(s->output[0], th_sub(s->dy, th_matmul(without_sum(s), upper)));
}

static th_tensor *without_bracket(const scene *s)
{
    return th_sub(without_sum(s), row_sum(without_sum(s)));
}

static th_tensor *diagonal_twice(const scene *s)
{
    return th_mul(s->output[0], th_sub(s->dy, th_add(row_sum(without_sum(s)), without_sum(s))));
}

static th_tensor *mean_of_dy(const scene *s)
{
    return th_mul(s->output[0], th_sub(s->dy, th_scale(row_sum(s->dy), 1 / (double)th_size(s->dy, 1))));
}

static th_tensor *mean_not_sum(const scene *s)
{
    return th_mul(s->output[0], th_sub(s->dy, th_scale(row_sum(without_sum(s)), 1 / (double)th_size(s->dy, 1))));
}

static th_tensor *y_twice(const scene *s)
{
    return th_mul(s->output[0], s->gradient[0]);
}

static th_tensor *sum_of_y(const scene *s)
{
    return th_mul(s->output[0], th_sub(s->dy, row_sum(s->output[0])));
}

/* -- steps -- */

static th_tensor *output(const scene *s)
{
    return s->output[0];
}

static th_tensor *sum_of_row(const scene *s)
{
    return row_sum(without_sum(s));
}

static const mark_mistake mistakes[] = {
    {0, "dx is y dy: the sum over the row is missing. x_j also influences the other y of its row", without_sum},
    {0, "the sum over the row adds dy_k, but each dy_k must be multiplied by y_k", sum_without_y},
    {0, "dx_j lacks the factor y_j", without_y},
    {0, "only the diagonal k = j of dy_k/dx_j is used: x_j also influences the other y of its row", diagonal},
    {0, "the sum over the row is added, but it must be subtracted", plus},
    {0, "the sum runs over a column, but each row is a softmax by itself", sum_of_columns},
    {0, "the sum over the row is its last term only: use += in the loop over k", last_term},
    {0, "the sum of a row contains the rows before it: set it to 0 at the start of each row", running_sum},
    {0, "dx uses the sum over the row before it is complete: finish the sum in a separate loop first", unfinished_sum},
    {0, "dx is not a number where y is 0: the rule needs no division by y", NULL},
    {0, "y_j multiplies dy_j only, but it must also multiply the sum: write y_j (dy_j - sum)", without_bracket},
    {0, "the term k = j is subtracted twice: in the sum over all k, and by itself", diagonal_twice},
    {0, "the mean of dy is subtracted, but it must be the sum of y_k dy_k", mean_of_dy},
    {0, "the sum over the row is divided by C, but softmax has a sum, not a mean", mean_not_sum},
    {0, "dx contains y_j twice: the right rule has one factor y_j in front of the bracket", y_twice},
    {0, "the sum over the row adds y_k, but each y_k must be multiplied by dy_k", sum_of_y},
    {.sentence = NULL},
};

static const double x_values[] = {0, 1, 2, 2, 2, 2}, saturated[] = {1000, 0, -1000, -2000, 3000, 0};

static const mark_check checks[] = {
    {.name = "two small rows", .input = {{.shape = TH_SIZES(2, 3)}}, .values = {x_values}},
    {.name = "random numbers", .input = {{.shape = TH_SIZES(3, 5), .low = -3, .high = 3}}},
    {.name = "gradients that must be added", .input = {{.shape = TH_SIZES(2, 4)}}, .add = true},
    {.name = "strided memory", .input = {{.shape = TH_SIZES(3, 4)}}, .strided = true},
    {.name = "probabilities of exactly 0 and 1", .input = {{.shape = TH_SIZES(2, 3)}}, .values = {saturated}},
    {.name = "one class", .input = {{.shape = TH_SIZES(3, 1)}}},
    {.name = "no rows", .input = {{.shape = TH_SIZES(0, 3)}}},
    {.name = LARGE, .input = {{.shape = TH_SIZES(LONG, LONG + 1)}}},
    {.name = NULL},
};

const mark_subject softmax_subject = {
    .name = "softmax",
    .title = "backward of softmax",
    .n_inputs = 1,
    .n_outputs = 1,
    .input_name = {"x"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
    .step = {{"y", output}, {"the sum of y dy of each row", sum_of_row}},
};
