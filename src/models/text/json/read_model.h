/* The "model" of tokenizer.json. vocab.json and merges.txt are parts of it. */
#ifndef TH_MODELS_TEXT_JSON_READ_MODEL_H
#define TH_MODELS_TEXT_JSON_READ_MODEL_H

#include "models/text/tokenizer.h"

/* For tokenizer.json, vocab.json and merges.txt: several times the size of the largest files in use. */
extern const th_json_limits th_model_limits;

/* Reads the whole model. This function and those below return false with the error stored (or none if out of
 * memory). */
bool th_read_model(th_tokenizer *t, const th_json_source *source, const json_t *model);
/* Reads {"token": id, ...}. The ids must be 0 .. n-1. */
bool th_read_vocabulary(th_tokenizer *t, const th_json_source *source, const json_t *vocab);
/* Reads merges.txt, with a line "left right" for each merge. source->name is its path. */
bool th_read_merges_file(th_tokenizer *t, const th_json_source *source, const json_t *vocab);

#endif
