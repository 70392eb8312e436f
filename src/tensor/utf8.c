/* Decodes UTF-8. */
#include "tensor/utf8.h"

int th_utf8_decode(const unsigned char *text, uint32_t *code)
{
    static const uint32_t smallest_code[] = {0, 0, 0x80, 0x800, 0x10000};
    const int length = text[0] < 0x80             ? 1
                       : (text[0] & 0xe0) == 0xc0 ? 2
                       : (text[0] & 0xf0) == 0xe0 ? 3
                       : (text[0] & 0xf8) == 0xf0 ? 4
                                                  : 0;
    *code = length > 1 ? text[0] & (0x7fu >> length) : text[0];
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i] & 0x3f);
    }
    const bool surrogate = *code >= 0xd800 && *code < 0xe000;
    return length == 0 || *code < smallest_code[length] || *code > 0x10ffff || surrogate ? 0 : length;
}

int th_utf8_length(const unsigned char *text)
{
    uint32_t code;
    return th_utf8_decode(text, &code);
}

int th_utf8_fit(const char *text, int most)
{
    int fitting = 0;
    while (text[fitting]) {
        const int length = th_utf8_length((const unsigned char *)text + fitting), size = length ? length : 1;
        if (size > most - fitting)
            break;
        fitting += size;
    }
    return fitting;
}

bool th_is_utf8(const char *text)
{
    for (int length; *text; text += length)
        if ((length = th_utf8_length((const unsigned char *)text)) == 0)
            return false;
    return true;
}
