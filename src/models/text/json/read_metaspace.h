/* Reads a Metaspace, which is a pre-tokenizer or a decoder. */
#ifndef TH_MODELS_TEXT_JSON_READ_METASPACE_H
#define TH_MODELS_TEXT_JSON_READ_METASPACE_H

#include "models/files/json.h"
#include "models/text/split.h"

typedef struct th_metaspace {
    char space[5]; /* the character that represents a space */
    th_prepend prepend;
    bool splits;
} th_metaspace;

/* Reads a member that is a string of one character. Returns false with the error stored. */
bool th_read_character(const th_json_source *source, const json_t *value, const char *key, char character[5]);
/* Reads a Metaspace. Returns false with the error stored. */
bool th_read_metaspace(const th_json_source *source, const json_t *value, th_metaspace *metaspace);

#endif
