/* The "truncation" and "padding" of tokenizer.json. */
#ifndef TH_MODELS_TEXT_JSON_CALL_SETTINGS_H
#define TH_MODELS_TEXT_JSON_CALL_SETTINGS_H

#include "models/files/json.h"
#include "tapehead/tokenizer.h"

/* Both read the value of a file; if it is null, they set *given to false. Strings belong to the value. They return
 * false with the error stored. */
bool th_read_truncation(const th_json_source *source, const json_t *value, th_truncation *truncation, bool *given);
bool th_read_padding(const th_json_source *source, const json_t *value, th_padding *padding, bool *given);

#endif
