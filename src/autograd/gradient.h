/* The state changes of a gradient buffer (tensor/gradient_buffer.h). They decide when its memory is allocated, shared
 * and released, and whether a write overwrites or adds. backward.c and pass.c call these functions; operations never
 * do. */
#ifndef TH_AUTOGRAD_GRADIENT_H
#define TH_AUTOGRAD_GRADIENT_H

#include "autograd/tape.h"
#include "tensor/gradient_buffer.h"

/* -- reading -- */
/* Sets *array to t's gradient, a view of its root's gradient. */
void th_gradient_array(const th_tensor_impl *t, th_array *array);
/* Returns t's gradient as a tensor of the step or, for a leaf, as a tensor that lives as long as the leaf. Returns NULL
 * without a gradient, or with TH_ERROR_MEMORY. */
th_tensor_impl *th_gradient_tensor(th_tensor_impl *t);

/* -- during a pass -- */
/* Prepares t's gradient, a view of its root's gradient, for a write, and sets *target to it. *add becomes true if the
 * gradient already contains values: the caller must then add to them. Adds a leaf's buffer to the list *written. */
th_status th_gradient_open_for_write(th_gradient_buffer **written, th_tensor_impl *t, th_array *target, bool *add);
/* Gives input the gradient of output without a copy: both use the same memory until one of them is added to. Returns
 * false, and changes nothing, if input's gradient is not a result's, has been written to, or has another layout. */
bool th_gradient_share(th_tensor_impl *input, const th_tensor_impl *output);
/* As th_gradient_share, but only if nothing else needs output's gradient, so that input's gradient may overwrite it.
 * Otherwise returns false, and changes nothing. */
bool th_gradient_take_over(th_tensor_impl *input, const th_tensor_impl *output);
/* Lets the gradient of input, which is a result, use the memory of input's value, which nothing reads afterwards. If
 * that is not possible, *taken is false and nothing has changed. */
th_status th_gradient_take_over_value(th_tensor_impl *input, bool *taken);
/* Writes zeros to the elements that have not been written. */
void th_gradient_zero_unwritten(th_gradient_buffer *buffer);
/* Completes the gradient of a node's output and sets *array to it. Returns false if nothing has been written. */
bool th_gradient_read(const th_tensor_impl *output, th_array *array);
/* Ends the use of an output's gradient, after the backward of its node: releases it, or keeps it to be read. */
void th_gradient_release_or_keep(const th_tensor_impl *output);

/* -- outside a pass -- */
/* Empties a leaf's gradient; its memory stays. */
void th_gradient_empty(const th_tensor_impl *t);
/* Sets a leaf's gradient to zeros. Errors: TH_ERROR_MEMORY. */
th_status th_gradient_zero(th_tensor_impl *t);
/* Marks a leaf's gradient after an optimizer refused its step: it can still be read, and the next pass overwrites
 * it. */
void th_gradient_mark_finished(const th_tensor_impl *t);
/* Empties the gradient of a result and releases its memory. */
void th_gradient_release(th_gradient_buffer *buffer);
/* Puts the gradient that a pass computed into the result's own buffer, if the result's gradient is to be saved. */
void th_gradient_save(th_gradient_buffer *buffer, const th_gradient_buffer *of_pass);

/* -- precomputed gradients: precomputed.c calls these for each input of a node -- */
/* Returns whether t's gradient is empty and contiguous. */
bool th_gradient_can_be_precomputed(const th_tensor_impl *t);
/* Sets *array to memory into which a forward may write t's gradient. */
th_status th_gradient_prepare_precomputed(th_tensor_impl *t, th_array *array);
/* Marks t's gradient as written by the forward of `node`. */
void th_gradient_mark_precomputed(const th_tensor_impl *t, int64_t node);
/* Returns whether t's gradient is the one that `node` wrote: no other code has used the memory or written to it. */
bool th_gradient_is_precomputed(const th_tensor_impl *t, int64_t node);
/* Empties t's gradient if it is precomputed. */
void th_gradient_unmark_precomputed(const th_tensor_impl *t);

#endif
