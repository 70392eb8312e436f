/* Exercise 1: the right results, the checks, and typical mistakes (marker.h). */
#include "marker.h"

enum { A, B };

static void compute(scene *s)
{
    s->output[0] = th_mul(s->input[A], s->input[B]);
}

static th_tensor *dy_times_a(const scene *s)
{
    return th_mul(s->dy, s->input[A]);
}

static th_tensor *dy_times_b(const scene *s)
{
    return th_mul(s->dy, s->input[B]);
}

static th_tensor *only_a(const scene *s)
{
    return s->input[A];
}

static th_tensor *only_b(const scene *s)
{
    return s->input[B];
}

static th_tensor *only_dy(const scene *s)
{
    return s->dy;
}

static th_tensor *dy_plus_b(const scene *s)
{
    return th_add(s->dy, s->input[B]);
}

static th_tensor *dy_over_b(const scene *s)
{
    return th_div(s->dy, s->input[B]);
}

static th_tensor *dy_times_y(const scene *s)
{
    return th_mul(s->dy, s->output[0]);
}

static const mark_mistake mistakes[] = {
    {A, "da contains a, but the derivative of a b with respect to a is b", dy_times_a},
    {B, "db contains b, but the derivative of a b with respect to b is a", dy_times_b},
    {A, "da is dy/da alone: multiply it by dy, the gradient of y", only_b},
    {B, "db is dy/db alone: multiply it by dy, the gradient of y", only_a},
    {A, "da is dy alone: multiply it by the derivative of y with respect to a", only_dy},
    {B, "db is dy alone: multiply it by the derivative of y with respect to b", only_dy},
    {A, "da adds dy and b, but the chain rule multiplies them", dy_plus_b},
    {A, "da is divided by b, but the derivative of a b with respect to a is b: multiply by it", dy_over_b},
    {A, "da contains y = a b, but the derivative of a b with respect to a is b", dy_times_y},
    {B, "db contains y = a b, but the derivative of a b with respect to b is a", dy_times_y},
    {.sentence = NULL},
};

#define NUMBERS(count)                                                                                                 \
    {.shape = TH_SIZES(count)},                                                                                        \
    {                                                                                                                  \
        .shape = TH_SIZES(count)                                                                                       \
    }
static const double a_values[] = {1, 2, 3}, b_values[] = {5, -1, 0.5};

static const mark_check checks[] = {
    {.name = "three numbers with dy = 1", .input = {NUMBERS(3)}, .values = {a_values, b_values}, .ones = true},
    {.name = "random numbers and dy", .input = {NUMBERS(6)}},
    {.name = "only da is needed", .input = {NUMBERS(4)}, .requested = TH_INPUT(A)},
    {.name = "only db is needed", .input = {NUMBERS(4)}, .requested = TH_INPUT(B)},
    {.name = "gradients that must be added", .input = {NUMBERS(4)}, .add = true},
    {.name = "strided memory", .input = {NUMBERS(5)}, .strided = true},
    {.name = "no elements", .input = {{.shape = TH_SIZES(0)}, {.shape = TH_SIZES(0)}}},
    {.name = LARGE, .input = {NUMBERS(LONG)}},
    {.name = NULL},
};

const mark_subject multiply_subject = {
    .name = "multiply",
    .title = "backward of a multiplication",
    .n_inputs = 2,
    .n_outputs = 1,
    .input_name = {"a", "b"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};
