/* Precomputed gradients. A forward may compute the gradients of its inputs (th_op.precomputed), if its backward would
 * have to compute the same values again. For example, th_dense_cross_entropy does not save its logits, so its backward
 * would have to compute them again. Forward writes the
 * gradients to the gradient buffers of the inputs, and these count as empty until backward. If other code uses such a
 * buffer before backward, the precomputed gradient is lost, and backward computes all gradients. */
#ifndef TH_AUTOGRAD_PRECOMPUTED_H
#define TH_AUTOGRAD_PRECOMPUTED_H

#include "autograd/frame.h"
#include "autograd/pass.h"

/* Prepares a forward that will be recorded. If forward can write all wanted gradients, sets input_gradient and
 * call.precomputed. */
th_status th_precomputed_prepare(th_frame *frame, int n_inputs, th_tensor_impl *const *inputs);
/* Notes in the gradient buffers of the inputs that the forward of `node` has written them. */
void th_precomputed_mark(const th_frame *frame, int n_inputs, th_tensor_impl *const *inputs, int64_t node);
/* Returns whether all precomputed gradients that the pass wants are still valid. */
bool th_precomputed_is_valid(const th_pass *pass, const th_node *node);
/* Empties the gradient buffers that the node's forward has written. th_tape_clear calls it. */
void th_precomputed_discard(const th_node *node);

#endif
