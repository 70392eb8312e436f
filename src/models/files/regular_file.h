/* Opening what is read to its end: regular files alone, since a pipe may never begin and a device never end. */
#ifndef TH_MODELS_FILES_REGULAR_FILE_H
#define TH_MODELS_FILES_REGULAR_FILE_H

#include <stdint.h>
#include <stdio.h>

/* For reading; *bytes, which may be NULL, gets its size. A descriptor, or a stream; -1, or NULL, with *trouble, a
 * sentence's end. */
int th_regular_descriptor(const char *path, int64_t *bytes, const char **trouble);
FILE *th_regular_open(const char *path, int64_t *bytes, const char **trouble);

#endif
