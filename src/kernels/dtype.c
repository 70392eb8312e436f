/* Names, sizes and kinds of the element types. */
#include "kernels/dtype.h"

#define ROW(dtype, text, type) [dtype] = {text, sizeof(type)},

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {TH_DTYPES(ROW) TH_STORAGE_TYPES(ROW)};

bool th_is_dtype(th_dtype dtype)
{
    return (unsigned)dtype < TH_DTYPE_COUNT;
}

const char *th_dtype_name(th_dtype dtype)
{
    return th_is_dtype(dtype) ? dtypes[dtype].name : "?";
}

size_t th_dtype_size(th_dtype dtype)
{
    return th_is_dtype(dtype) ? dtypes[dtype].size : 0;
}

/* -- kinds of types -- */

bool th_is_floating(th_dtype dtype)
{
    return dtype == TH_FLOAT32 || dtype == TH_FLOAT64;
}

bool th_is_index(th_dtype dtype)
{
    return dtype == TH_INT32 || dtype == TH_INT64;
}

bool th_is_storage_type(th_dtype dtype)
{
    return th_is_dtype(dtype) && dtype >= TH_BFLOAT16;
}

bool th_can_round_to(th_dtype dtype)
{
    return th_is_storage_type(dtype) && dtype <= TH_Q4_0;
}
