/* The element types of safetensors files, and their conversion into a tensor's. The types of the engine are a part of
 * them; from the others numbers come in, none go out. */
#ifndef TH_MODELS_STORE_STORED_TYPES_H
#define TH_MODELS_STORE_STORED_TYPES_H

#include "tapehead/base.h"

typedef struct th_stored_type {
    const char *name;
    int bits;      /* of an element */
    bool readable; /* else it is only known */
    th_dtype dtype;
} th_stored_type;

/* NULL when there is none of that name. */
const th_stored_type *th_stored_type_find(const char *name);
/* The type a tensor is written as. */
const th_stored_type *th_stored_type_of(th_dtype dtype);
/* Floating numbers go into floating types, integers into integers, bool into bool. */
bool th_stored_type_fits(const th_stored_type *type, th_dtype dtype);

/* n contiguous elements of a readable type, at any address, to a dtype that fits. false: an integer that it does not
 * hold, a bool that is neither 0 nor 1. */
bool th_stored_convert(int64_t n, th_dtype dtype, void *to, const th_stored_type *type, const void *from);

#endif
