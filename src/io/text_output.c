/* Writing text: see text_output.h. */
#include "io/text_output.h"

#include <stdio.h>
#include <string.h>

size_t th_utf8_write(uint32_t code, char *text)
{
    if (code < 0x80) {
        text[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        text[i] = (char)(0x80 | (code & 0x3f));
    text[0] = (char)(0xf00 >> length | code);
    return length;
}

size_t th_next_valid_utf8(const char *text, const char **character, size_t *size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    const int length = th_utf8_length((const unsigned char *)text);
    *character = length ? text : replacement;
    *size = length ? (size_t)length : sizeof replacement - 1;
    return length ? (size_t)length : 1;
}

size_t th_valid_utf8_size(const char *text)
{
    size_t total = 0;
    while (*text) {
        const char *character;
        size_t size;
        text += th_next_valid_utf8(text, &character, &size);
        total += size;
    }
    return total;
}

size_t th_json_escape(const char *text, char escaped[TH_JSON_ESCAPED_SIZE])
{
    const char *character;
    size_t size;
    uint32_t code;
    const size_t taken = th_next_valid_utf8(text, &character, &size);
    th_utf8_decode((const unsigned char *)character, &code);
    if (code == '"' || code == '\\' || code == '\n')
        snprintf(escaped, TH_JSON_ESCAPED_SIZE, "\\%c", code == '\n' ? 'n' : (char)code);
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        snprintf(escaped, TH_JSON_ESCAPED_SIZE, "\\u%04x", (unsigned)code);
    else
        snprintf(escaped, TH_JSON_ESCAPED_SIZE, "%.*s", (int)size, character);
    return taken;
}

void th_write_html_text(FILE *file, const char *text)
{
    while (*text) {
        const char *character;
        size_t size;
        const unsigned char c = (unsigned char)*text;
        text += th_next_valid_utf8(text, &character, &size);
        if (c == '<' || c == '>' || c == '&' || c == '"')
            fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : "&quot;", file);
        else if (c >= ' ' && c != 127)
            fwrite(character, 1, size, file);
        else
            fputc(' ', file);
    }
}
