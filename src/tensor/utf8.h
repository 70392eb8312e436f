/* Reading UTF-8. (Writing it, and replacing bytes that are not UTF-8: io/utf8.h.) */
#ifndef TH_TENSOR_UTF8_H
#define TH_TENSOR_UTF8_H

#include <stdint.h>

#include "private_api.h"

/* The length of the character at the beginning of text, 1 to 4 bytes, and its code point; 0 if the bytes there are not
 * UTF-8. Stops reading at the first byte that does not belong to the character. */
TH_PRIVATE_API int th_utf8_decode(const unsigned char *text, uint32_t *code);
/* The length alone. */
TH_PRIVATE_API int th_utf8_length(const unsigned char *text);

#endif
