/* The 256 characters that represent bytes in the files of byte-level BPE (GPT-2's encoder). Visible characters of
 * Latin-1 represent themselves, the others are U+0100 and above. So tokens in files have no spaces or control
 * characters. */
#ifndef TH_MODELS_TEXT_BYTE_ALPHABET_H
#define TH_MODELS_TEXT_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>

/* Every character of the alphabet is 1 or 2 bytes of UTF-8. */
enum { TH_BYTE_WRITTEN = 2 };

/* Every character of the alphabet is below this code point. */
enum { TH_BYTE_CHARACTERS = 0x144 };
/* Returns the byte that a character represents; -1 for a character outside the alphabet. */
int th_byte_of_character(unsigned code);
/* Writes `count` bytes, as UTF-8 that ends with a NUL, into written[2 count + 1]. Returns the length. */
size_t th_bytes_write(const char *bytes, size_t count, char *written);
/* Converts UTF-8 text (of `count` bytes) back into bytes[count]. Returns false if a character is outside the
 * alphabet. */
bool th_bytes_read(const char *written, size_t count, char *bytes, size_t *read);

#endif
