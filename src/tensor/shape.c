/* Shapes, strides and axes: contiguity, sorting and merging of dimensions, broadcasting, shapes as text. */
#include "tensor/shape.h"

#include <string.h>

#include "kernels/dtype.h"
#include "tensor/checked.h"
#include "tensor/error.h"
#include "tensor/format.h"

/* -- strides -- */

bool th_strides_are_contiguous(int ndim, const int64_t *size, const int64_t *stride)
{
    uint64_t expected = 1;
    bool dense = true;
    for (int i = ndim - 1; i >= 0; i--) {
        if (size[i] == 0)
            return true;
        dense &= size[i] == 1 || (uint64_t)stride[i] == expected;
        expected *= (uint64_t)size[i];
    }
    return dense;
}

static void swap_with_outer(int64_t *list, int d)
{
    const int64_t outer = list[d - 1];
    list[d - 1] = list[d];
    list[d] = outer;
}

static int64_t magnitude(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

void th_sort_dimensions(int ndim, int64_t *size, int arrays, int64_t *const *stride)
{
    for (int d = 1; d < ndim; d++) { /* insertion sort: most arrays are sorted already */
        for (int inner = d; inner > 0 && magnitude(stride[0][inner - 1]) < magnitude(stride[0][inner]); inner--) {
            swap_with_outer(size, inner);
            for (int i = 0; i < arrays; i++)
                swap_with_outer(stride[i], inner);
        }
    }
}

int th_merge_dimensions(int ndim, int64_t *size, int arrays, int64_t *const *stride)
{
    int merged = 0;
    for (int d = 0; d < ndim; d++) {
        if (size[d] == 1)
            continue;
        bool continues = merged > 0;
        for (int i = 0; i < arrays && continues; i++)
            continues = stride[i][merged - 1] == stride[i][d] * size[d];
        merged += !continues;
        size[merged - 1] = continues ? size[merged - 1] * size[d] : size[d];
        for (int i = 0; i < arrays; i++)
            stride[i][merged - 1] = stride[i][d];
    }
    return merged;
}

/* Sorted by stride, each stride must exceed the largest offset that the smaller ones reach together. */
bool th_strides_are_distinct(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t reach = 0;
    int d = ndim - 1;
    for (; d >= 0 && (size[d] == 1 || stride[d] > reach); d--) /* most arrays are sorted already */
        reach += size[d] > 1 ? (size[d] - 1) * stride[d] : 0;
    if (d < 0)
        return true;
    int64_t sizes[TH_MAX_DIMS], strides[TH_MAX_DIMS];
    int64_t *const sorted = strides;
    int n = 0;
    for (int i = 0; i < ndim; i++) {
        if (size[i] == 0)
            return true;
        if (size[i] == 1)
            continue;
        sizes[n] = size[i];
        strides[n++] = magnitude(stride[i]);
    }
    th_sort_dimensions(n, sizes, 1, &sorted);
    reach = 0;
    while (n-- > 0) {
        if (strides[n] <= reach)
            return false;
        reach += (sizes[n] - 1) * strides[n];
    }
    return true;
}

/* Unsigned arithmetic: callers reject sizes whose product overflows only afterwards, and signed overflow is
 * undefined. */
void th_compute_contiguous_strides(int ndim, const int64_t *size, int64_t *stride)
{
    uint64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = (int64_t)step;
        step *= size[i] > 1 ? (uint64_t)size[i] : 1;
    }
}

bool th_same_sizes(const th_array *a, const th_array *b)
{
    return a->ndim == b->ndim && memcmp(a->size, b->size, (size_t)a->ndim * sizeof a->size[0]) == 0;
}

int64_t th_array_numel(const th_array *array)
{
    int64_t numel = 0;
    (void)th_checked_numel(array->ndim, array->size, &numel);
    return numel;
}

bool th_array_contiguous(const th_array *array)
{
    return th_strides_are_contiguous(array->ndim, array->size, array->stride);
}

/* -- axes and broadcasting -- */

bool th_normalize_axis(int *axis, int ndim)
{
    if (*axis < -ndim || *axis >= ndim)
        return false;
    *axis += *axis < 0 ? ndim : 0;
    return true;
}

th_array th_select_axes(const th_array *array, uint32_t axes)
{
    th_array view = {.given = array->given, .data = array->data, .dtype = array->dtype};
    bool named = false;
    for (int i = 0; i < array->ndim; i++) {
        if (!(axes >> i & 1))
            continue;
        view.size[view.ndim] = array->size[i];
        view.stride[view.ndim] = array->stride[i];
        view.axes[view.ndim++] = array->axes[0] ? array->axes[i] : ' ';
        named |= array->axes[0] && array->axes[i] != ' ';
    }
    view.axes[named ? view.ndim : 0] = 0;
    return view;
}

th_array th_broadcast_array(const th_array *array, int ndim, const int64_t *size)
{
    th_array result = {.given = array->given, .data = array->data, .dtype = array->dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        const int own_axis = i - (ndim - array->ndim);
        result.size[i] = size[i];
        result.stride[i] = own_axis >= 0 && array->size[own_axis] != 1 ? array->stride[own_axis] : 0;
    }
    return result;
}

bool th_broadcast_sizes(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int *ndim, int64_t *size)
{
    const int count = a_ndim > b_ndim ? a_ndim : b_ndim;
    int64_t result[TH_MAX_DIMS];
    for (int i = 0; i < count; i++) { /* i counts from the last axis */
        const int64_t from_a = i < a_ndim ? a[a_ndim - 1 - i] : 1;
        const int64_t from_b = i < b_ndim ? b[b_ndim - 1 - i] : 1;
        if (from_a != from_b && from_a != 1 && from_b != 1)
            return false;
        result[count - 1 - i] = from_a == 1 ? from_b : from_a;
    }
    memcpy(size, result, (size_t)count * sizeof *size);
    *ndim = count;
    return true;
}

bool th_broadcasts_to(int source_ndim, const int64_t *source, int ndim, const int64_t *size)
{
    if (source_ndim > ndim)
        return false;
    for (int i = 0; i < source_ndim; i++) {
        const int64_t from = source[source_ndim - 1 - i];
        if (from != 1 && from != size[ndim - 1 - i])
            return false;
    }
    return true;
}

/* -- text -- */

const char *th_sizes_text(int ndim, const int64_t *size, const char *axes, char *text)
{
    const size_t letters = axes ? strlen(axes) : 0;
    strcpy(text, "(");
    for (int i = 0; i < ndim; i++) {
        const bool named = (size_t)i < letters && axes[i] != ' ';
        th_append(text, TH_SHAPE_TEXT, "%s%.*s%s%lld", i ? ", " : "", named, named ? axes + i : "", named ? "=" : "",
                  (long long)size[i]);
        if (strlen(text) > TH_SHAPE_TEXT - 5) {
            memcpy(text + TH_SHAPE_TEXT - 5, "...)", 5);
            return text;
        }
    }
    return strcat(text, ")");
}

const char *th_array_text(const th_array *array, char *text)
{
    if (array == NULL || text == NULL)
        return "";
    return th_sizes_text(array->ndim, array->size, array->axes, text);
}

th_status th_check_creation(th_context *ctx, const char *operation, th_dtype dtype, const th_shape *shape)
{
    if (!th_is_dtype(dtype))
        return th_fail(ctx, TH_ERROR_TYPE, operation, "%d is not an element type", (int)dtype);
    if (shape->ndim < 0 || shape->ndim > TH_MAX_DIMS)
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "a tensor has 0 to %d dimensions, not %d", TH_MAX_DIMS,
                       shape->ndim);
    for (int i = 0; i < shape->ndim; i++)
        if (shape->size[i] < 0)
            return th_fail(ctx, TH_ERROR_SHAPE, operation, "size %lld of axis %d of %s is negative",
                           (long long)shape->size[i], i, TH_SIZES_TEXT(shape->ndim, shape->size));
    int64_t numel;
    size_t bytes;
    if (!th_checked_numel(shape->ndim, shape->size, &numel) || !th_checked_bytes(numel, th_dtype_size(dtype), &bytes))
        return th_fail(ctx, TH_ERROR_SHAPE, operation, "the size of %s %s in bytes overflows", th_dtype_name(dtype),
                       TH_SIZES_TEXT(shape->ndim, shape->size));
    return TH_OK;
}
