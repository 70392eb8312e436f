/* Opens files that are read to their end. Only regular files are accepted: reading a pipe may wait forever, and a
 * device may have no end. */
#ifndef TH_PLATFORM_REGULAR_FILE_H
#define TH_PLATFORM_REGULAR_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "private_api.h"

/* Opens a file for reading and sets *bytes, which may be NULL, to its size. Returns a descriptor; -1 on failure,
 * with the end of a sentence in *problem. */
TH_PRIVATE_API int th_regular_descriptor(const char *path, int64_t *bytes, const char **problem);
/* Does the same for a stream. Returns NULL on failure. */
TH_PRIVATE_API FILE *th_regular_open(const char *path, int64_t *bytes, const char **problem);

#endif
