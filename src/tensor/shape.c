/* Element types and shapes: sizes, names, strides, broadcasting, shapes as text. Nothing here allocates or touches
 * data. */
#include "tensor/shape.h"

#include <string.h>

#include "tensor/checked.h"
#include "tensor/format.h"
#include "tensor/tensor.h"

/* -- element types -- */

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define DTYPE_ROW(dtype, text, type) [dtype] = {text, sizeof(type)},
    TH_DTYPES(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool is_dtype(th_dtype dtype)
{
    return (unsigned)dtype < TH_DTYPE_COUNT;
}

const char *th_dtype_name(th_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}

size_t th_dtype_size(th_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

bool th_is_floating(th_dtype dtype)
{
    return dtype == TH_FLOAT32 || dtype == TH_FLOAT64;
}

bool th_is_index(th_dtype dtype)
{
    return dtype == TH_INT32 || dtype == TH_INT64;
}

/* -- strides -- */

bool th_strides_contiguous(int ndim, const int64_t *size, const int64_t *stride)
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

/* From the smallest stride on, each must lead past all that the ones before reach. */
bool th_strides_distinct(int ndim, const int64_t *size, const int64_t *stride)
{
    int64_t steps[TH_MAX_DIMS], counts[TH_MAX_DIMS], reach = 0;
    int n = 0, nested = ndim - 1;
    for (; nested >= 0 && (size[nested] == 1 || stride[nested] > reach); nested--) /* as most do */
        reach += size[nested] > 1 ? (size[nested] - 1) * stride[nested] : 0;
    if (nested < 0)
        return true;
    reach = 0;
    for (int d = ndim - 1; d >= 0; d--) {
        if (size[d] == 0)
            return true;
        if (size[d] == 1)
            continue;
        const int64_t step = stride[d] < 0 ? -stride[d] : stride[d];
        int at = n++;
        for (; at > 0 && steps[at - 1] > step; at--) {
            steps[at] = steps[at - 1];
            counts[at] = counts[at - 1];
        }
        steps[at] = step;
        counts[at] = size[d];
    }
    for (int i = 0; i < n; i++) {
        if (steps[i] <= reach)
            return false;
        reach += (counts[i] - 1) * steps[i];
    }
    return true;
}

/* Also of sizes that are refused afterwards because their product overflows: there the strides wrap around. */
void th_contiguous_strides(int ndim, const int64_t *size, int64_t *stride)
{
    uint64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        stride[i] = (int64_t)step;
        step *= size[i] > 1 ? (uint64_t)size[i] : 1;
    }
}

int64_t th_tensor_numel(const th_tensor_impl *t)
{
    int64_t numel = 0;
    (void)th_checked_numel(t->ndim, t->size, &numel); /* cannot overflow: creation and views checked it */
    return numel;
}

th_array th_tensor_array(const th_tensor_impl *t)
{
    th_array array = {.given = true, .data = th_tensor_data(t), .dtype = t->dtype, .ndim = t->ndim};
    memcpy(array.size, t->size, sizeof array.size);
    memcpy(array.stride, t->stride, sizeof array.stride);
    memcpy(array.axes, t->axes, sizeof array.axes);
    return array;
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
    return th_strides_contiguous(array->ndim, array->size, array->stride);
}

/* -- axes and broadcasting -- */

bool th_normalize_axis(int *axis, int ndim)
{
    if (*axis < -ndim || *axis >= ndim)
        return false;
    *axis += *axis < 0 ? ndim : 0;
    return true;
}

th_array th_array_axes(const th_array *array, uint32_t axes)
{
    th_array part = {.given = array->given, .data = array->data, .dtype = array->dtype};
    bool named = false;
    for (int i = 0; i < array->ndim; i++) {
        if (!(axes >> i & 1))
            continue;
        part.size[part.ndim] = array->size[i];
        part.stride[part.ndim] = array->stride[i];
        part.axes[part.ndim++] = array->axes[0] ? array->axes[i] : ' ';
        named |= array->axes[0] && array->axes[i] != ' ';
    }
    part.axes[named ? part.ndim : 0] = 0;
    return part;
}

bool th_broadcast_sizes(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b, int *ndim, int64_t *size)
{
    const int count = a_ndim > b_ndim ? a_ndim : b_ndim;
    int64_t result[TH_MAX_DIMS];
    for (int i = 0; i < count; i++) { /* from the last axis */
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
    if (!is_dtype(dtype))
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
