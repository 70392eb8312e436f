/* Arrays of numbers in the program's memory: parts of them, and copies from and to tensors. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

array array_new(shape s)
{
    const size_t count = (size_t)shape_count(&s);
    return (array){s, calloc(count + 1, sizeof(double))};
}

void array_free(array *a)
{
    free(a->data);
    a->data = NULL;
}

/* Copies between whole and a part of it that begins at `first`. */
static void copy_part(const array *whole, const array *part, const int64_t *first, bool to_whole)
{
    const int64_t count = shape_count(&part->shape);
    int64_t index[TH_MAX_DIMS] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = 0;
        for (int k = 0; k < whole->shape.ndim; k++)
            at = at * whole->shape.size[k] + first[k] + index[k];
        if (to_whole)
            whole->data[at] = part->data[i];
        else
            part->data[i] = whole->data[at];
        for (int k = part->shape.ndim - 1; k >= 0 && ++index[k] == part->shape.size[k]; k--)
            index[k] = 0;
    }
}

array array_part(const array *whole, const int64_t *first, const int64_t *size)
{
    shape s = whole->shape;
    memcpy(s.size, size, (size_t)s.ndim * sizeof *size);
    array part = array_new(s);
    copy_part(whole, &part, first, false);
    return part;
}

void array_put(array *whole, const array *part, const int64_t *first)
{
    copy_part(whole, part, first, true);
}

array array_of(const th_tensor *t, const shape *letters)
{
    const th_dtype dtype = th_dtype_of(t);
    array a = array_new(*letters);
    const size_t count = (size_t)th_numel(t), bytes = count * th_dtype_size(dtype);
    void *elements = calloc(bytes + 1, 1);
    if (th_copy_out((th_tensor *)t, elements, bytes) == TH_OK && (int64_t)count == shape_count(letters))
        for (size_t i = 0; i < count; i++)
            a.data[i] = dtype == TH_FLOAT32   ? (double)((float *)elements)[i]
                        : dtype == TH_FLOAT64 ? ((double *)elements)[i]
                        : dtype == TH_INT32   ? ((int32_t *)elements)[i]
                        : dtype == TH_INT64   ? (double)((int64_t *)elements)[i]
                                              : ((bool *)elements)[i];
    free(elements);
    return a;
}

static th_shape plain(const shape *s)
{
    th_shape y = {.ndim = s->ndim};
    memcpy(y.size, s->size, sizeof y.size);
    return y;
}

th_tensor *tensor_from(run *r, const array *a, content c, bool wide)
{
    const th_dtype dtype = c == REAL ? r->dtype : c == BOOL ? TH_BOOL : wide ? TH_INT64 : TH_INT32;
    const size_t count = (size_t)shape_count(&a->shape);
    void *elements = calloc(count + 1, sizeof(double));
    for (size_t i = 0; i < count; i++)
        if (dtype == TH_FLOAT32)
            ((float *)elements)[i] = (float)a->data[i];
        else if (dtype == TH_FLOAT64)
            ((double *)elements)[i] = a->data[i];
        else if (dtype == TH_INT32)
            ((int32_t *)elements)[i] = (int32_t)a->data[i];
        else if (dtype == TH_INT64)
            ((int64_t *)elements)[i] = (int64_t)a->data[i];
        else
            ((bool *)elements)[i] = a->data[i] != 0;
    th_tensor *t = th_from_data(r->ctx, dtype, plain(&a->shape), elements);
    free(elements);
    return t;
}
