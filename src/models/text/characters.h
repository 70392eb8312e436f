/* Characters in UTF-8, and texts that grow (th_text). */
#ifndef TH_MODELS_TEXT_CHARACTERS_H
#define TH_MODELS_TEXT_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tapehead/tokenizer.h"

/* Returns the length of the character at the beginning of a text; 0 if it is not valid UTF-8. */
int th_character_length(const char *text, size_t bytes);
/* Returns the number of bytes of valid UTF-8 at the beginning of a text. */
size_t th_valid_bytes(const char *text, size_t bytes);
/* Returns the code point of a valid character. */
uint32_t th_character_code(const char *character, int length);
/* Returns the beginning of the character that ends at text[at - 1]; `at` if that character begins before `from`, or is
 * not valid UTF-8. */
size_t th_character_before(const char *text, size_t from, size_t at);
/* Returns the length of the white-space character at the beginning of a text; 0 if another character or none is there.
 * Python's str.strip has the same characters. */
size_t th_white_space_length(const char *text, size_t bytes);

/* Appends bytes to a text. Returns false if out of memory. */
bool th_text_append(th_text *text, const char *bytes, size_t count);

#endif
