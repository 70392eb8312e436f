/* Questions about element types. */
#ifndef TH_KERNELS_DTYPE_H
#define TH_KERNELS_DTYPE_H

#include "private_api.h"
#include "tapehead/base.h"

/* Returns true for an element of th_dtype. */
bool th_is_dtype(th_dtype dtype);
/* -- kinds of types -- */

/* Returns true for float32 and float64. */
TH_PRIVATE_API bool th_is_floating(th_dtype dtype);
/* Returns true for int32 and int64. */
TH_PRIVATE_API bool th_is_index(th_dtype dtype);
/* Returns true for bfloat16, float16, q8_0, q4_0 and the other types with blocks. */
TH_PRIVATE_API bool th_is_storage_type(th_dtype dtype);
/* Returns true for the storage types that numbers are rounded to: bfloat16, float16, q8_0 and q4_0. */
TH_PRIVATE_API bool th_can_round_to(th_dtype dtype);

#endif
