/* Exercise 2: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { X, W, B };

static void compute(scene *s)
{
    s->output[0] = th_dense(s->input[X], s->input[W], &(th_dense_options){.bias = s->input[B]});
}

static th_tensor *row(th_tensor *t, int64_t n)
{
    return th_slice(t, 0, n, n + 1, 1);
}

static th_tensor *last(th_tensor *t)
{
    return row(t, th_size(t, 0) - 1);
}

/* If backward assigns in the loop over n, the last example remains. */
static th_tensor *dw_of_last(const scene *s)
{
    return th_matmul(th_transpose(last(s->dy), TH_AXES(1, 0)), last(s->input[X]));
}

static th_tensor *db_of_last(const scene *s)
{
    return last(s->dy);
}

static th_tensor *dx_of_last(const scene *s)
{
    const int64_t M = th_size(s->input[W], 0);
    return th_mul(th_slice(s->dy, 1, M - 1, M, 1), last(s->input[W]));
}

static th_tensor *dw_mean(const scene *s)
{
    return th_scale(s->gradient[W], 1 / (double)th_size(s->input[X], 0));
}

static th_tensor *db_mean(const scene *s)
{
    return th_scale(s->gradient[B], 1 / (double)th_size(s->input[X], 0));
}

static th_tensor *dw_without_dy(const scene *s)
{
    return th_add(th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[W])), th_sum(s->input[X], TH_AXES(0), NULL));
}

static th_tensor *dx_without_dy(const scene *s)
{
    return th_add(th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[X])), th_sum(s->input[W], TH_AXES(0), NULL));
}

static th_tensor *db_counts(const scene *s)
{
    return th_full(s->ctx, TH_FLOAT64, th_shape_of(s->input[B]), (double)th_size(s->input[X], 0));
}

static th_tensor *db_in_inner_loop(const scene *s)
{
    return th_scale(s->gradient[B], (double)th_size(s->input[X], 1));
}

static th_tensor *db_with_x(const scene *s) /* b is multiplied by element 0 of each row */
{
    return th_sum(th_mul(s->dy, th_slice(s->input[X], 1, 0, 1, 1)), TH_AXES(0), NULL);
}

static th_tensor *db_with_rows(const scene *s) /* b is multiplied by each element of the row */
{
    return th_sum(th_mul(s->dy, th_sum(s->input[X], TH_AXES(1), &(th_reduce_options){.keep_axes = true})), TH_AXES(0),
                  NULL);
}

static th_tensor *dw_with_w(const scene *s)
{
    th_tensor *db = th_sum(s->dy, TH_AXES(0), NULL);
    return th_mul(th_reshape(db, TH_SHAPE(th_numel(db), 1)), s->input[W]);
}

static th_tensor *dx_with_x(const scene *s)
{
    return th_mul(th_sum(s->dy, TH_AXES(1), &(th_reduce_options){.keep_axes = true}), s->input[X]);
}

static th_tensor *dx_mean(const scene *s)
{
    return th_scale(s->gradient[X], 1 / (double)th_size(s->input[W], 0));
}

static const mark_mistake mistakes[] = {
    {X, "dx has the contribution of the last output m only: use += in the loop over m", dx_of_last},
    {W, "dw has the contribution of the last example only: use += in the loop over n", dw_of_last},
    {B, "db has the contribution of the last example only: use += in the loop over n", db_of_last},
    {W, "dw is a mean over the examples, but it must be their sum", dw_mean},
    {B, "db is a mean over the examples, but it must be their sum", db_mean},
    {B, "each dy_nm is added to db E times: db has no index e, so move it out of the loop over e", db_in_inner_loop},
    {X, "dx lacks dy: each w_me must be multiplied by dy_nm", dx_without_dy},
    {W, "dw lacks dy: each x_ne must be multiplied by dy_nm", dw_without_dy},
    {B, "db counts the examples, but it must be the sum of their dy", db_counts},
    {B, "db contains x, but b is added to y: its derivative is 1", db_with_x},
    {B, "db contains x, but b is added to y: its derivative is 1", db_with_rows},
    {W, "dw contains w, but the derivative of x w with respect to w is x", dw_with_w},
    {X, "dx contains x, but the derivative of x w with respect to x is w", dx_with_x},
    {X, "dx is a mean over the outputs m, but it must be their sum", dx_mean},
    {.sentence = NULL},
};

#define SIZES(N, E, M)                                                                                                 \
    {.shape = TH_SIZES(N, E)}, {.shape = TH_SIZES(M, E)},                                                              \
    {                                                                                                                  \
        .shape = TH_SIZES(M)                                                                                           \
    }
static const double x_values[] = {1, 2, 3, 4}, w_values[] = {1, 0, 2, -1, 3, 1}, b_values[] = {0, 0, 0};

static const mark_check checks[] = {
    {.name = "small whole numbers", .input = {SIZES(2, 2, 3)}, .values = {x_values, w_values, b_values}},
    {.name = "random numbers", .input = {SIZES(4, 3, 2)}},
    {.name = "only dw is needed", .input = {SIZES(3, 2, 4)}, .requested = TH_INPUT(W)},
    {.name = "gradients that must be added", .input = {SIZES(2, 3, 4)}, .add = true},
    {.name = "strided memory", .input = {SIZES(3, 4, 2)}, .strided = true},
    {.name = "no examples", .input = {SIZES(0, 3, 2)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1, LONG + 2)}},
    {.name = NULL},
};

const mark_subject dense_subject = {
    .name = "dense",
    .title = "backward of a dense layer",
    .n_inputs = 3,
    .n_outputs = 1,
    .input_name = {"x", "w", "b"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};
