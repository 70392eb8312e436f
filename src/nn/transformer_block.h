/* Internal functions that blocks, stacks and whole models share. */
#ifndef TH_NN_TRANSFORMER_BLOCK_H
#define TH_NN_TRANSFORMER_BLOCK_H

#include "nn/module.h"
#include "tapehead/transformer_block.h"

enum { TH_MAX_LAYERS = 1 << 16 }; /* so that a larger number is an error before memory runs out */

/* The type of modules that th_transformer_block_new makes. */
extern const th_module_type th_block_type;

/* Applies a block to x. The block's forward must have begun. The caller must end it with the requested attention
 * weights among its results (th_module_end_with), so that they outlive the forward's scope. */
th_tensor *th_block_transform(const th_module *block, th_tensor *x, const th_transform_options *given);

/* Applies the activation of an MLP. */
th_tensor *th_activate(th_tensor *x, th_activation activation);

/* The distribution of a weight (out, in). */
typedef struct th_weight_draw {
    enum { TH_DRAW_NORMAL, TH_DRAW_UNIFORM, TH_DRAW_ZERO } kind; /* uniform: in +-1 / sqrt(in) */
    double deviation;                                            /* of the normal distribution */
} th_weight_draw;

/* Draws a weight again. */
th_status th_draw_weight(th_tensor *weight, th_weight_draw draw);
/* Draws the weights of a block again, in the order of th_module_parameters: weights that end a residual branch
 * (self_attn.out_proj, linear2) from `last`, the others from `inner`. Biases become 0. */
th_status th_block_initialize(const th_module *block, th_weight_draw inner, th_weight_draw last);

/* Ends a forward. Its results are y, `count` tensors of each of given->weights and given->memory_weights that is not
 * NULL, and *given->first_values. Returns y; NULL with an error pending. */
th_tensor *th_module_end_with(th_module *m, th_tensor *y, int64_t count, const th_transform_options *given);

/* Replaces sizes of 0 by their defaults. */
void th_block_fill_defaults(th_transformer_block_options *block, int64_t width, int64_t heads);

/* Creates a norm of the kind that a block with these options has, for a stack or model of such blocks. */
th_module *th_block_norm_new(th_context *ctx, int64_t width, const th_transformer_block_options *block);

/* Returns TH_ERROR_ARGUMENT unless all sizes are positive. name: the name of each size. */
th_status th_check_positive_sizes(th_context *ctx, const char *model, int count, const char *const *name,
                                  const int64_t *size);

/* Returns TH_ERROR_ARGUMENT unless 0 <= rate < 1. */
th_status th_check_rate(th_context *ctx, const char *model, const char *name, double rate);

#endif
