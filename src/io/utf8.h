/* Writing UTF-8: one character, and texts of any bytes (SVG, JSON and event files take nothing else). */
#ifndef TH_IO_UTF8_H
#define TH_IO_UTF8_H

#include <stddef.h>

#include "private_api.h"
#include "tensor/utf8.h"

/* Writes a code point into text, which has room for it (4 bytes at most); returns how many bytes that is. */
TH_PRIVATE_API size_t th_utf8_write(uint32_t code, char *text);

/* The character that text, which is not empty, begins with, as *part of *size bytes, a byte that belongs to none being
 * the replacement character; returns the bytes of text that it stands for. */
TH_PRIVATE_API size_t th_utf8_sound(const char *text, const char **part, size_t *size);
/* Bytes of a whole text taken so. */
TH_PRIVATE_API size_t th_utf8_sound_size(const char *text);

#endif
