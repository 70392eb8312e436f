/* Converts bytes to characters and back: see byte_alphabet.h. */
#include "models/text/byte_alphabet.h"

#include "models/core/files.h"

#define FIRST_STAND_IN 0x100u
#define STAND_INS (0x21u + 0x22u + 1u) /* the bytes 0-0x20, 0x7f-0xa0 and 0xad, in this order */

static bool stands_for_itself(unsigned code)
{
    return (code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad);
}

static unsigned character_of(unsigned char byte)
{
    return stands_for_itself(byte) ? byte
           : byte <= 0x20          ? FIRST_STAND_IN + byte
           : byte <= 0xa0          ? FIRST_STAND_IN + 0x21u + (byte - 0x7fu)
                                   : FIRST_STAND_IN + STAND_INS - 1;
}

int th_byte_of_character(unsigned code)
{
    if (code < FIRST_STAND_IN)
        return stands_for_itself(code) ? (int)code : -1;
    const unsigned index = code - FIRST_STAND_IN;
    return index < 0x21             ? (int)index
           : index < STAND_INS - 1  ? (int)(index - 0x21u + 0x7fu)
           : index == STAND_INS - 1 ? 0xad
                                    : -1;
}

size_t th_bytes_write(const char *bytes, size_t count, char *written)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += th_utf8_write(character_of((unsigned char)bytes[i]), written + n);
    written[n] = 0;
    return n;
}

bool th_bytes_read(const char *written, size_t count, char *bytes, size_t *read)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned code = (unsigned char)written[i];
        if (code >= 0x80) {
            if ((code & 0xe0) != 0xc0 || i + 1 == count)
                return false;
            code = (code & 0x1f) << 6 | ((unsigned char)written[++i] & 0x3f);
        }
        const int byte = th_byte_of_character(code);
        if (byte < 0)
            return false;
        bytes[n++] = (char)byte;
    }
    *read = n;
    return true;
}
