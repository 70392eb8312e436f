/* The projections of query, key and value in an attention layer: y = x W^T + b, with the adapters. */
#ifndef TH_NN_ATTENTION_PROJECTIONS_H
#define TH_NN_ATTENTION_PROJECTIONS_H

#include "nn/attention_layer.h"

/* The operands of attention: first as projected, then split into heads. */
typedef struct th_attention_operands {
    th_tensor *query, *key, *value;
} th_attention_operands;

/* Projects x (N, input) -> (N, rows) with one of the layer's projections. */
th_tensor *th_attention_project(const th_attention_layer *l, const th_input_projection *p, th_tensor *x);
/* Projects all three. Tensors that are the same tensor share a product. */
th_attention_operands th_attention_project_all(const th_attention_layer *l, th_tensor *query, th_tensor *key,
                                               th_tensor *value);

#endif
