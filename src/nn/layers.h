/* Layers that the models' code needs beyond tapehead/layers.h. */
#ifndef TH_NN_LAYERS_H
#define TH_NN_LAYERS_H

#include "nn/lora.h"
#include "tapehead/ops.h"

/* -- the dense layer: layers.c creates and runs it, and adapters refer to its weight -- */

typedef struct th_dense_layer {
    th_module base;
    th_tensor *weight, *bias; /* (out, in), (out) or NULL */
    th_lora *lora;            /* the adapter, or NULL */
} th_dense_layer;

/* The type of modules that th_dense_new makes. */
extern const th_module_type th_dense_type;

/* -- logits with a soft cap or a bias, and their cross entropy in chunks (soft_cap.c) -- */

/* Returns cap tanh(logits / cap) (Gemma Team 2024); logits if cap is 0. */
th_tensor *th_soft_capped(th_tensor *logits, double cap);

/* Returns th_cross_entropy of th_soft_capped(x weight^T + bias, cap): x (B, T, E), weight (V, E), bias (V) or NULL,
 * targets (B, T). Only a chunk of the logits exists at a time, and backward computes them again. */
th_tensor *th_soft_capped_cross_entropy(th_tensor *x, th_tensor *weight, th_tensor *bias, double cap,
                                        th_tensor *targets, const th_cross_entropy_options *options);

#endif
