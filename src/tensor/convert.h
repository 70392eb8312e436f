/* Numbers from one element type to another. Floating to integer: truncated towards zero, held at the type's limits, NaN
 * gives 0; anything to bool: != 0; int64 to int32 keeps the low 32 bits; the rest as C does. */
#ifndef TH_TENSOR_CONVERT_H
#define TH_TENSOR_CONVERT_H

#include "tapehead/base.h"

/* n contiguous elements. */
void th_convert_run(int64_t n, th_dtype to_type, void *to, th_dtype from_type, const void *from);
/* One element, of any type; an integer as it is, without rounding. */
double th_number_load(th_dtype dtype, const void *from);
int64_t th_integer_load(th_dtype dtype, const void *from); /* integer types and bool */
/* Element number `offset` of the index type dtype. */
static inline int64_t th_index_of(th_dtype dtype, const void *data, int64_t offset)
{
    return dtype == TH_INT64 ? ((const int64_t *)data)[offset] : ((const int32_t *)data)[offset];
}
void th_number_store(th_dtype dtype, void *to, double value);
/* Whether an element can hold value, up to rounding: false for NaN and out-of-range values of integer types. */
bool th_number_fits(th_dtype dtype, double value);

#endif
