/* Conversion to and from the storage types. Rounding:
 *
 *   bfloat16, float16   to nearest, ties to even; NaN stays NaN
 *   q8_0, q4_0          as ggml's quantize_row_q8_0_ref and quantize_row_q4_0_ref, from float32. The scale of a block
 *                       with NaN or an infinite number is NaN, and so are all numbers of the block
 *
 * To float32 and float64, every number has the value that ggml's reference computes in float32. */
#ifndef TH_TENSOR_STORAGE_TYPES_H
#define TH_TENSOR_STORAGE_TYPES_H

#include "private_api.h"
#include "tapehead/op.h"

/* Stores n numbers, whole elements of the storage type dtype, contiguously. */
TH_PRIVATE_API void th_round_to_storage_type(int64_t n, th_dtype dtype, void *to, const double *values);
/* Loads n numbers, whole elements of the storage type dtype. */
void th_load_storage_type(const th_context *ctx, int64_t n, th_dtype dtype, const void *from, double *values);

/* destination = source. At least one has a storage type, the other one a storage type or a floating type. Both have the
 * same axes, and the same numbers along the last one. */
void th_convert_storage(const th_context *ctx, const th_array *destination, const th_array *source);

/* Computes the size of the last axis, in elements of type `to`, of an array whose last axis has `size` elements of type
 * `from`. Returns false if the numbers are not whole elements, or overflow. */
bool th_converted_size(th_dtype from, int64_t size, th_dtype to, int64_t *result);

#endif
