/* Finds the projections of a module tree: dense layers, and the rows of query, key and value of attention layers. */
#include <stdio.h>
#include <string.h>

#include "kernels/dtype.h"
#include "nn/attention_layer.h"
#include "nn/layers.h"
#include "tapehead/language_model.h"
#include "tapehead/tensor.h"
#include "tapehead/transformer.h"

enum { ATTENTION_PARTS = 3 };

th_projection th_projections_of(const th_module *m)
{
    return (th_projection){.root = m, .part = -1};
}

/* Sets name to the owner's name and, unless it is "", another part. (The names of the owner's parameters are longer.) */
static void put_name(char name[TH_FULL_NAME_SIZE], const th_projection *p, const char *last)
{
    const size_t length = strlen(th_module_name_below(p->owner, p->root, name));
    if (last[0])
        snprintf(name + length, TH_FULL_NAME_SIZE - length, "%s%s", length ? "." : "", last);
}

static void be_attention_part(th_projection *p)
{
    static const char *const last[ATTENTION_PARTS] = {"q_proj", "k_proj", "v_proj"}, *const child[ATTENTION_PARTS] = {
                                                                                         "q_lora", "k_lora", "v_lora"};
    th_attention_layer *l = (th_attention_layer *)p->owner;
    th_input_projection *const part[ATTENTION_PARTS] = {&l->query, &l->key, &l->value};
    th_input_projection *own = part[p->part];
    put_name(p->name, p, last[p->part]);
    put_name(p->whole, p, "in_proj");
    p->child = child[p->part];
    p->weight = own->weight ? own->weight : l->in_proj_weight;
    p->begin = own->weight ? 0 : own->begin;
    p->rows = own->rows;
    p->input = own->input;
    p->classifier = false;
    p->lora = &own->lora;
}

static void be_dense(th_projection *p)
{
    th_dense_layer *l = (th_dense_layer *)p->owner;
    const th_module *parent = l->base.parent;
    put_name(p->name, p, "");
    p->whole[0] = 0;
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
    if (p->owner && th_module_is(p->owner, &th_attention_type) && ++p->part < ATTENTION_PARTS) {
        be_attention_part(p);
        return true;
    }
    const th_module *m = p->owner ? th_module_after(p->owner, p->root) : p->root;
    while (m && !th_module_is(m, &th_attention_type) && !th_module_is(m, &th_dense_type))
        m = th_module_after(m, p->root);
    p->owner = (th_module *)m; /* (the tree that the caller passed) */
    p->part = 0;
    if (m && th_module_is(m, &th_attention_type))
        be_attention_part(p);
    else if (m)
        be_dense(p);
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
