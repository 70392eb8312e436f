/* Reads and writes base64: see base64.h. */
#include "models/text/json/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

unsigned char *th_base64_decode(const char *text, size_t count, size_t *bytes, bool *valid)
{
    const size_t filling =
        count >= 4 && count % 4 == 0 ? (size_t)(text[count - 1] == '=') + (text[count - 2] == '=') : 0;
    signed char value[256];
    uint32_t bits = 0;
    memset(value, -1, sizeof value);
    for (int i = 0; i < 64; i++)
        value[(unsigned char)digits[i]] = (signed char)i;
    *valid = count % 4 == 0;
    *bytes = 0;
    unsigned char *out = malloc(count / 4 * 3 + 1);
    for (size_t i = 0; out && *valid && i < count; i++) {
        const int digit = i >= count - filling && text[i] == '=' ? 0 : value[(unsigned char)text[i]];
        *valid = digit >= 0;
        bits = bits << 6 | (uint32_t)digit;
        for (int k = 2; i % 4 == 3 && k >= 0; k--)
            out[(*bytes)++] = (unsigned char)(bits >> 8 * k);
    }
    if (out && *valid) {
        *bytes -= filling;
        return out;
    }
    free(out);
    return NULL;
}

char *th_base64_encode(const unsigned char *byte, size_t bytes)
{
    char *text = bytes < SIZE_MAX / 2 - 4 ? malloc((bytes + 2) / 3 * 4 + 1) : NULL;
    size_t count = 0;
    for (size_t i = 0; text && i < bytes; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < bytes ? byte[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            text[count++] = k <= bytes - i ? digits[bits >> (18 - 6 * k) & 63] : '=';
    }
    if (text)
        text[count] = 0;
    return text;
}
