/* What blocks, stacks and whole models share. */
#ifndef TH_NN_TRANSFORMER_BLOCK_H
#define TH_NN_TRANSFORMER_BLOCK_H

#include "nn/module.h"
#include "tapehead/transformer_block.h"

enum { TH_MAX_LAYERS = 1 << 16 }; /* a slip is refused at once, not when memory is out */

/* The forward of every block, which tells one from other modules. */
th_tensor *th_block_forward(th_module *m, th_tensor *x);
/* What th_transform does to x in a block whose forward has begun. Weights that are asked for are results. */
th_tensor *th_block_transform(const th_module *block, th_tensor *x, const th_transform_options *given);

/* Runs the replaced forward of a block, a stack or its attention on x. TH_ERROR_ARGUMENT if the options have something
 * that it would not get. */
th_tensor *th_transform_replaced(th_module *m, th_tensor *x, const th_transform_options *given);

/* Ends a forward whose results are y and, where they were asked for, count tensors of weights each. Returns y, NULL
 * with an error pending. */
th_tensor *th_module_end_with(th_module *m, th_tensor *y, int64_t count, th_tensor *const *weights,
                              th_tensor *const *memory_weights);

/* Fills in the sizes that were left to the default. */
void th_block_complete(th_transformer_block_options *block, int64_t width, int64_t heads);
/* The norm that a block with these options has, for what stands around blocks. */
th_module *th_block_norm_new(th_context *ctx, int64_t width, const th_transformer_block_options *block);

/* TH_ERROR_ARGUMENT unless all sizes are positive. name: of each. */
th_status th_check_given(th_context *ctx, const char *model, int count, const char *const *name, const int64_t *size);
/* The same for 0 <= rate < 1. */
th_status th_check_rate(th_context *ctx, const char *model, const char *name, double rate);

#endif
