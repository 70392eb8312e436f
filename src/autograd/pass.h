/* One backward pass, while it runs: where it begins, the places that it brings for the gradients it was asked for, the
 * leaves' that it has written to, and how all of that ends. */
#ifndef TH_AUTOGRAD_PASS_H
#define TH_AUTOGRAD_PASS_H

#include "autograd/tape.h"
#include "tensor/gradient_buffer.h"

/* A place of the pass's own, which stands in the stead of the root's meanwhile. */
typedef struct th_chosen {
    th_gradient_buffer place;
    th_gradient_buffer *before;
} th_chosen;

struct th_pass {
    th_context *ctx;
    const th_backward_options *options;
    int64_t last, lowest; /* the nodes it goes through, from the last down */
    th_chosen *chosen;    /* [n_chosen]; NULL: all leaves are wanted */
    int n_chosen;
    th_gradient_buffer *written; /* leaves' places, linked by next_listed */
};

/* Chooses the places, finds out which nodes lead to them, and writes the gradient of t itself. th_pass_end in either
 * case. */
th_status th_pass_begin(th_pass *pass, th_tensor_impl *t, const th_backward_options *options);
/* Hands out the chosen gradients and completes those of leaves; after an error all that the pass has written is empty.
 * Returns the pending error. */
th_status th_pass_end(th_pass *pass);
/* The pass wants the gradient of a node's input (which must have required one when the node was recorded, too). */
bool th_pass_wants(const th_pass *pass, const th_node *node, int i);

#endif
