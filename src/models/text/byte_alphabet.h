/* The 256 characters that stand for bytes in the files of byte-level BPE (GPT-2's encoder): visible ones of Latin-1 for
 * themselves, the others as U+0100 and on, so that no file has a space or a control character in a token. Here are
 * both ways between bytes and that writing. */
#ifndef TH_MODELS_TEXT_BYTE_ALPHABET_H
#define TH_MODELS_TEXT_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>

/* Every character of the alphabet is 1 or 2 bytes of UTF-8. */
enum { TH_BYTE_WRITTEN = 2 };

/* The byte that a character of the alphabet stands for; -1 for any other. All are below TH_BYTE_CHARACTERS. */
enum { TH_BYTE_CHARACTERS = 0x144 };
int th_byte_of_character(unsigned code);
/* Writes `count` bytes, as UTF-8 with a NUL behind it, into written[2 count + 1]; returns its length. */
size_t th_bytes_write(const char *bytes, size_t count, char *written);
/* The bytes that UTF-8 text (of `count` bytes) writes, into bytes[count]; false when a character of it stands for none. */
bool th_bytes_read(const char *written, size_t count, char *bytes, size_t *read);

#endif
