/* Writing a safetensors file from whatever lies in memory: tensors, and the moments of an optimizer. */
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
    th_to_store *tensor; /* [count]; put into the order in which they are written */
    int64_t count;
    const th_named_text *metadata; /* [n_metadata] */
    int64_t n_metadata;
    const char *checksums; /* NULL, or the name of one tensor more, U32 (count + 1), the last: the CRC-32C of each
                              tensor in the order they lie, then that of all before the numbers */
} th_storing;

th_status th_store(const th_storing *s);

#endif
