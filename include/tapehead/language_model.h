/* The language model: decoders such as GPT-2 and Llama, and encoders such as BERT, by options. tapehead/generate.h
 * generates text with decoders. B batch, T length, E width, V vocabulary. */
#ifndef TAPEHEAD_LANGUAGE_MODEL_H
#define TAPEHEAD_LANGUAGE_MODEL_H

#include "tapehead/pooling.h"
#include "tapehead/transformer_block.h"

TH_BEGIN_DECLS

/* The position embedding, which is added to the token embedding. */
typedef enum th_position_kind {
    TH_POSITIONS_LEARNED,    /* row first_position + p of a parameter, position.weight (first_position + length, E) */
    TH_POSITIONS_SINUSOIDAL, /* a constant: sin(p / 10000^(2i / E)) at 2i, its cosine at 2i + 1 (Vaswani et al. 2017) */
    TH_POSITIONS_NONE        /* nothing is added: for rotary positions, ALiBi, or no positions */
} th_position_kind;

/* The initial values of a language model's parameters. All zero: as in GPT-2. n is the number of branches in the model,
 * in the number of columns of a weight. */
typedef struct th_initialization_options {
    double embedding_deviation; /* embedding.weight and position.weight are N(0, embedding_deviation^2); 0: 0.02 */
    double deviation;           /* other weights are N(0, deviation^2); at the end of a residual branch
                                   N(0, deviation^2 / n); 0: 0.02 */
    bool uniform;               /* instead: other weights are uniform in +-1 / sqrt(in), as in nn.Linear */
    bool zero_branches;         /* weights at the end of a residual branch are 0, so that a pre-norm block begins as the
                                   identity (Zhang et al. 2019, Fixup) */
    bool zero_classifier;       /* classifier.weight is 0, so that all tokens begin with the same probability (Fixup) */
} th_initialization_options;

/* What a head computes instead of the logits of a vocabulary. L labels. */
typedef enum th_head_kind {
    TH_HEAD_NONE,     /* the model has no head */
    TH_HEAD_SEQUENCE, /* logits (B, L) of each sequence: classification, regression */
    TH_HEAD_TOKENS,   /* logits (B, T, L) of each token: tagging */
    TH_HEAD_SPANS /* logits (B, T, 2) of each token: whether an answer begins there, and whether it ends there. -1e9 for
                         padding */
} th_head_kind;

/* The loss of a sequence's labels. */
typedef enum th_problem {
    TH_PROBLEM_BY_TARGETS, /* regression if L is 1; otherwise integer targets are one label, floating ones several */
    TH_PROBLEM_ONE_LABEL,
    TH_PROBLEM_SEVERAL_LABELS,
    TH_PROBLEM_REGRESSION
} th_problem;

/* A head. x: hidden states (B, T, E), or their th_pooling (B, E) with TH_HEAD_SEQUENCE.
 *
 *   x = activation(transform(drop(x)))       with transform; drop only with input_dropout
 *   x = norm(x)                              with norm, of the blocks' kind
 *   logits = output(drop(x))
 *
 * With block.no_bias, transform and norm have no biases. */
typedef struct th_head_options {
    th_head_kind kind;
    int64_t labels;                 /* L; of TH_HEAD_SPANS: 2, or 0 */
    const char *const *label_names; /* [labels] UTF-8, different from each other; NULL: LABEL_0, LABEL_1 ... The model
                                       copies them */
    th_problem problem;             /* of TH_HEAD_SEQUENCE */
    th_pooling_kind pooling;        /* of TH_HEAD_SEQUENCE */
    bool transform;                 /* a layer (E, E) before the output (BERT, RoBERTa, DistilBERT) */
    th_activation activation;       /* of the transform */
    bool norm;                      /* a norm behind the transform (ModernBERT) */
    bool input_dropout;             /* dropout also before the transform (RoBERTa) */
    double dropout;                 /* 0: th_language_model_options.dropout, or none with TH_HEAD_SPANS */
} th_head_options;

/* Options of th_language_model_new. */
typedef struct th_language_model_options {
    int64_t vocabulary, length, width, heads, layers; /* all must be given; length: the largest number of tokens in a
                                                         sequence */
    th_position_kind positions;
    int64_t first_position;             /* the row of the first token's position (RoBERTa: 2) */
    bool untied;                        /* the classifier has its own weight */
    bool classifier_bias;               /* the classifier has a bias (Phi-2, BERT) */
    bool classifier_transform;          /* the classifier's input is norm(activation(transform(x))) (BERT) */
    bool no_classifier;                 /* the model ends with the hidden states */
    th_head_options head;               /* replaces the classifier */
    bool bidirectional;                 /* each token attends to all tokens of its sequence (BERT) */
    int64_t token_types;                /* rows of type_embedding, which adds a row for each token's type (BERT);
                                           0: none */
    bool input_norm;                    /* a norm of the blocks' kind normalizes the embeddings (BERT) */
    int64_t relative_buckets;           /* rows of relative_bias, which adds a number to each score that depends on the
                                           distance of query and key (T5, MPNet); 0: none */
    int64_t relative_distance;          /* from which all distances have one bucket; 0: 128, or twice the buckets if
                                           there are more than 128 */
    double dropout;                     /* in training, on the embedding and at the end of every branch; 0 <= p < 1 */
    double embedding_dropout;           /* on the embedding only; 0: dropout */
    double embedding_scale;             /* multiplies the embedding's rows, but not the classifier (Gemma: sqrt(E));
                                           0: 1 */
    int64_t bigram_rows;                /* of bigram_embedding, which adds a row for each pair of tokens; 0: none, or
                                           at least 2 */
    bool embedding_norm;                /* th_rms_norm without a weight normalizes the first block's input */
    double logit_divisor;               /* divides the logits, before the soft cap (Granite); 0: 1 */
    double logit_soft_cap;              /* logits become c tanh(logits / c) (Gemma 2); 0: none */
    th_transformer_block_options block; /* without cross_attention. If block.dropout is given, the branches use it
                                           instead of dropout */
    /* If other_layers[i] is true, layer i has other_scores instead of block.scores, all members of it: another window,
     * another rotary base, no rotary positions ... other_layers [layers] is copied; NULL: no such layer. */
    th_score_options other_scores;
    const bool *other_layers;
    /* The scores of layer i are also divided by i + 1 (scale_attn_by_inverse_layer_idx of GPT-2). */
    bool scale_by_layer;
    th_initialization_options initialization;
} th_language_model_options;
/* Creates a language model. If all options except sizes are zero, it is GPT-2 (Radford et al. 2019):
 *
 *   x = embedding[tokens] embedding_scale + position[f .. f + T)         with first_position = f, usually 0
 *   x = x + bigram_embedding[h(previous token, token)]       with bigram_rows = R
 *   x = x + type_embedding[types]     with token_types
 *   x = x / sqrt(mean(x^2) + eps)     with embedding_norm
 *   x = input_norm(x)                 with input_norm
 *   x = drop(x)                       with dropout
 *   x = layers.i(x)                   causal blocks, pre-norm, without dropout inside the MLP. Not causal with
 *                                     bidirectional
 *   x = norm(x)                       the hidden states; only pre-norm blocks need this norm
 *   x = transform_norm(activation(transform(x)))             with classifier_transform
 *   logits = x embedding^T            the classifier is the embedding (tied)
 *   logits = logits / d               if logit_divisor = d is given: the input of the classifier is divided
 *   logits = c tanh(logits / c)       if logit_soft_cap = c is given (Gemma Team 2024)
 *
 * Llama (Touvron et al. 2023) is
 *
 *   {.positions = TH_POSITIONS_NONE, .untied = true,
 *    .block = {.norm = TH_RMS_NORM, .gated = true, .activation = TH_SILU, .no_bias = true, .scores = {.rotary = true},
 *              .mlp_width = ..., .kv_heads = ...}}
 *
 * BERT (Devlin et al. 2018) as a masked language model is
 *
 *   {.bidirectional = true, .token_types = 2, .input_norm = true, .classifier_transform = true, .classifier_bias = true,
 *    .block = {.post_norm = true, .activation = TH_GELU, .eps = 1e-12}}
 *
 * Its targets are the tokens behind masks, and TH_IGNORE elsewhere. With no_classifier it is the encoder of a sentence
 * embedding. With a head it is a classifier: the head's logits replace the vocabulary's logits.
 *
 * With relative_buckets = N, self-attention of all layers adds relative_bias[bucket][head] to its scores (Raffel et al.
 * 2020). A key at distance d before the query has bucket
 *
 *   d                                                               if d < N / 2
 *   min(N - 1, N/2 + floor(N/2 log(d / (N/2)) / log(D / (N/2))))    otherwise, with relative_distance = D
 *
 * In a bidirectional model, N / 2 buckets are for earlier keys, and the others, in the same order, for later keys. Such a
 * model has no cache.
 *
 * The row of a pair is h(p, t) = p V + t if V^2 < R, so that no pairs share a row. Otherwise it is a hash, ((36313 t) xor
 * (27191 p)) mod (R - 1) (modded-nanogpt). Tokens without a previous token have row R - 1: a token at position 0, and
 * without a cache the first token of the tensor.
 *
 * Parameters: embedding.weight (V, E), bigram_embedding.weight (R, E), position.weight (first_position + length, E) (learned
 * positions),
 * type_embedding.weight (token_types, E), relative_bias (N, H), input_norm.weight and input_norm.bias, layers.0 ... (blocks), norm.weight and
 * norm.bias (pre-norm only, because post-norm blocks end with a norm), transform.weight (E, E), transform.bias,
 * transform_norm.weight and transform_norm.bias (classifier_transform; no biases with
 * block.no_bias), classifier.weight (V, E) (untied),
 * classifier.bias (V) (classifier_bias and untied) or classifier_bias (V) (classifier_bias and tied),
 * head.transform.weight (E, E), head.transform.bias, head.norm.weight, head.norm.bias, head.output.weight (L, E),
 * head.output.bias (head).
 *
 * Initialization: weights as th_initialization_options says; self_attn.out_proj and linear2 end a residual branch;
 * biases 0, norms 1 (0 with block.unit_offset), bigram_embedding.weight 0.
 *
 * th_module_forward(model, tokens) runs it: tokens (B, T) int32/int64 in [0, V), T <= length -> logits (B, T, V), or
 * hidden states (B, T, E) with no_classifier, or the head's logits.
 *
 * Errors (TH_ERROR_ARGUMENT): no_classifier or a head, with untied, classifier_bias or classifier_transform, or with each
 * other; names of labels that are equal or not UTF-8. */
TH_API th_module *th_language_model_new(th_context *ctx, const th_language_model_options *options);

/* Options of th_language_model_logits. */
typedef struct th_language_model_logits_options {
    th_tensor *positions; /* of the tokens, int32/int64 (T) or (B, T), in [0, length); NULL: 0 .. T - 1 */
    th_cache *cache;      /* later forwards attend to these tokens too (tapehead/cache.h) */
    /* int32/int64 (T) or (B, T): the number of each token's document, as in th_mask.documents. Documents do not see each
     * other, and positions begin at 0 in each. Without positions and cache. */
    th_tensor *documents;
    th_tensor *rows;  /* int32/int64 (B): computes only the logits (B, V) of token rows[b] of each sequence */
    th_tensor *types; /* int32/int64 (B, T), in [0, token_types): the type of each token; NULL: 0 */
    /* int32/int64 (B): the number of tokens in each row. The tokens after them are padding: any token is allowed there,
     * and no valid token attends to it. A bidirectional model computes several short texts in one row, so padding takes
     * little time, and its results are those of another token. NULL: T */
    th_tensor *lengths;
    /* [layers] Set to the weights (B, H, T, T) of each layer's attention, before dropout. Without documents. NULL: not
     * wanted */
    th_tensor **weights;
} th_language_model_logits_options;
/* Returns the logits (B, T, V) of tokens (B, T), as th_module_forward does, for tokens at any positions. Each token
 * attends to the tokens before it in the tensor; with a cache, to all tokens at positions up to its own. A bidirectional
 * model has no cache, and attends to all tokens. With a head, returns its logits. TH_HEAD_SEQUENCE pools each row up to
 * its length, so it excludes .documents and .rows (TH_ERROR_ARGUMENT). options may be NULL. */
TH_API th_tensor *th_language_model_logits(th_module *model, th_tensor *tokens,
                                           const th_language_model_logits_options *options);

/* Returns the hidden states (B, T, E), the input of the classifier or of its transform; (B, E) with .rows. options may be
 * NULL. */
TH_API th_tensor *th_language_model_hidden_states(th_module *model, th_tensor *tokens,
                                                  const th_language_model_logits_options *options);

/* Returns th_cross_entropy(th_module_forward(model, tokens), targets, options), a scalar. targets (B, T): targets[b, t]
 * is the token that follows tokens[b, t]. Classifier and loss run as one operation (th_dense_cross_entropy), which
 * holds only a chunk of the logits at a time; they run as separate operations if fusion is off. With logit_soft_cap or
 * classifier_bias, these operations run chunk by chunk, and backward computes the logits again. With a head:
 * th_head_loss of the logits. */
TH_API th_tensor *th_language_model_loss(th_module *model, th_tensor *tokens, th_tensor *targets,
                                         const th_cross_entropy_options *options);

/* As th_language_model_loss, for sequences that contain several documents (th_language_model_logits_options.documents,
 * th_windows_next_packed). Logits have the bits of separate documents. Exception: with dynamic or LongRoPE scaling, the
 * longest document of a sequence chooses the frequencies of the whole sequence. */
TH_API th_tensor *th_language_model_packed_loss(th_module *model, th_tensor *tokens, th_tensor *targets,
                                                th_tensor *documents, const th_cross_entropy_options *options);

/* Returns the loss of a head's logits, a scalar, as transformers computes it. options, for the cross entropy,
 * may be NULL.
 *
 *   kind                                  targets                               loss
 *   TH_HEAD_SEQUENCE, one label           (B) integers                          th_cross_entropy
 *   TH_HEAD_SEQUENCE, several labels      (B, L) floating, 0 or 1               th_binary_cross_entropy
 *   TH_HEAD_SEQUENCE, regression          (B, L) floating; also (B) if L is 1   th_mse
 *   TH_HEAD_TOKENS                        (B, T) integers                       th_cross_entropy
 *   TH_HEAD_SPANS                         (B, 2) integers: first, last token    the mean of two th_cross_entropy over T
 *
 * Errors: TH_ERROR_ARGUMENT for a model without a head, TH_ERROR_SHAPE and TH_ERROR_TYPE for other targets. */
TH_API th_tensor *th_head_loss(const th_module *model, th_tensor *logits, th_tensor *targets,
                               const th_cross_entropy_options *options);

/* Returns the options of a model, with defaults filled in for the block's sizes and the dropout rates. They,
 * other_layers and head.label_names live as long as the model. NULL, without an error, for any other module. */
TH_API const th_language_model_options *th_language_model_options_of(const th_module *model);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_language_model_new(...) TH_AT_POINTER(th_module, th_language_model_new(__VA_ARGS__))
#define th_language_model_logits(...) TH_AT(th_language_model_logits(__VA_ARGS__))
#define th_language_model_hidden_states(...) TH_AT(th_language_model_hidden_states(__VA_ARGS__))
#define th_language_model_packed_loss(...) TH_AT(th_language_model_packed_loss(__VA_ARGS__))
#define th_head_loss(...) TH_AT(th_head_loss(__VA_ARGS__))
#define th_language_model_loss(...) TH_AT(th_language_model_loss(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
