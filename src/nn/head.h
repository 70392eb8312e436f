/* The head of a language model: the layers that replace its classifier, and the names of their labels. */
#ifndef TH_NN_HEAD_H
#define TH_NN_HEAD_H

#include "nn/transformer_block.h"
#include "tapehead/language_model.h"

/* Returns TH_ERROR_ARGUMENT for options that no head has. */
th_status th_head_check(th_context *ctx, const char *operation, const th_head_options *options);
/* Sets what follows from other members. dropout: of the model. */
void th_head_fill_defaults(th_head_options *options, double dropout);

/* Creates a head for hidden states of this width. options are complete; the head copies them without the names. block: the
 * options of the model's blocks. */
th_module *th_head_new(th_context *ctx, int64_t width, const th_head_options *options,
                       const th_transformer_block_options *block);
/* Draws the weights of a head. Its biases become 0. */
TH_PRIVATE_API th_status th_head_initialize(th_module *head, th_weight_draw draw);
/* Returns the logits of hidden states x (B, T, E). lengths: the number of tokens in each row, or NULL. */
th_tensor *th_head_logits(th_module *head, th_tensor *x, th_tensor *lengths);

/* Copies the names to one block of memory, which th_label_names_release releases. Returns NULL with the error pending, or
 * if names is NULL. */
TH_PRIVATE_API const char *const *th_label_names_copy(th_context *ctx, const char *operation, const char *const *names,
                                                      int64_t count);
TH_PRIVATE_API void th_label_names_release(th_context *ctx, const char *const *names, int64_t count);

#endif
