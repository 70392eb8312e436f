/* Finds the projections of a module tree: dense layers, and the rows of query, key and value of attention layers. */
#include <stdio.h>
#include <string.h>

#include "kernels/dtype.h"
#include "nn/attention_layer.h"
#include "nn/layers.h"
#include "tapehead/language_model.h"
#include "tapehead/tensor.h"
#include "tapehead/transformer.h"

enum { ATTENTION_INPUTS = 3 };

th_projection th_projections_begin(const th_module *m)
{
    return (th_projection){.root = m, .input_index = -1};
}

/* Sets name to the owner's name and, unless `last` is "", a dot and `last`. (It fits, because the names of the owner's
 * parameters are longer.) */
static void set_name(char name[TH_FULL_NAME_SIZE], const th_projection *p, const char *last)
{
    const size_t length = strlen(th_module_name_below(p->owner, p->root, name));
    if (last[0])
        snprintf(name + length, TH_FULL_NAME_SIZE - length, "%s%s", length ? "." : "", last);
}

static void set_attention_projection(th_projection *p)
{
    static const char *const last[ATTENTION_INPUTS] = {"q_proj", "k_proj", "v_proj"}, *const child[ATTENTION_INPUTS] = {
                                                                                          "q_lora", "k_lora", "v_lora"};
    th_attention_layer *l = (th_attention_layer *)p->owner;
    th_input_projection *const projections[ATTENTION_INPUTS] = {&l->query, &l->key, &l->value};
    th_input_projection *projection = projections[p->input_index];
    set_name(p->name, p, last[p->input_index]);
    set_name(p->joint_name, p, "in_proj");
    p->child = child[p->input_index];
    p->weight = projection->weight ? projection->weight : l->in_proj_weight;
    p->begin = projection->weight ? 0 : projection->begin;
    p->rows = projection->rows;
    p->input = projection->input;
    p->classifier = false;
    p->lora = &projection->lora;
}

static void set_dense_projection(th_projection *p)
{
    th_dense_layer *l = (th_dense_layer *)p->owner;
    const th_module *parent = l->base.parent;
    set_name(p->name, p, "");
    p->joint_name[0] = 0;
    p->child = "lora";
    p->weight = l->weight;
    p->begin = 0;
    p->rows = th_size(l->weight, 0);
    p->input = th_size(l->weight, 1) * th_dtype_numbers(th_dtype_of(l->weight));
    p->classifier = parent && (th_language_model_options_of(parent) || th_transformer_options_of(parent));
    p->lora = &l->lora;
}

bool th_projection_next(th_projection *p)
{
    if (p->owner && th_module_is(p->owner, &th_attention_type) && ++p->input_index < ATTENTION_INPUTS) {
        set_attention_projection(p);
        return true;
    }
    const th_module *m = p->owner ? th_module_next(p->owner, p->root) : p->root;
    while (m && !th_module_is(m, &th_attention_type) && !th_module_is(m, &th_dense_type))
        m = th_module_next(m, p->root);
    p->owner = (th_module *)m; /* (the tree that the caller passed) */
    p->input_index = 0;
    if (m && th_module_is(m, &th_attention_type))
        set_attention_projection(p);
    else if (m)
        set_dense_projection(p);
    else
        p->root = NULL; /* the end, also of further calls */
    return m != NULL;
}

bool th_projection_next_adapted(th_projection *p)
{
    while (th_projection_next(p))
        if (*p->lora)
            return true;
    return false;
}
