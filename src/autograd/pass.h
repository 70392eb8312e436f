/* One backward pass: its range of nodes, the gradients requested by th_backward_options.wrt, and the leaves that it
 * wrote to. backward.c begins a pass, runs the nodes, and ends it. */
#ifndef TH_AUTOGRAD_PASS_H
#define TH_AUTOGRAD_PASS_H

#include "autograd/tape.h"
#include "tensor/gradient_buffer.h"

/* A tensor of th_backward_options.wrt. During the pass, `buffer` replaces the gradient buffer of its root. */
typedef struct th_requested {
    th_gradient_buffer buffer;
    th_gradient_buffer *original;
} th_requested;

typedef struct th_pass {
    th_context *ctx;
    const th_backward_options *options;
    int64_t last, first;                /* the pass goes from node `last` down to node `first` */
    th_requested *requested;            /* [n_requested]; NULL: the gradients of all leaves are wanted */
    int n_requested;                    /* fewer than options->n_wrt if several have the same root */
    th_gradient_buffer *written_leaves; /* of leaves, linked by next_listed */
} th_pass;

/* Prepares a pass from t: replaces the gradient buffers of wrt, marks the nodes that are needed, and writes dL/dt.
 * th_pass_end must follow, also after an error. */
th_status th_pass_begin(th_pass *pass, th_tensor_impl *t, const th_backward_options *options);
/* Stores the gradients of wrt, restores their buffers, and completes the gradients of leaves. After an error it empties
 * every gradient that the pass wrote. Returns the pending error. */
th_status th_pass_end(th_pass *pass);
/* Returns whether the pass needs the gradient of input i of a node. */
bool th_pass_wants(const th_pass *pass, const th_node *node, int i);

#endif
