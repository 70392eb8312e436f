/* UTF-8: see utf8.h. */
#include "io/utf8.h"

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

size_t th_utf8_sound(const char *text, const char **part, size_t *size)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    const int length = th_utf8_length((const unsigned char *)text);
    *part = length ? text : replacement;
    *size = length ? (size_t)length : sizeof replacement - 1;
    return length ? (size_t)length : 1;
}

size_t th_utf8_sound_size(const char *text)
{
    size_t all = 0;
    while (*text) {
        const char *part;
        size_t size;
        text += th_utf8_sound(text, &part, &size);
        all += size;
    }
    return all;
}
