/* The number of tokens that config.json beside a tokenizer has. */
#ifndef TH_MODELS_TEXT_JSON_READ_SIZE_H
#define TH_MODELS_TEXT_JSON_READ_SIZE_H

#include "models/text/tokenizer.h"

/* Checks that every token of the tokenizer is inside the vocabulary of the config.json at path, except added tokens. Some
 * published models have added tokens that their embedding lacks. More tokens in config.json are padding. A config.json
 * without vocab_size is right. Returns false with TH_ERROR_FILE stored. */
bool th_tokenizer_check_size(const th_tokenizer *t, const char *operation, const char *path);

#endif
