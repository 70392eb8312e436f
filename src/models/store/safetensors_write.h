/* Writing a safetensors file from memory: tensors, and the moments of an optimizer. */
#ifndef TH_MODELS_STORE_SAFETENSORS_WRITE_H
#define TH_MODELS_STORE_SAFETENSORS_WRITE_H

#include "tapehead/op.h"
#include "tapehead/safetensors.h"

typedef struct th_to_store {
    const char *name;
    th_array array; /* with data, unless it is empty */
} th_to_store;

typedef struct th_storing {
    th_context *ctx;
    const char *operation, *path;
    th_to_store *tensor; /* [count]; sorted into the order of the file */
    int64_t count;
    const th_named_text *metadata; /* [n_metadata] */
    int64_t n_metadata;
    /* NULL, or the name of an additional last tensor of checksums, U32 (count + 1): the CRC-32C of each tensor in the
     * order of the file, then of all bytes before the tensors. */
    const char *checksums;
} th_storing;

/* Writes the file. TH_ERROR_FILE. */
th_status th_store(const th_storing *s);

#endif
