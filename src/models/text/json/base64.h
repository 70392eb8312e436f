/* Base64 in members of tokenizer.json. */
#ifndef TH_MODELS_TEXT_JSON_BASE64_H
#define TH_MODELS_TEXT_JSON_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the bytes of a text, which the caller releases, and sets *bytes to their number. Returns NULL if out of memory,
 * or with *valid false if the text is not base64 with its "=" at the end. */
unsigned char *th_base64_decode(const char *text, size_t count, size_t *bytes, bool *valid);
/* Returns the text of bytes, followed by a NUL, which the caller releases; NULL if out of memory. */
char *th_base64_encode(const unsigned char *byte, size_t bytes);

#endif
