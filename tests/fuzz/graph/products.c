/* Lines with matrix products: matmul, masked_matmul, dense, the classifier with its loss, and embeddings. */
#include <string.h>

#include "kinds.h"
#include "losses.h"

/* -- matmul -- */

enum { MASK_NONE, MASK_OF_RESULT, MASK_OF_LEFT };

/* Adds the mask of a masked product: bool, of this shape or with some axes of size 1. */
static bool add_mask(decoder *d, shape s)
{
    while (s.ndim > 0 && chance(d, 4))
        s = shape_without(s, 0);
    for (int i = 0; i < s.ndim; i++)
        if (chance(d, 5))
            s.size[i] = 1, s.letter[i] = ' ';
    return add_operand(d, new_leaf(d, BOOL, s));
}

static shape swapped(shape s, bool swap)
{
    if (swap) {
        const shape old = s;
        s.size[s.ndim - 1] = old.size[s.ndim - 2], s.size[s.ndim - 2] = old.size[s.ndim - 1];
        s.letter[s.ndim - 1] = old.letter[s.ndim - 2], s.letter[s.ndim - 2] = old.letter[s.ndim - 1];
    }
    return s;
}

typedef struct right {
    const shape *a;
    bool swap;
} right;

/* Accepts a value that can be the right operand of a product with a: the same leading axes, or none. */
static bool is_right_operand(const value *v, const void *user)
{
    const right *f = user;
    if (v->content != REAL || v->shape.ndim < 2 || (v->shape.ndim != f->a->ndim && v->shape.ndim != 2))
        return false;
    const shape b = swapped(v->shape, f->swap);
    for (int i = 0; i < b.ndim - 2; i++)
        if (b.size[i] != f->a->size[i] || b.letter[i] != f->a->letter[i])
            return false;
    return b.size[b.ndim - 2] == f->a->size[f->a->ndim - 1] && b.letter[b.ndim - 2] == f->a->letter[f->a->ndim - 1];
}

/* Chooses the right operand of a (.., m, k) as it is stored: (.., k, n), or (.., n, k) if it is swapped. */
static int right_operand(decoder *d, const shape *a, bool swap)
{
    const right wanted = {a, swap};
    const int found = chance(d, 2) ? find_value(d, is_right_operand, &wanted) : -1;
    if (found >= 0)
        return found;
    shape b = {0};
    if (a->ndim > 2 && chance(d, 3))
        for (int i = 0; i < a->ndim - 2; i++)
            b = shape_add(b, a->letter[i], a->size[i]);
    b = shape_add(b, a->letter[a->ndim - 1], a->size[a->ndim - 1]);
    if (chance(d, 8))
        return new_leaf(d, REAL, shape_add((shape){0}, a->letter[a->ndim - 1], a->size[a->ndim - 1])); /* a column */
    b = shape_add(b, ' ', chance(d, 6) ? 64 + draw(d, 40) : draw_size(d));
    return new_leaf(d, REAL, swapped(b, swap));
}

/* Drops the tracks of a product of a and b, both as multiplied. */
static void mix_product(value *y, const shape *a, const shape *b)
{
    mix_letter(y, a->letter[a->ndim - 1]);
    if (y && b->ndim > 1 && b->letter[b->ndim - 1] != ' ')
        y->tracks &= ~(unsigned)(TRIM | PIECES | DOCUMENT);
    if (y && shape_find(b, 'B') >= 0)
        y->tracks &= ~(unsigned)TRIM;
}

static bool decode_matmul(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL)
        return false;
    const bool swap_a = x->shape.ndim > 1 && chance(d, 4), swap_b = chance(d, 3);
    l->n[0] = swap_a, l->n[1] = swap_b;
    const shape a = swapped(x->shape, swap_a);
    if (a.ndim > 1 && shape_find(&a, 'B') >= a.ndim - 2)
        return false;
    const value *w = add_operand(d, right_operand(d, &a, swap_b));
    if (w == NULL)
        return false;
    const shape b = w->shape.ndim > 1 ? swapped(w->shape, swap_b) : w->shape;
    const int m = a.ndim - 2, n = b.ndim - 1;
    shape y = {0};
    if (a.ndim == 1) /* a is a row: only b's leading axes remain */
        for (int i = 0; i < b.ndim - 2; i++)
            y = shape_add(y, b.letter[i], b.size[i]);
    for (int i = 0; i <= m; i++)
        y = shape_add(y, a.letter[i], a.size[i]);
    if (b.ndim > 1)
        y = shape_add(y, b.letter[n], b.size[n]);
    l->n[2] = a.ndim > 1 && b.ndim > 1 ? draw(d, 5) : MASK_NONE;
    shape left = a;
    if (l->n[2] == MASK_OF_RESULT && !add_mask(d, y))
        return false;
    if (l->n[2] == MASK_OF_LEFT && !add_mask(d, left))
        return false;
    snprintf(l->label, LABEL, "%smatmul%s%s",
             l->n[2] == 1   ? "masked result of "
             : l->n[2] == 2 ? "masked left of "
                            : "",
             swap_a ? ", left transposed" : "", swap_b && b.ndim > 1 ? ", right transposed" : "");
    value *v = add_output(d, REAL, y);
    mix_product(v, &a, &b);
    return v;
}

static th_tensor *composed_mask(run *r, th_tensor *keep, th_tensor *x)
{
    return th_where(keep, x, th_zeros(r->ctx, r->dtype, TH_SCALAR));
}

static void build_matmul(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_tensor *a = l->n[0] ? th_swap_axes(in[0], -1, -2) : in[0];
    th_tensor *b = l->n[1] && th_ndim(in[1]) > 1 ? th_swap_axes(in[1], -1, -2) : in[1];
    if (l->n[2] != MASK_OF_RESULT && l->n[2] != MASK_OF_LEFT)
        out[0] = th_matmul(a, b);
    else if (!r->s->composed)
        out[0] = th_masked_matmul(a, b, in[2], l->n[2] == MASK_OF_LEFT ? TH_MASK_LEFT : TH_MASK_RESULT);
    else
        out[0] = l->n[2] == MASK_OF_LEFT ? th_matmul(composed_mask(r, in[2], a), b)
                                         : composed_mask(r, in[2], th_matmul(a, b));
}

/* -- dense -- */

static bool decode_dense(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL || x->shape.letter[x->shape.ndim - 1] != ' ')
        return false;
    shape y = x->shape;
    const int64_t in = y.size[y.ndim - 1];
    const int64_t width = chance(d, 2) ? d->p->width : chance(d, 4) ? 60 + draw(d, 70) : draw_size(d);
    y.size[y.ndim - 1] = width;
    add_operand(d, real_of_shape(d, shape_add(shape_add((shape){0}, ' ', width), ' ', in)));
    add_operand(d, chance(d, 2) ? real_of_shape(d, shape_add((shape){0}, ' ', width)) : -1);
    add_operand(d, chance(d, 3) ? real_of_shape(d, y) : -1);
    if (l->operand[1] < 0)
        return false;
    return add_output(d, REAL, y);
}

static void build_dense(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)l;
    if (!r->s->composed) {
        out[0] = th_dense(in[0], in[1], &(th_dense_options){.bias = in[2], .residual = in[3]});
        return;
    }
    th_tensor *y = th_matmul(in[0], th_transpose(in[1], TH_AXES(1, 0)));
    y = in[2] ? th_add(y, in[2]) : y;
    out[0] = in[3] ? th_add(y, in[3]) : y;
}

static bool decode_classifier(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL || x->shape.letter[x->shape.ndim - 1] != ' ')
        return false;
    const shape s = x->shape;
    const int64_t classes = 1 + draw(d, chance(d, 3) ? 90 : 9);
    shape weight = shape_add(shape_add((shape){0}, ' ', classes), ' ', s.size[s.ndim - 1]);
    const int targets = new_index(d, shape_without(s, s.ndim - 1), classes);
    add_operand(d, real_of_shape(d, weight));
    if (targets < 0 || l->operand[1] < 0)
        return false;
    return decode_loss(d, l, targets, "dense_cross_entropy");
}

static void build_classifier(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const th_cross_entropy_options options = loss_options(l);
    out[0] = r->s->composed ? th_cross_entropy(th_dense(in[0], in[1], NULL), in[2], &options)
                            : th_dense_cross_entropy(in[0], in[1], in[2], &options);
}

static bool decode_embedding(decoder *d, line *l)
{
    static const char *const axes[] = {"bt", "bs", "b", "", "t"};
    const shape s = shape_of(d, axes[draw(d, 5)]);
    const int64_t count = 1 + draw(d, 12);
    const int table = real_of_shape(d, shape_add(shape_add((shape){0}, ' ', count), ' ', d->p->width));
    if (table < 0)
        return false;
    add_operand(d, table);
    if (add_operand(d, new_index(d, s, count)) == NULL)
        return false;
    (void)l;
    return add_output(d, REAL, shape_add(s, ' ', d->p->width));
}

static void build_embedding(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)l;
    if (r->s->composed)
        out[0] = th_matmul(th_one_hot(in[1], th_size(in[0], 0)), in[0]);
    else
        out[0] = th_embedding(in[0], in[1]);
}

const kind product_kinds[] = {{"matmul", 8, decode_matmul, NULL, build_matmul},
                              {"dense", 6, decode_dense, NULL, build_dense},
                              {"dense_cross_entropy", 3, decode_classifier, NULL, build_classifier},
                              {"embedding", 3, decode_embedding, NULL, build_embedding},
                              {0}};
