/* The one walker over strided arrays: a loop nest over arrays of one shape, brought to its simplest form. Dimensions of
 * size 1 are dropped and neighbors merged where every array allows it, so that what lies densely is one long run
 * whatever its axes are called. A walk is a place that moves on:
 *
 *     th_iterator nest;
 *     th_iterator_position place;
 *     if (!th_iterator_build(&nest, &y, 1, (const th_array *const[]){&x}))
 *         return;
 *     th_iterator_seek(&nest, 0, &place);
 *     for (int64_t done = 0, run; done < nest.numel; done += run, th_iterator_advance(&nest, run, &place)) {
 *         run = th_iterator_run(&nest, &place);
 *         ... run elements of y from place.at[0] and of x from place.at[1], nest.array[i].stride[nest.ndim - 1] apart
 *     }
 *
 * To walk rows or lines instead of elements, build it from th_array_axes (shape.h) of the arrays: what is left
 * without the axes within one. */
#ifndef TH_TENSOR_STRIDED_ITERATOR_H
#define TH_TENSOR_STRIDED_ITERATOR_H

#include "private_api.h"
#include "tapehead/op.h"
#include "tensor/elementwise.h"

enum {
    TH_ITERATOR_ARRAYS = TH_MAX_OPERANDS + 1,
    TH_PIECE = 16384,       /* elements of a threaded piece of work */
    TH_SERIAL_BELOW = 20000 /* elements: less is not worth waking a team */
};

typedef struct th_iterator {
    int arrays, ndim; /* ndim >= 1 */
    int64_t numel;
    int64_t size[TH_MAX_DIMS]; /* outermost first */
    struct {
        char *data;
        int64_t element;             /* bytes */
        int64_t stride[TH_MAX_DIMS]; /* bytes; 0 where it broadcasts */
    } array[TH_ITERATOR_ARRAYS];
} th_iterator;

/* The nest over arrays that are broadcast together, from the first one's longest strides to its shortest: as it lies in
 * memory. false: there is nothing to walk (no elements, no data). */
bool th_iterator_build(th_iterator *iterator, const th_array *first, int n_others, const th_array *const *other);
/* The same in row-major order, as the axes stand. */
TH_PRIVATE_API bool th_iterator_build_row_major(th_iterator *iterator, const th_array *first, int n_others,
                                                const th_array *const *other);

/* A place in a nest: the index along each dimension and the address in each array. */
typedef struct th_iterator_position {
    int64_t index[TH_MAX_DIMS];
    char *at[TH_ITERATOR_ARRAYS];
} th_iterator_position;

/* To an element, counted in the nest's order. */
TH_PRIVATE_API void th_iterator_seek(const th_iterator *iterator, int64_t element, th_iterator_position *place);
/* Moves on by `count` elements, which must not pass the end of the innermost dimension. */
TH_PRIVATE_API void th_iterator_advance(const th_iterator *iterator, int64_t count, th_iterator_position *place);
/* Elements left in the innermost dimension. */
static inline int64_t th_iterator_run(const th_iterator *iterator, const th_iterator_position *place)
{
    return iterator->size[iterator->ndim - 1] - place->index[iterator->ndim - 1];
}

/* The addresses where a plane of the innermost and one other dimension starts; planes are counted over the rest. */
void th_iterator_plane(const th_iterator *iterator, int row_dimension, int64_t plane, char **at);

/* Moves n elements of `element` bytes (1, 2, 4 or 8) from every source_stride to every stride bytes. */
TH_PRIVATE_API void th_move_run(int64_t n, int64_t element, char *to, int64_t to_stride, const char *from,
                                int64_t from_stride);

/* Runs task(shared, begin, end) over [0, count) elements: in pieces of TH_PIECE on the context's team, or at once when
 * there are few. */
typedef void th_piece_task(const void *shared, int64_t begin, int64_t end);
void th_for_pieces(const th_context *ctx, int64_t count, th_piece_task *task, const void *shared);

#endif
