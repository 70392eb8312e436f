/* The "model" of tokenizer.json, which vocab.json and merges.txt are parts of. */
#ifndef TH_MODELS_TEXT_READ_MODEL_H
#define TH_MODELS_TEXT_READ_MODEL_H

#include "models/text/tokenizer.h"

/* Of tokenizer.json, vocab.json and merges.txt: several times what the largest in use have. */
extern const th_json_limits th_model_limits;

/* All of it; false with the error stored, here and below (or none when memory is out). */
bool th_read_model(th_tokenizer *t, const th_json_source *source, const json_t *model);
/* {"token": id, ...}: the ids must be 0 .. n-1. */
bool th_read_vocabulary(th_tokenizer *t, const th_json_source *source, const json_t *vocab);
/* merges.txt: a line "left right" for each; source->name is its path. */
bool th_read_merges_file(th_tokenizer *t, const th_json_source *source, const json_t *vocab);

#endif
