/* The cache of keys and values: a model computes only the new tokens of a sequence, instead of the whole sequence. */
#ifndef TAPEHEAD_CACHE_H
#define TAPEHEAD_CACHE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

/* A handle of a cache, made by th_cache_new. */
typedef struct th_cache th_cache;

/* Creates a cache for the attention layers of a model: their keys and values of earlier tokens, in `batch` sequences of
 * at most `capacity` tokens. A forward takes the cache (.cache of th_attend_options, th_transform_options and the
 * models' options) together with the positions of its tokens (NULL: 0 .. T - 1):
 *
 *     th_no_grad_begin(ctx);
 *     logits = th_language_model_logits(model, prompt, &(th_language_model_logits_options){.cache = cache});
 *     logits = th_language_model_logits(model, token, &(...){.cache = cache, .positions = position});    (B, 1) each
 *
 * The keys and values of a token replace those stored at its position. Its query attends to the keys at positions up to
 * its own. So each sequence of a batch may have its own length, and a token may be run again. The results have the same
 * bits as a forward of the whole sequence, independent of the other sequences in the batch. Cross attention projects
 * the memory in the first forward, and uses the result until th_cache_reset.
 *
 * Each layer allocates its memory when it first runs with the cache, and keeps it; th_cache_bytes returns the sum. The
 * cache belongs to the context, which frees it at its end.
 *
 * Errors: batch or capacity not positive (TH_ERROR_ARGUMENT). Errors of a forward with the cache:
 *
 *   - recording is on, or the cache or its context was freed: TH_ERROR_STATE
 *   - a position outside [0, capacity): TH_ERROR_INDEX
 *   - the cache's model was freed: TH_ERROR_ARGUMENT
 *   - after the cache was used, th_module_cast gave the model another type: TH_ERROR_STATE until th_cache_reset
 */
TH_API th_cache *th_cache_new(th_module *model, int64_t batch, int64_t capacity);
/* Prepares the cache for new sequences. It forgets the memory of cross attention, and keys and values may get another
 * type. Its arrays are allocated again only if their type changes. */
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
