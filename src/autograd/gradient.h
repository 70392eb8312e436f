/* The gradient memory of a root: made when first written, shared while nobody adds, given back when used up. */
#ifndef TH_AUTOGRAD_GRADIENT_H
#define TH_AUTOGRAD_GRADIENT_H

#include "autograd/tape.h"

/* Something has been written to it. */
static inline bool th_gradient_begun(const th_body *root)
{
    return root->gradient_full || root->covered;
}
/* The current backward wants dL/dt; t may be NULL. */
bool th_gradient_wanted(const th_context *ctx, const th_body *t);
/* The same of a node's input: it must have required a gradient when the node was recorded, too. */
bool th_input_gradient_wanted(const th_context *ctx, const th_node *node, int i);
/* Makes t's part of its root's gradient ready to be written; *add says that it holds something to add to. */
th_status th_gradient_open(th_context *ctx, th_body *t, bool *add);
/* Memory for a root's gradient, which stays empty; what an earlier call's forward wrote there no longer counts. */
th_status th_gradient_reserve(th_context *ctx, th_body *root);
/* t's part as an array. */
th_array th_gradient_array(const th_body *t);
/* root's gradient is this memory, complete, shared until somebody adds to it. */
void th_gradient_share(th_body *root, th_storage *storage);
/* root's gradient, complete, takes the memory of its value, which is gone. */
th_status th_gradient_take_value(th_context *ctx, th_body *root);
/* What is in t's root's gradient, a leaf's, no longer counts. */
void th_gradient_empty(const th_body *t);
/* Zeros in what nobody wrote. */
void th_gradient_complete(th_body *root);
/* The node that made root has been visited: the memory goes back, or is kept for reading. */
void th_gradient_used_up(th_body *root);

/* A handle on t's part of a gradient's memory. NULL with TH_ERROR_MEMORY. */
th_body *th_gradient_alias(th_body *t, th_storage *storage, bool owned);

/* Around a backward pass. end hands out chosen gradients, completes those of leaves, and undoes all after an error.
 * Returns the pending error. */
th_status th_gradients_begin(th_context *ctx, const th_backward_options *options);
th_status th_gradients_end(th_context *ctx, const th_backward_options *options);

#endif
