/* Generating: a cache of keys and values, so that each new token costs one position and not the whole sequence, and
 * th_generate, which runs a model token by token. B sequences, T tokens of a prompt, S of a source, V vocabulary. */
#ifndef TAPEHEAD_GENERATE_H
#define TAPEHEAD_GENERATE_H

#include "tapehead/layers.h"

TH_BEGIN_DECLS

/* -- the cache -- */
/* Keys and values of the tokens that a model has seen, for each of its attention layers, in `batch` sequences of at
 * most `capacity` tokens. A forward takes it (.cache of th_attend_options, th_transform_options and of the models'
 * options) together with the positions of its tokens (NULL: 0 .. T-1):
 *
 *     th_no_grad_begin(ctx);
 *     logits = th_language_model_logits(model, prompt, &(th_language_model_logits_options){.cache = cache});
 *     logits = th_language_model_logits(model, token, &(...){.cache = cache, .positions = position});    (B, 1) each
 *
 * A token's keys and values replace those stored at its position. Its query sees the keys at positions up to its own.
 * So each sequence of a batch may have its own length, and a token may be run again. The results have the same bits as
 * a forward of the whole sequence, whatever else is in the batch. Cross attention projects the memory in the first
 * forward, and uses the result until th_cache_reset.
 *
 * A layer's memory is allocated when it first runs with the cache, th_cache_bytes in all, and kept. While recording, a
 * forward with a cache is TH_ERROR_STATE; positions outside [0, capacity) are TH_ERROR_INDEX. The cache belongs to the
 * context, which frees it at its end. A th_cache * is a handle, as a th_tensor * is: to use it after th_cache_free, or
 * after its context's end, is TH_ERROR_STATE. After its model was freed, a forward with it is TH_ERROR_ARGUMENT. After
 * th_module_cast of the model to another type, a forward with it is TH_ERROR_STATE until th_cache_reset. Errors of
 * th_cache_new: sizes that are not positive. */
TH_API th_cache *th_cache_new(th_module *model, int64_t batch, int64_t capacity);
/* Prepares the cache for other sequences. It forgets the memory of cross attention, and keys and values may get another
 * type. Its arrays are allocated again only if their type changes. */
TH_API th_status th_cache_reset(th_cache *cache) TH_MUST_CHECK;
/* NULL is fine, and so is a cache whose context was freed. */
TH_API void th_cache_free(th_cache *cache);
/* Bytes of keys and values so far. In a shapes-only context: what they would be. */
TH_API size_t th_cache_bytes(const th_cache *cache);

/* -- generating -- */
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
    th_tensor *prompts;     /* (B, T) int32/int64, filled up at the end to one length */
    th_tensor *lens;        /* (B) int32/int64: tokens of each prompt, in [1, T]; NULL: T */
    th_tensor *source;      /* (B, S) int32/int64 */
    th_tensor *source_lens; /* (B) int32/int64 in [1, S]; NULL: S */
    int64_t start;
    /* How far. */
    int64_t most_tokens;       /* generated for each sequence at most: must be given */
    const int64_t *end_tokens; /* [n_end_tokens] a sequence is over with any of these */
    int n_end_tokens;
    bool slide; /* a sequence that has come to the end of the model's length goes on from the last half of it, which is
                   run anew; otherwise prompt and most_tokens must fit. Not with beams */
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
    th_tensor *tokens; /* (B, most_tokens): what was generated, then end_tokens[0], or 0 if there is none */
    th_tensor *lens;   /* (B): how many of them were generated, an end token included */
    th_tensor *scores; /* (B) float64: of beam search; otherwise NULL */
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
#define th_cache_new(...) TH_AT_POINTER(th_cache, th_cache_new(__VA_ARGS__))
#define th_cache_reset(...) TH_AT_STATUS(th_cache_reset(__VA_ARGS__))
#define th_generate(...) TH_AT_STATUS(th_generate(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
