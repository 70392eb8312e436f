/* Lines that compute element by element: functions of one operand, of two that broadcast, comparisons, where, casts,
 * dropout. */
#include <string.h>

#include "kinds.h"

/* -- one operand -- */

typedef th_tensor *unary_function(th_tensor *x);
typedef struct unary {
    const char *name;
    unary_function *function;
    enum { ANY, BOUNDED, POSITIVE } domain;
} unary;

/* The macros of the public headers record the caller's line; these names are the functions. */
#define UNARY(name, domain)                                                                                            \
    {                                                                                                                  \
#name, (th_##name), domain                                                                                     \
    }
static const unary unaries[] = {
    UNARY(neg, ANY),       UNARY(tanh, ANY),       UNARY(sigmoid, ANY),    UNARY(relu, ANY),
    UNARY(gelu, ANY),      UNARY(gelu_tanh, ANY),  UNARY(silu, ANY),       UNARY(sin, ANY),
    UNARY(cos, ANY),       UNARY(abs, ANY),        UNARY(exp, BOUNDED),    UNARY(log, POSITIVE),
    UNARY(sqrt, POSITIVE), UNARY(rsqrt, POSITIVE), UNARY(contiguous, ANY), UNARY(relu_squared, BOUNDED),
    UNARY(softplus, ANY),
};
enum { UNARIES = sizeof unaries / sizeof *unaries };

static bool decode_unary(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 0, 6));
    if (x == NULL)
        return false;
    l->n[0] = draw(d, UNARIES);
    l->n[1] = !chance(d, 12); /* inside its domain */
    snprintf(l->label, LABEL, "%s%s", unaries[l->n[0]].name, l->n[1] ? "" : " of any number");
    return add_output(d, REAL, x->shape);
}

static void build_unary(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const unary *u = &unaries[l->n[0]];
    th_tensor *x = in[0];
    if (l->n[1] && u->domain == POSITIVE)
        x = th_add_scalar(th_mul(x, x), 0.25);
    if (l->n[1] && u->domain == BOUNDED)
        x = th_scale(th_tanh(x), 2);
    out[0] = r->s->composed && strcmp(u->name, "silu") == 0 ? th_mul(x, th_sigmoid(x)) : u->function(x);
}

static bool decode_with_number(decoder *d, line *l)
{
    static const char *const names[] = {"scale", "add_scalar", "pow_scalar", "clamp"};
    static const double numbers[] = {0.5, -1.25, 2, 3, 1, 0, -0.5};
    const value *x = add_operand(d, real_operand(d, 0, 6));
    if (x == NULL)
        return false;
    l->n[0] = draw(d, 4);
    l->x[0] = numbers[draw(d, 7)];
    snprintf(l->label, LABEL, "%s %g", names[l->n[0]], l->x[0]);
    return add_output(d, REAL, x->shape);
}

static void build_with_number(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    th_tensor *x = in[0];
    out[0] = l->n[0] == 0   ? th_scale(x, l->x[0])
             : l->n[0] == 1 ? th_add_scalar(x, l->x[0])
             : l->n[0] == 2
                 ? th_pow_scalar(l->x[0] == 2 || l->x[0] == 3 ? x : th_add_scalar(th_mul(x, x), 0.25), l->x[0])
                 : th_clamp(x, l->x[0] - 0.75, l->x[0] + 0.5);
}

/* -- two operands -- */

/* Sets *y to the broadcast shape of a and b. If an axis loses its meaning, removes its tracks from *tracks. */
static bool broadcast(const shape *a, const shape *b, shape *y, unsigned *tracks)
{
    const int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    *y = (shape){0};
    for (int i = 0; i < ndim; i++) {
        const int ia = i - (ndim - a->ndim), ib = i - (ndim - b->ndim);
        const int64_t sa = ia < 0 ? 1 : a->size[ia], sb = ib < 0 ? 1 : b->size[ib];
        const char la = ia < 0 ? ' ' : a->letter[ia], lb = ib < 0 ? ' ' : b->letter[ib];
        if (sa != sb && sa != 1 && sb != 1)
            return false;
        const char letter = la == lb                            ? la
                            : la != ' ' && sb == 1 && lb == ' ' ? la
                            : lb != ' ' && sa == 1 && la == ' ' ? lb
                                                                : '?';
        if (letter == '?')
            *tracks = 0;
        else if (la != lb && letter != 'B') /* the gradient of one operand is a sum over tokens */
            *tracks &= ~(unsigned)TRIM;
        if (sa != sb && shape_find(sa == 1 ? a : b, 'T') >= 0) /* the order of the sum depends on the tokens */
            *tracks &= ~(unsigned)DOCUMENT;
        if (letter == 'B' && i > 0) /* the order of a sum over earlier axes depends on the size of later ones */
            *tracks = 0;
        *y = shape_add(*y, letter == '?' ? ' ' : letter, sa == 1 ? sb : sa);
    }
    return true;
}

static bool broadcasts_with(const value *v, const void *user)
{
    shape y;
    unsigned tracks = 0;
    return v->content == REAL && broadcast(&v->shape, user, &y, &tracks);
}

/* Returns an operand that broadcasts with a shape: an existing value or a leaf with some of its axes. */
static int partner(decoder *d, const shape *s)
{
    const int found = chance(d, 2) ? find_value(d, broadcasts_with, s) : -1;
    if (found >= 0)
        return found;
    shape y = {0};
    for (int i = (int)draw(d, (uint32_t)s->ndim + 1); i < s->ndim; i++)
        y = chance(d, 3) ? shape_add(y, ' ', 1) : shape_add(y, s->letter[i], s->size[i]);
    return new_leaf(d, REAL, y);
}

typedef th_tensor *binary_function(th_tensor *a, th_tensor *b);
static const struct {
    const char *name;
    binary_function *function;
} binaries[] = {{"add", (th_add)}, {"sub", (th_sub)},         {"mul", (th_mul)},         {"div", (th_div)},
                {"pow", (th_pow)}, {"maximum", (th_maximum)}, {"minimum", (th_minimum)}, {"mse", (th_mse)}};
enum { DIV = 3, POW = 4, MSE = 7, BINARIES = 8 };

/* Chooses two operands that broadcast to *y. */
static bool two_operands(decoder *d, shape *y, unsigned *tracks)
{
    const int first = real_operand(d, 0, 5);
    if (first < 0)
        return false;
    const int second = partner(d, &d->p->value[first].shape);
    if (second < 0)
        return false;
    const bool swapped = chance(d, 2);
    const value *a = add_operand(d, swapped ? second : first), *b = add_operand(d, swapped ? first : second);
    return broadcast(&a->shape, &b->shape, y, tracks);
}

static bool decode_binary(decoder *d, line *l)
{
    shape y;
    unsigned tracks = ALL_TRACKS;
    if (!two_operands(d, &y, &tracks))
        return false;
    l->n[0] = draw(d, BINARIES);
    snprintf(l->label, LABEL, "%s", binaries[l->n[0]].name);
    value *v = add_output(d, REAL, l->n[0] == MSE ? (shape){0} : y);
    if (v)
        v->tracks &= l->n[0] == MSE ? 0 : tracks;
    return v;
}

static void build_binary(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_tensor *a = in[0], *b = in[1];
    if (l->n[0] == DIV)
        b = th_add_scalar(th_mul(b, b), 0.25);
    if (l->n[0] == POW)
        a = th_add_scalar(th_mul(a, a), 0.25), b = th_tanh(b);
    if (r->s->composed && l->n[0] == MSE) {
        th_tensor *off = th_sub(a, b);
        out[0] = th_mean(th_mul(off, off), TH_ALL_AXES, NULL);
    } else {
        out[0] = binaries[l->n[0]].function(a, b);
    }
}

static binary_function *const comparisons[] = {(th_equal),      (th_not_equal), (th_less),
                                               (th_less_equal), (th_greater),   (th_greater_equal)};

static bool decode_where(decoder *d, line *l)
{
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    shape y;
    unsigned tracks = ALL_TRACKS;
    if (!two_operands(d, &y, &tracks))
        return false;
    l->n[0] = draw(d, 6);
    l->n[1] = draw(d, 4);
    snprintf(l->label, LABEL, "where a %s b%s, a, b", names[l->n[0]],
             l->n[1] == 1   ? " or not"
             : l->n[1] == 2 ? " and a < 1/2"
             : l->n[1] == 3 ? " or not a < 1/2"
                            : "");
    value *v = add_output(d, REAL, y);
    if (v)
        v->tracks &= tracks;
    return v;
}

static void build_where(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_tensor *condition = comparisons[l->n[0]](in[0], in[1]);
    th_tensor *small = l->n[1] ? th_less(in[0], th_full(r->ctx, r->dtype, TH_SCALAR, 0.5)) : NULL;
    if (l->n[1] == 1)
        condition = th_logical_or(condition, th_logical_not(th_contiguous(condition)));
    if (l->n[1] == 2)
        condition = th_logical_and(condition, small);
    if (l->n[1] == 3)
        condition = th_logical_or(condition, th_logical_not(small));
    out[0] = th_where(condition, in[0], in[1]);
}

/* -- casts, dropout, constants -- */

static bool decode_cast(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 0, 6));
    if (x == NULL)
        return false;
    l->n[0] = draw(d, 2);
    snprintf(l->label, LABEL, "cast to the %s type and back", l->n[0] ? "other" : "same");
    return add_output(d, REAL, x->shape);
}

/* A run with float64 alone casts to float64 too: float32 would hide the derivative. */
static void build_cast(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const th_dtype other = r->dtype == TH_FLOAT32 ? TH_FLOAT64 : TH_FLOAT32;
    th_tensor *there = th_cast(in[0], l->n[0] && !r->s->double_precision ? other : r->dtype);
    out[0] = th_cast(l->n[0] ? th_scale(there, 0.5) : there, r->dtype);
}

static bool decode_dropout(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 0, 5));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    l->n[0] = chance(d, 2);
    if (l->n[0] && add_operand(d, real_of_shape(d, s)) == NULL)
        return false;
    l->x[0] = chance(d, 6) ? 0 : 0.3;
    l->random = true;
    snprintf(l->label, LABEL, "dropout%s %g", l->n[0] ? "_residual" : "", l->x[0]);
    return add_output(d, REAL, s);
}

static void build_dropout(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    if (l->n[0] && !r->s->composed)
        out[0] = th_dropout_residual(in[0], l->x[0], in[1]);
    else
        out[0] = l->n[0] ? th_add(in[1], th_dropout(in[0], l->x[0])) : th_dropout(in[0], l->x[0]);
}

static bool decode_constant(decoder *d, line *l)
{
    static const char *const names[] = {"detach", "keep", "a copy, filled in place"};
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL)
        return false;
    l->n[0] = draw(d, 3);
    snprintf(l->label, LABEL, "%s", names[l->n[0]]);
    const char letter = x->shape.letter[x->shape.ndim - 1];
    value *v = add_output(d, REAL, x->shape);
    if (v)
        v->differentiable = false;
    mix_letter(v, letter);
    return v;
}

static void build_constant(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    if (l->n[0] == 0) {
        out[0] = th_detach(in[0]);
    } else if (l->n[0] == 1) {
        th_tensor *kept = th_keep(in[0]);
        out[0] = th_contiguous(th_scale(kept, 1));
        th_tensor_free(kept);
    } else {
        th_tensor *t = th_empty(r->ctx, r->dtype, th_shape_of(in[0]));
        if (t && (th_copy_into(t, in[0]) || th_fill(th_slice(t, -1, 0, th_size(t, -1) > 1, 1), 0.125)))
            return;
        out[0] = t;
    }
}

const kind elementwise_kinds[] = {{"unary", 8, decode_unary, NULL, build_unary},
                                  {"with a number", 3, decode_with_number, NULL, build_with_number},
                                  {"binary", 9, decode_binary, NULL, build_binary},
                                  {"where", 2, decode_where, NULL, build_where},
                                  {"cast", 1, decode_cast, NULL, build_cast},
                                  {"dropout", 2, decode_dropout, NULL, build_dropout},
                                  {"constant", 1, decode_constant, NULL, build_constant},
                                  {0}};
