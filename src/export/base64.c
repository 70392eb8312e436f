/* Base64: see base64.h. */
#include "export/base64.h"

static void put_group(th_base64 *b)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = b->count; i < 3; i++)
        b->byte[i] = 0;
    const unsigned group = (unsigned)b->byte[0] << 16 | (unsigned)b->byte[1] << 8 | b->byte[2];
    for (int i = 0; i < 4; i++)
        fputc(i <= b->count ? digit[group >> (18 - 6 * i) & 63] : '=', b->file);
    b->column += b->line_bytes > 0 ? b->count : 0;
    b->count = 0;
    if (b->line_bytes > 0 && b->column >= b->line_bytes) {
        fputc('\n', b->file);
        b->column = 0;
    }
}

void th_base64_put(th_base64 *b, const void *bytes, size_t count)
{
    const unsigned char *data = bytes;
    for (size_t i = 0; i < count; i++) {
        b->byte[b->count++] = data[i];
        if (b->count == 3)
            put_group(b);
    }
}

void th_base64_end(th_base64 *b)
{
    if (b->count > 0)
        put_group(b);
}
