/* Generation: th_generate runs a model token by token, with a cache of keys and values (tapehead/cache.h). B sequences,
 * T tokens of a prompt, S of a source, V vocabulary. */
#ifndef TAPEHEAD_GENERATE_H
#define TAPEHEAD_GENERATE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* The next token of a sequence is chosen from its logits, which are processed in this order, as in transformers'
 * generate:
 *
 *   repetition_penalty  divides the positive logits of tokens that the sequence or its prompt has already, and
 *                       multiplies the negative ones (Keskar et al. 2019)
 *   temperature         logits / temperature
 *   top_k               keeps the k largest logits, and those equal to the smallest of them (Fan et al. 2018)
 *   top_p               keeps the fewest most probable tokens whose probabilities add up to p (Holtzman et al. 2020)
 *
 * Temperature 0 chooses the largest logit, the first of equal ones; top_k and top_p then change nothing. A temperature
 * so small that a quotient would overflow draws among the largest logits alone. If the penalty makes a logit overflow,
 * it becomes the largest finite number. Random numbers are a function of (seed, number of the sequence in the batch,
 * number of the token): the same call gives the same tokens, another seed other tokens. They do not depend on the
 * context's seed, and advance no stream of the context.
 *
 * Beam search (beams > 1) looks for the sequence with the largest sum of log-probabilities / length ^ length_penalty,
 * where length counts the generated tokens. It follows the rules of transformers' generate. */
typedef struct th_generate_options {
    /* What is gone on from. A decoder-only model needs prompts; an encoder-decoder model a source, and its sequences
     * begin with the one token `start` when no prompts are given. */
    th_tensor *prompts;        /* (B, T) int32/int64, filled up at the end to one length */
    th_tensor *lengths;        /* (B) int32/int64: tokens of each prompt, in [1, T]; NULL: T */
    th_tensor *source;         /* (B, S) int32/int64 */
    th_tensor *source_lengths; /* (B) int32/int64 in [1, S]; NULL: S */
    int64_t start;
    /* How far. */
    int64_t max_new_tokens;    /* generated for each sequence at most: must be given */
    const int64_t *end_tokens; /* [n_end_tokens] a sequence is over with any of these */
    int n_end_tokens;
    bool slide; /* a sequence that has come to the end of the model's length goes on from the last half of it, which is
                   run anew; otherwise prompt and max_new_tokens must fit. Not with beams */
    /* How. */
    double temperature;        /* 0: greedy */
    int64_t top_k;             /* 0: all */
    double top_p;              /* in (0, 1]; 0: all */
    double repetition_penalty; /* above 0; 0: none */
    uint64_t seed;
    int64_t beams;         /* 0 or 1: no beam search; otherwise temperature must be 0 */
    double length_penalty; /* 0: 1; TH_ZERO: the sum itself */
    bool early_stopping;   /* of beam search: over as soon as as many sequences have ended as there are beams */
    /* Called for each token when it is there, in the order of sequences, end tokens included; with beams when the best
     * sequence is known. What it returns false for is over. It may use the library, the tape included. */
    bool (*emit)(void *user, int64_t sequence, int64_t token);
    void *user;
} th_generate_options;

/* Made as th_empty makes tensors: yours, outside scopes. The integers have the type of the prompts, or else of the
 * source. */
typedef struct th_generated {
    th_tensor *tokens;  /* (B, max_new_tokens): what was generated, then end_tokens[0], or 0 if there is none */
    th_tensor *lengths; /* (B): how many of them were generated, an end token included */
    th_tensor *scores;  /* (B) float64: of beam search; otherwise NULL */
} th_generated;

/* Runs a model made by th_language_model_new or th_transformer_new in evaluation and without recording, whatever the
 * context's mode, with a cache of its own, whose memory goes back in the end; result may be NULL. What a sequence
 * becomes depends on nothing else in the batch. Nothing of it stays on the tape, and once it runs a token allocates
 * nothing. With shapes_only it takes the memory that it would take, and calls nothing.
 *
 * Errors: a prompt that is longer than the model, options outside their range, lens outside theirs, tokens that the
 * vocabulary does not have, and TH_ERROR_VALUE for logits of which one is NaN or +inf, or all are -inf. */
TH_API th_status th_generate(th_module *model, const th_generate_options *options, th_generated *result) TH_MUST_CHECK;

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_generate(...) TH_AT_STATUS(th_generate(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
