/* Writes the elements of an array of any layout to a file. */
#ifndef TH_IO_ELEMENTS_H
#define TH_IO_ELEMENTS_H

#include <stdio.h>

#include "private_api.h"
#include "tapehead/op.h"

/* Writes the elements in row-major order, little endian. Continues *crc (CRC-32C), which may be NULL, over their
 * bytes. Returns false, with errno or 0, if they cannot be written. */
TH_PRIVATE_API bool th_write_elements(const th_array *array, FILE *file, uint32_t *crc);

#endif
