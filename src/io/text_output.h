/* Text for files. The formats that we write (SVG, JSON, event files) allow only valid UTF-8, so bytes that are not
 * UTF-8 become U+FFFD. (Reading UTF-8: tensor/utf8.h.) */
#ifndef TH_IO_TEXT_OUTPUT_H
#define TH_IO_TEXT_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

#include "private_api.h"
#include "tensor/utf8.h"

/* Writes a code point as UTF-8 into text, which has at least 4 bytes. Returns the number of bytes written. */
TH_PRIVATE_API size_t th_utf8_write(uint32_t code, char *text);

/* Sets *character and *size to the first character of text, which must not be empty. An invalid byte becomes U+FFFD.
 * Returns the number of bytes of text that it consumed. */
TH_PRIVATE_API size_t th_next_valid_utf8(const char *text, const char **character, size_t *size);
/* Returns the bytes of a whole text after invalid bytes are replaced. */
TH_PRIVATE_API size_t th_valid_utf8_size(const char *text);

enum { TH_JSON_ESCAPED_SIZE = 8 };
/* Writes the first character of text, which must not be empty, as a JSON string contains it. Escapes quotes,
 * backslashes and control characters (C0, DEL, C1: terminals obey them); invalid bytes become U+FFFD. Returns the
 * number of bytes of text that it consumed. */
TH_PRIVATE_API size_t th_json_escape(const char *text, char escaped[TH_JSON_ESCAPED_SIZE]);

/* Writes text with the characters that HTML reserves escaped, and a space for each control character. */
void th_write_html_text(FILE *file, const char *text);

#endif
