/* CRC-32C (Castagnoli), the checksum of our files. iSCSI and TensorBoard use it, and processors have an instruction for
 * it. */
#ifndef TH_KERNELS_MACHINE_CRC32C_H
#define TH_KERNELS_MACHINE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "private_api.h"

/* Continues a checksum over n more bytes. crc is the checksum of the bytes before, 0 at the beginning. */
TH_PRIVATE_API uint32_t th_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same without the processor's instruction; slow. */
uint32_t th_crc32c_plain(uint32_t crc, const void *bytes, size_t n);

#endif
