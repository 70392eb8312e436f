/* The whole encoder-decoder Transformer (Vaswani et al. 2017), for translation and its like: embeddings, two stacks of
 * blocks, a classifier. B batch, S source length, T target length, E width, V target vocabulary. */
#ifndef TAPEHEAD_TRANSFORMER_H
#define TAPEHEAD_TRANSFORMER_H

#include "tapehead/language_model.h"

TH_BEGIN_DECLS

/*   memory = encoder(drop(sqrt(E) source_embedding[source] + positions))
 *   x      = decoder(drop(sqrt(E) target_embedding[target] + positions), memory)       causal
 *   logits = x classifier^T
 *
 * Blocks are th_transformer_block_new's: pre-norm with GELU for the zero value. The published model is
 *
 *   {.positions = TH_POSITIONS_SINUSOIDAL, .shared_embeddings = true, .dropout = 0.1,
 *    .block = {.post_norm = true, .activation = TH_RELU}}
 *
 * and nn.Transformer's stacks have .final_norm = TH_FINAL_NORM_ALWAYS besides.
 *
 * Parameters: source_embedding.weight and target_embedding.weight (vocabulary, E), or one of both, embedding.weight;
 * source_position.weight and target_position.weight (length, E) (learned positions); encoder.layers.0 ...,
 * encoder.norm, decoder.layers.0 ..., decoder.norm as nn.Transformer names them; classifier.weight (V, E) (untied).
 * Embeddings, position embeddings and classifier: N(0, 1 / E); weights of the stacks Xavier uniform as
 * nn.Transformer's, biases as the layers'. */
typedef struct th_transformer_options {
    int64_t source_vocabulary, target_vocabulary; /* both must be given */
    int64_t length;                               /* the most tokens of a source, and of a target; must be given */
    int64_t width, heads;                         /* must be given */
    int64_t encoder_layers, decoder_layers;       /* must be given */
    th_position_kind positions;
    bool shared_embeddings;   /* source, target and classifier have one matrix; the vocabularies must be equal */
    bool untied;              /* the classifier has a weight of its own, else it is the target's embedding */
    bool no_embedding_scale;  /* embeddings are not multiplied by sqrt(E) */
    double dropout;           /* in training: on the embeddings, at the end of every branch, inside the MLP and on the
                                attention weights, as PyTorch has it; 0 <= p < 1 */
    double embedding_dropout; /* on the embeddings alone; 0: dropout */
    th_final_norm final_norm;
    th_transformer_block_options block; /* its dropout and attention_dropout hold in the stacks, when given */
} th_transformer_options;
TH_API th_module *th_transformer_new(th_context *ctx, const th_transformer_options *options);

/* source (B, S) int32/int64, of whose row b the first source_lengths[b] tokens count (int32/int64 (B), NULL: all) ->
 * memory (B, S, E). What the padding holds (any token) reaches nothing that counts. */
TH_API th_tensor *th_transformer_encode(th_module *model, th_tensor *source, th_tensor *source_lengths);

typedef struct th_transformer_decode_options {
    th_tensor *memory_lengths; /* the source's lengths, (B); NULL: all of the memory counts */
    th_tensor *positions;      /* of the target's tokens, int32/int64 (T) or (B, T), in [0, length); NULL: 0 .. T - 1 */
    /* the target's tokens are seen by those that follow in later forwards (tapehead/cache.h); memory is read in the
     * first alone */
    th_cache *cache;
    th_tensor *rows;            /* int32/int64 (B): logits (B, V) of token rows[b] of each target, and of no other */
    th_tensor **memory_weights; /* asked for, [decoder_layers]: the cross attention's weights (B, H, T, S), before
                                   dropout */
} th_transformer_decode_options;
/* target (B, T) int32/int64, memory (B, S, E) -> logits (B, T, V): logits[b, t] for the token that follows
 * target[b, t]. options may be NULL. */
TH_API th_tensor *th_transformer_decode(th_module *model, th_tensor *target, th_tensor *memory,
                                        const th_transformer_decode_options *options);

/* th_cross_entropy of decode(target, encode(source, source_lengths)) and what follows, a scalar: next (B, T), next[b, t]
 * follows target[b, t]; TH_IGNORE in the options leaves padding out. Classifier and loss run as one operation
 * (th_dense_cross_entropy); composed when fusion is off. */
TH_API th_tensor *th_transformer_loss(th_module *model, th_tensor *source, th_tensor *source_lengths, th_tensor *target,
                                      th_tensor *next, const th_cross_entropy_options *options);

/* What the model was made with; sizes of the block that were left to the default and the rates of dropout are filled
 * in. It lives as long as the model. NULL, without an error, of any other module. */
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
