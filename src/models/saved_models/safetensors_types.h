/* The element types of safetensors files, and their conversion to a tensor's type. Files are written with the
 * engine's own types only; the others can be read. The format has no blocks: a tensor of TH_Q8_0 or TH_Q4_0 is stored
 * as U8, with the bytes of each row as its last axis. */
#ifndef TH_MODELS_SAVED_MODELS_SAFETENSORS_TYPES_H
#define TH_MODELS_SAVED_MODELS_SAFETENSORS_TYPES_H

#include "tapehead/base.h"

typedef struct th_safetensors_type {
    const char *name;
    int bits;      /* of an element */
    bool readable; /* otherwise the type is recognized but cannot be read */
    th_dtype dtype;
} th_safetensors_type;

/* Returns the type of that name, or NULL. */
const th_safetensors_type *th_safetensors_type_find(const char *name);
/* Returns the type as which a tensor is written. */
const th_safetensors_type *th_safetensors_type_of(th_dtype dtype);
/* Returns our floating or storage type that has the same elements, or TH_DTYPE_COUNT. */
th_dtype th_safetensors_type_dtype(const th_safetensors_type *type);
/* Whether a type can be read as dtype: floating types as floating and storage types, integers as integers, bool as
 * bool, U8 as blocks. */
bool th_safetensors_type_fits(const th_safetensors_type *type, th_dtype dtype);
/* Returns the bytes in a file of this type for one element of dtype. */
int64_t th_safetensors_element_bytes(const th_safetensors_type *type, th_dtype dtype);
/* Returns whether a tensor of a file has the numbers of a tensor of this type and shape: their shapes are equal,
 * except that blocks count as numbers, or as bytes in U8. */
bool th_safetensors_shape_fits(const th_safetensors_type *type, const th_shape *stored, th_dtype dtype, int ndim,
                               const int64_t *size);
/* Returns the size of the last axis as which a tensor is written. */
int64_t th_safetensors_last_size(th_dtype dtype, int64_t size);

/* Converts n contiguous elements to a dtype that fits, from th_safetensors_element_bytes each of a readable type, at
 * any alignment. Returns false if dtype does not hold an integer, or if a bool is neither 0 nor 1. */
bool th_safetensors_convert(int64_t n, th_dtype dtype, void *to, const th_safetensors_type *type, const void *from);

#endif
