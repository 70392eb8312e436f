/* The cache of keys and values: each new token of a sequence costs one position, not the whole sequence. */
#ifndef TAPEHEAD_CACHE_H
#define TAPEHEAD_CACHE_H

#include "tapehead/module.h"

TH_BEGIN_DECLS

typedef struct th_cache th_cache;

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

/* -- with the caller's line -- */
#ifndef TAPEHEAD_NO_LOCATIONS
#define th_cache_new(...) TH_AT_POINTER(th_cache, th_cache_new(__VA_ARGS__))
#define th_cache_reset(...) TH_AT_STATUS(th_cache_reset(__VA_ARGS__))
#endif

TH_END_DECLS

#endif
