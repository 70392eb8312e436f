/* Checks options that a file describes. Readers check the usual values themselves, with the key and the range. */
#ifndef TH_MODELS_FAMILIES_DESCRIBED_H
#define TH_MODELS_FAMILIES_DESCRIBED_H

#include "tapehead/language_model.h"

/* Checks that th_language_model_new accepts the options, which have at least one layer. Otherwise sets TH_ERROR_FILE:
 * the path, and what is wrong. */
th_status th_described_check(th_context *ctx, const char *operation, const char *path,
                             const th_language_model_options *options);

#endif
