/* The dense layer: layers.c creates and runs it, and adapters refer to its weight. */
#ifndef TH_NN_DENSE_LAYER_H
#define TH_NN_DENSE_LAYER_H

#include "nn/lora.h"

typedef struct th_dense_layer {
    th_module base;
    th_tensor *weight, *bias; /* (out, in), (out) or NULL */
    th_lora *lora;            /* the adapter, or NULL */
} th_dense_layer;

/* The type of modules that th_dense_new makes. */
extern const th_module_type th_dense_type;

#endif
