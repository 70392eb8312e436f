/* The numbers of an array, of any layout, into a file. */
#ifndef TH_IO_ELEMENTS_H
#define TH_IO_ELEMENTS_H

#include <stdio.h>

#include "private_api.h"
#include "tapehead/op.h"

/* Writes them in row-major order, little endian; *crc (may be NULL) is continued over their bytes (CRC-32C). false,
 * with errno or 0, when they cannot be written. */
TH_PRIVATE_API bool th_write_elements(const th_array *array, FILE *file, uint32_t *crc);

#endif
