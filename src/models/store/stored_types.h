/* The element types of safetensors files, and their conversion to a tensor's type. Files are written with the
 * engine's own types only; the others can be read. */
#ifndef TH_MODELS_STORE_STORED_TYPES_H
#define TH_MODELS_STORE_STORED_TYPES_H

#include "tapehead/base.h"

typedef struct th_stored_type {
    const char *name;
    int bits;      /* of an element */
    bool readable; /* otherwise the type is recognized but cannot be read */
    th_dtype dtype;
} th_stored_type;

/* Returns the type of that name, or NULL. */
const th_stored_type *th_stored_type_find(const char *name);
/* Returns the type as which a tensor is written. */
const th_stored_type *th_stored_type_of(th_dtype dtype);
/* Whether a type can be read as dtype: floating types as floating, integers as integers, bool as bool. */
bool th_stored_type_fits(const th_stored_type *type, th_dtype dtype);

/* Converts n contiguous elements of a readable type, at any alignment, to a dtype that fits. Returns false if dtype
 * does not hold an integer, or if a bool is neither 0 nor 1. */
bool th_stored_convert(int64_t n, th_dtype dtype, void *to, const th_stored_type *type, const void *from);

#endif
