/* Characters in UTF-8, and texts that grow: see characters.h. */
#include "models/text/characters.h"

#include <string.h>

#include "models/core/files.h"
#include "models/text/grow.h"

/* -- characters -- */

int th_character_length(const char *text, size_t bytes)
{
    unsigned char character[5] = {0};
    if (bytes >= 4)
        return th_utf8_length((const unsigned char *)text);
    memcpy(character, text, bytes);
    const int length = th_utf8_length(character);
    return (size_t)length <= bytes ? length : 0;
}

size_t th_valid_bytes(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        while (bytes - at >= 8 && (memcpy(&eight, text + at, 8), (eight & 0x8080808080808080u) == 0))
            at += 8;
        const int length = at < bytes ? th_character_length(text + at, bytes - at) : 0;
        if (length == 0)
            break;
        at += (size_t)length;
    }
    return at;
}

uint32_t th_character_code(const char *character, int length)
{
    const unsigned char *byte = (const unsigned char *)character;
    uint32_t code = length == 1 ? byte[0] : byte[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++)
        code = code << 6 | (byte[i] & 0x3f);
    return code;
}

size_t th_character_before(const char *text, size_t from, size_t at)
{
    size_t begin = at;
    while (begin > from && at - begin < 4) {
        begin--;
        if (((unsigned char)text[begin] & 0xc0) != 0x80)
            return th_character_length(text + begin, at - begin) == (int)(at - begin) ? begin : at;
    }
    return at;
}

/* -- texts -- */

size_t th_white_space_length(const char *text, size_t bytes)
{
    static const struct {
        const char *bytes;
        size_t count;
    } others[] = {{"\xc2\x85", 2},     {"\xc2\xa0", 2},     {"\xe1\x9a\x80", 3}, {"\xe2\x80\xa8", 3},
                  {"\xe2\x80\xa9", 3}, {"\xe2\x80\xaf", 3}, {"\xe2\x81\x9f", 3}, {"\xe3\x80\x80", 3}};
    if (bytes == 0)
        return 0;
    const unsigned char c = (unsigned char)*text;
    if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f))
        return 1;
    if (bytes >= 3 && memcmp(text, "\xe2\x80", 2) == 0 && (unsigned char)text[2] >= 0x80 &&
        (unsigned char)text[2] <= 0x8a)
        return 3;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (bytes >= others[i].count && memcmp(text, others[i].bytes, others[i].count) == 0)
            return others[i].count;
    return 0;
}

bool th_text_append(th_text *text, const char *bytes, size_t count)
{
    if (!TH_GROW(text->bytes, text->capacity, text->count + count + 1))
        return false;
    if (count > 0)
        memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return true;
}

void th_text_free(th_text *text)
{
    if (text == NULL)
        return;
    free(text->bytes);
    *text = (th_text){0};
}
