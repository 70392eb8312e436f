/* Reads and checks index operands (indices.h). */
#include "ops/shared/indices.h"

#include "kernels/sizes.h"
#include "ops/shared/letters.h"
#include "tensor/elementwise.h"
#include "tensor/format.h"
#include "tensor/tensor.h"

int th_indices_shape(th_call *call, int64_t length, char letter, int64_t *size, char *letters)
{
    const th_array *indices = &call->input[call->n_inputs - 1];
    const int last = indices->ndim;
    if (last == TH_MAX_DIMS) {
        th_call_fail(call, TH_ERROR_SHAPE, "the indices, %s, have as many dimensions as a tensor can have",
                     TH_TEXT(indices));
        return 0;
    }
    for (int i = 0; i < last; i++) {
        size[i] = indices->size[i];
        letters[i] = th_letter(indices, i);
    }
    size[last] = length;
    letters[last] = letter;
    th_letters(letters, last + 1);
    return last + 1;
}

void th_indices_read(const th_call *call, int input, int64_t *index)
{
    th_array plain = call->input[input];
    plain.data = index;
    plain.dtype = TH_INT64;
    th_compute_contiguous_strides(plain.ndim, plain.size, plain.stride);
    th_convert_array(call->ctx, &plain, &call->input[input]);
}

void th_indices_plan(const th_call *call, bool backward, void *plan)
{
    (void)backward;
    *(size_t *)plan = th_plan_scratch(call, th_array_numel(&call->input[call->n_inputs - 1]), sizeof(int64_t));
}

int64_t *th_indices_of(const th_call *call)
{
    int64_t *index = th_call_scratch(call, *(const size_t *)call->plan);
    th_indices_read(call, call->n_inputs - 1, index);
    return index;
}

/* Writes the index of element `number` (row-major), such as "[1, 3]", to text; "" for a tensor without dimensions. */
static const char *position_text(const th_array *array, int64_t number, char *text)
{
    int64_t position[TH_MAX_DIMS];
    th_index_at(array->ndim, array->size, number, position);
    text[0] = 0;
    for (int i = 0; i < array->ndim; i++)
        th_append(text, TH_SHAPE_TEXT, "%s%lld%s", i ? ", " : "[", (long long)position[i],
                  i == array->ndim - 1 ? "]" : "");
    return text;
}

bool th_indices_check(const th_call *call, int input, const char *name, int64_t limit, const int64_t *index)
{
    const th_array *array = &call->input[input];
    for (int64_t i = 0, count = th_array_numel(array); i < count; i++) {
        if (index[i] >= 0 && index[i] < limit)
            continue;
        char text[TH_SHAPE_TEXT];
        th_fail(call->ctx, TH_ERROR_INDEX, call->op->name, "%s%s = %lld is outside [0, %lld)", name,
                position_text(array, i, text), (long long)index[i], (long long)limit);
        return false;
    }
    return true;
}
