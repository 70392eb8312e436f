/* Reads the pattern and the content of a Replace, which is a normalizer or a decoder. */
#ifndef TH_MODELS_TEXT_JSON_READ_REPLACEMENT_H
#define TH_MODELS_TEXT_JSON_READ_REPLACEMENT_H

#include "models/files/json.h"
#include "models/text/piece.h"

/* Sets *copy to a string that the caller releases, and *bytes to its length. */
th_status th_read_text(const th_json_source *source, const json_t *value, const char *key, char **copy, size_t *bytes);
/* Reads "pattern" and "content"; `part` is "normalizer" or "decoder". */
th_status th_read_replacement(const th_json_source *source, const json_t *value, const char *part, th_replacement *r);

#endif
