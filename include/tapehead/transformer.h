/* The encoder-decoder Transformer (Vaswani et al. 2017), for example for translation: embeddings, two stacks of blocks,
 * a classifier. B batch, S source length, T target length, E width, V target vocabulary. */
#ifndef TAPEHEAD_TRANSFORMER_H
#define TAPEHEAD_TRANSFORMER_H

#include "tapehead/language_model.h"

TH_BEGIN_DECLS

/* Options of th_transformer_new. */
typedef struct th_transformer_options {
    int64_t source_vocabulary, target_vocabulary; /* both must be given */
    int64_t length;                         /* the largest number of tokens in a source or a target; must be given */
    int64_t width, heads;                   /* must be given */
    int64_t encoder_layers, decoder_layers; /* must be given */
    th_position_kind positions;
    bool shared_embeddings;   /* source, target and classifier share one weight; the vocabularies must be equal */
    bool untied;              /* the classifier has its own weight; otherwise it is the target's embedding */
    bool no_embedding_scale;  /* embeddings are not multiplied by sqrt(E) */
    double dropout;           /* in training: on the embeddings, at the end of every branch, inside the MLP and on the
                                 attention weights, as in PyTorch; 0 <= p < 1 */
    double embedding_dropout; /* on the embeddings only; 0: dropout */
    th_final_norm final_norm;
    /* Of both stacks. If its dropout and attention_dropout are given, the stacks use them instead of dropout. */
    th_transformer_block_options block;
} th_transformer_options;
/* Creates an encoder-decoder model:
 *
 *   memory = encoder(drop(sqrt(E) source_embedding[source] + positions))
 *   x      = decoder(drop(sqrt(E) target_embedding[target] + positions), memory)       causal
 *   logits = x classifier^T
 *
 * The blocks are those of th_transformer_block_new: pre-norm with GELU if .block is zero. The published model is
 *
 *   {.positions = TH_POSITIONS_SINUSOIDAL, .shared_embeddings = true, .dropout = 0.1,
 *    .block = {.post_norm = true, .activation = TH_RELU}}
 *
 * and nn.Transformer's stacks also have .final_norm = TH_FINAL_NORM_ALWAYS.
 *
 * Parameters: source_embedding.weight and target_embedding.weight (vocabulary, E), or embedding.weight for both
 * (shared); source_position.weight and target_position.weight (length, E) (learned positions); encoder.layers.0 ...,
 * encoder.norm, decoder.layers.0 ..., decoder.norm, named as in nn.Transformer; classifier.weight (V, E) (untied).
 *
 * Initialization: embeddings, position embeddings and classifier N(0, 1 / E); weights of the stacks Xavier uniform as
 * in nn.Transformer, biases as in the layers. */
TH_API th_module *th_transformer_new(th_context *ctx, const th_transformer_options *options);

/* Encodes source (B, S) int32/int64 -> memory (B, S, E). source_lengths: the number of tokens in each row, int32/int64
 * (B); NULL: S. The tokens after them are padding: any token is allowed there, and it affects no valid row. */
TH_API th_tensor *th_transformer_encode(th_module *model, th_tensor *source, th_tensor *source_lengths);

/* Options of th_transformer_decode. */
typedef struct th_transformer_decode_options {
    th_tensor *memory_lengths; /* the source's lengths, (B); NULL: S */
    th_tensor *positions;      /* of the target's tokens, int32/int64 (T) or (B, T), in [0, length); NULL: 0 .. T - 1 */
    /* Later forwards attend to the target's tokens too (tapehead/cache.h). Only the first forward reads the memory */
    th_cache *cache;
    th_tensor *rows; /* int32/int64 (B): computes only the logits (B, V) of token rows[b] of each target */
    /* [decoder_layers], set to the weights (B, H, T, S) of cross attention, before dropout. NULL: not wanted. */
    th_tensor **memory_weights;
} th_transformer_decode_options;
/* Decodes target (B, T) int32/int64 with memory (B, S, E) -> logits (B, T, V). logits[b, t] predicts the token that
 * follows target[b, t]. options may be NULL. */
TH_API th_tensor *th_transformer_decode(th_module *model, th_tensor *target, th_tensor *memory,
                                        const th_transformer_decode_options *options);

/* Returns th_cross_entropy of the logits decode(target, encode(source, source_lengths)), a scalar. next (B, T): next[b,
 * t] is the token that follows target[b, t]; TH_IGNORE in the options excludes padding. Classifier and loss run as one
 * operation (th_dense_cross_entropy); they run as two operations if fusion is off. */
TH_API th_tensor *th_transformer_loss(th_module *model, th_tensor *source, th_tensor *source_lengths, th_tensor *target,
                                      th_tensor *next, const th_cross_entropy_options *options);

/* Returns the options of a model, with defaults filled in for the block's sizes and the dropout rates. They live as
 * long as the model. NULL, without an error, for any other module. */
TH_API const th_transformer_options *th_transformer_options_of(const th_module *model);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_transformer_new(...) TH_AT_POINTER(th_module, th_transformer_new(__VA_ARGS__))
#define th_transformer_encode(...) TH_AT(th_transformer_encode(__VA_ARGS__))
#define th_transformer_decode(...) TH_AT(th_transformer_decode(__VA_ARGS__))
#define th_transformer_loss(...) TH_AT(th_transformer_loss(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
