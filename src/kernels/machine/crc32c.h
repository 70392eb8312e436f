/* CRC-32C (Castagnoli), the checksum of files: iSCSI's, TensorBoard's, that of the processor's own instruction. */
#ifndef TH_KERNELS_MACHINE_CRC32C_H
#define TH_KERNELS_MACHINE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "private_api.h"

/* The checksum of what came before, 0 for nothing, continued over n more bytes: pieces chain to that of the whole. */
TH_PRIVATE_API uint32_t th_crc32c(uint32_t crc, const void *bytes, size_t n);
/* The same on any processor, which is slow. */
uint32_t th_crc32c_plain(uint32_t crc, const void *bytes, size_t n);

#endif
