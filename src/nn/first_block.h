/* The first block of a stack differs: later blocks read its input (embedding_skip) and its values (value_residual). */
#ifndef TH_NN_FIRST_BLOCK_H
#define TH_NN_FIRST_BLOCK_H

#include "tapehead/transformer_block.h"

/* Adds a parameter (2) of th_mix to m, with these values. NULL with an error pending. */
th_tensor *th_mix_parameter_new(th_module *m, const char *name, double of_x, double of_first);
/* Returns factors[0] x + factors[1] first. TH_ERROR_ARGUMENT or TH_ERROR_SHAPE, for m, if first is NULL or has another
 * shape; name: the option that gives it. */
th_tensor *th_mix(const th_module *m, th_tensor *factors, th_tensor *x, th_tensor *first, const char *name);

/* Returns the options of block i of a stack. The first block mixes nothing, and only the first one lacks its norm
 * (no_first_norm). */
th_transformer_block_options th_options_of_block(const th_transformer_block_options *block, int64_t i);
/* Completes the options of a stack's blocks, which have these two options; x is the stack's input. *first_values: NULL,
 * until the first block has run. */
void th_first_block_options(th_transform_options *options, th_tensor *x, th_tensor **first_values, bool value_residual,
                            bool embedding_skip);

#endif
