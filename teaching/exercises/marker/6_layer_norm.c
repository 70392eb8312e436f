/* Exercise 6: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { X, W, B };
static const double EPS = 1e-5;

static void compute(scene *s)
{
    const th_norm_options options = {.weight = s->input[W], .bias = s->input[B], .eps = EPS};
    s->output[0] = th_layer_norm(s->input[X], &options);
}

/* -- the parts of the formula, (N, E) or (N, 1) -- */

static th_tensor *row_mean(th_tensor *t)
{
    return th_mean(t, TH_AXES(1), &(th_reduce_options){.keep_axes = true});
}

static th_tensor *centered(const scene *s)
{
    return th_sub(s->input[X], row_mean(s->input[X]));
}

static th_tensor *r(const scene *s)
{
    th_tensor *difference = centered(s);
    return th_rsqrt(th_add_scalar(row_mean(th_mul(difference, difference)), EPS));
}

static th_tensor *h(const scene *s)
{
    return th_mul(centered(s), r(s));
}

static th_tensor *g(const scene *s)
{
    return th_mul(s->dy, s->input[W]);
}

/* r (g - a mean(g) - b h mean(g h)): the right dx has a = b = 1. */
static th_tensor *dx_of(const scene *s, th_tensor *g_, double a, double b)
{
    th_tensor *sum = th_sub(g_, th_scale(row_mean(g_), a));
    return th_mul(r(s), th_sub(sum, th_scale(th_mul(h(s), row_mean(th_mul(g_, h(s)))), b)));
}

/* -- mistakes -- */

static th_tensor *only_direct(const scene *s)
{
    return dx_of(s, g(s), 0, 0);
}

static th_tensor *without_mean(const scene *s)
{
    return dx_of(s, g(s), 0, 1);
}

static th_tensor *without_variance(const scene *s)
{
    return dx_of(s, g(s), 1, 0);
}

static th_tensor *sums_not_means(const scene *s)
{
    const double E = (double)th_size(s->input[X], 1);
    return dx_of(s, g(s), E, E);
}

/* A sum that is assigned in its loop is its last term. */
static th_tensor *last_of(th_tensor *t)
{
    const int64_t E = th_size(t, 1);
    return th_scale(th_slice(t, 1, E - 1, E, 1), 1 / (double)E);
}

static th_tensor *last_g(const scene *s)
{
    return th_mul(r(s), th_sub(th_sub(g(s), last_of(g(s))), th_mul(h(s), row_mean(th_mul(g(s), h(s))))));
}

static th_tensor *last_gh(const scene *s)
{
    return th_mul(r(s), th_sub(th_sub(g(s), row_mean(g(s))), th_mul(h(s), last_of(th_mul(g(s), h(s))))));
}

static th_tensor *without_w(const scene *s)
{
    return dx_of(s, s->dy, 1, 1);
}

static th_tensor *without_r(const scene *s)
{
    return th_div(s->gradient[X], r(s));
}

static th_tensor *divided_by_r(const scene *s)
{
    return th_div(th_div(s->gradient[X], r(s)), r(s));
}

static th_tensor *centered_for_h(const scene *s)
{
    th_tensor *g_ = g(s), *h_ = centered(s);
    return th_mul(r(s), th_sub(th_sub(g_, row_mean(g_)), th_mul(h_, row_mean(th_mul(g_, h_)))));
}

static th_tensor *without_h(const scene *s) /* mean(g h) is not multiplied by h */
{
    th_tensor *g_ = g(s);
    return th_mul(r(s), th_sub(th_sub(g_, row_mean(g_)), row_mean(th_mul(g_, h(s)))));
}

static th_tensor *r_as_deviation(const scene *s)
{
    th_tensor *g_ = g(s), *h_ = th_div(centered(s), r(s));
    th_tensor *difference = th_sub(th_sub(g_, row_mean(g_)), th_mul(h_, row_mean(th_mul(g_, h_))));
    return th_div(difference, r(s));
}

static th_tensor *means_of_dy(const scene *s)
{
    th_tensor *means = th_add(row_mean(s->dy), th_mul(h(s), row_mean(th_mul(s->dy, h(s)))));
    return th_mul(r(s), th_sub(g(s), means));
}

/* Returns (1/E) times the sum of the elements 0 to e of the row, at each e. */
static th_tensor *unfinished_mean(th_tensor *t)
{
    const int64_t E = th_size(t, 1);
    th_tensor *upper = th_zeros(th_context_of(t), TH_FLOAT64, TH_SHAPE(E, E));
    double *u = th_data(upper);
    for (int64_t i = 0; i < E * E; i++)
        u[i] = i / E <= i % E ? 1 / (double)E : 0;
    return th_matmul(t, upper);
}

static th_tensor *unfinished_sums(const scene *s) /* one loop adds to the sums and computes dx */
{
    th_tensor *g_ = g(s);
    th_tensor *means = th_add(unfinished_mean(g_), th_mul(h(s), unfinished_mean(th_mul(g_, h(s)))));
    return th_mul(r(s), th_sub(g_, means));
}

static th_tensor *dw_as_db(const scene *s)
{
    return th_sum(s->dy, TH_AXES(0), NULL);
}

static th_tensor *dw_with_centered(const scene *s)
{
    return th_sum(th_mul(s->dy, centered(s)), TH_AXES(0), NULL);
}

static th_tensor *dw_with_x(const scene *s)
{
    return th_sum(th_mul(s->dy, s->input[X]), TH_AXES(0), NULL);
}

static th_tensor *dw_divided_by_r(const scene *s)
{
    return th_sum(th_mul(s->dy, th_div(centered(s), r(s))), TH_AXES(0), NULL);
}

static th_tensor *dw_of_g(const scene *s)
{
    return th_mul(s->gradient[W], s->input[W]);
}

static th_tensor *db_of_g(const scene *s)
{
    return th_mul(s->gradient[B], s->input[W]);
}

static th_tensor *last_row(th_tensor *t)
{
    const int64_t N = th_size(t, 0);
    return th_slice(t, 0, N - 1, N, 1);
}

static th_tensor *dw_of_last(const scene *s)
{
    return last_row(th_mul(s->dy, h(s)));
}

static th_tensor *db_of_last(const scene *s)
{
    return last_row(s->dy);
}

#define R_AS_DEVIATION "r is used as the standard deviation, but r is 1 / sqrt(variance + EPS): h_e = (x_e - mean) r"

static th_tensor *mean_of_dy(const scene *s)
{
    return th_mul(r(s), th_sub(th_sub(g(s), row_mean(s->dy)), th_mul(h(s), row_mean(th_mul(g(s), h(s))))));
}

static th_tensor *mean_of_dy_h(const scene *s)
{
    return th_mul(r(s), th_sub(th_sub(g(s), row_mean(g(s))), th_mul(h(s), row_mean(th_mul(s->dy, h(s))))));
}

static th_tensor *sum_of_g(const scene *s)
{
    return dx_of(s, g(s), (double)th_size(s->input[X], 1), 1);
}

static th_tensor *sum_of_gh(const scene *s)
{
    return dx_of(s, g(s), 1, (double)th_size(s->input[X], 1));
}

static th_tensor *r_twice(const scene *s)
{
    return th_mul(s->gradient[X], r(s));
}

static th_tensor *opposite_variance(const scene *s)
{
    return dx_of(s, g(s), 1, -1);
}

static th_tensor *opposite_mean(const scene *s)
{
    return dx_of(s, g(s), -1, 1);
}

static th_tensor *dw_with_r(const scene *s)
{
    return th_sum(th_mul(th_mul(s->dy, h(s)), r(s)), TH_AXES(0), NULL);
}

static th_tensor *db_with_h(const scene *s)
{
    return th_sum(th_mul(s->dy, h(s)), TH_AXES(0), NULL);
}

static const mark_mistake mistakes[] = {
    {X, "dx has the direct contribution only: x_e also influences the row's mean and r", only_direct},
    {X, "the contribution through the mean is missing: subtract the mean of g", without_mean},
    {X, "the contribution through r is missing: subtract h_e times the mean of g h", without_variance},
    {X, "the sums over the row are not divided by E", sums_not_means},
    {X, "the sum of g over the row is its last term only: use +=", last_g},
    {X, "the sum of g h over the row is its last term only: use +=", last_gh},
    {X, "dx lacks w: start with g_e = dy_e w_e, not with dy_e", without_w},
    {X, "dx lacks the factor r, the derivative of h with respect to x - mean", without_r},
    {X, "dx is divided by r, but r is 1 / sqrt(variance + EPS): multiply by it", divided_by_r},
    {X, "h is x - mean without its factor r: h_e = (x_e - mean) r", centered_for_h},
    {X, "the mean of g h is not multiplied by h_e", without_h},
    {X, R_AS_DEVIATION, r_as_deviation},
    {X, "the two means contain dy, but they are the means of g and of g h", means_of_dy},
    {X, "dx uses the sums over the row before they are complete: finish them in a separate loop first",
     unfinished_sums},
    {W, "dw is db: each dy_ne must be multiplied by h_ne", dw_as_db},
    {W, "dw contains x, but w is multiplied by h, the normalized x", dw_with_x},
    {W, "h is x - mean without its factor r: h_e = (x_e - mean) r", dw_with_centered},
    {W, R_AS_DEVIATION, dw_divided_by_r},
    {W, "dw contains w: it sums dy_ne h_ne, not g_ne h_ne", dw_of_g},
    {B, "db contains w: it sums dy_ne, not g_ne", db_of_g},
    {W, "dw has the contribution of the last row only: use +=", dw_of_last},
    {B, "db has the contribution of the last row only: use +=", db_of_last},
    {X, "the mean that is subtracted contains dy, but it is the mean of g = dy w", mean_of_dy},
    {X, "the mean in the term with h contains dy h, but it is the mean of g h with g = dy w", mean_of_dy_h},
    {X, "the sum of g is not divided by E", sum_of_g},
    {X, "the sum of g h is not divided by E", sum_of_gh},
    {X, "dx contains the factor r twice: one r is in front of the bracket, and h contains its own", r_twice},
    {X, "the term with h is added, but it must be subtracted", opposite_variance},
    {X, "the mean of g is added, but it must be subtracted", opposite_mean},
    {W, "dw contains r twice: h already contains it", dw_with_r},
    {B, "db contains h, but b is added to y: its derivative is 1", db_with_h},
    {.sentence = NULL},
};

#define SIZES(N, E)                                                                                                    \
    {.shape = TH_SIZES(N, E)}, {.shape = TH_SIZES(E)},                                                                 \
    {                                                                                                                  \
        .shape = TH_SIZES(E)                                                                                           \
    }
static const double x_values[] = {1, 2, 3, -1, 0, 4}, w_values[] = {1, 2, -1}, b_values[] = {0, 0, 0};
static const double flat[] = {3, 3, 3, 3, -2, -2, -2, -2};
static const double high[] = {1001, 1002, 1004, 999, 2000, 2003, 1999, 2001};

static const mark_check checks[] = {
    {.name = "two small rows", .input = {SIZES(2, 3)}, .values = {x_values, w_values, b_values}},
    {.name = "random numbers", .input = {SIZES(3, 5)}},
    {.name = "only dx is needed", .input = {SIZES(2, 4)}, .requested = TH_INPUT(X)},
    {.name = "only dw is needed", .input = {SIZES(3, 4)}, .requested = TH_INPUT(W)},
    {.name = "gradients that must be added", .input = {SIZES(3, 4)}, .add = true},
    {.name = "strided memory", .input = {SIZES(3, 4)}, .strided = true},
    {.name = "rows of equal numbers", .input = {SIZES(2, 4)}, .values = {flat}},
    {.name = "rows with a large mean", .input = {SIZES(2, 4)}, .values = {high}},
    {.name = "no rows", .input = {SIZES(0, 3)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1)}},
    {.name = NULL},
};

const mark_subject layer_norm_subject = {
    .name = "layer_norm",
    .title = "backward of layer norm",
    .n_inputs = 3,
    .n_outputs = 1,
    .input_name = {"x", "w", "b"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
    .step = {{"h", h}, {"g = dy w", g}, {"r", r}},
};
