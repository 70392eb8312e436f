/* Escapes invisible characters. */
#include "tensor/visible.h"

#include <stdio.h>
#include <string.h>

#include "tensor/utf8.h"

/* The characters that are escaped, in ascending order. */
static const struct {
    uint32_t first, last;
} invisible[] = {
    {0x0000, 0x001f},   /* C0 controls */
    {0x007f, 0x009f},   /* DEL, C1 controls */
    {0x00ad, 0x00ad},   /* soft hyphen */
    {0x034f, 0x034f},   /* combining grapheme joiner */
    {0x061c, 0x061c},   /* Arabic letter mark */
    {0x115f, 0x1160},   /* Hangul fillers */
    {0x17b4, 0x17b5},   /* Khmer inherent vowels */
    {0x180b, 0x180f},   /* Mongolian variation selectors */
    {0x200b, 0x200f},   /* zero width characters, direction marks */
    {0x2028, 0x202e},   /* line and paragraph separators, embeddings and overrides of direction */
    {0x2060, 0x206f},   /* word joiner, invisible operators, isolates of direction */
    {0x3164, 0x3164},   /* Hangul filler */
    {0xfe00, 0xfe0f},   /* variation selectors */
    {0xfeff, 0xfeff},   /* byte order mark */
    {0xffa0, 0xffa0},   /* halfwidth Hangul filler */
    {0xfff0, 0xfffb},   /* interlinear annotations */
    {0x1bca0, 0x1bca3}, /* shorthand format controls */
    {0x1d173, 0x1d17a}, /* musical format controls */
    {0xe0000, 0xe0fff}, /* tags, more variation selectors */
};

bool th_is_visible(uint32_t code)
{
    for (size_t i = 0; i < sizeof invisible / sizeof *invisible && invisible[i].first <= code; i++)
        if (code <= invisible[i].last)
            return false;
    return true;
}

enum { ESCAPE_BYTES = 11 }; /* of the longest escape and its NUL */

/* Writes the first character of text, or its escape, to `escaped`. Returns the bytes of the character in text. */
static size_t escape(const char *text, char escaped[ESCAPE_BYTES])
{
    static const char letters[] = "abtnvfr"; /* the control characters 7 to 13 */
    uint32_t code;
    const int length = th_utf8_decode((const unsigned char *)text, &code);
    if (length == 0)
        snprintf(escaped, ESCAPE_BYTES, "\\x%02x", (unsigned)(unsigned char)*text);
    else if (th_is_visible(code))
        snprintf(escaped, ESCAPE_BYTES, "%.*s", length, text);
    else if (code >= 7 && code <= 13)
        snprintf(escaped, ESCAPE_BYTES, "\\%c", letters[code - 7]);
    else
        snprintf(escaped, ESCAPE_BYTES, code > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)code);
    return length ? (size_t)length : 1;
}

/* Appends escaped characters while string has at most max bytes. Returns the rest of text. */
static const char *append_escaped(char *string, size_t max, const char *text)
{
    size_t used = strlen(string);
    while (*text) {
        char escaped[ESCAPE_BYTES];
        const size_t read = escape(text, escaped), bytes = strlen(escaped);
        if (bytes > max - used)
            break;
        memcpy(string + used, escaped, bytes + 1);
        used += bytes;
        text += read;
    }
    return text;
}

void th_append_visible(char *string, size_t size, const char *text)
{
    append_escaped(string, size - 1, text);
}

const char *th_quote(const char *text, char quoted[TH_QUOTED])
{
    quoted[0] = 0;
    if (*append_escaped(quoted, TH_QUOTED - 8, text))
        strcat(quoted, "...");
    return quoted;
}
