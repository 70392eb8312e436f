/* Exercise 3: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { X, S };

static void compute(scene *s)
{
    s->output[0] = th_mul(s->input[X], s->input[S]);
}

static th_tensor *ds_of_last(const scene *s)
{
    const int64_t N = th_size(s->input[X], 0);
    return th_slice(th_mul(s->dy, s->input[X]), 0, N - 1, N, 1);
}

static th_tensor *ds_mean(const scene *s)
{
    return th_scale(s->gradient[S], 1 / (double)th_size(s->input[X], 0));
}

static th_tensor *ds_without_x(const scene *s)
{
    return th_sum(s->dy, TH_AXES(0), NULL);
}

static th_tensor *dx_with_x(const scene *s)
{
    return th_mul(s->dy, s->input[X]);
}

static th_tensor *dx_without_s(const scene *s)
{
    return s->dy;
}

static th_tensor *ds_with_s(const scene *s)
{
    return th_mul(th_sum(s->dy, TH_AXES(0), NULL), s->input[S]);
}

static const mark_mistake mistakes[] = {
    {S, "ds has the contribution of the last row only: s is in every row, so use +=", ds_of_last},
    {S, "ds is a mean over the rows, but broadcasting forward means summing backward", ds_mean},
    {S, "ds lacks x: each dy_ne must be multiplied by x_ne", ds_without_x},
    {X, "dx contains x, but the derivative of x s with respect to x is s", dx_with_x},
    {X, "dx lacks s: each dy_ne must be multiplied by s_e", dx_without_s},
    {S, "ds contains s, but the derivative of x s with respect to s is x", ds_with_s},
    {.sentence = NULL},
};

#define SIZES(N, E)                                                                                                    \
    {.shape = TH_SIZES(N, E)},                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(E)                                                                                           \
    }
static const double x_values[] = {1, 2, 3, 4, 5, 6}, s_values[] = {10, -1};

static const mark_check checks[] = {
    {.name = "small whole numbers", .input = {SIZES(3, 2)}, .values = {x_values, s_values}},
    {.name = "random numbers", .input = {SIZES(2, 5)}},
    {.name = "only dx is needed", .input = {SIZES(3, 2)}, .requested = TH_INPUT(X)},
    {.name = "only ds is needed", .input = {SIZES(3, 2)}, .requested = TH_INPUT(S)},
    {.name = "gradients that must be added", .input = {SIZES(2, 3)}, .add = true},
    {.name = "transposed, spaced and reversed memory", .input = {SIZES(3, 4)}, .strided = true},
    {.name = "a square in strided memory", .input = {SIZES(3, 3)}, .strided = true},
    {.name = "no rows", .input = {SIZES(0, 3)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 1)}},
    {.name = NULL},
};

const mark_subject broadcast_subject = {
    .name = "broadcast",
    .title = "backward of a multiplication with broadcast",
    .n_inputs = 2,
    .n_outputs = 1,
    .input_name = {"x", "s"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};
