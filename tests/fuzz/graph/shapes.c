/* Lines that change shapes: views, copies, joining, splitting, indexing. */
#include <string.h>

#include "kinds.h"

/* -- views -- */

static bool decode_transpose(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 2, 5));
    if (x == NULL)
        return false;
    shape y = {.ndim = 0};
    int order[TH_MAX_DIMS];
    for (int i = 0; i < x->shape.ndim; i++)
        order[i] = i;
    for (int i = x->shape.ndim - 1; i > 0; i--) {
        const int k = (int)draw(d, (uint32_t)i + 1), swapped = order[i];
        order[i] = order[k], order[k] = swapped;
    }
    l->n[0] = x->shape.ndim;
    size_t at = (size_t)snprintf(l->label, LABEL, "transpose");
    for (int i = 0; i < x->shape.ndim; i++) {
        l->n[1 + i] = order[i];
        y = shape_add(y, x->shape.letter[order[i]], x->shape.size[order[i]]);
        at += (size_t)snprintf(l->label + at, LABEL - at, " %d", order[i]);
    }
    return add_output(d, REAL, y);
}

static void build_transpose(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    th_shape order = {.ndim = (int)l->n[0]};
    memcpy(order.size, l->n + 1, sizeof *l->n * (size_t)l->n[0]);
    out[0] = l->n[0] == 2 && l->n[1] ? th_swap_axes(in[0], 0, -1) : th_transpose(in[0], order);
}

static bool decode_slice(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 5));
    if (x == NULL)
        return false;
    const int axis = draw_axis(d, &x->shape);
    const int64_t size = x->shape.size[axis];
    const char letter = x->shape.letter[axis];
    shape y = x->shape;
    l->n[0] = axis - (chance(d, 3) ? x->shape.ndim : 0);
    l->n[1] = draw(d, (uint32_t)size + 1);
    l->n[4] = chance(d, 3); /* select */
    if (l->n[4]) {
        if (l->n[1] >= size)
            return false;
        y = shape_without(y, axis);
        snprintf(l->label, LABEL, "select axis %d at %d", (int)l->n[0], (int)l->n[1]);
    } else {
        l->n[2] = l->n[1] + draw(d, (uint32_t)(size - l->n[1]) + 1);
        l->n[3] = 1 + draw(d, 3);
        y.size[axis] = (l->n[2] - l->n[1] + l->n[3] - 1) / l->n[3], y.letter[axis] = ' ';
        snprintf(l->label, LABEL, "slice axis %d from %d to %d step %d", (int)l->n[0], (int)l->n[1], (int)l->n[2],
                 (int)l->n[3]);
    }
    value *v = add_output(d, REAL, y);
    mix_letter(v, letter);
    return v;
}

static void build_slice(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    out[0] =
        l->n[4] ? th_select(in[0], (int)l->n[0], l->n[1]) : th_slice(in[0], (int)l->n[0], l->n[1], l->n[2], l->n[3]);
}

static bool decode_axes_of_one(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 0, 5));
    if (x == NULL)
        return false;
    const int axis = (int)draw(d, (uint32_t)x->shape.ndim + 1);
    shape y = shape_with(x->shape, axis, 1, ' ');
    l->n[0] = axis;
    l->n[1] = draw(d, 3);
    l->n[2] = l->n[1] == 2 ? draw_size(d) : 1; /* expand */
    if (l->n[1] == 1)
        y = x->shape; /* unsqueeze and squeeze */
    y.size[axis] = l->n[1] == 2 ? l->n[2] : y.size[axis];
    snprintf(l->label, LABEL,
             l->n[1] == 0   ? "unsqueeze %d"
             : l->n[1] == 1 ? "unsqueeze and squeeze %d"
                            : "unsqueeze %d and expand",
             axis);
    value *v = add_output(d, REAL, y);
    if (v && l->n[1] == 2)
        v->tracks &= ~(unsigned)(TRIM | DOCUMENT);
    return v;
}

static void build_axes_of_one(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    th_tensor *y = th_unsqueeze(in[0], (int)l->n[0]);
    if (l->n[1] == 1)
        y = th_squeeze(y, (int)l->n[0]);
    if (l->n[1] == 2 && y) {
        th_shape size = th_shape_of(y);
        for (int i = 0; i < size.ndim; i++)
            size.size[i] = i == l->n[0] ? l->n[2] : -1;
        y = th_expand(y, size);
    }
    out[0] = y;
}

/* Merges two neighboring axes or splits one; neither may be one of tokens. */
static bool decode_reshape(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 6));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    const int axis = draw_axis(d, &s);
    shape y = s;
    l->n[0] = chance(d, 2) && axis + 1 < s.ndim ? 1 : 0;
    l->n[1] = axis;
    if (l->n[0]) {
        y = shape_without(s, axis + 1);
        y.size[axis] *= s.size[axis + 1], y.letter[axis] = ' ';
    } else {
        static const int64_t parts[] = {1, 2, 3, 4, 5};
        l->n[2] = parts[draw(d, 5)];
        if (s.size[axis] % l->n[2] || s.letter[axis] != ' ' || s.ndim > 6)
            return false;
        y = shape_with(s, axis, l->n[2], ' ');
        y.size[axis + 1] = s.size[axis] / l->n[2];
    }
    snprintf(l->label, LABEL, l->n[0] ? "reshape: merge axes %d and next" : "reshape: split axis %d", axis);
    value *v = add_output(d, REAL, y);
    mix_letter(v, s.letter[axis]);
    mix_letter(v, l->n[0] ? s.letter[axis + 1] : ' ');
    return v;
}

static void build_reshape(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    const th_shape s = th_shape_of(in[0]);
    th_shape y = {.ndim = 0};
    bool free_size = th_numel(in[0]) > 0;
    for (int i = 0; i < s.ndim; i++) {
        if (i == l->n[1] && l->n[0]) {
            y.size[y.ndim++] = s.size[i] * s.size[i + 1];
            i++;
        } else if (i == l->n[1]) {
            y.size[y.ndim++] = l->n[2];
            y.size[y.ndim++] = free_size ? -1 : s.size[i] / l->n[2];
        } else {
            y.size[y.ndim++] = s.size[i];
        }
    }
    out[0] = th_reshape(in[0], y);
}

/* (B, T, E) -> (B, H, T, E / H) and back. */
static bool decode_heads(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 3, 4));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    shape y;
    if (s.ndim == 3) {
        if (s.size[2] % d->p->heads || s.letter[2] != ' ')
            return false;
        y = shape_with(s, 1, d->p->heads, ' ');
        y.size[3] /= d->p->heads;
        l->n[0] = d->p->heads;
    } else {
        if (s.letter[1] != ' ' || s.letter[3] != ' ')
            return false;
        y = shape_without(s, 1);
        y.size[2] *= s.size[1];
    }
    snprintf(l->label, LABEL, s.ndim == 3 ? "split heads" : "merge heads");
    return add_output(d, REAL, y);
}

static void build_heads(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    th_tensor *x = in[0];
    if (l->n[0]) {
        x = th_reshape(x, TH_SHAPE(th_size(x, 0), th_size(x, 1), l->n[0], th_size(x, 2) / l->n[0]));
        out[0] = th_transpose(x, TH_AXES(0, 2, 1, 3));
    } else {
        x = th_transpose(x, TH_AXES(0, 2, 1, 3));
        out[0] = th_reshape(x, TH_SHAPE(th_size(x, 0), th_size(x, 1), th_size(x, 2) * th_size(x, 3)));
    }
}

/* -- copies -- */

static bool decode_repeat(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL)
        return false;
    shape y = x->shape;
    l->n[8] = x->shape.ndim;
    for (int i = 0; i < y.ndim; i++) {
        l->n[i] = chance(d, 3) && y.letter[i] == ' ' ? draw(d, 4) : 1;
        y.size[i] *= l->n[i];
    }
    return add_output(d, REAL, y);
}

static void build_repeat(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    th_shape times = {.ndim = (int)l->n[8]};
    memcpy(times.size, l->n, sizeof *l->n * (size_t)l->n[8]);
    out[0] = th_repeat(in[0], times);
}

typedef struct joinable {
    const shape *like;
    int axis; /* may differ */
} joinable;

static bool can_join(const value *v, const void *user)
{
    const joinable *j = user;
    if (v->content != REAL || v->shape.ndim != j->like->ndim)
        return false;
    for (int i = 0; i < v->shape.ndim; i++)
        if (i != j->axis && (v->shape.size[i] != j->like->size[i] || v->shape.letter[i] != j->like->letter[i]))
            return false;
    return true;
}

static bool decode_join(decoder *d, line *l)
{
    const bool stack = chance(d, 3);
    const int first = real_operand(d, stack ? 0 : 1, 4);
    if (first < 0)
        return false;
    const shape s = d->p->value[first].shape;
    const int axis = stack ? (int)draw(d, (uint32_t)s.ndim + 1) : draw_axis(d, &s);
    const int count = 1 + (int)draw(d, 4);
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        const joinable j = {&s, stack ? -1 : axis};
        int v = i == 0 ? first : chance(d, 2) ? find_value(d, can_join, &j) : -1;
        shape like = s;
        if (!stack)
            like.size[axis] = draw(d, 6), like.letter[axis] = ' ';
        v = v >= 0 ? v : new_leaf(d, REAL, like);
        if (add_operand(d, v) == NULL)
            return false;
        total += stack ? 1 : d->p->value[v].shape.size[axis];
    }
    shape y = stack ? shape_with(s, axis, count, ' ') : s;
    y.size[axis] = total, y.letter[axis] = ' ';
    l->n[0] = axis, l->n[1] = stack;
    snprintf(l->label, LABEL, "%s along axis %d", stack ? "stack" : "concat", axis);
    value *v = add_output(d, REAL, y);
    for (int i = 0; i < count && !stack; i++)
        mix_letter(v, d->p->value[l->operand[i]].shape.letter[axis]);
    return v;
}

static void build_join(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    out[0] = l->n[1] ? th_stack(in, l->operands, (int)l->n[0]) : th_concat(in, l->operands, (int)l->n[0]);
}

static bool decode_split(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 5));
    if (x == NULL)
        return false;
    shape y = x->shape;
    const int axis = draw_axis(d, &y), count = 1 + (int)draw(d, 3);
    int64_t rest = y.size[axis];
    const char letter = y.letter[axis];
    l->n[0] = axis, l->n[1] = count;
    snprintf(l->label, LABEL, "split axis %d", axis);
    y.letter[axis] = ' ';
    for (int i = 0; i < count; i++) {
        y.size[axis] = l->n[2 + i] = i == count - 1 ? rest : draw(d, (uint32_t)rest + 1);
        rest -= y.size[axis];
        value *v = add_output(d, REAL, y);
        mix_letter(v, letter);
        if (v == NULL)
            return false;
    }
    return true;
}

static void build_split(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    if (th_split(in[0], (int)l->n[0], (int)l->n[1], &l->n[2], out))
        out[0] = NULL;
}

static bool decode_gather(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL)
        return false;
    shape y = x->shape;
    const int axis = draw_axis(d, &y);
    const int64_t limit = y.size[axis];
    if (limit == 0)
        return false;
    const char letter = y.letter[axis];
    y.size[axis] = draw_size(d), y.letter[axis] = ' ';
    if (add_operand(d, new_index(d, y, limit)) == NULL)
        return false;
    l->n[0] = axis;
    snprintf(l->label, LABEL, "gather along axis %d", axis);
    value *v = add_output(d, REAL, y);
    mix_letter(v, letter);
    return v;
}

static void build_gather(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    out[0] = th_gather(in[0], (int)l->n[0], in[1]);
}

const kind shape_kinds[] = {{"transpose", 4, decode_transpose, NULL, build_transpose},
                            {"slice", 4, decode_slice, NULL, build_slice},
                            {"axis of size 1", 2, decode_axes_of_one, NULL, build_axes_of_one},
                            {"reshape", 2, decode_reshape, NULL, build_reshape},
                            {"heads", 3, decode_heads, NULL, build_heads},
                            {"repeat", 1, decode_repeat, NULL, build_repeat},
                            {"join", 3, decode_join, NULL, build_join},
                            {"split", 2, decode_split, NULL, build_split},
                            {"gather", 2, decode_gather, NULL, build_gather},
                            {0}};
