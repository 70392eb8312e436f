/* Iterates over strided arrays that are broadcast to one shape. The iterator drops dimensions of size 1 and merges
 * neighboring dimensions where every array allows it (th_merge_dimensions). So arrays without gaps form one long
 * run.
 *
 *     th_iterator iterator;
 *     th_iterator_position position;
 *     if (!th_iterator_build(&iterator, &y, 1, (const th_array *const[]){&x}))
 *         return;
 *     const int last = iterator.ndim - 1;
 *     th_iterator_seek(&iterator, 0, &position);
 *     for (int64_t done = 0, run; done < iterator.numel; done += run, th_iterator_advance(&iterator, run, &position)) {
 *         run = th_iterator_run_length(&iterator, &position);
 *         ... `run` elements of y from position.address[0] and of x from position.address[1];
 *             the next element of array i is iterator.array[i].stride[last] bytes further
 *     }
 *
 * To iterate over rows instead of elements, build the iterator from th_select_axes (tensor/shape.h) of the arrays,
 * without the axes inside a row. */
#ifndef TH_TENSOR_STRIDED_ITERATOR_H
#define TH_TENSOR_STRIDED_ITERATOR_H

#include "private_api.h"
#include "tapehead/op.h"

enum {
    TH_MAX_OPERANDS = 8, /* of an elementwise operation, without the destination */
    TH_ITERATOR_ARRAYS = TH_MAX_OPERANDS + 1
};

typedef struct th_iterator {
    int arrays, ndim; /* ndim >= 1 */
    int64_t numel;
    int64_t size[TH_MAX_DIMS]; /* outermost dimension first */
    struct {
        char *data;
        int64_t element;             /* bytes */
        int64_t stride[TH_MAX_DIMS]; /* bytes; 0 along broadcast dimensions */
    } array[TH_ITERATOR_ARRAYS];
} th_iterator;

/* Builds an iterator over arrays that broadcast together. Its dimensions are sorted by the strides of the first
 * array, largest outermost. Returns false if there is nothing to iterate over: no elements or no data. */
bool th_iterator_build(th_iterator *iterator, const th_array *first, int n_others, const th_array *const *other);
/* As th_iterator_build, but in row-major order: the dimensions keep the order of the axes. */
TH_PRIVATE_API bool th_iterator_build_row_major(th_iterator *iterator, const th_array *first, int n_others,
                                                const th_array *const *other);

/* The position of an element: its index along each dimension and its address in each array. */
typedef struct th_iterator_position {
    int64_t index[TH_MAX_DIMS];
    char *address[TH_ITERATOR_ARRAYS];
} th_iterator_position;

/* Sets position to an element, given its number in the iterator's order. */
TH_PRIVATE_API void th_iterator_seek(const th_iterator *iterator, int64_t element, th_iterator_position *position);
/* Moves position forward by `count` elements, at most to the end of the innermost dimension. */
TH_PRIVATE_API void th_iterator_advance(const th_iterator *iterator, int64_t count, th_iterator_position *position);
/* Returns the number of elements from position to the end of the innermost dimension. */
static inline int64_t th_iterator_run_length(const th_iterator *iterator, const th_iterator_position *position)
{
    return iterator->size[iterator->ndim - 1] - position->index[iterator->ndim - 1];
}

/* Computes the addresses where a plane starts. A plane has the innermost dimension and row_dimension; `plane` is its
 * number over the other dimensions. */
void th_iterator_find_plane(const th_iterator *iterator, int row_dimension, int64_t plane, char **at);

/* Copies n elements of `element` bytes (1, 2, 4 or 8). Strides are in bytes. */
TH_PRIVATE_API void th_copy_strided(int64_t n, int64_t element, char *to, int64_t to_stride, const char *from,
                                    int64_t from_stride);

#endif
