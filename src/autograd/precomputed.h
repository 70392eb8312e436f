/* Precomputed gradients: a forward computes them (th_op.precomputed), because its backward would have to compute the
 * same values again. For example, th_dense_cross_entropy saves no logits. The gradients are in the gradient buffers of
 * the inputs, which count as empty until backward. Code that uses such a buffer before
 * backward takes its memory, and backward computes the gradients. */
#ifndef TH_AUTOGRAD_PRECOMPUTED_H
#define TH_AUTOGRAD_PRECOMPUTED_H

#include "autograd/frame.h"
#include "autograd/pass.h"

/* Prepares a forward that will be recorded: sets input_gradient and call.precomputed if forward can write all wanted
 * gradients. */
th_status th_precomputed_prepare(th_frame *frame, int n, th_tensor_impl *const *inputs);
/* Records `node` as the one that precomputed the gradients which its forward has written. */
void th_precomputed_mark(const th_frame *frame, int n, th_tensor_impl *const *inputs, int64_t node);
/* Returns whether all precomputed gradients that the pass wants are still valid. */
bool th_precomputed_is_valid(const th_pass *pass, const th_node *node);
/* Empties the buffers whose gradients the node precomputed. th_tape_clear calls it. */
void th_precomputed_discard(const th_node *node);

#endif
