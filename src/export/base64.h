/* Base64, written byte by byte to a file. */
#ifndef TH_EXPORT_BASE64_H
#define TH_EXPORT_BASE64_H

#include <stddef.h>
#include <stdio.h>

/* Begin with (th_base64){.file = file}; line_bytes > 0, a multiple of 3, is the number of bytes of a
 * line. */
typedef struct th_base64 {
    FILE *file;
    int line_bytes;
    unsigned char byte[3];
    int count;  /* bytes in `byte`, which are not written yet */
    int column; /* bytes written to this line */
} th_base64;

void th_base64_put(th_base64 *b, const void *bytes, size_t count);
/* Writes the last bytes, filled up with "=". */
void th_base64_end(th_base64 *b);

#endif
