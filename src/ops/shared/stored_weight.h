/* Weights of matrix products and tables of embeddings, whose type may be a storage type. */
#ifndef TH_OPS_SHARED_STORED_WEIGHT_H
#define TH_OPS_SHARED_STORED_WEIGHT_H

#include "tapehead/op.h"

/* In a shape rule: checks that input i is floating, or of a storage type with contiguous rows. Writes the weight as an
 * array of numbers to *weight, for th_array_text and sizes: a block counts as its numbers in sizes and strides. The
 * type stays. */
th_status th_call_weight(th_call *call, int i, th_array *weight);

/* Returns the weight that a shape rule has accepted as an array of numbers. */
th_array th_weight_numbers(const th_array *weight);

/* Converts a weight of a storage type to the type of x; returns another weight itself. For compositions. */
th_tensor *th_weight_like(th_tensor *weight, th_tensor *x);

#endif
