/* The cache of keys and values: a model computes only the new tokens of a sequence, instead of the whole sequence. */
#ifndef TAPEHEAD_CACHE_H
#define TAPEHEAD_CACHE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* A handle of a cache, made by th_cache_new. */
typedef struct th_cache th_cache;

/* Creates a cache for the keys and values of a model's attention layers. It stores those of earlier tokens, for `batch`
 * sequences of at most `capacity` tokens. A forward gets the cache (.cache of th_attend_options, th_transform_options
 * and the models' options) together with the positions of its tokens (NULL: 0 .. T - 1):
 *
 *     th_no_grad_begin(ctx);
 *     th_language_model_logits_options options = {.cache = cache};
 *     logits = th_language_model_logits(model, prompt, &options);     prompt (B, T)
 *     options.positions = position;
 *     logits = th_language_model_logits(model, token, &options);      token and position (B, 1)
 *
 * The keys and values of a token replace those stored at its position. Its query attends to the keys at positions up to
 * its own. So each sequence of a batch may have its own length, and a token may be run again. The results have the same
 * bits as a forward of the whole sequence, independent of the other sequences in the batch. Cross attention stores the
 * keys and values of the encoder output (called memory in th_transform_options). It computes them in the first forward,
 * and uses them until th_cache_reset.
 *
 * Each layer allocates its arrays when it first runs with the cache, and keeps them. th_cache_bytes returns their size.
 * The cache belongs to the context: th_context_free frees it.
 *
 * Errors: batch or capacity not positive (TH_ERROR_ARGUMENT). Errors of a forward with the cache:
 *
 *   - recording is on, or the cache or its context was freed: TH_ERROR_STATE
 *   - a position outside [0, capacity): TH_ERROR_INDEX
 *   - the cache's model was freed: TH_ERROR_ARGUMENT
 *   - after the cache was used, th_module_cast gave the model another type: TH_ERROR_STATE until th_cache_reset */
TH_API th_cache *th_cache_new(th_module *model, int64_t batch, int64_t capacity);
/* Prepares the cache for new sequences. The next forward of cross attention stores the keys and values of a new
 * encoder output. The type of keys and values may change after a reset. The arrays are allocated again only if the
 * type changes, or if the new encoder output has another length. */
TH_API th_status th_cache_reset(th_cache *cache) TH_MUST_CHECK;
/* Frees a cache. NULL is allowed, and so is a cache whose context was freed. */
TH_API void th_cache_free(th_cache *cache);
/* Returns the bytes of all keys and values that are allocated so far. In a shapes-only context: the bytes they would
 * have. */
TH_API size_t th_cache_bytes(const th_cache *cache);

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_cache_new(...) TH_AT_POINTER(th_cache, th_cache_new(__VA_ARGS__))
#define th_cache_reset(...) TH_AT_STATUS(th_cache_reset(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
