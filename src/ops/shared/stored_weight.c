/* Weights of a storage type: see stored_weight.h. */
#include "ops/shared/stored_weight.h"

#include "kernels/dtype.h"
#include "tapehead/ops.h"
#include "tapehead/tensor.h"
#include "tensor/checked.h"

th_array th_weight_numbers(const th_array *weight)
{
    th_array numbers = *weight;
    const int last = weight->ndim - 1, block = th_dtype_numbers(weight->dtype);
    if (!th_is_storage_type(weight->dtype) || last < 0)
        return numbers;
    numbers.size[last] *= block;
    numbers.stride[last] = 1;
    for (int i = 0; i < last; i++) /* a single row may have any stride */
        numbers.stride[i] = weight->size[i] > 1 ? weight->stride[i] * block : numbers.size[last];
    return numbers;
}

th_status th_call_weight(th_call *call, int i, th_array *weight)
{
    const th_array *input = &call->input[i];
    *weight = *input;
    if (!th_is_storage_type(input->dtype))
        return th_call_floating(call, i);
    const int last = input->ndim - 1;
    const int64_t block = th_dtype_numbers(input->dtype);
    int64_t numbers;
    bool fits = last < 0 || th_checked_multiply(input->size[last], block, &numbers);
    for (int d = 0; d < last; d++)
        fits = fits && th_checked_multiply(input->stride[d], block, &numbers);
    if (!fits)
        return th_call_fail(call, TH_ERROR_SHAPE, "the numbers of input %d overflow", i);
    if (last >= 0 && input->size[last] > 1 && input->stride[last] != 1)
        return th_call_fail(call, TH_ERROR_SHAPE,
                            "the rows of a %s weight must be contiguous; input %d is %s with a stride of %lld along "
                            "them",
                            th_dtype_name(input->dtype), i, TH_TEXT(input), (long long)input->stride[last]);
    *weight = th_weight_numbers(input);
    return TH_OK;
}

th_tensor *th_weight_like(th_tensor *weight, th_tensor *x)
{
    return th_is_storage_type(th_dtype_of(weight)) ? th_cast(weight, th_dtype_of(x)) : weight;
}
