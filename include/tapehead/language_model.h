/* The decoder-only language model: GPT-2 by its options, Llama-like by others. Whoever makes text with one: see
 * th_language_model_logits. B batch, T length, E width, V vocabulary. */
#ifndef TAPEHEAD_LANGUAGE_MODEL_H
#define TAPEHEAD_LANGUAGE_MODEL_H

#include "tapehead/transformer_block.h"

TH_BEGIN_DECLS

/* How a model is told where its tokens stand, besides what its attention's scores say of it. */
typedef enum th_position_kind {
    TH_POSITIONS_LEARNED,    /* a parameter, position.weight (length, E), of which row p is added to the embedding */
    TH_POSITIONS_SINUSOIDAL, /* a constant instead: sin(p / 10000^(2i / E)) at 2i, its cosine at 2i + 1 (Vaswani et al.
                                2017) */
    TH_POSITIONS_NONE        /* nothing is added: rotary positions, ALiBi, or none at all */
} th_position_kind;

/* GPT-2 (Radford et al. 2019) for the zero value of everything but sizes:
 *
 *   x = drop(embedding[tokens] + position[0 .. T))
 *   x = layers.i(x)                   causal blocks, pre-norm, without dropout inside the MLP
 *   logits = norm(x) embedding^T      the embedding is the classifier too (tied)
 *
 * Llama (Touvron et al. 2023) with
 *
 *   {.positions = TH_POSITIONS_NONE, .untied = true,
 *    .block = {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true},
 *              .mlp_width = ..., .kv_heads = ...}}
 *
 * Parameters: embedding.weight (V, E), position.weight (length, E) (learned positions), layers.0 ... (blocks),
 * norm.weight and norm.bias (pre-norm only: post-norm blocks end with a norm), classifier.weight (V, E) (untied).
 * Weights, embedding and position embeddings: N(0, 0.02^2), those that end a residual branch (self_attn.out_proj,
 * linear2) N(0, 0.02^2 / n) with n branches; biases 0, norms 1. */
typedef struct th_language_model_options {
    int64_t vocabulary, length, width, heads, layers; /* all must be given; length: the most tokens in a sequence */
    th_position_kind positions;
    bool untied;                        /* the classifier has a weight of its own, without a bias */
    double dropout;                     /* in training, on the embedding and at the end of every branch; 0 <= p < 1 */
    double embedding_dropout;           /* on the embedding alone; 0: dropout */
    th_transformer_block_options block; /* no cross_attention; its dropout, when given, holds for the branches */
} th_language_model_options;
TH_API th_module *th_language_model_new(th_context *ctx, const th_language_model_options *options);
/* th_module_forward(model, tokens): tokens (B, T) int32/int64 in [0, V), T <= length -> logits (B, T, V). */

/* The same, of tokens that stand elsewhere than at 0 .. T - 1. Each sees those before it in the tensor; with a cache,
 * those whose positions are not after its own. */
typedef struct th_language_model_logits_options {
    th_tensor *positions; /* int32/int64 (T) or (B, T), in [0, length); NULL: 0 .. T - 1 */
    th_cache *cache;      /* tokens are seen by those that follow in later forwards (tapehead/cache.h) */
    th_tensor *rows;      /* int32/int64 (B): logits (B, V) of token rows[b] of each sequence, and of no other */
} th_language_model_logits_options;
TH_API th_tensor *th_language_model_logits(th_module *model, th_tensor *tokens,
                                           const th_language_model_logits_options *options);

/* th_cross_entropy(th_module_forward(model, tokens), targets, options), a scalar: targets (B, T); targets[b, t] is the
 * token that follows tokens[b, t]. The classifier and its loss run as one operation (th_dense_cross_entropy), which
 * holds a chunk of the logits at a time; composed when fusion is off. */
TH_API th_tensor *th_language_model_loss(th_module *model, th_tensor *tokens, th_tensor *targets,
                                         const th_cross_entropy_options *options);

/* What the model was made with; of the block, the sizes that were left to the default and the rate of dropout are
 * filled in. It lives as long as the model. NULL, without an error, of any other module. */
TH_API const th_language_model_options *th_language_model_options_of(const th_module *model);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_new(...) TH_AT_POINTER(th_module, th_language_model_new(__VA_ARGS__))
#define th_language_model_logits(...) TH_AT(th_language_model_logits(__VA_ARGS__))
#define th_language_model_loss(...) TH_AT(th_language_model_loss(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
