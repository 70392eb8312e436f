/* Attention with the page's choices (model.h). */
#include "model.h"

#include "wrong_rules.h"

/* (B, t, E) -> (B, H, t, D) */
static th_tensor *split(const class_engine *e, th_tensor *x)
{
    const int64_t heads = e->model->settings.heads;
    return th_swap_axes(th_reshape(x, TH_SHAPE(th_size(x, 0), th_size(x, 1), heads, th_size(x, 2) / heads)), 1, 2);
}

/* (B, H, t, D) -> (B, t, E) */
static th_tensor *merge(th_tensor *o)
{
    th_tensor *x = th_swap_axes(o, 1, 2);
    return th_reshape(x, TH_SHAPE(th_size(x, 0), th_size(x, 1), th_size(x, 2) * th_size(x, 3)));
}

class_heads class_project(class_engine *e, th_tensor *h)
{
    const th_module *layer = e->model->attention;
    const int64_t width = e->model->settings.width;
    th_tensor *all = th_dense(h, th_module_find_parameter(layer, "in_proj_weight"),
                              &(th_dense_options){.bias = th_module_find_parameter(layer, "in_proj_bias")});
    return (class_heads){.q = split(e, th_slice(all, -1, 0, width, 1)),
                         .k = split(e, th_slice(all, -1, width, 2 * width, 1)),
                         .v = split(e, th_slice(all, -1, 2 * width, 3 * width, 1))};
}

static th_mask mask_of(const class_engine *e)
{
    switch (e->mask) {
    case CLASS_MASK_NONE:
        return (th_mask){0};
    case CLASS_MASK_WINDOW:
        return (th_mask){.causal = TH_CAUSAL_TOP_LEFT, .window = TH_WINDOW(e->model->settings.length - 1, 0)};
    default:
        return copy_causal;
    }
}

void class_mix_heads(class_engine *e, class_heads *a)
{
    const th_mask mask = mask_of(e);
    a->o = th_scaled_dot_product_attention(
        a->q, a->k, a->v, &(th_attention_options){.mask = &mask, .dropout = e->dropout, .weights = &a->weights});
    a->merged = merge(a->o);
}

/* The same with the operations of wrong_rules.h. */
static void mix_with_rule(class_engine *e, class_heads *a)
{
    const th_mask mask = mask_of(e);
    const int64_t t = th_size(a->q, 2);
    th_tensor *keep = th_mask_keep(e->ctx, &mask, TH_SHAPE(t, t));
    if (keep == NULL)
        keep = th_full(e->ctx, TH_BOOL, TH_SHAPE(t, t), 1);
    th_tensor *scores = th_apply(class_op(CLASS_SCORES, e->rule), NULL, a->q, a->k);
    a->weights = th_apply(class_op(CLASS_SOFTMAX, e->rule), NULL, scores, keep);
    th_tensor *dropped = e->dropout > 0 ? th_dropout(a->weights, e->dropout) : a->weights;
    a->o = th_apply(class_op(CLASS_MIX, e->rule), NULL, dropped, a->v);
    a->merged = merge(a->o);
}

/* A module without parameters, by which the model's forward finds the engine. */
typedef struct {
    th_module base;
    class_engine *engine;
} engine_link;

static th_tensor *forward(th_module *base, th_tensor *tokens) /* (B, t) -> (B, t, V) */
{
    class_engine *e = ((const engine_link *)th_module_find(base, "engine"))->engine;
    copy_model *m = e->model;
    if (e->rule == 0 && e->mask == CLASS_MASK_CAUSAL && e->dropout == m->settings.dropout)
        return e->forward(base, tokens);
    th_tensor *h = embed(m, tokens);
    class_heads a = class_project(e, h);
    if (e->rule)
        mix_with_rule(e, &a);
    else
        class_mix_heads(e, &a);
    th_tensor *f = th_module_forward(th_module_find(m->attention, "out_proj"), a.merged);
    h = e->rule ? th_apply(class_op(CLASS_RESIDUAL, e->rule), NULL, h, f) : th_add(h, f);
    return th_module_forward(m->output, h);
}

void class_replace_forward(class_engine *e)
{
    th_module *model = &e->model->base;
    engine_link *link = th_module_new(e->ctx, sizeof *link, "engine", NULL);
    if (link == NULL || th_module_add(model, "engine", &link->base) == NULL)
        return; /* the context has the error */
    link->engine = e;
    e->forward = model->forward;
    model->forward = forward;
}
