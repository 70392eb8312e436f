/* Exercise 0: the right results, the checks, and typical mistakes (marker.h). */
#include <math.h>

#include "marker.h"

enum { X, KIND, LEFT_OPERAND, RIGHT_OPERAND };
enum { ADD, MULTIPLY, TANH, MOST = 128 };

static const int64_t *integers(const scene *s, int input)
{
    return th_data_const(s->input[input]);
}

/* Value n of the tape, as a tensor of one element. */
static th_tensor *leaf(const scene *s, int64_t n)
{
    return th_slice(s->input[X], 0, n, n + 1, 1);
}

static void compute(scene *s)
{
    const int64_t N = th_numel(s->input[X]), M = th_numel(s->input[KIND]);
    const int64_t *kind = integers(s, KIND), *left = integers(s, LEFT_OPERAND), *right = integers(s, RIGHT_OPERAND);
    th_tensor *value[MOST];
    for (int64_t n = 0; n < N; n++)
        value[n] = leaf(s, n);
    for (int64_t m = 0; m < M; m++) {
        th_tensor *a = value[N + m - 1 - left[m]], *b = value[N + m - 1 - right[m]];
        value[N + m] = kind[m] == ADD ? th_add(a, b) : kind[m] == MULTIPLY ? th_mul(a, b) : th_tanh(a);
    }
    s->output[0] = th_reshape(value[N + M - 1], TH_SCALAR);
    s->output[1] = th_zeros(s->ctx, TH_FLOAT64, TH_SHAPE(N + M));
    double *all = th_data(s->output[1]);
    for (int64_t n = 0; all && n < N + M; n++)
        all[n] = th_item(value[n]);
}

/* -- backward, with a mistake -- */

typedef enum slip {
    NO_MISTAKE,
    OVERWRITES,     /* = instead of += */
    FIRST_TO_LAST,  /* visits the operations in the wrong order */
    OWN_FACTOR,     /* the derivative of a product with respect to a is a */
    NO_FACTOR,      /* it is 1 */
    TANH_UNCHANGED, /* the derivative of tanh is 1 */
    TANH_OF_OPERAND,
    TANH_PLUS,
    STARTS_WITH_1,
    LEFT_ONLY, /* of an addition or a product */
} slip;

typedef struct walk {
    const double *value;
    double gradient[MOST];
    slip m;
} walk;

static void give(walk *w, int64_t to, double term)
{
    w->gradient[to] = w->m == OVERWRITES ? term : w->gradient[to] + term;
}

static void visit(walk *w, int64_t kind, int64_t result, int64_t a, int64_t b)
{
    const double g = w->gradient[result], *v = w->value;
    const double slope_at = w->m == TANH_OF_OPERAND ? v[a] : v[result];
    if (kind == TANH) {
        give(w, a,
             w->m == TANH_UNCHANGED ? g
             : w->m == TANH_PLUS    ? g * (1 + slope_at * slope_at)
                                    : g * (1 - slope_at * slope_at));
        return;
    }
    const bool product = kind == MULTIPLY && w->m != NO_FACTOR;
    give(w, a, product ? g * v[w->m == OWN_FACTOR ? a : b] : g);
    if (w->m != LEFT_ONLY)
        give(w, b, product ? g * v[w->m == OWN_FACTOR ? b : a] : g);
}

static th_tensor *backward_with(const scene *s, slip what)
{
    const int64_t N = th_numel(s->input[X]), M = th_numel(s->input[KIND]);
    const int64_t *kind = integers(s, KIND), *left = integers(s, LEFT_OPERAND), *right = integers(s, RIGHT_OPERAND);
    walk w = {.value = th_data_const(s->output[1]), .m = what};
    th_tensor *result = th_zeros(s->ctx, TH_FLOAT64, th_shape_of(s->input[X]));
    double *dx = th_data(result);
    w.gradient[N + M - 1] = what == STARTS_WITH_1 ? 1 : th_item(s->dy);
    for (int64_t i = 0; i < M; i++) {
        const int64_t m = what == FIRST_TO_LAST ? i : M - 1 - i, last = N + m - 1;
        visit(&w, kind[m], N + m, last - left[m], last - right[m]);
    }
    for (int64_t n = 0; n < N; n++)
        dx[n] = w.gradient[n];
    return result;
}

#define WITH(name, mistake)                                                                                            \
    static th_tensor *name(const scene *s)                                                                             \
    {                                                                                                                  \
        return backward_with(s, mistake);                                                                              \
    }
WITH(overwrites, OVERWRITES)
WITH(first_to_last, FIRST_TO_LAST)
WITH(own_factor, OWN_FACTOR)
WITH(no_factor, NO_FACTOR)
WITH(tanh_unchanged, TANH_UNCHANGED)
WITH(tanh_of_operand, TANH_OF_OPERAND)
WITH(tanh_plus, TANH_PLUS)
WITH(starts_with_1, STARTS_WITH_1)
WITH(left_only, LEFT_ONLY)

static th_tensor *all_gradients(const scene *s)
{
    const int64_t N = th_numel(s->input[X]), M = th_numel(s->input[KIND]);
    const int64_t *kind = integers(s, KIND), *left = integers(s, LEFT_OPERAND), *right = integers(s, RIGHT_OPERAND);
    walk w = {.value = th_data_const(s->output[1])};
    w.gradient[N + M - 1] = th_item(s->dy);
    for (int64_t m = M - 1; m >= 0; m--)
        visit(&w, kind[m], N + m, N + m - 1 - left[m], N + m - 1 - right[m]);
    return th_from_data(s->ctx, TH_FLOAT64, TH_SHAPE(N + M), w.gradient);
}

static const mark_mistake mistakes[] = {
    {X,
     "a value that is used several times gets the term of one use only: each use adds its term, with +=", overwrites},
    {X,
     "the operations are visited from first to last, so a gradient is passed on before it is complete: visit the last "
     "one "
     "first",
     first_to_last},
    {X, "the derivative of a product with respect to a factor is the other factor, not the factor itself", own_factor},
    {X, "a product passes its gradient on unchanged, but each operand's term has the other factor", no_factor},
    {X, "tanh passes its gradient on unchanged, but its derivative is 1 - value²", tanh_unchanged},
    {X, "the derivative of tanh is 1 - value² with the value of the result, not of the operand", tanh_of_operand},
    {X, "the derivative of tanh is 1 - value², not 1 + value²", tanh_plus},
    {X, "the gradient of the last value is 1 instead of dy", starts_with_1},
    {X, "only the left operand of an operation gets its term: add one to the gradient of b too", left_only},
    {.sentence = NULL},
};

#define SIZES(N, M, BACK)                                                                                              \
    {.shape = TH_SIZES(N)}, {.shape = TH_SIZES(M), .kind = TH_SAMPLE_INDEX, .high = 3},                                \
        {.shape = TH_SIZES(M), .kind = TH_SAMPLE_INDEX, .high = BACK},                                                 \
    {                                                                                                                  \
        .shape = TH_SIZES(M), .kind = TH_SAMPLE_INDEX, .high = BACK                                                    \
    }

/* Lesson 0: u = w x, v = u u, L = v + u. */
static const double lesson_x[] = {2, 1.5}, lesson_kind[] = {MULTIPLY, MULTIPLY, ADD}, lesson_left[] = {1, 0, 0},
                    lesson_right[] = {0, 0, 1};
/* Two operations with tanh between: y = tanh(x0 x1) x0. */
static const double chain_x[] = {0.5, 2}, chain_kind[] = {MULTIPLY, TANH, MULTIPLY}, chain_left[] = {1, 0, 0},
                    chain_right[] = {0, 1, 3};
static const double never_x[] = {0.5, -1, 0.25}, never_kind[] = {ADD, MULTIPLY}, never_left[] = {2, 0},
                    never_right[] = {1, 0};

static const mark_check checks[] = {
    {.name = "the tape of lesson 0",
     .input = {SIZES(2, 3, 2)},
     .values = {lesson_x, lesson_kind, lesson_left, lesson_right},
     .ones = true},
    {.name = "tanh of a product, times x0",
     .input = {SIZES(2, 3, 2)},
     .values = {chain_x, chain_kind, chain_left, chain_right}},
    {.name = "a leaf and a value that are never used",
     .input = {SIZES(3, 2, 2)},
     .values = {never_x, never_kind, never_left, never_right}},
    {.name = "random operations", .input = {SIZES(3, 8, 3)}},
    {.name = "a gradient that must be added", .input = {SIZES(3, 6, 3)}, .add = true},
    {.name = "strided memory", .input = {SIZES(4, 7, 4)}, .strided = true},
    {.name = "no operations", .input = {SIZES(3, 0, 1)}},
    {.name = LARGE, .input = {SIZES(LONG, LONG + 3, LONG)}},
    {.name = NULL},
};

const mark_subject tape_subject = {
    .name = "tape",
    .title = "backward of a tape",
    .n_inputs = 4,
    .n_outputs = 2,
    .input_name = {"x", "kind", "left", "right"},
    .output_name = {"y", "value"},
    .compute = compute,
    .checks = checks,
    .mistakes = mistakes,
    .step = {{"gradient of every value", all_gradients}},
};
