/* The attention layer from inside: what its constructor makes, its forward uses, and the cache asks of it. */
#ifndef TH_NN_ATTENTION_LAYER_H
#define TH_NN_ATTENTION_LAYER_H

#include "nn/module.h"
#include "tapehead/layers.h"

typedef struct th_attention_layer {
    th_module base;
    th_module *out_proj;
    th_module *q_norm, *k_norm;                               /* over each head, or NULL */
    th_tensor *in_proj_weight;                                /* (3 E, E), or NULL and the next three */
    th_tensor *q_proj_weight, *k_proj_weight, *v_proj_weight; /* (rows[i], input[i]) */
    th_tensor *in_proj_bias;                                  /* (rows[0] + rows[1] + rows[2]) or NULL */
    int64_t heads, kv_heads;
    int64_t input[3], rows[3]; /* of query, key, value: width that comes in, rows of the projection */
    double dropout, scale;
    th_score_options scores;
} th_attention_layer;

/* There is no forward from one tensor to one; this also tells the layer from other modules. */
th_tensor *th_attention_no_forward(th_module *m, th_tensor *x);

/* Whether it was made by th_multi_head_attention_new. */
static inline bool th_is_attention(const th_module *m)
{
    return th_module_is(m, th_attention_no_forward);
}

#endif
