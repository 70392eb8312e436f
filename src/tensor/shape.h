/* Rules about shapes that creation, access and the operations' shape rules share. Nothing here allocates or touches
 * data. */
#ifndef TH_TENSOR_SHAPE_H
#define TH_TENSOR_SHAPE_H

#include "private_api.h"
#include "tapehead/op.h"

/* *axis made non-negative; false, and *axis left alone, when it is outside [-ndim, ndim). */
bool th_normalize_axis(int *axis, int ndim);

/* What is left of an array with only the axes of a bit set: from its first element on. */
th_array th_array_axes(const th_array *array, uint32_t axes);

/* NumPy's broadcast of a and b, aligned at the last axis; false when they do not fit. ndim and size may be a's own. */
bool th_broadcast_sizes(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int *ndim, int64_t *size);
/* Whether source broadcasts to exactly this shape. */
bool th_broadcasts_to(int source_ndim, const int64_t *source, int ndim, const int64_t *size);

/* "(B=2, T=4, 3)" into text (of TH_SHAPE_TEXT bytes), which is returned; cut short where it does not fit. axes:
 * letters, ' ' for none; "" or NULL. */
TH_PRIVATE_API const char *th_sizes_text(int ndim, const int64_t *size, const char *axes, char *text);
#define TH_SIZES_TEXT(ndim, size) th_sizes_text((ndim), (size), NULL, (char[TH_SHAPE_TEXT]){0})

/* Checks what a caller asks to create: an element type, up to TH_MAX_DIMS sizes, none negative, no overflow. Otherwise
 * the error of `operation`. */
th_status th_check_creation(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape);

#endif
