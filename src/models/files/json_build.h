/* Builds the values of a JSON text. It replaces the reader of jansson 2.14. If an allocation fails while that reader
 * reads a string, it can lose characters without an error, and write behind its buffers. */
#ifndef TH_MODELS_FILES_JSON_BUILD_H
#define TH_MODELS_FILES_JSON_BUILD_H

#include <jansson.h>
#include <stddef.h>

#include "models/core/context.h"

/* Returns the first character at or after `at` that is not white space. */
const char *th_json_skip_space(const char *at, const char *end);

enum { TH_JSON_REASON = TH_QUOTED + 80 }; /* bytes of a message */

/* Writes that more text follows the value, with the beginning of that text, into reason. Returns reason. */
const char *th_json_describe_rest(const char *at, const char *end, char reason[TH_JSON_REASON]);

typedef struct th_json_error {
    char reason[TH_JSON_REASON]; /* empty: memory ran out */
    size_t byte;                 /* where the reader stopped */
} th_json_error;

/* Builds the value of a text that th_json_measure has accepted. Returns NULL, and sets *error, if the text is not JSON,
 * has a repeated key, a NUL character or a number that is too large, or if memory runs out. The caller releases the
 * value with json_decref. */
json_t *th_json_parse(const char *text, size_t bytes, th_json_error *error);

#endif
