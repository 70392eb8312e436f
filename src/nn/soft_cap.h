/* Logits with a soft cap, and their cross entropy in chunks. */
#ifndef TH_NN_SOFT_CAP_H
#define TH_NN_SOFT_CAP_H

#include "tapehead/ops.h"

/* Returns cap tanh(logits / cap) (Gemma Team 2024); logits if cap is 0. */
th_tensor *th_soft_capped(th_tensor *logits, double cap);

/* Returns th_cross_entropy of th_soft_capped(x weight^T, cap): x (B, T, E), weight (V, E), targets (B, T). Only a chunk of
 * the logits exists at a time, and backward computes them again. */
th_tensor *th_soft_capped_cross_entropy(th_tensor *x, th_tensor *weight, double cap, th_tensor *targets,
                                        const th_cross_entropy_options *options);

#endif
