/* Transformer blocks and a decoder-only language model, put together from the layers of tapehead/layers.h and the
 * operations as a program of your own would do it. Members and parameters are named as in PyTorch's
 * TransformerEncoderLayer and TransformerDecoderLayer. Every constructor returns a module of the context; NULL with the
 * error stored. B batch, T query length, S memory length, E width, H heads, V vocabulary. */
#ifndef TAPEHEAD_TRANSFORMER_H
#define TAPEHEAD_TRANSFORMER_H

#include "tapehead/layers.h"

TH_BEGIN_DECLS

/* -- blocks -- */
typedef enum th_activation {
    TH_GELU_TANH, /* the default */
    TH_GELU,
    TH_RELU,
    TH_SILU
} th_activation;

/* A block is two or three residual branches, in this order, each with a norm of its own:
 *
 *   self-attention    f(h) = attend(h, h, h)
 *   cross attention   f(h) = attend(h, memory, memory)             with cross_attention: a decoder block
 *   MLP               f(h) = linear2(drop(activation(linear1(h))))  unless no_mlp
 *
 *   pre-norm   x + drop(f(norm(x)))     Xiong et al. 2020, GPT-2; the default
 *   post-norm  norm(x + drop(f(x)))     Vaswani et al. 2017
 *
 * Members: self_attn and multihead_attn (th_multi_head_attention_new), linear1 (mlp_width, E) and linear2 (E,
 * mlp_width) (th_dense_new), norm1, norm2, norm3 (th_layer_norm_new) in the order of the branches; initialised as those
 * layers are. PyTorch's layers, whose one rate of dropout holds for the attention weights too, are this block with
 * dropout = attention_dropout. */
typedef struct th_transformer_block_options {
    int64_t mlp_width;        /* 0: 4 width */
    bool no_mlp;              /* attention alone */
    bool post_norm;           /* otherwise pre-norm */
    bool cross_attention;     /* a decoder block: attends to a memory as well */
    th_activation activation; /* of the MLP */
    double dropout;           /* in training, at the end of every branch and inside the MLP; 0 <= p < 1 */
    bool no_mlp_dropout;      /* none inside the MLP, as GPT-2 has it */
    double attention_dropout; /* in training, on the attention weights; 0 <= p < 1 */
    bool no_bias;             /* of attention, MLP and norms */
    int64_t kv_heads;         /* heads of key and value, a divisor of heads; 0: heads */
    double eps;               /* of the norms; 0: 1e-5 */
} th_transformer_block_options;
TH_API th_module *th_transformer_block_new(th_context *ctx, int64_t width, int64_t heads,
                                           const th_transformer_block_options *options);

/* (B, T, E) -> (B, T, E). mask is over the scores (B, H, T, T) of self-attention, memory_mask over those of cross
 * attention, (B, H, T, S); options may be NULL. What hidden rows of the memory hold reaches nothing, what hidden rows
 * of x hold reaches their own rows of the result only (and gradients of parameters from there: rows that are not finite
 * make those not finite). th_module_forward(block, x) is th_transform(block, x, NULL), so that encoder blocks work in a
 * list. Errors: a width that is not the block's, a memory that is missing or that the block cannot use. */
typedef struct th_transform_options {
    const th_mask *mask;
    th_tensor *memory; /* (B, S, E); given exactly when the block has cross attention */
    const th_mask *memory_mask;
} th_transform_options;
TH_API th_tensor *th_transform(th_module *block, th_tensor *x, const th_transform_options *options);

/* -- decoder-only language model -- */
/* GPT-2 (Radford et al. 2019) for the zero value of dropout and block:
 *
 *   x = drop(embedding[tokens] + position[0 .. T))
 *   x = layers.i(x)                   causal blocks, pre-norm, without dropout inside the MLP
 *   logits = norm(x) embedding^T      the embedding is the classifier too (tied)
 *
 * Parameters: embedding.weight (V, E), position.weight (length, E), layers.0 ... (blocks), norm.weight and norm.bias
 * (pre-norm only: post-norm blocks end with a norm). Weights, embedding and position embeddings: N(0, 0.02^2), those
 * that end a residual branch (self_attn.out_proj, linear2) N(0, 0.02^2 / n) with n branches; biases 0, norms 1. */
typedef struct th_language_model_options {
    int64_t vocabulary, length, width, heads, layers; /* all must be given; length: the most tokens in a sequence */
    double dropout;                                   /* in training, on the embedding and at the end of every branch */
    th_transformer_block_options block; /* no cross_attention; its dropout, when given, holds for the branches */
} th_language_model_options;
TH_API th_module *th_language_model_new(th_context *ctx, const th_language_model_options *options);
/* th_module_forward(model, tokens): tokens (B, T) int32/int64 in [0, V), T <= length -> logits (B, T, V). */

/* th_cross_entropy(th_module_forward(model, tokens), targets, options), a scalar: targets (B, T); targets[b, t] is the
 * token that follows tokens[b, t]. The classifier and its loss run as one operation (th_dense_cross_entropy), which
 * holds a chunk of the logits at a time; composed when fusion is off. */
TH_API th_tensor *th_language_model_loss(th_module *model, th_tensor *tokens, th_tensor *targets,
                                         const th_cross_entropy_options *options);

/* -- with the caller's line -- */
#define th_transformer_block_new(...) TH_AT_POINTER(th_module, th_transformer_block_new(__VA_ARGS__))
#define th_transform(...) TH_AT(th_transform(__VA_ARGS__))
#define th_language_model_new(...) TH_AT_POINTER(th_module, th_language_model_new(__VA_ARGS__))
#define th_language_model_loss(...) TH_AT(th_language_model_loss(__VA_ARGS__))

TH_END_DECLS

#endif
