/* Parameters of the optimizers' kernels. The caller computes every number that is the same for all elements of a
 * step. */
#ifndef TH_KERNELS_ELEMENTWISE_OPTIMIZER_KERNELS_H
#define TH_KERNELS_ELEMENTWISE_OPTIMIZER_KERNELS_H

#include <stdbool.h>

/* One step of Adam (Kingma & Ba 2015), AdamW (Loshchilov & Hutter 2019) or AMSGrad (Reddi et al. 2018) on a run of
 * parameters p:
 *
 *     g = gradient_scale * gradient + weight_decay * p, limited to +-2^63 in float32, +-2^511 in float64
 *     m += (1 - beta1) (g - m)
 *     v += (1 - beta2) (g² - v);  with AMSGrad largest = max(largest, v) replaces v below
 *     p -= shrink * p
 *     p -= step_size * m / (sqrt(second_scale * v + eps_inside) + eps_outside)
 *
 * Step t has step_size = learning rate / (1 - beta1^t) and second_scale = 1 / (1 - beta2^t); AdamW's decay is
 * shrink = learning rate * weight decay with weight_decay = 0. */
typedef struct th_adam_update {
    double gradient_scale; /* not 0 */
    double weight_decay;
    double beta1, beta2;
    double shrink;
    double step_size, second_scale;
    double eps_inside, eps_outside;
} th_adam_update;

/* One step of gradient descent with momentum (Sutskever et al. 2013), as PyTorch defines it:
 *
 *     g = gradient_scale * gradient + weight_decay * p
 *     velocity = momentum * velocity + g;  u = nesterov ? g + momentum * velocity : velocity
 *     p -= learning_rate * u
 *
 * Without a velocity u = g. velocity and u are limited to the largest finite number. */
typedef struct th_sgd_update {
    double gradient_scale; /* 0 (dampening of 1): weight_decay is 0 too */
    double weight_decay;
    double momentum;
    bool nesterov;
    double learning_rate;
} th_sgd_update;

/* The momentum of Muon (Jordan et al. 2024), as PyTorch defines it:
 *
 *     g = gradient_scale * gradient, limited to +-2^48 in float32, +-2^480 in float64
 *     m += (1 - momentum) (g - m)
 *     gradient = nesterov ? g + momentum (m - g) : m
 *
 * The limits keep the sum of the squares of a matrix finite, even as a sum in the same type. */
typedef struct th_muon_update {
    double gradient_scale;
    double momentum;
    bool nesterov;
} th_muon_update;

#endif
