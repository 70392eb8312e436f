/* Conversion between element types.
 *
 *   floating -> integer   truncated toward zero, clamped to the type's range; NaN gives 0
 *   int64 -> int32        the low 32 bits
 *   any -> bool           != 0
 *   otherwise             as in C */
#ifndef TH_TENSOR_CONVERT_H
#define TH_TENSOR_CONVERT_H

#include "tapehead/base.h"

/* Converts n contiguous elements. */
void th_convert_elements(int64_t n, th_dtype to_type, void *to, th_dtype from_type, const void *from);
/* Returns one element as a double. */
double th_number_read(th_dtype dtype, const void *from);
/* Returns one element of an integer type or bool, exactly. */
int64_t th_integer_read(th_dtype dtype, const void *from);
/* Returns element number `offset` of an array of int32 or int64. */
static inline int64_t th_load_index(th_dtype dtype, const void *data, int64_t offset)
{
    return dtype == TH_INT64 ? ((const int64_t *)data)[offset] : ((const int32_t *)data)[offset];
}
/* Writes value, converted, as one element. */
void th_number_write(th_dtype dtype, void *to, double value);
/* Returns true if an element can hold value, up to rounding: false for NaN and out-of-range values of integer types. */
bool th_number_fits(th_dtype dtype, double value);

#endif
