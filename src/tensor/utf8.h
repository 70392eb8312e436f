/* Decodes UTF-8. (Encoding, and replacing invalid bytes: io/text_output.h.) */
#ifndef TH_TENSOR_UTF8_H
#define TH_TENSOR_UTF8_H

#include <stdbool.h>
#include <stdint.h>

#include "private_api.h"

/* Decodes the first character of text. Returns its length, 1 to 4 bytes, or 0 if it is not UTF-8. *code becomes its
 * code point. Stops reading at the first byte that does not belong to the character. */
int th_utf8_decode(const unsigned char *text, uint32_t *code);
/* As th_utf8_decode, without the code point. */
TH_PRIVATE_API int th_utf8_length(const unsigned char *text);
/* Returns the length of the longest beginning of text that has at most `most` bytes and ends after a character. A byte
 * that is not UTF-8 counts as a character. */
int th_utf8_fit(const char *text, int most);
/* Returns true if the whole text is UTF-8. */
TH_PRIVATE_API bool th_is_utf8(const char *text);

#endif
