/* Gradients that a forward computes (th_op.precomputed), because its backward would have to recompute the same values:
 * the classifier, which saves no logits. They are stored in the gradient buffers of the inputs, which count as empty
 * until backward. Any other use of a buffer before then takes its memory, and backward computes the gradients. */
#ifndef TH_AUTOGRAD_PRECOMPUTED_H
#define TH_AUTOGRAD_PRECOMPUTED_H

#include "autograd/frame.h"
#include "autograd/pass.h"

/* Before a forward that will be recorded: sets input_gradient and call.precomputed if forward can write all the
 * gradients that are wanted. */
th_status th_precomputed_offer(th_frame *frame, int n, th_tensor_impl *const *inputs);
/* After the forward was recorded as `node`: marks the gradients that it wrote as precomputed by this node. */
void th_precomputed_claim(const th_frame *frame, int n, th_tensor_impl *const *inputs, int64_t node);
/* Returns whether all precomputed gradients that the pass wants are still valid. */
bool th_precomputed_valid(const th_pass *pass, const th_node *node);
/* At a clear: empties the buffers whose gradients were precomputed. */
void th_precomputed_discard(const th_node *node);

#endif
