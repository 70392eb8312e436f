/* The tokens that end a text. */
#ifndef TH_MODELS_FAMILIES_END_TOKENS_H
#define TH_MODELS_FAMILIES_END_TOKENS_H

#include "models/families/config.h"
#include "models/families/fields.h"

/* Reads eos_token_id, an integer or a list; the family's default if it is missing. Small models often keep this default
 * although it is outside their vocabulary: then they have no end token. Any other token outside is an error. */
void th_end_tokens_read(const th_config *c, th_foreign_config *read);
/* Replaces the end tokens by the end tokens in a generation_config.json, if that file has some. */
void th_end_tokens_replace(th_context *ctx, const char *operation, const char *path, th_foreign_config *read);

#endif
