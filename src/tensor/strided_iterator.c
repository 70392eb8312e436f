/* Building and walking loop nests (nest.h), and cutting them into pieces for threads. */
#include "tensor/strided_iterator.h"

#include <string.h>

#include "kernels/machine/parallel.h"
#include "tensor/context.h"

/* One dimension with its stride in every array. */
typedef struct dimension {
    int64_t size;
    int64_t stride[TH_ITERATOR_ARRAYS];
} dimension;

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* The dimensions of more than one element; -1 when there is none at all. */
static int collect(const th_iterator *iterator, bool row_major, int axes, const th_array *const *array, dimension *dims)
{
    int ndim = 0;
    for (int axis = 0; axis < axes; axis++) {
        dimension new = {.size = 1};
        for (int i = 0; i < iterator->arrays; i++) {
            const int own = axis - axes + array[i]->ndim;
            if (own < 0 || array[i]->size[own] == 1)
                continue;
            new.size = array[i]->size[own];
            new.stride[i] = array[i]->stride[own] * iterator->array[i].element;
        }
        if (new.size == 0)
            return -1;
        if (new.size == 1)
            continue;
        int position = ndim++;
        for (; !row_major && position > 0 && magnitude(dims[position - 1].stride[0]) < magnitude(new.stride[0]);
             position--)
            dims[position] = dims[position - 1];
        dims[position] = new;
    }
    return ndim;
}

static bool merges(const dimension *outer, const dimension *inner, int count)
{
    for (int i = 0; i < count; i++)
        if (outer->stride[i] != inner->stride[i] * inner->size)
            return false;
    return true;
}

static bool build(th_iterator *iterator, bool row_major, const th_array *first, int n_others,
                  const th_array *const *other)
{
    const th_array *array[TH_ITERATOR_ARRAYS] = {first};
    const int arrays = n_others + 1;
    for (int i = 1; i < arrays; i++)
        array[i] = other[i - 1];
    iterator->arrays = arrays;
    iterator->numel = 1;
    int axes = 0;
    for (int i = 0; i < arrays; i++) {
        if (array[i]->data == NULL)
            return false;
        axes = array[i]->ndim > axes ? array[i]->ndim : axes;
        iterator->array[i].data = array[i]->data;
        iterator->array[i].element = (int64_t)th_dtype_size(array[i]->dtype);
    }

    dimension dims[TH_MAX_DIMS];
    const int ndim = collect(iterator, row_major, axes, array, dims);
    if (ndim < 0)
        return false;
    int merged = 0;
    for (int d = 0; d < ndim; d++) {
        iterator->numel *= dims[d].size;
        if (merged > 0 && merges(&dims[merged - 1], &dims[d], arrays)) {
            const int64_t size = dims[merged - 1].size * dims[d].size;
            dims[merged - 1] = dims[d];
            dims[merged - 1].size = size;
        } else {
            dims[merged++] = dims[d];
        }
    }
    if (merged == 0) { /* a single element */
        dims[merged++] = (dimension){.size = 1};
        for (int i = 0; i < arrays; i++)
            dims[0].stride[i] = iterator->array[i].element;
    }
    iterator->ndim = merged;
    for (int d = 0; d < merged; d++) {
        iterator->size[d] = dims[d].size;
        for (int i = 0; i < arrays; i++)
            iterator->array[i].stride[d] = dims[d].stride[i];
    }
    return true;
}

bool th_iterator_build(th_iterator *iterator, const th_array *first, int n_others, const th_array *const *other)
{
    return build(iterator, false, first, n_others, other);
}

bool th_iterator_build_row_major(th_iterator *iterator, const th_array *first, int n_others,
                                 const th_array *const *other)
{
    return build(iterator, true, first, n_others, other);
}

void th_iterator_seek(const th_iterator *iterator, int64_t element, th_iterator_position *place)
{
    for (int i = 0; i < iterator->arrays; i++)
        place->at[i] = iterator->array[i].data;
    for (int d = iterator->ndim - 1; d >= 0; d--) {
        place->index[d] = element % iterator->size[d];
        element /= iterator->size[d];
        for (int i = 0; i < iterator->arrays; i++)
            place->at[i] += place->index[d] * iterator->array[i].stride[d];
    }
}

void th_iterator_advance(const th_iterator *iterator, int64_t count, th_iterator_position *place)
{
    int d = iterator->ndim - 1;
    place->index[d] += count;
    for (int i = 0; i < iterator->arrays; i++)
        place->at[i] += count * iterator->array[i].stride[d];
    for (; d > 0 && place->index[d] == iterator->size[d]; d--) { /* carry */
        place->index[d] = 0;
        place->index[d - 1]++;
        for (int i = 0; i < iterator->arrays; i++)
            place->at[i] += iterator->array[i].stride[d - 1] - iterator->size[d] * iterator->array[i].stride[d];
    }
}

void th_iterator_plane(const th_iterator *iterator, int row_dimension, int64_t plane, char **at)
{
    for (int i = 0; i < iterator->arrays; i++)
        at[i] = iterator->array[i].data;
    for (int d = iterator->ndim - 2; d >= 0; d--) {
        if (d == row_dimension)
            continue;
        for (int i = 0; i < iterator->arrays; i++)
            at[i] += plane % iterator->size[d] * iterator->array[i].stride[d];
        plane /= iterator->size[d];
    }
}

/* With a constant element size after inlining: each memcpy is one load and one store. */
static inline __attribute__((always_inline)) void move(int64_t n, size_t element, char *to, int64_t to_stride,
                                                       const char *from, int64_t from_stride)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_stride, from + i * from_stride, element);
}

/* The same element n times, contiguously: cache lines full of it. */
static inline __attribute__((always_inline)) void spread(int64_t n, size_t element, char *to, const char *from)
{
    char line[64];
    for (size_t at = 0; at < sizeof line; at += element)
        memcpy(line + at, from, element);
    const size_t bytes = (size_t)n * element;
    size_t done = 0;
    for (; done + sizeof line <= bytes; done += sizeof line)
        memcpy(to + done, line, sizeof line);
    memcpy(to + done, line, bytes - done);
}

/* One loop for each kind of strides. */
static inline __attribute__((always_inline)) void move_sized(int64_t n, size_t element, char *to, int64_t to_stride,
                                                             const char *from, int64_t from_stride)
{
    const int64_t size = (int64_t)element;
    if (to_stride == size && from_stride == 0)
        spread(n, element, to, from);
    else if (to_stride == size)
        move(n, element, to, size, from, from_stride);
    else
        move(n, element, to, to_stride, from, from_stride);
}

void th_move_run(int64_t n, int64_t element, char *to, int64_t to_stride, const char *from, int64_t from_stride)
{
    if (to_stride == element && from_stride == element)
        memmove(to, from, (size_t)(n * element)); /* in place the two are the same */
    else if (element == 8)
        move_sized(n, 8, to, to_stride, from, from_stride);
    else if (element == 4)
        move_sized(n, 4, to, to_stride, from, from_stride);
    else if (element == 2)
        move_sized(n, 2, to, to_stride, from, from_stride);
    else
        move_sized(n, 1, to, to_stride, from, from_stride);
}

typedef struct pieces {
    int64_t count;
    th_piece_task *task;
    const void *shared;
} pieces;

static void run_piece(void *shared, int64_t index, int worker)
{
    (void)worker;
    const pieces *work = shared;
    const int64_t begin = index * TH_PIECE;
    work->task(work->shared, begin, begin + TH_PIECE < work->count ? begin + TH_PIECE : work->count);
}

void th_for_pieces(const th_context *ctx, int64_t count, th_piece_task *task, const void *shared)
{
    if (count < TH_SERIAL_BELOW) {
        task(shared, 0, count);
        return;
    }
    pieces work = {count, task, shared};
    th_parallel(ctx->threads, (count + TH_PIECE - 1) / TH_PIECE, run_piece, &work);
}

typedef struct rows_work {
    int64_t rows, chunk;
    th_rows_task *task;
    void *shared;
} rows_work;

static void run_rows(void *shared, int64_t index, int worker)
{
    const rows_work *work = shared;
    const int64_t first = index * work->chunk;
    work->task(work->shared, first, first + work->chunk < work->rows ? first + work->chunk : work->rows, worker);
}

void th_for_rows(const th_context *ctx, int64_t rows, int64_t cost_per_row, th_rows_task *task, void *shared)
{
    if (rows <= 0 || ctx->options.shapes_only)
        return;
    const int64_t cost = cost_per_row < 1 ? 1 : cost_per_row;
    rows_work work = {rows, cost < TH_PIECE ? (TH_PIECE + cost - 1) / cost : 1, task, shared};
    const int64_t chunks = (rows + work.chunk - 1) / work.chunk;
    const bool serial =
        rows < TH_SERIAL_BELOW && rows * (cost < TH_SERIAL_BELOW ? cost : TH_SERIAL_BELOW) < TH_SERIAL_BELOW;
    th_parallel(serial ? 1 : ctx->threads, chunks, run_rows, &work);
}
