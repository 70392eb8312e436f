/* Lines that compute along axes: reductions, softmax, norms, argmax, losses. */
#include <string.h>

#include "kinds.h"
#include "losses.h"

/* -- reductions -- */

enum { SUM, MEAN, VARIANCE, MAX, LOG_SUM_EXP, REDUCTIONS };

static bool decode_reduction(decoder *d, line *l)
{
    static const char *const names[] = {"sum", "mean", "variance", "max", "log_sum_exp"};
    const value *x = add_operand(d, real_operand(d, 0, 5));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    shape y = {0};
    char mixed[TH_MAX_DIMS + 1] = "";
    const bool keep = chance(d, 2), all = chance(d, 6);
    int count = 0;
    l->n[9] = keep;
    for (int i = 0; i < s.ndim; i++) {
        const bool reduced = all || chance(d, i == s.ndim - 1 ? 2 : 3);
        if (reduced)
            mixed[count] = s.letter[i], l->n[count++] = i - (i % 2 ? s.ndim : 0);
        if (!reduced)
            y = shape_add(y, s.letter[i], s.size[i]);
        else if (keep)
            y = shape_add(y, ' ', 1);
    }
    if (count == 0 && s.ndim) /* no axes means all axes */
        return false;
    l->n[8] = all ? 0 : count;
    l->n[10] = draw(d, REDUCTIONS);
    l->n[11] = l->n[10] == VARIANCE && chance(d, 2);
    size_t at = (size_t)snprintf(l->label, LABEL, "%s%s%s over axes", names[l->n[10]], keep ? ", kept axes," : "",
                                 l->n[11] ? ", correction 1," : "");
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(l->label + at, LABEL - at, " %d", (int)l->n[i]);
    value *v = add_output(d, REAL, y);
    for (int i = 0; i < count; i++)
        mix_letter(v, mixed[i]);
    return v;
}

/* The formula in other operations. */
static th_tensor *composed_reduction(const line *l, th_tensor *x, th_shape axes, const th_reduce_options *options)
{
    const th_reduce_options kept = {.keep_axes = true};
    const double count = (double)th_numel(x) / (double)th_numel(th_sum(x, axes, NULL));
    if (l->n[10] == MEAN)
        return th_scale(th_sum(x, axes, options), 1 / count);
    if (l->n[10] == VARIANCE) {
        th_tensor *off = th_sub(x, th_mean(x, axes, &kept));
        return th_scale(th_sum(th_mul(off, off), axes, options), 1 / (count - options->correction));
    }
    return l->n[10] == LOG_SUM_EXP ? th_log(th_sum(th_exp(x), axes, options)) : NULL;
}

static void build_reduction(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    th_shape axes = {.ndim = (int)l->n[8]};
    memcpy(axes.size, l->n, sizeof *l->n * (size_t)l->n[8]);
    const th_reduce_options options = {.keep_axes = l->n[9], .correction = (double)l->n[11]};
    if (r->s->composed && shape_count(&r->p->value[l->operand[0]].shape) > 1)
        out[0] = composed_reduction(l, in[0], axes, &options);
    if (out[0] == NULL)
        out[0] = l->n[10] == SUM        ? th_sum(in[0], axes, &options)
                 : l->n[10] == MEAN     ? th_mean(in[0], axes, &options)
                 : l->n[10] == VARIANCE ? th_variance(in[0], axes, &options)
                 : l->n[10] == MAX      ? th_max(in[0], axes, &options)
                                        : th_log_sum_exp(in[0], axes, &options);
}

/* -- one axis -- */

static bool decode_softmax(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 5));
    if (x == NULL)
        return false;
    const int axis = chance(d, 2) ? x->shape.ndim - 1 : draw_axis(d, &x->shape);
    const char letter = x->shape.letter[axis];
    l->n[0] = axis;
    l->n[1] = chance(d, 2);
    snprintf(l->label, LABEL, "%s along axis %d", l->n[1] ? "log_softmax" : "softmax", axis);
    value *v = add_output(d, REAL, x->shape);
    mix_letter(v, letter);
    return v;
}

static void build_softmax(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const int axis = (int)l->n[0];
    if (r->s->composed) {
        const th_reduce_options kept = {.keep_axes = true};
        th_tensor *y = th_sub(in[0], th_log_sum_exp(in[0], TH_AXES(axis), &kept));
        out[0] = l->n[1] ? y : th_exp(y);
    } else {
        out[0] = l->n[1] ? th_log_softmax(in[0], axis) : th_softmax(in[0], axis);
    }
}

static bool decode_norm(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 5));
    if (x == NULL)
        return false;
    const shape s = x->shape;
    const char letter = s.letter[s.ndim - 1];
    shape row = shape_add((shape){0}, ' ', s.size[s.ndim - 1]);
    l->n[0] = chance(d, 2);
    const bool weight = letter == ' ' && !chance(d, 4), bias = weight && !l->n[0] && !chance(d, 4);
    add_operand(d, weight ? real_of_shape(d, row) : -1);
    add_operand(d, bias ? real_of_shape(d, row) : -1);
    snprintf(l->label, LABEL, "%s", l->n[0] ? "rms_norm" : "layer_norm");
    value *v = add_output(d, REAL, s);
    mix_letter(v, letter);
    return v;
}

static th_tensor *composed_norm(const line *l, th_tensor *x, const th_norm_options *options)
{
    const th_reduce_options kept = {.keep_axes = true};
    if (!l->n[0])
        x = th_sub(x, th_mean(x, TH_AXES(-1), &kept));
    th_tensor *y = th_mul(x, th_rsqrt(th_add_scalar(th_mean(th_mul(x, x), TH_AXES(-1), &kept), options->eps)));
    y = options->weight ? th_mul(y, options->weight) : y;
    return options->bias ? th_add(y, options->bias) : y;
}

static void build_norm(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    const th_norm_options options = {.weight = in[1], .bias = in[2], .eps = 1e-3};
    out[0] = r->s->composed ? composed_norm(l, in[0], &options)
             : l->n[0]      ? th_rms_norm(in[0], &options)
                            : th_layer_norm(in[0], &options);
}

static bool decode_argmax(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL)
        return false;
    const int axis = draw_axis(d, &x->shape);
    const char letter = x->shape.letter[axis];
    l->n[0] = axis, l->n[1] = x->shape.size[axis];
    if (l->n[1] == 0 || letter == 'T' || letter == 'S')
        return false;
    snprintf(l->label, LABEL, "one_hot of argmax along axis %d", axis);
    value *v = add_output(d, REAL, shape_add(shape_without(x->shape, axis), ' ', l->n[1]));
    if (v)
        v->differentiable = false;
    mix_letter(v, letter);
    return v;
}

static void build_argmax(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    out[0] = th_one_hot(th_argmax(in[0], (int)l->n[0]), l->n[1]);
}

/* -- losses -- */

static bool decode_cross_entropy(decoder *d, line *l)
{
    const value *x = add_operand(d, real_operand(d, 1, 4));
    if (x == NULL || x->shape.letter[x->shape.ndim - 1] != ' ')
        return false;
    const int64_t classes = x->shape.size[x->shape.ndim - 1];
    if (classes == 0)
        return false;
    const int targets = new_index(d, shape_without(x->shape, x->shape.ndim - 1), classes);
    return targets >= 0 && decode_loss(d, l, targets, "cross_entropy");
}

static void build_cross_entropy(run *r, const line *l, th_tensor **in, th_tensor **out)
{
    (void)r;
    const th_cross_entropy_options options = loss_options(l);
    out[0] = th_cross_entropy(in[0], in[1], &options);
}

const kind row_kinds[] = {{"reduction", 6, decode_reduction, NULL, build_reduction},
                          {"softmax", 2, decode_softmax, NULL, build_softmax},
                          {"norm", 4, decode_norm, NULL, build_norm},
                          {"argmax", 1, decode_argmax, NULL, build_argmax},
                          {"cross_entropy", 2, decode_cross_entropy, NULL, build_cross_entropy},
                          {0}};
