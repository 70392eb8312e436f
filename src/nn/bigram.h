/* The rows of a bigram embedding: each token and the token before it are one index. */
#ifndef TH_NN_BIGRAM_H
#define TH_NN_BIGRAM_H

#include "tapehead/language_model.h"

/* Returns the row of each token (B, T) in a bigram embedding with `rows` rows (tapehead/language_model.h), int64 (B, T).
 * positions (T) or (B, T); NULL: 0 .. T - 1. With a cache, the previous token is the token that the cache has at the
 * position before, and the tokens are stored there. NULL with the error pending. */
th_tensor *th_bigram_rows(const th_module *model, th_tensor *tokens, th_tensor *positions, th_cache *cache,
                          int64_t vocabulary, int64_t rows);

#endif
