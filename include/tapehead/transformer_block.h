/* Transformer blocks and stacks of them, composed of the layers in tapehead/layers.h and of operations, as your own
 * program could compose them. Whole models: tapehead/language_model.h, tapehead/transformer.h.
 *
 * Members and parameters have the names of PyTorch's TransformerEncoderLayer, TransformerDecoderLayer,
 * TransformerEncoder and TransformerDecoder. Every constructor returns a module that belongs to the context; NULL with
 * the error pending. B batch, T query length, S memory length, E width, H heads. */
#ifndef TAPEHEAD_TRANSFORMER_BLOCK_H
#define TAPEHEAD_TRANSFORMER_BLOCK_H

#include "tapehead/layers.h"

TH_BEGIN_DECLS

/* -- blocks -- */
/* The activation of a block's MLP. */
typedef enum th_activation {
    TH_GELU_TANH, /* the default */
    TH_GELU,
    TH_RELU,
    TH_SILU,
    TH_RELU_SQUARED,
    TH_TANH
} th_activation;

/* The norm of a block. */
typedef enum th_norm {
    TH_LAYER_NORM, /* the default: th_layer_norm_new */
    TH_RMS_NORM    /* th_rms_norm_new */
} th_norm;

/* Options of th_transformer_block_new. */
typedef struct th_transformer_block_options {
    int64_t mlp_width;        /* 0: 4 width */
    bool no_mlp;              /* attention only */
    bool gated;               /* the MLP has a gate */
    bool post_norm;           /* otherwise pre-norm */
    bool output_norm;         /* a norm at the end of each branch, in addition to the one before it (Gemma 2) */
    bool no_input_norm;       /* with output_norm: without the norm before each branch (OLMo 2) */
    bool parallel;            /* all branches read the block's input (GPT-NeoX, GPT-J) */
    bool shared_norm;         /* with parallel: all branches read norm1 of it (GPT-J, Phi-2) */
    double branch_scale;      /* multiplies each branch before it is added (Granite); 0: 1 */
    bool cross_attention;     /* a decoder block: attends to a memory too */
    th_activation activation; /* of the MLP */
    th_norm norm;
    bool unit_offset;         /* all norms, also of queries and keys, multiply by 1 + weight, and weight starts at 0
                                 (Gemma) */
    double dropout;           /* in training, at the end of every branch and inside the MLP; 0 <= p < 1 */
    bool no_mlp_dropout;      /* no dropout inside the MLP, as in GPT-2 */
    double attention_dropout; /* in training, on the attention weights; 0 <= p < 1 */
    bool no_bias;             /* in attention, MLP and norms */
    bool no_attention_bias;   /* in attention only */
    bool no_output_bias;      /* only in the last projection of attention (Qwen 2) */
    bool no_mlp_bias;         /* in the MLP only */
    int64_t kv_heads;         /* heads of key and value, a divisor of heads; 0: heads */
    int64_t head_width;       /* of each head; 0: width / heads */
    double scale;             /* of the scores of all attention; 0: 1 / sqrt(head_width) */
    th_score_options scores;  /* of self-attention: rotary positions, ALiBi, a window ... */
    double eps;               /* of the norms; 0: 1e-5 */
    /* Of all blocks of a stack or a language model except the first: */
    bool value_residual; /* self-attention has .value_residual (Zhou et al. 2024) */
    bool embedding_skip; /* the block begins with x = λ0 x + λ1 x0, with the input x0 of the first block (Jordan et al.
                            2024, modded-nanogpt). Parameter: embedding_skip (2), λ0 = 1 and λ1 = 0 */
    /* Of the first block of a stack or a language model only: self-attention reads the block's input without a norm, so
     * norm1 does not exist (ModernBERT). */
    bool no_first_norm;
    /* The block's forward is a th_scope_begin_recomputed: only its result is saved. Backward runs the forward again.
     * The bits are the same; it takes less memory and more time. */
    bool recompute;
} th_transformer_block_options;
/* Creates a block of two or three residual branches. The branches f run in this order, each with its own norm:
 *
 *   self-attention    f(h) = attend(h, h, h)
 *   cross attention   f(h) = attend(h, memory, memory)              with cross_attention
 *   MLP               f(h) = linear2(drop(activation(linear1(h))))  unless no_mlp
 *       gated         f(h) = linear2(drop(activation(gate(h)) * linear1(h)))     Shazeer 2020; SwiGLU with TH_SILU
 *
 *   pre-norm                     x + drop(f(norm(x)))              Xiong et al. 2020, GPT-2; the default
 *   post_norm                    norm(x + drop(f(x)))              Vaswani et al. 2017
 *   output_norm                  x + drop(norm_out(f(norm(x))))    Gemma Team 2024 (Gemma 2)
 *   output_norm, no_input_norm   x + drop(norm_out(f(x)))          OLMo Team 2025 (OLMo 2)
 *
 * A branch reads the result of the branch before it. With parallel, every branch reads the block's input x, and the
 * results are added (Wang & Komatsuzaki 2021, Black et al. 2022):
 *
 *   parallel                     x + drop(f1(norm1(x))) + drop(f2(norm2(x)))
 *   parallel, output_norm        x + drop(norm1_out(f1(norm1(x)))) + drop(norm2_out(f2(norm2(x))))
 *   parallel, shared_norm        x + drop(f1(norm1(x))) + drop(f2(norm1(x)))
 *
 * With branch_scale = s, each branch adds s drop(...) instead of drop(...).
 *
 * Members: self_attn and multihead_attn (th_multi_head_attention_new), linear1 (mlp_width, E), linear2 (E, mlp_width)
 * and gate (mlp_width, E) (th_dense_new), norm1, norm2 and norm3 in the order of the branches. With output_norm also
 * norm1_out, norm2_out and norm3_out. With shared_norm norm1 is the only norm before a branch. The layers initialize their parameters. options may be NULL.
 *
 * With value_residual and embedding_skip, th_transform needs .first_values and .first_input.
 *
 * Errors (TH_ERROR_ARGUMENT): post_norm with output_norm, no_input_norm, no_first_norm or parallel; no_input_norm without
 * output_norm; no_mlp with gated; shared_norm without parallel, with no_input_norm or with no_first_norm. All other
 * options can be combined.
 *
 * PyTorch's layers are this block with dropout = attention_dropout. A block of Llama is
 *
 *   {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true},
 *    .mlp_width = ..., .kv_heads = ...}
 *
 * Other families differ from Llama in
 *
 *   Qwen 2      .no_bias = false, .no_output_bias = true, .no_mlp_bias = true
 *   Qwen 3      .head_width = ..., .scores = {.rotary = true, .qk_norm = true}
 *   Gemma 2     .output_norm = true, .unit_offset = true, .activation = TH_GELU_TANH, .scale = ...,
 *               .scores = {.rotary = true, .soft_cap = 50, .window = ...}, the window in every second layer
 *   Gemma 3     as Gemma 2, with .scores.qk_norm = true and without .scores.soft_cap
 *   OLMo 2      .output_norm = true, .no_input_norm = true, .scores = {.rotary = true, .qk_norm_whole = true}
 *   GPT-NeoX    .norm = TH_LAYER_NORM, .parallel = true, .gated = false, .activation = TH_GELU, .no_bias = false,
 *               .scores = {.rotary = true, .rotary_width = ...}
 *   Phi-2       as GPT-NeoX, with .shared_norm = true and .activation = TH_GELU_TANH
 *   Granite     .branch_scale = ..., .scale = ... */
TH_API th_module *th_transformer_block_new(th_context *ctx, int64_t width, int64_t heads,
                                           const th_transformer_block_options *options);

/* -- stacks -- */
/* When a stack ends with its own norm. */
typedef enum th_final_norm {
    TH_FINAL_NORM_USUAL,  /* after pre-norm blocks only, because post-norm blocks end with a norm */
    TH_FINAL_NORM_ALWAYS, /* as nn.Transformer */
    TH_FINAL_NORM_NEVER
} th_final_norm;

/* Options of th_transformer_encoder_new and th_transformer_decoder_new. */
typedef struct th_transformer_stack_options {
    th_transformer_block_options block; /* of every block. block.cross_attention must be false in an encoder; a decoder
                                           sets it to true */
    th_final_norm final_norm;
} th_transformer_stack_options;
/* Creates a stack of blocks, with a norm at its end if final_norm says so. Parameters: layers.0 ..., norm.weight,
 * norm.bias. options may be NULL. */
TH_API th_module *th_transformer_encoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                             const th_transformer_stack_options *options);
/* Creates a stack of blocks with cross attention. Otherwise the same as th_transformer_encoder_new. */
TH_API th_module *th_transformer_decoder_new(th_context *ctx, int64_t layers, int64_t width, int64_t heads,
                                             const th_transformer_stack_options *options);

/* -- running -- */
/* Options of th_transform. A stack passes them to each of its blocks. */
typedef struct th_transform_options {
    const th_mask *mask;        /* over the scores (B, H, T, T) of self-attention */
    th_tensor *memory;          /* (B, S, E); required with cross attention, an error without */
    const th_mask *memory_mask; /* over the scores (B, H, T, S) of cross attention */
    th_tensor *positions;       /* as th_attend_options.positions; the mask has its own positions */
    th_cache *cache;            /* of all attention layers inside (tapehead/cache.h) */
    /* Of the first block, for blocks with .value_residual and .embedding_skip. A stack and a language model provide both
     * to their blocks */
    th_tensor **first_values; /* as th_attend_options.first_values */
    th_tensor *first_input;   /* (B, T, E) */
    /* Set to the attention weights before dropout: one tensor for a block, [layers] for a stack. NULL: not wanted. */
    th_tensor **weights;        /* of self-attention, (B, H, T, T) */
    th_tensor **memory_weights; /* of cross attention, (B, H, T, S) */
} th_transform_options;
/* Runs a block or a stack: (B, T, E) -> (B, T, E). options may be NULL. th_module_forward(block, x) is
 * th_transform(block, x, NULL), so a list can run encoder blocks. If the program set block->transform, it runs that
 * instead; block may then be any module.
 *
 * A row that the mask excludes for every query is masked. Masked rows of the memory affect nothing. Masked rows of x
 * affect only the same rows of the result, and through them the gradients of parameters. If such a row is not finite,
 * these gradients are not finite.
 *
 * Errors: x has another width than the block; the memory is missing or has a wrong shape. */
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
