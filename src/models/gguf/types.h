/* The element types of GGUF files. */
#ifndef TH_MODELS_GGUF_TYPES_H
#define TH_MODELS_GGUF_TYPES_H

#include "tapehead/base.h"

typedef struct th_gguf_type {
    uint32_t code; /* in files */
    const char *name;
    int numbers, bytes; /* of a block; a row is whole blocks */
    bool readable;      /* otherwise only its size is known */
    th_dtype dtype;     /* of the tensor that it becomes */
} th_gguf_type;

/* Returns the type with that code, or NULL. */
const th_gguf_type *th_gguf_type_find(uint32_t code);
/* Returns the type that has the elements of dtype, or NULL. */
const th_gguf_type *th_gguf_type_of(th_dtype dtype);

#endif
