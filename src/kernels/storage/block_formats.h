/* The storage types whose elements are blocks of consecutive numbers of a row, as in GGUF files. */
#ifndef TH_KERNELS_STORAGE_BLOCK_FORMATS_H
#define TH_KERNELS_STORAGE_BLOCK_FORMATS_H

#include "private_api.h"
#include "tapehead/base.h"

#define TH_BLOCK_BYTES_(dtype, text, type) dtype##_BYTES = sizeof(type),
/* TH_Q4_K_BYTES and so on: the bytes of an element. */
enum { TH_STORAGE_TYPES(TH_BLOCK_BYTES_) };

/* The types that the kernels read in parts of 32 numbers (vector/block_parts.h): type, name, numbers of a block. */
#define TH_BLOCK_FORMATS(X) TH_FORMATS_OF_32(X) TH_FORMATS_OF_256(X)
#define TH_FORMATS_OF_32(X)                                                                                            \
    X(TH_Q4_1, q4_1, 32)                                                                                               \
    X(TH_Q5_0, q5_0, 32)                                                                                               \
    X(TH_Q5_1, q5_1, 32)                                                                                               \
    X(TH_IQ4_NL, iq4_nl, 32)
#define TH_FORMATS_OF_256(X)                                                                                           \
    X(TH_Q2_K, q2_k, 256)                                                                                              \
    X(TH_Q3_K, q3_k, 256)                                                                                              \
    X(TH_Q4_K, q4_k, 256)                                                                                              \
    X(TH_Q5_K, q5_k, 256)                                                                                              \
    X(TH_Q6_K, q6_k, 256)                                                                                              \
    X(TH_IQ4_XS, iq4_xs, 256)

typedef struct th_block_format {
    int numbers;       /* of a block */
    int scale, scales; /* the offset of its float16 scales in bytes, and their number */
} th_block_format;

/* Returns the format of a type with blocks, or NULL. */
TH_PRIVATE_API const th_block_format *th_block_format_of(th_dtype dtype);

#endif
