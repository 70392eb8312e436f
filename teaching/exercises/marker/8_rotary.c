/* Exercise 8: the right results, the checks, and typical mistakes (marker.h). */
#include <math.h>

#include "marker.h"

enum { X, POSITION };

static void compute(scene *s)
{
    s->output[0] =
        th_rotary(s->input[X], &(th_rotary_options){.pairing = TH_ROTARY_NEIGHBORS, .positions = s->input[POSITION]});
}

static th_tensor *forward_again(const scene *s) /* rotates dy as forward rotates x */
{
    return th_rotary(s->dy, &(th_rotary_options){.pairing = TH_ROTARY_NEIGHBORS, .positions = s->input[POSITION]});
}

/* Rotates dy back. The pairs are (2 i, 2 i + 1) or (i, i + D / 2). The angle is computed from a row's position or from its
 * index. The last two arguments are factors of the sines. */
static th_tensor *rotated(const scene *s, bool halves, bool by_index, double u_sine, double v_sine)
{
    const int64_t T = th_size(s->dy, 0), D = th_size(s->dy, 1);
    const int64_t *position = th_data_const(s->input[POSITION]);
    const double *dy = th_data_const(s->dy);
    th_tensor *gradient = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, D));
    double *dx = th_data(gradient);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < D / 2; i++) {
            const int64_t u = t * D + (halves ? i : 2 * i), v = t * D + (halves ? i + D / 2 : 2 * i + 1);
            const double f = (double)(by_index ? t : position[t]) * pow(10000, -2 * (double)i / (double)D);
            dx[u] = dy[u] * cos(f) + u_sine * dy[v] * sin(f);
            dx[v] = v_sine * dy[u] * sin(f) + dy[v] * cos(f);
        }
    return gradient;
}

static th_tensor *paired_halves(const scene *s)
{
    return th_size(s->dy, 1) > 2 ? rotated(s, true, false, 1, -1) : NULL;
}

static th_tensor *by_index(const scene *s)
{
    return rotated(s, false, true, 1, -1);
}

static th_tensor *both_plus(const scene *s)
{
    return rotated(s, false, false, 1, 1);
}

static th_tensor *both_minus(const scene *s)
{
    return rotated(s, false, false, -1, -1);
}

static th_tensor *own_element_only(const scene *s)
{
    return rotated(s, false, false, 0, 0);
}

static th_tensor *unrotated(const scene *s)
{
    return s->dy;
}

/* Returns dx if du and dv are multiplied by these functions of the angle, and the angle is changed. */
typedef void pair_rule(double angle, double du, double dv, double *dx);
static th_tensor *pairs_with(const scene *s, pair_rule *rule, double factor, double frequency, int64_t shift)
{
    const int64_t T = th_size(s->dy, 0), D = th_size(s->dy, 1);
    const int64_t *position = th_data_const(s->input[POSITION]);
    const double *dy = th_data_const(s->dy);
    th_tensor *gradient = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(T, D));
    double *dx = th_data(gradient);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < D / 2; i++) {
            const int64_t u = t * D + 2 * i;
            const double power = pow(10000, -2 * frequency * (double)i / (double)D);
            rule(factor * (double)(position[t] + shift) * power, dy[u], dy[u + 1], &dx[u]);
        }
    return gradient;
}

static void right_rule(double f, double du, double dv, double *dx)
{
    dx[0] = du * cos(f) + dv * sin(f);
    dx[1] = -du * sin(f) + dv * cos(f);
}

static void exchanged_rule(double f, double du, double dv, double *dx)
{
    right_rule(f, du, dv, dx);
    const double first = dx[0];
    dx[0] = dx[1];
    dx[1] = first;
}

static void in_place_rule(double f, double du, double dv, double *dx)
{
    dx[0] = du * cos(f) + dv * sin(f);
    dx[1] = -dx[0] * sin(f) + dv * cos(f);
}

static void exchanged_functions_rule(double f, double du, double dv, double *dx)
{
    dx[0] = du * sin(f) + dv * cos(f);
    dx[1] = -du * cos(f) + dv * sin(f);
}

static th_tensor *exchanged(const scene *s)
{
    return pairs_with(s, exchanged_rule, 1, 1, 0);
}

static th_tensor *in_place(const scene *s)
{
    return s->add ? NULL : pairs_with(s, in_place_rule, 1, 1, 0);
}

static th_tensor *exchanged_functions(const scene *s)
{
    return pairs_with(s, exchanged_functions_rule, 1, 1, 0);
}

static th_tensor *degrees(const scene *s)
{
    return pairs_with(s, right_rule, acos(-1) / 180, 1, 0);
}

static th_tensor *to_degrees(const scene *s)
{
    return pairs_with(s, right_rule, 180 / acos(-1), 1, 0);
}

static th_tensor *twice_the_pair(const scene *s)
{
    return th_size(s->dy, 1) > 2 ? pairs_with(s, right_rule, 1, 2, 0) : NULL;
}

static th_tensor *next_position(const scene *s)
{
    return pairs_with(s, right_rule, 1, 1, 1);
}

static const mark_mistake mistakes[] = {
    {X, "dy is rotated in the same direction as x: backward rotates by the opposite angle", forward_again},
    {X, "the pairs are (i, i + D / 2), but here they are (2 i, 2 i + 1)", paired_halves},
    {X, "the angle contains the index t of the row: use integer_at(position, t)", by_index},
    {X, "both sines are added: the transpose of a rotation has one sine with a minus", both_plus},
    {X, "both sines are subtracted: the transpose of a rotation has one sine with a plus", both_minus},
    {X, "the sines are missing: u and v each influence both elements of y", own_element_only},
    {X, "dx is dy: it is not rotated", unrotated},
    {X, "the two elements of each pair are exchanged: du cos + dv sin belongs to element 2 i", exchanged},
    {X, "element 2 i + 1 uses dx of element 2 i, which was just written: it needs dy of element 2 i", in_place},
    {X, "sine and cosine are exchanged: du cos + dv sin, and -du sin + dv cos", exchanged_functions},
    {X, "the angle is converted from degrees, but it is in radians, as sin and cos need it", degrees},
    {X, "the angle is converted to degrees, but it is in radians, as sin and cos need it", to_degrees},
    {X, "angle() gets 2 i, but it takes the pair's number i", twice_the_pair},
    {X, "the position has 1 added to it: use integer_at(position, t) as it is", next_position},
    {.sentence = NULL},
};

#define SIZES(T, D)                                                                                                    \
    {.shape = TH_SIZES(T, D)},                                                                                         \
    {                                                                                                                  \
        .shape = TH_SIZES(T), .kind = TH_SAMPLE_INDEX, .low = 1, .high = 9                                             \
    }
static const double one_to_three[] = {1, 2, 3}, any_order[] = {5, 0, 5, 2}, far[] = {100000, 31415};

static const mark_check checks[] = {
    {.name = "positions 1, 2 and 3", .input = {SIZES(3, 2)}, .values = {NULL, one_to_three}},
    {.name = "random numbers", .input = {SIZES(3, 6)}},
    {.name = "positions in any order", .input = {SIZES(4, 4)}, .values = {NULL, any_order}},
    {.name = "a gradient that must be added", .input = {SIZES(2, 4)}, .add = true},
    {.name = "strided memory", .input = {SIZES(3, 4)}, .strided = true},
    {.name = "far positions", .input = {SIZES(2, 4)}, .values = {NULL, far}},
    {.name = "no rows", .input = {SIZES(0, 4)}},
    {.name = LARGE, .input = {SIZES(LONG, 2 * LONG)}},
    {.name = NULL},
};

const mark_subject rotary_subject = {
    .name = "rotary",
    .title = "backward of rotary positions",
    .n_inputs = 2,
    .n_outputs = 1,
    .input_name = {"x", "position"},
    .output_name = {"y"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
};
