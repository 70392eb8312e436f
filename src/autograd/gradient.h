/* What happens to the place of a gradient (tensor/gradient_buffer.h): opened and written part by part, shared while nobody adds,
 * released when it is used up. */
#ifndef TH_AUTOGRAD_GRADIENT_H
#define TH_AUTOGRAD_GRADIENT_H

#include "autograd/pass.h"
#include "tensor/gradient_buffer.h"

/* -- reading -- */
/* *array: t's part. */
void th_gradient_array(const th_tensor_impl *t, th_array *array);
/* t's gradient as a tensor of the step (a leaf's own: one that ends with it). NULL when there is none, or memory is
 * out. */
th_tensor_impl *th_gradient_tensor(th_tensor_impl *t);

/* -- moves in a pass -- */
/* *target is t's part, ready to be written; *add says that it holds something to add to. */
th_status th_gradient_open(th_pass *pass, th_tensor_impl *t, th_array *target, bool *add);
/* The gradient of input, a result of which nothing is written, is that of output and lies alike: they have one memory,
 * until somebody adds to it. False, and nothing has happened, when it cannot be. */
bool th_gradient_share(th_tensor_impl *input, const th_tensor_impl *output);
/* The same for an input whose gradient is to be written over the output's: nobody else may need that. */
bool th_gradient_take_over(th_tensor_impl *input, const th_tensor_impl *output);
/* The gradient of input, a result, takes the memory of its value, which nobody reads any more. *taken is false, and
 * nothing has happened, when it cannot. */
th_status th_gradient_take_over_value(th_tensor_impl *input, bool *taken);
/* Zeros in what nobody wrote. */
void th_gradient_complete(th_gradient_buffer *place);
/* The gradient of a node's output, complete; false, and *array untouched, when nothing has been written. */
bool th_gradient_read(const th_tensor_impl *output, th_array *array);
/* The node that made this output has had its backward: the memory goes back, or is kept for reading. */
void th_gradient_release(const th_tensor_impl *output);

/* -- moves around a pass -- */
/* What is in it no longer counts: of a leaf, emptied by its owner or by a pass that failed. */
void th_gradient_empty(const th_tensor_impl *t);
/* An optimizer step was refused: the gradient stays to be looked at, the next pass overwrites it. */
void th_gradient_refuse(const th_tensor_impl *t);
/* The memory of a result's goes back, whatever is in it. */
void th_gradient_give_back(th_gradient_buffer *place);
/* A result's own place keeps for reading what a pass has brought to a chosen one. */
void th_gradient_keep_chosen(th_gradient_buffer *place, const th_gradient_buffer *chosen);

/* -- gradients that a forward computes: what early.c does with all those of a call -- */
/* Empty, and in one run: *array is memory for it. */
bool th_gradient_can_be_precomputed(const th_tensor_impl *t);
th_status th_gradient_offer(th_tensor_impl *t, th_array *array);
/* The forward of `node` has written it. */
void th_gradient_claim(const th_tensor_impl *t, int64_t node);
/* That still stands: nobody has taken the memory, or written to it through a handle from before. */
bool th_gradient_claimed(const th_tensor_impl *t, int64_t node);
void th_gradient_unclaim(const th_tensor_impl *t);

#endif
