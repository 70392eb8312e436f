/* split: consecutive parts of one axis, each a th_slice. */
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

th_status th_split(th_tensor *handle, int axis, int count, const int64_t *sizes, th_tensor **parts)
{
    for (int i = 0; i < count && parts; i++)
        parts[i] = NULL;
    const th_tensor_impl *x = th_usable_tensor(handle, NULL, "split", "x");
    if (x == NULL)
        return th_pending_status(handle);
    if (sizes == NULL || parts == NULL || count < 1)
        return th_fail(x->ctx, TH_ERROR_ARGUMENT, "split",
                       "needs at least one part, its size, and a place to store it");
    const th_array array = th_tensor_array(x);
    if (!th_normalize_axis(&axis, x->ndim))
        return th_fail(x->ctx, TH_ERROR_SHAPE, "split", "axis %d does not exist in x, %s", axis, TH_TEXT(&array));
    int64_t total = 0;
    for (int i = 0; i < count; i++) {
        if (sizes[i] < 0)
            return th_fail(x->ctx, TH_ERROR_SHAPE, "split", "size %lld of part %d is negative", (long long)sizes[i], i);
        if (!th_checked_add(total, sizes[i], &total))
            return th_fail(x->ctx, TH_ERROR_SHAPE, "split", "the sizes' sum overflows");
    }
    if (total != x->size[axis])
        return th_fail(x->ctx, TH_ERROR_SHAPE, "split", "the sizes of the parts add up to %lld, axis %d of x is %s",
                       (long long)total, axis, TH_TEXT(&array));
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = th_slice(handle, axis, start, start + sizes[i], 1);
        if (parts[i] == NULL)
            return x->ctx->error;
        start += sizes[i];
    }
    return TH_OK;
}
