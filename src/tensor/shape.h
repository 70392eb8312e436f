/* Rules about shapes, strides and axes. Nothing here allocates memory or reads data. */
#ifndef TH_TENSOR_SHAPE_H
#define TH_TENSOR_SHAPE_H

#include "private_api.h"
#include "tapehead/op.h"

/* Makes *axis non-negative. Returns false, and does not change *axis, if it is outside [-ndim, ndim). */
bool th_normalize_axis(int *axis, int ndim);

/* Returns the view of an array that has only the axes whose bits are set; index 0 is selected along the others. */
th_array th_select_axes(const th_array *array, uint32_t axes);

/* -- dimensions of arrays that are traversed together --
 * stride[i][d] is the stride of array i along dimension d. The functions change size and stride in place. */

/* Sorts the dimensions by the strides of array 0, largest magnitude first. Equal strides keep their order. */
void th_sort_dimensions(int ndim, int64_t *size, int arrays, int64_t *const *stride);
/* Drops dimensions of size 1. Merges neighboring dimensions d and d + 1 if in every array
 * stride[d] = stride[d + 1] size[d + 1], so that one loop covers both. Returns the new number of dimensions. */
int th_merge_dimensions(int ndim, int64_t *size, int arrays, int64_t *const *stride);

/* Returns true if the array is row-major without gaps. */
TH_PRIVATE_API bool th_strides_are_contiguous(int ndim, const int64_t *size, const int64_t *stride);
/* Returns true if no two elements share memory. Also returns false for some interleaved layouts whose elements are
 * distinct; no function of the library makes them. */
bool th_strides_are_distinct(int ndim, const int64_t *size, const int64_t *stride);
/* Computes the strides of a row-major array without gaps. */
void th_compute_contiguous_strides(int ndim, const int64_t *size, int64_t *stride);

/* -- broadcasting, as in NumPy: shapes are aligned at the last axis -- */

/* Computes the common shape of a and b after broadcasting. Returns false if they do not broadcast. ndim and size may
 * be the pointers of a. */
bool th_broadcast_sizes(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int *ndim, int64_t *size);
/* Returns true if source broadcasts to exactly this shape. */
bool th_broadcasts_to(int source_ndim, const int64_t *source, int ndim, const int64_t *size);
/* Returns array broadcast to this shape, which must be possible. Strides are 0 along new axes and axes of size 1. The
 * view's axes have no letters. */
th_array th_broadcast_array(const th_array *array, int ndim, const int64_t *size);
/* Returns true if a and b have the same shape. */
bool th_same_sizes(const th_array *a, const th_array *b);

/* Writes "(B=2, T=4, 3)" into text, which has TH_SHAPE_TEXT bytes; a long shape ends in "...)". axes has one letter
 * for each axis, ' ' for none; it may be "" or NULL. Returns text. */
TH_PRIVATE_API const char *th_sizes_text(int ndim, const int64_t *size, const char *axes, char *text);
#define TH_SIZES_TEXT(ndim, size) th_sizes_text((ndim), (size), NULL, (char[TH_SHAPE_TEXT]){0})

/* Checks the type and shape of a new tensor: a valid type, at most TH_MAX_DIMS sizes, none negative, no overflow of
 * the bytes. Errors: TH_ERROR_TYPE, TH_ERROR_SHAPE. */
th_status th_check_creation(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape);

#endif
