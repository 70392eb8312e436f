/* Transformer blocks and stacks of them, put together from the layers of tapehead/layers.h and the operations as a
 * program of your own would do it. Members and parameters are named as in PyTorch's TransformerEncoderLayer,
 * TransformerDecoderLayer, TransformerEncoder and TransformerDecoder. Every constructor returns a module of the
 * context; NULL with the error stored. Whole models: tapehead/language_model.h, tapehead/transformer.h. B batch, T
 * query length, S memory length, E width, H heads. */
#ifndef TAPEHEAD_TRANSFORMER_BLOCK_H
#define TAPEHEAD_TRANSFORMER_BLOCK_H

#include "tapehead/layers.h"

TH_BEGIN_DECLS

/* -- blocks -- */
typedef enum th_activation {
    TH_GELU_TANH, /* the default */
    TH_GELU,
    TH_RELU,
    TH_SILU
} th_activation;

typedef enum th_norm {
    TH_LAYER_NORM, /* the default: th_layer_norm_new */
    TH_RMS_NORM    /* th_rms_norm_new */
} th_norm;

/* A block is two or three residual branches, in this order, each with a norm of its own:
 *
 *   self-attention    f(h) = attend(h, h, h)
 *   cross attention   f(h) = attend(h, memory, memory)             with cross_attention: a decoder block
 *   MLP               f(h) = linear2(drop(activation(linear1(h))))  unless no_mlp
 *       gated         f(h) = linear2(drop(activation(gate(h)) * linear1(h)))     Shazeer 2020; SwiGLU with TH_SILU
 *
 *   pre-norm   x + drop(f(norm(x)))     Xiong et al. 2020, GPT-2; the default
 *   post-norm  norm(x + drop(f(x)))     Vaswani et al. 2017
 *
 * Members: self_attn and multihead_attn (th_multi_head_attention_new), linear1 (mlp_width, E), linear2 (E, mlp_width)
 * and gate (mlp_width, E) (th_dense_new), norm1, norm2, norm3 in the order of the branches; initialized as those layers
 * are. PyTorch's layers, whose one rate of dropout holds for the attention weights too, are this block with dropout =
 * attention_dropout; a block of Llama's is
 *
 *   {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true},
 *    .mlp_width = ..., .kv_heads = ...} */
typedef struct th_transformer_block_options {
    int64_t mlp_width;        /* 0: 4 width */
    bool no_mlp;              /* attention alone */
    bool gated;               /* the MLP has a gate */
    bool post_norm;           /* otherwise pre-norm */
    bool cross_attention;     /* a decoder block: attends to a memory as well */
    th_activation activation; /* of the MLP */
    th_norm norm;
    double dropout;           /* in training, at the end of every branch and inside the MLP; 0 <= p < 1 */
    bool no_mlp_dropout;      /* none inside the MLP, as GPT-2 has it */
    double attention_dropout; /* in training, on the attention weights; 0 <= p < 1 */
    bool no_bias;             /* of attention, MLP and norms; or without those of one of them: */
    bool no_attention_bias;
    bool no_mlp_bias;
    int64_t kv_heads;        /* heads of key and value, a divisor of heads; 0: heads */
    int64_t head_width;      /* of each head; 0: width / heads */
    th_score_options scores; /* of self-attention: rotary positions, ALiBi, a window ... */
    double eps;              /* of the norms; 0: 1e-5 */
    bool recompute;          /* the block's forward is a th_scope_begin_recomputed: of its values only the result is
                                 kept for backward, which runs it again. The same bits, less memory, more time */
} th_transformer_block_options;
TH_API th_module *th_transformer_block_new(th_context *ctx, int64_t width, int64_t heads,
                                           const th_transformer_block_options *options);

/* -- stacks -- */
/* Where a stack ends with a norm of its own. */
typedef enum th_final_norm {
    TH_FINAL_NORM_USUAL,  /* after pre-norm blocks: those of post-norm end with one themselves */
    TH_FINAL_NORM_ALWAYS, /* nn.Transformer's has it after either */
    TH_FINAL_NORM_NEVER
} th_final_norm;

/* Blocks one after another, then, perhaps, a norm. Parameters: layers.0 ..., norm.weight, norm.bias. A decoder's blocks
 * have cross attention whether block says so or not; an encoder's must not. */
typedef struct th_transformer_stack_options {
    th_transformer_block_options block;
    th_final_norm final_norm;
} th_transformer_stack_options;
TH_API th_module *th_transformer_encoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                             const th_transformer_stack_options *options);
TH_API th_module *th_transformer_decoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                             const th_transformer_stack_options *options);

/* -- running -- */
/* A block or a stack, in which every block is given the same options: (B, T, E) -> (B, T, E). mask is over the scores
 * (B, H, T, T) of self-attention, memory_mask over those of cross attention, (B, H, T, S); options may be NULL. What
 * hidden rows of the memory hold reaches nothing, what hidden rows of x hold reaches their own rows of the result only
 * (and gradients of parameters from there: rows that are not finite make those not finite). th_module_forward(block, x)
 * is th_transform(block, x, NULL), so that encoder blocks work in a list. Errors: a width that is not the block's, a
 * memory that is missing or that the block cannot use. */
typedef struct th_transform_options {
    const th_mask *mask;
    th_tensor *memory; /* (B, S, E); given exactly when there is cross attention */
    const th_mask *memory_mask;
    th_tensor *positions; /* as th_attend_options.positions; the mask has its own */
    th_cache *cache;      /* of all attention inside (tapehead/cache.h) */
    /* asked for, one for each block, so [layers] of a stack: softmax weights of self-attention (B, H, T, T) and cross
     * attention (B, H, T, S), before dropout */
    th_tensor **weights, **memory_weights;
} th_transform_options;
TH_API th_tensor *th_transform(th_module *block, th_tensor *x, const th_transform_options *options);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_transformer_block_new(...) TH_AT_POINTER(th_module, th_transformer_block_new(__VA_ARGS__))
#define th_transformer_encoder_new(...) TH_AT_POINTER(th_module, th_transformer_encoder_new(__VA_ARGS__))
#define th_transformer_decoder_new(...) TH_AT_POINTER(th_module, th_transformer_decoder_new(__VA_ARGS__))
#define th_transform(...) TH_AT(th_transform(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
