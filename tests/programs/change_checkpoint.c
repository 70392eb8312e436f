/* change_checkpoint FILE FROM TO: replaces the first FROM in a checkpoint's header with TO, and corrects the header's
 * checksum. Tests make hostile checkpoints with it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/machine/crc32c.h"

/* Returns the contents of a file, followed by a NUL. */
static char *read_all(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    *count = (size_t)ftell(file);
    rewind(file);
    char *bytes = calloc(*count + 1, 1);
    const bool done = bytes && fread(bytes, 1, *count, file) == *count;
    fclose(file);
    if (done)
        return bytes;
    free(bytes);
    return NULL;
}

/* Returns the header's length in eight bytes and the changed header, padded with spaces. Returns NULL if FROM is not
 * in it. */
static char *change_header(const char *old, size_t bytes, const char *from, const char *to, size_t *changed)
{
    const char *at = strstr(old + 8, from);
    char *header = calloc(8 + bytes + strlen(to) + 8, 1);
    if (at == NULL || at >= old + 8 + bytes || header == NULL)
        return NULL;
    const size_t before = (size_t)(at - old), behind = 8 + bytes - before - strlen(from);
    memcpy(header + 8, old + 8, before - 8);
    memcpy(header + before, to, strlen(to));
    memcpy(header + before + strlen(to), at + strlen(from), behind);
    uint64_t length = before - 8 + strlen(to) + behind;
    while (length % 8 != 0)
        header[8 + length++] = ' ';
    memcpy(header, &length, sizeof length);
    *changed = 8 + (size_t)length;
    return header;
}

int main(int argc, char **argv)
{
    size_t count = 0, changed = 0;
    uint64_t length = 0;
    char *bytes = argc == 4 ? read_all(argv[1], &count) : NULL;
    if (bytes && count > 12)
        memcpy(&length, bytes, sizeof length);
    char *header =
        length > 0 && length < count - 12 ? change_header(bytes, (size_t)length, argv[2], argv[3], &changed) : NULL;
    if (header == NULL) {
        fprintf(stderr, "change_checkpoint: no checkpoint, or nothing to replace\n");
        return EXIT_FAILURE;
    }
    const uint32_t sum = th_crc32c(0, header, changed);
    const size_t behind = 8 + (size_t)length;
    memcpy(bytes + count - sizeof sum, &sum, sizeof sum); /* the last checksum is the header's */
    FILE *file = fopen(argv[1], "wb");
    const bool written = file && fwrite(header, 1, changed, file) == changed &&
                         fwrite(bytes + behind, 1, count - behind, file) == count - behind && fclose(file) == 0;
    free(header);
    free(bytes);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}
