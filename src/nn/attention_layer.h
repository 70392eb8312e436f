/* The multi-head attention layer: multi_head_attention.c creates it, attend.c runs it, and the cache refers to it. */
#ifndef TH_NN_ATTENTION_LAYER_H
#define TH_NN_ATTENTION_LAYER_H

#include "nn/lora.h"
#include "tapehead/layers.h"

/* The projection of query, key or value into all heads: y = x W^T + b, (N, input) -> (N, rows). */
typedef struct th_input_projection {
    th_tensor *weight; /* (rows, input), or NULL: W is rows begin .. begin + rows - 1 of in_proj_weight */
    int64_t input, rows;
    int64_t begin; /* b is rows begin .. begin + rows - 1 of in_proj_bias */
    th_lora *lora; /* the adapter, or NULL */
} th_input_projection;

typedef struct th_attention_layer {
    th_module base;
    th_tensor *in_proj_weight; /* (3 E, E), the weights of query, key and value; NULL: each has its own */
    th_tensor *in_proj_bias;   /* (query.rows + key.rows + value.rows), or NULL */
    th_input_projection query, key, value;
    th_module *q_norm, *k_norm; /* RMSNorm over each head, or with scores.qk_norm_whole over all heads; or NULL */
    th_tensor *value_residual;  /* (2): the factors of the layer's own values and of the first layer's; or NULL */
    th_module *out_proj;        /* dense */
    int64_t heads, kv_heads;
    double dropout, scale;
    th_score_options scores;
} th_attention_layer;

/* Returns whether attention is the same without this mask. */
bool th_mask_hides_nothing(const th_mask *mask);

/* The type of modules that th_multi_head_attention_new makes. */
extern const th_module_type th_attention_type;

#endif
