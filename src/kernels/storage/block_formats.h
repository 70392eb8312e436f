/* The block formats of GGUF files that have no kernels of their own, unlike th_q8_0 and th_q4_0. A block has 32 or 256
 * consecutive numbers of a row. Every number is computed in float32, in the order of ggml's reference. At most the last
 * operation rounds, so the bits are the same with and without fused multiply-add. */
#ifndef TH_KERNELS_STORAGE_BLOCK_FORMATS_H
#define TH_KERNELS_STORAGE_BLOCK_FORMATS_H

#include <stdint.h>

#include "private_api.h"

enum { TH_BLOCK_PART = 32 };

typedef struct th_block_format {
    const char *name;   /* as ggml names it */
    int numbers, bytes; /* of a block */
    int scale, scales;  /* the offset of its float16 scales, and their number */
    /* Writes the numbers 32 part .. 32 part + 31 of a block. */
    void (*unpack)(const uint8_t *block, int part, float number[TH_BLOCK_PART]);
} th_block_format;

/* Returns the format of that name, or NULL. */
TH_PRIVATE_API const th_block_format *th_block_format_find(const char *name);
/* Writes the numbers of `blocks` blocks, one behind the other. */
TH_PRIVATE_API void th_block_format_unpack(const th_block_format *format, int64_t blocks, const void *from, float *to);

#endif
