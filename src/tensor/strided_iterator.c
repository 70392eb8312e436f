/* Building and advancing strided iterators, and copying strided runs. */
#include "tensor/strided_iterator.h"

#include <string.h>

#include "tensor/shape.h"

static bool build_iterator(th_iterator *iterator, bool row_major, const th_array *first, int n_others,
                           const th_array *const *other)
{
    const th_array *array[TH_ITERATOR_ARRAYS] = {first};
    int64_t *stride[TH_ITERATOR_ARRAYS];
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
        stride[i] = iterator->array[i].stride;
    }
    int ndim = 0;
    for (int axis = 0; axis < axes; axis++) {
        int64_t size = 1;
        for (int i = 0; i < arrays; i++) {
            const int own_axis = axis - axes + array[i]->ndim;
            const bool broadcast = own_axis < 0 || array[i]->size[own_axis] == 1;
            size = broadcast ? size : array[i]->size[own_axis];
            stride[i][ndim] = broadcast ? 0 : array[i]->stride[own_axis] * iterator->array[i].element;
        }
        if (size == 0)
            return false;
        if (size == 1)
            continue;
        iterator->size[ndim++] = size;
    }
    for (int d = 0; d < ndim; d++) /* no size is 0, so the product does not overflow */
        iterator->numel *= iterator->size[d];
    if (!row_major)
        th_sort_dimensions(ndim, iterator->size, arrays, stride);
    iterator->ndim = th_merge_dimensions(ndim, iterator->size, arrays, stride);
    if (iterator->ndim == 0) { /* a single element */
        iterator->size[iterator->ndim++] = 1;
        for (int i = 0; i < arrays; i++)
            stride[i][0] = iterator->array[i].element;
    }
    return true;
}

bool th_iterator_build(th_iterator *iterator, const th_array *first, int n_others, const th_array *const *other)
{
    return build_iterator(iterator, false, first, n_others, other);
}

bool th_iterator_build_row_major(th_iterator *iterator, const th_array *first, int n_others,
                                 const th_array *const *other)
{
    return build_iterator(iterator, true, first, n_others, other);
}

void th_iterator_seek(const th_iterator *iterator, int64_t element, th_iterator_position *position)
{
    for (int i = 0; i < iterator->arrays; i++)
        position->address[i] = iterator->array[i].data;
    for (int d = iterator->ndim - 1; d >= 0; d--) {
        position->index[d] = element % iterator->size[d];
        element /= iterator->size[d];
        for (int i = 0; i < iterator->arrays; i++)
            position->address[i] += position->index[d] * iterator->array[i].stride[d];
    }
}

void th_iterator_advance(const th_iterator *iterator, int64_t count, th_iterator_position *position)
{
    int d = iterator->ndim - 1;
    position->index[d] += count;
    for (int i = 0; i < iterator->arrays; i++)
        position->address[i] += count * iterator->array[i].stride[d];
    for (; d > 0 && position->index[d] == iterator->size[d]; d--) { /* carry into the next dimension */
        position->index[d] = 0;
        position->index[d - 1]++;
        for (int i = 0; i < iterator->arrays; i++)
            position->address[i] += iterator->array[i].stride[d - 1] - iterator->size[d] * iterator->array[i].stride[d];
    }
}

void th_iterator_find_plane(const th_iterator *iterator, int row_dimension, int64_t plane, char **at)
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

/* Copies n elements. `element` is a constant after inlining, so that each memcpy is one load and one store. */
static inline __attribute__((always_inline)) void copy_elements(int64_t n, size_t element, char *to, int64_t to_stride,
                                                                const char *from, int64_t from_stride)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_stride, from + i * from_stride, element);
}

/* Writes the same element n times, contiguously, in whole cache lines. */
static inline __attribute__((always_inline)) void repeat_element(int64_t n, size_t element, char *to, const char *from)
{
    char line[64];
    for (size_t offset = 0; offset < sizeof line; offset += element)
        memcpy(line + offset, from, element);
    const size_t bytes = (size_t)n * element;
    size_t done = 0;
    for (; done + sizeof line <= bytes; done += sizeof line)
        memcpy(to + done, line, sizeof line);
    memcpy(to + done, line, bytes - done);
}

/* Selects a loop by the kind of strides. */
static inline __attribute__((always_inline)) void
copy_elements_sized(int64_t n, size_t element, char *to, int64_t to_stride, const char *from, int64_t from_stride)
{
    const int64_t size = (int64_t)element;
    if (to_stride == size && from_stride == 0)
        repeat_element(n, element, to, from);
    else if (to_stride == size)
        copy_elements(n, element, to, size, from, from_stride);
    else
        copy_elements(n, element, to, to_stride, from, from_stride);
}

void th_copy_strided(int64_t n, int64_t element, char *to, int64_t to_stride, const char *from, int64_t from_stride)
{
    if (to_stride == element && from_stride == element)
        memmove(to, from, (size_t)(n * element)); /* in place, to equals from */
    else if (element == 8)
        copy_elements_sized(n, 8, to, to_stride, from, from_stride);
    else if (element == 4)
        copy_elements_sized(n, 4, to, to_stride, from, from_stride);
    else if (element == 2)
        copy_elements_sized(n, 2, to, to_stride, from, from_stride);
    else if (element == 1)
        copy_elements_sized(n, 1, to, to_stride, from, from_stride);
    else
        copy_elements(n, (size_t)element, to, to_stride, from, from_stride);
}
