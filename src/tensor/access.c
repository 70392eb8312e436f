/* Properties of tensors, and access to their elements outside the tape. Every change of elements increments the
 * version of the storage. A backward that saved the old values then fails. */
#include <math.h>
#include <string.h>

#include "kernels/sizes.h"
#include "tensor/checked.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/storage_types.h"
#include "tensor/tensor.h"

/* -- properties -- */

th_context *th_context_of(const th_tensor *t)
{
    return th_handle_context(t);
}

th_dtype th_dtype_of(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "dtype_of");
    return t ? t->dtype : TH_FLOAT32;
}

int th_ndim(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "ndim");
    return t ? t->ndim : 0;
}

th_shape th_shape_of(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "shape_of");
    th_shape shape = TH_SCALAR;
    if (t) {
        shape.ndim = t->ndim;
        memcpy(shape.size, t->size, sizeof shape.size);
    }
    return shape;
}

static bool normalize_axis(const th_tensor_impl *t, const char *operation, int *axis)
{
    if (th_normalize_axis(axis, t->ndim))
        return true;
    th_fail(t->ctx, TH_ERROR_SHAPE, operation, "axis %d is outside a tensor %s", *axis,
            TH_SIZES_TEXT(t->ndim, t->size));
    return false;
}

int64_t th_size(const th_tensor *handle, int axis)
{
    const th_tensor_impl *t = th_inspect(handle, "size");
    if (t == NULL)
        return handle ? -1 : 0;
    return normalize_axis(t, "size", &axis) ? t->size[axis] : -1;
}

int64_t th_numel(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "numel");
    return t ? th_tensor_numel(t) : 0;
}

int64_t th_stride(const th_tensor *handle, int axis)
{
    const th_tensor_impl *t = th_inspect(handle, "stride");
    if (t == NULL)
        return handle ? -1 : 0;
    return normalize_axis(t, "stride", &axis) ? t->stride[axis] : -1;
}

bool th_is_contiguous(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "is_contiguous");
    return t && th_strides_are_contiguous(t->ndim, t->size, t->stride);
}

bool th_shares_memory(const th_tensor *first, const th_tensor *second)
{
    const th_tensor_impl *a = th_inspect(first, "shares_memory"), *b = th_inspect(second, "shares_memory");
    return a && b && a->storage != NULL && a->storage == b->storage;
}

th_tensor *th_set_axes(th_tensor *handle, const char *letters)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "set_axes", "t");
    if (t == NULL)
        return NULL;
    const size_t count = letters ? strlen(letters) : 0;
    if (letters && count != (size_t)t->ndim) {
        th_fail(t->ctx, TH_ERROR_ARGUMENT, "set_axes", "\"%.20s\" has %zu letters for %d dimensions", letters, count,
                t->ndim);
        return NULL;
    }
    memset(t->axes, 0, sizeof t->axes);
    if (letters)
        memcpy(t->axes, letters, count);
    return handle;
}

const char *th_axes_of(const th_tensor *handle)
{
    const th_tensor_impl *t = th_inspect(handle, "axes_of");
    return t ? t->axes : "";
}

/* -- single elements -- */

bool th_check_elements(th_context *ctx, const char *operation, th_dtype dtype)
{
    if (!th_is_storage_type(dtype))
        return true;
    th_fail(ctx, TH_ERROR_TYPE, operation,
            "elements of %s are not accessed one by one: th_cast converts from and to "
            "float32",
            th_dtype_name(dtype));
    return false;
}

double th_item(th_tensor *handle)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, "item", "t");
    if (t == NULL || !th_check_elements(t->ctx, "item", t->dtype))
        return NAN;
    if (th_tensor_numel(t) != 1) {
        th_fail(t->ctx, TH_ERROR_SHAPE, "item", "needs a tensor of one element, not %s",
                TH_SIZES_TEXT(t->ndim, t->size));
        return NAN;
    }
    const void *data = th_tensor_data(t);
    return data ? th_number_read(t->dtype, data) : NAN;
}

/* Returns the elements of a t that is not empty; NULL with an error in a shapes-only context. */
static char *require_data(const th_tensor_impl *t, const char *operation)
{
    char *data = th_tensor_data(t);
    if (data == NULL)
        th_fail(t->ctx, TH_ERROR_STATE, operation, "a shapes-only context has no values");
    return data;
}

th_status th_element_index(const th_tensor_impl *t, const char *operation, const th_shape *index,
                           int64_t resolved[TH_MAX_DIMS])
{
    if (index->ndim != t->ndim)
        return th_fail(t->ctx, TH_ERROR_INDEX, operation, "%d indices given for a tensor %s", index->ndim,
                       TH_SIZES_TEXT(t->ndim, t->size));
    for (int d = 0; d < t->ndim; d++) {
        resolved[d] = index->size[d] < 0 ? index->size[d] + t->size[d] : index->size[d];
        if (resolved[d] < 0 || resolved[d] >= t->size[d])
            return th_fail(t->ctx, TH_ERROR_INDEX, operation, "index %lld is outside axis %d of %s",
                           (long long)index->size[d], d, TH_SIZES_TEXT(t->ndim, t->size));
    }
    return TH_OK;
}

/* Computes the offset, in bytes, of the element at index. Returns false with an error if index is outside t. */
static bool find_element_offset(const th_tensor_impl *t, const char *operation, const th_shape *index, int64_t *offset)
{
    int64_t resolved[TH_MAX_DIMS];
    if (th_element_index(t, operation, index, resolved) != TH_OK)
        return false;
    *offset = th_offset_of(t->ndim, resolved, t->stride) * (int64_t)th_dtype_size(t->dtype);
    return true;
}

double th_get(th_tensor *handle, th_shape index)
{
    int64_t offset;
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, "get", "t");
    if (t == NULL || !th_check_elements(t->ctx, "get", t->dtype) || !find_element_offset(t, "get", &index, &offset))
        return NAN;
    const char *data = require_data(t, "get");
    return data ? th_number_read(t->dtype, data + offset) : NAN;
}

static th_status check_value(th_tensor_impl *t, const char *operation, double value)
{
    if (!th_check_elements(t->ctx, operation, t->dtype))
        return TH_ERROR_TYPE;
    if (th_number_fits(t->dtype, value))
        return TH_OK;
    return th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "%s cannot hold %g", th_dtype_name(t->dtype), value);
}

th_status th_set(th_tensor *handle, th_shape index, double value)
{
    int64_t offset;
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "set", "t");
    if (t == NULL || !find_element_offset(t, "set", &index, &offset) || check_value(t, "set", value) != TH_OK)
        return th_pending_status(handle);
    char *data = th_tensor_data(t);
    if (data)
        th_number_write(t->dtype, data + offset, value);
    th_storage_mark_changed(t->storage);
    return TH_OK;
}

/* -- all elements -- */

th_status th_check_writable(const th_tensor_impl *t, const char *operation)
{
    if (th_strides_are_distinct(t->ndim, t->size, t->stride))
        return TH_OK;
    return th_fail(t->ctx, TH_ERROR_STATE, operation,
                   "elements of %s overlap in memory, as in an expanded view, and cannot be written one by one: "
                   "th_contiguous copies it",
                   TH_SIZES_TEXT(t->ndim, t->size));
}

/* Returns the implementation of a contiguous tensor; NULL with an error for others. */
static th_tensor_impl *require_contiguous(const th_tensor *handle, const char *operation)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, operation, "t");
    if (t && !th_strides_are_contiguous(t->ndim, t->size, t->stride)) {
        th_fail(t->ctx, TH_ERROR_STATE, operation,
                "a tensor %s that is not contiguous has no plain data: th_contiguous copies it",
                TH_SIZES_TEXT(t->ndim, t->size));
        return NULL;
    }
    return t;
}

void *th_data(th_tensor *handle)
{
    th_tensor_impl *t = require_contiguous(handle, "data");
    if (t == NULL)
        return NULL;
    if (th_tensor_numel(t) == 0)
        return th_tensor_data(t);
    void *data = require_data(t, "data");
    if (data)
        th_storage_mark_changed(t->storage);
    return data;
}

const void *th_data_const(const th_tensor *handle)
{
    const th_tensor_impl *t = require_contiguous(handle, "data_const");
    if (t == NULL)
        return NULL;
    return th_tensor_numel(t) == 0 ? th_tensor_data(t) : require_data(t, "data_const");
}

/* Returns the caller's row-major data as an array with t's shape. */
static th_array array_of_data(const th_tensor_impl *t, void *data)
{
    th_array array = th_tensor_array(t);
    array.data = data;
    th_compute_contiguous_strides(t->ndim, t->size, array.stride);
    return array;
}

static th_status check_bytes(const th_tensor_impl *t, const char *operation, const void *data, size_t bytes)
{
    const size_t needed = (size_t)th_tensor_numel(t) * th_dtype_size(t->dtype);
    if (bytes != needed)
        return th_fail(t->ctx, TH_ERROR_SHAPE, operation, "%s %s is %zu bytes, not %zu", th_dtype_name(t->dtype),
                       TH_SIZES_TEXT(t->ndim, t->size), needed, bytes);
    return data || bytes == 0 ? TH_OK : th_fail(t->ctx, TH_ERROR_ARGUMENT, operation, "data is NULL");
}

th_status th_copy_out(th_tensor *handle, void *data, size_t bytes)
{
    const th_tensor_impl *t = th_usable_tensor(handle, NULL, "copy_out", "t");
    if (t == NULL)
        return th_pending_status(handle);
    const th_status status = check_bytes(t, "copy_out", data, bytes);
    if (status != TH_OK || bytes == 0)
        return status;
    if (require_data(t, "copy_out") == NULL)
        return TH_ERROR_STATE;
    const th_array from = th_tensor_array(t), to = array_of_data(t, data);
    th_copy_array(t->ctx, &to, &from, false);
    return TH_OK;
}

th_status th_copy_in(th_tensor *handle, const void *data, size_t bytes)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "copy_in", "t");
    if (t == NULL)
        return th_pending_status(handle);
    th_status status = check_bytes(t, "copy_in", data, bytes);
    if (status == TH_OK)
        status = th_check_writable(t, "copy_in");
    if (status != TH_OK)
        return status;
    const th_array to = th_tensor_array(t), from = array_of_data(t, (void *)(uintptr_t)data);
    th_copy_array(t->ctx, &to, &from, false);
    th_storage_mark_changed(t->storage);
    return TH_OK;
}

/* Copies between arrays that share memory, through a temporary copy. */
static th_status copy_overlapping(th_context *ctx, const th_array *to, const th_array *from)
{
    size_t bytes;
    if (!th_checked_bytes(th_array_numel(from), th_dtype_size(from->dtype), &bytes))
        return th_fail(ctx, TH_ERROR_SHAPE, "copy_into", "the size in bytes overflows");
    th_block *block = th_block_new(ctx, &ctx->step_memory, bytes, "copy_into");
    if (block == NULL)
        return TH_ERROR_MEMORY;
    th_array copy = *from;
    copy.data = th_block_data(block);
    th_compute_contiguous_strides(copy.ndim, copy.size, copy.stride);
    th_copy_array(ctx, &copy, from, false);
    th_convert_array(ctx, to, &copy);
    th_block_free(&ctx->step_memory, block);
    return TH_OK;
}

/* Checks a copy from or to a storage type. The other type must be a floating or a storage type, and both tensors must
 * have the same count of numbers along each axis. */
static th_status check_convertible(const th_tensor_impl *to, const th_tensor_impl *from)
{
    const int last = to->ndim - 1;
    int64_t size = -1;
    if (!(th_is_floating(to->dtype) || th_can_round_to(to->dtype)) ||
        !(th_is_floating(from->dtype) || th_is_storage_type(from->dtype)))
        return th_fail(to->ctx, TH_ERROR_TYPE, "copy_into", "%s does not convert to %s", th_dtype_name(from->dtype),
                       th_dtype_name(to->dtype));
    bool same = to->ndim == from->ndim;
    if (same && last >= 0)
        same = th_converted_size(from->dtype, from->size[last], to->dtype, &size) && size == to->size[last];
    else if (same)
        same = th_dtype_numbers(to->dtype) == th_dtype_numbers(from->dtype);
    for (int i = 0; same && i < last; i++)
        same = to->size[i] == from->size[i];
    if (!same)
        return th_fail(to->ctx, TH_ERROR_SHAPE, "copy_into",
                       "the source, %s %s, must have as many numbers along each axis as the destination, %s %s",
                       th_dtype_name(from->dtype), TH_SIZES_TEXT(from->ndim, from->size), th_dtype_name(to->dtype),
                       TH_SIZES_TEXT(to->ndim, to->size));
    return TH_OK;
}

th_status th_copy_into(th_tensor *to_handle, th_tensor *from_handle)
{
    th_tensor_impl *destination = th_usable_tensor(to_handle, NULL, "copy_into", "destination");
    if (destination == NULL)
        return th_pending_status(to_handle);
    th_context *ctx = destination->ctx;
    const th_tensor_impl *source = th_usable_tensor(from_handle, ctx, "copy_into", "source");
    if (source == NULL)
        return th_pending_status(to_handle);
    if (destination->dtype != source->dtype &&
        (th_is_storage_type(destination->dtype) || th_is_storage_type(source->dtype))) {
        if (check_convertible(destination, source) != TH_OK)
            return ctx->error;
    } else if (!th_broadcasts_to(source->ndim, source->size, destination->ndim, destination->size))
        return th_fail(ctx, TH_ERROR_SHAPE, "copy_into", "the source %s does not broadcast to the destination %s",
                       TH_SIZES_TEXT(source->ndim, source->size), TH_SIZES_TEXT(destination->ndim, destination->size));
    if (th_check_writable(destination, "copy_into") != TH_OK)
        return ctx->error;
    const th_array to = th_tensor_array(destination), from = th_tensor_array(source);
    th_status status = TH_OK;
    if (destination->storage == source->storage)
        status = copy_overlapping(ctx, &to, &from);
    else
        th_convert_array(ctx, &to, &from);
    if (status == TH_OK)
        th_storage_mark_changed(destination->storage);
    return status;
}

th_status th_fill(th_tensor *handle, double value)
{
    th_tensor_impl *t = th_usable_tensor(handle, NULL, "fill", "t");
    if (t == NULL || check_value(t, "fill", value) != TH_OK || th_check_writable(t, "fill") != TH_OK)
        return th_pending_status(handle);
    const th_array array = th_tensor_array(t);
    th_fill_array(t->ctx, &array, value);
    th_storage_mark_changed(t->storage);
    return TH_OK;
}
