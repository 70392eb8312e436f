/* Generation: th_generate runs a model token by token, with a cache of keys and values (tapehead/cache.h). B: the
 * number of sequences, T: tokens of a prompt, S: tokens of a source, V: size of the vocabulary. */
#ifndef TAPEHEAD_GENERATE_H
#define TAPEHEAD_GENERATE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* The next token of a sequence is chosen from its logits. They are processed in this order, as in transformers'
 * generate:
 *
 *   repetition_penalty    divides the positive logits of tokens that the sequence or its prompt contains, and
 *                         multiplies the negative ones (Keskar et al. 2019)
 *   no_repeat_ngram_size  excludes tokens that would complete an n-gram which the sequence or its prompt contains
 *   temperature           logits / temperature
 *   top_k                 keeps the k largest logits, and all logits that are equal to the k-th largest (Fan et al.
 *                         2018)
 *   top_p                 keeps the most probable tokens: as few as possible, with a total probability of at least p
 *                         (Holtzman et al. 2020)
 *   min_p                 keeps tokens that are at least p times as probable as the most probable one (Nguyen et al.
 *                         2024)
 *
 * Temperature 0 chooses the largest logit, the first of equal ones; top_k, top_p and min_p then change nothing. If the
 * temperature is so small that a quotient would overflow, only the largest logits are sampled. If the penalty makes a
 * logit overflow, it becomes the largest finite number. Random numbers are a function of (seed, index of the sequence
 * in the result, index of the token): the same call gives the same tokens, another seed other tokens. They do not
 * depend on the context's seed. The call does not change the context's own random numbers (context.h).
 *
 * Beam search (beams > 1) looks for the sequence with the largest sum of log-probabilities / length ^ length_penalty,
 * where length counts the generated tokens. It follows the rules of transformers' generate. */
typedef struct th_generate_options {
    /* Input. A decoder-only model needs prompts. An encoder-decoder model needs a source; without prompts, each of its
     * sequences begins with the one token `start`. */
    th_tensor *prompts;        /* (B, T) int32/int64, padded at the end to one length */
    th_tensor *lengths;        /* (B) int32/int64: tokens of each prompt, in [1, T]; NULL: T */
    th_tensor *source;         /* (B, S) int32/int64 */
    th_tensor *source_lengths; /* (B) int32/int64 in [1, S]; NULL: S */
    int64_t start;
    /* Length. */
    int64_t max_new_tokens;    /* the largest number of tokens generated for each sequence; required */
    const int64_t *end_tokens; /* [n_end_tokens] any of these ends a sequence */
    int n_end_tokens;
    /* True: a sequence that reaches the model's length continues. The model then reads the last half again, as if the
     * sequence began there. False: the prompt and max_new_tokens must fit the model's length. Must be false for beam
     * search. */
    bool slide;
    /* Sampling. */
    double temperature;           /* 0: greedy */
    int64_t top_k;                /* 0: all */
    double top_p;                 /* in (0, 1]; 0: all */
    double min_p;                 /* in [0, 1]; 0: all */
    double repetition_penalty;    /* above 0; 0: none */
    int64_t no_repeat_ngram_size; /* 0: none */
    uint64_t seed;
    /* Generates this many sequences for each prompt; 0 means 1. They need a temperature above 0, or at least as many
     * beams: then they are the best ones, the best first. */
    int64_t sequences;
    bool log_probabilities; /* sets th_generated.log_probabilities; must be false for beam search */
    int64_t beams;          /* 0 or 1: no beam search; otherwise temperature must be 0 */
    double length_penalty;  /* 0 means 1 */
    bool no_length_penalty; /* the score is the sum itself: length_penalty is not used */
    bool early_stopping;    /* beam search ends as soon as `beams` sequences have ended */
    /* Called for each generated token, end tokens included, in the order of sequences; with beams, when the best
     * sequences are known. sequence is the index in the result. If it returns false, that sequence ends. It may use the library, including the tape. */
    bool (*emit)(void *user, int64_t sequence, int64_t token);
    void *user;
} th_generate_options;

/* The results have R rows: all sequences of the first prompt, then all of the second, and so on. As for th_empty,
 * the tape owns them inside a scope or after th_step_begin; otherwise the caller owns them. The integers have the type
 * of the prompts; without prompts, the type of the source. */
typedef struct th_generated {
    th_tensor *tokens;  /* (R, max_new_tokens): the generated tokens, then end_tokens[0], or 0 without end_tokens */
    th_tensor *lengths; /* (R): the number of generated tokens, including an end token */
    th_tensor *scores;  /* (R) float64: scores of beam search; otherwise NULL */
    /* (R, max_new_tokens) float64: log softmax of the model's logits at each generated token, in float64; then 0. It is
     * the model's own distribution: penalties, temperature and top_k ... do not change it. NULL if not asked for */
    th_tensor *log_probabilities;
} th_generated;

/* Generates tokens with a model from th_language_model_new or th_transformer_new. The model runs in evaluation mode and
 * without recording, independent of the context's modes. The call allocates a cache and releases it at the end. A
 * sequence's tokens do not depend on the other sequences of the batch. Nothing stays on the tape. After the first
 * tokens, the call allocates no more memory, unless all tokens run again. In a shapes-only context it generates no
 * tokens and does not call emit. It only counts the memory that the same call allocates in a normal context. result may
 * be NULL.
 *
 * Rotary positions that depend on the length of a sequence (th_rotary_scaling) have the length of each forward. With
 * TH_ROTARY_LONGROPE, all tokens run again when a sequence becomes longer than original_length, as in transformers'
 * Phi-3. With TH_ROTARY_DYNAMIC, keys in the cache stay as they were rotated, as in transformers.
 *
 * Errors: TH_ERROR_VALUE if a logit is NaN or +inf, if all are -inf, or if every token would repeat an n-gram. Errors also for a prompt that is longer than
 * the model, options or lengths outside their range, and tokens outside the vocabulary. */
TH_API th_status th_generate(th_module *model, const th_generate_options *options, th_generated *result) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_generate(...) TH_AT_STATUS(th_generate(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
