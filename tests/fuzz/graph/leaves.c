/* The numbers of leaves, parameters and cotangents. Each is a function of its index in the whole program, so that a
 * part of a program has the same numbers. */
#include "leaves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Returns a number in [-1, 1) that float32 represents exactly. */
static double number(uint32_t seed, int64_t index)
{
    uint64_t x = ((uint64_t)seed << 32 | (uint64_t)(uint32_t)index) * 0x9e3779b97f4a7c15u + seed;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 32) * 0x94d049bb133111ebu;
    return (double)(x >> 41) / (1 << 22) - 1;
}

double leaf_direction(uint32_t seed, int64_t index)
{
    return number(seed ^ 0x5bd1e995u, index);
}

int64_t size_in_run(const run *r, char letter, int64_t size)
{
    const setting *s = r->s;
    if (letter == 'B' && s->sequence >= 0)
        return 1;
    if (letter == 'T' && (s->pieces || s->document))
        return s->end - s->first;
    if (letter == 'T' && s->trimmed)
        return r->p->length[s->sequence];
    if (letter == 'S' && s->trimmed)
        return r->p->memory_length[s->sequence];
    return size;
}

th_shape shape_in_run(const run *r, const shape *s)
{
    th_shape y = {.ndim = s->ndim};
    for (int i = 0; i < s->ndim; i++)
        y.size[i] = size_in_run(r, s->letter[i], s->size[i]);
    return y;
}

array part_in_run(const run *r, const array *whole)
{
    const th_shape size = shape_in_run(r, &whole->shape);
    int64_t first[TH_MAX_DIMS];
    for (int i = 0; i < whole->shape.ndim; i++) {
        const char letter = whole->shape.letter[i];
        first[i] = letter == 'B' && r->s->sequence >= 0                ? r->s->sequence
                   : letter == 'T' && (r->s->pieces || r->s->document) ? r->s->first
                                                                       : 0;
    }
    return array_part(whole, first, size.size);
}

/* Returns the largest index along axes with this letter; -1 without one. */
static int64_t index_along(const shape *s, int64_t i, char letter)
{
    int64_t index = -1;
    for (int k = s->ndim - 1; k >= 0; i /= s->size[k--])
        if (s->letter[k] == letter && i % s->size[k] > index)
            index = i % s->size[k];
    return index;
}

/* Returns the number of the document of a token, or the token's index in it. Only neighbors have other numbers. */
static int64_t document_number(const program *p, int64_t sequence, int64_t token, bool place)
{
    int64_t number = 0, first = 0, end;
    while ((end = document_end(p, sequence, first)) <= token) {
        first = end;
        number++;
    }
    return place ? token - first : number % 2;
}

/* Returns how far leaf or parameter i is moved. */
static double shift_of(const run *r, int i)
{
    return r->s->shifted == 0 || r->s->shifted == 1 + i ? r->s->shift : 0;
}

static double leaf_number(const run *r, const leaf *l, int64_t i)
{
    const program *p = r->p;
    const value *v = &p->value[l->value];
    const double x = number(l->seed, i);
    switch (v->content) {
    case REAL:
        return x * l->scale + (l->gradient ? shift_of(r, (int)(l - p->leaf)) * leaf_direction(l->seed, i) : 0);
    case INDEX:
        return v->ignored && number(l->seed ^ 77, i) > 0.5 ? -100 : (double)(int64_t)((x + 1) / 2 * (double)v->limit);
    case BOOL:
        return x > -0.5;
    case POSITIONS:
        return (double)index_along(&v->shape, i, 'T');
    case LENGTHS:
        return (double)p->length[i];
    case DOCUMENTS:
    case PLACES: {
        const int64_t b = index_along(&v->shape, i, 'B');
        return (double)document_number(p, b < 0 ? 0 : b, index_along(&v->shape, i, 'T'), v->content == PLACES);
    }
    default:
        return (double)p->memory_length[i];
    }
}

static array leaf_array(const run *r, const leaf *l)
{
    array whole = array_new(r->p->value[l->value].shape);
    for (int64_t i = 0; i < shape_count(&whole.shape); i++)
        whole.data[i] = leaf_number(r, l, i);
    array part = part_in_run(r, &whole);
    array_free(&whole);
    return part;
}

/* A view with the elements of `plain`, of a larger or transposed tensor, which becomes *base. */
static th_tensor *strided(run *r, th_tensor *plain, layout how, th_tensor **base)
{
    const th_shape size = th_shape_of(plain);
    th_shape order = {.ndim = size.ndim}, larger = size;
    const int axis = size.ndim - 1 - (int)(r->p->seed % (uint32_t)size.ndim);
    for (int i = 0; i < size.ndim; i++) {
        order.size[i] = size.ndim - 1 - i;
        if (how == TRANSPOSED)
            larger.size[i] = size.size[size.ndim - 1 - i];
    }
    if (how == STEPPED)
        larger.size[axis] = 2 * size.size[axis] + 1;
    const th_dtype dtype = th_dtype_of(plain);
    *base = th_full(r->ctx, dtype, larger, dtype == TH_FLOAT32 || dtype == TH_FLOAT64 ? 1e20 : 0);
    th_tensor *view =
        how == STEPPED ? th_slice(*base, axis, 1, 1 + 2 * size.size[axis], 2) : th_transpose(*base, order);
    if (th_copy_into(view, plain) != TH_OK)
        return NULL;
    th_tensor_free(plain);
    return *base;
}

/* The view of a strided leaf, on the tape. */
static th_tensor *view_of(th_tensor *base, layout how, const th_shape *size, int axis)
{
    th_shape order = {.ndim = size->ndim};
    for (int i = 0; i < size->ndim; i++)
        order.size[i] = size->ndim - 1 - i;
    return how == STEPPED ? th_slice(base, axis, 1, 1 + 2 * size->size[axis], 2) : th_transpose(base, order);
}

void make_leaf(run *r, int i)
{
    const leaf *l = &r->p->leaf[i];
    const value *v = &r->p->value[l->value];
    array a = leaf_array(r, l);
    th_tensor *plain = tensor_from(r, &a, v->content, v->wide), *base = plain;
    array_free(&a);
    const th_shape size = th_shape_of(plain);
    const layout how = r->s->strided && size.ndim > 0 ? 1 + (layout)((r->p->seed >> 3 ^ (uint32_t)i) % 2) : CONTIGUOUS;
    if (how != CONTIGUOUS)
        strided(r, plain, how, &base);
    r->base[i] = base;
    if (l->gradient && base)
        (void)th_set_requires_gradient(base, true);
    const int axis = size.ndim ? size.ndim - 1 - (int)(r->p->seed % (uint32_t)size.ndim) : 0;
    r->tensor[l->value] = how == CONTIGUOUS ? base : view_of(base, how, &size, axis);
}

uint32_t parameter_seed(const run *r, int i)
{
    return r->p->seed * 31 + 104729 * (uint32_t)(i + 1);
}

void fill_parameters(run *r, th_module *m)
{
    for (th_parameter_iterator at = th_module_parameters(m); th_parameter_next(&at);) {
        if (r->parameters == MAX_PARAMETERS)
            return;
        const uint32_t seed = parameter_seed(r, r->parameters);
        const double shift = shift_of(r, MAX_LEAVES + r->parameters);
        r->parameter[r->parameters++] = at.tensor;
        const int64_t count = th_numel(at.tensor);
        const double scale = th_ndim(at.tensor) == 1 ? 1 : 2 / sqrt(3 + (double)th_size(at.tensor, 1));
        array a = {{.ndim = 1, .size = {count}}, malloc((size_t)count * sizeof(double) + 1)};
        for (int64_t i = 0; i < count; i++)
            a.data[i] = scale * number(seed, i) + shift * leaf_direction(seed, i);
        th_tensor *t = tensor_from(r, &a, REAL, false);
        if (t && th_copy_into(at.tensor, th_reshape(t, th_shape_of(at.tensor))) == TH_OK)
            th_tensor_free(t);
        array_free(&a);
    }
}

/* Returns whether an element belongs to padding. */
static bool is_padding(const program *p, const shape *s, int64_t i)
{
    const int64_t b = index_along(s, i, 'B');
    return b >= 0 && (index_along(s, i, 'T') >= p->length[b] || index_along(s, i, 'S') >= p->memory_length[b]);
}

array cotangent_of(const run *r, int v)
{
    array whole = array_new(r->p->value[v].shape);
    const int64_t count = shape_count(&whole.shape);
    for (int64_t i = 0; i < count; i++)
        whole.data[i] =
            r->s->padding && is_padding(r->p, &whole.shape, i) ? 0 : number(r->p->seed + 15485863u * (uint32_t)v, i);
    array part = part_in_run(r, &whole);
    array_free(&whole);
    return part;
}
