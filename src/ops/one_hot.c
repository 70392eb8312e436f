/* one_hot: y[n, c] = 1 if indices[n] = c, else 0. Without a gradient. */
#include "ops/shared/indices.h"
#include "ops/shared/letters.h"
#include "tapehead/ops.h"
#include "tensor/checked.h"
#include "tensor/context.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

typedef struct one_hot_attributes {
    int64_t classes;
} one_hot_attributes;

static th_status one_hot_shape(th_call *call)
{
    const one_hot_attributes *attributes = call->attributes;
    if (th_call_index_type(call, 0))
        return TH_ERROR_TYPE;
    if (attributes->classes < 0)
        return th_call_fail(call, TH_ERROR_ARGUMENT, "the number of classes must not be negative; it is %lld",
                            (long long)attributes->classes);
    int64_t size[TH_MAX_DIMS], numel;
    size_t bytes;
    th_axis_letters letters;
    const int ndim = th_indices_shape(call, attributes->classes, ' ', size, letters);
    if (ndim == 0)
        return TH_ERROR_SHAPE;
    if (!th_checked_numel(ndim, size, &numel) || !th_checked_bytes(numel, sizeof(double), &bytes))
        return th_call_fail(call, TH_ERROR_SHAPE, "a one-hot tensor of %lld classes for indices %s overflows",
                            (long long)attributes->classes, TH_TEXT(&call->input[0]));
    th_call_output(call, 0, th_default_dtype(call->ctx), ndim, size, letters);
    return TH_OK;
}

static void one_hot_forward(const th_call *call)
{
    const th_array *y = &call->output[0];
    const int64_t classes = ((const one_hot_attributes *)call->attributes)->classes,
                  count = th_array_numel(&call->input[0]);
    int64_t *index = th_indices_of(call);
    if (!th_indices_check(call, 0, "indices", classes, index))
        return;
    for (int64_t i = 0; i < count; i++)
        index[i] += i * classes; /* the offset in y, which is contiguous */
    union {
        float f32;
        double f64;
    } one;
    th_number_write(y->dtype, &one, 1);
    th_fill_array(call->ctx, y, 0);
    th_context_kernels(call->ctx, y->dtype)->scatter_add(count, index, 1, &one, 0, y->data, 1);
}

static const th_sample one_hot_samples[] = {
    {"sequence", &(one_hot_attributes){4}, 1, {{.shape = {1, {3}}, .kind = TH_SAMPLE_INDEX, .high = 4}}, 0},
    {"batch", &(one_hot_attributes){3}, 1, {{.shape = {2, {2, 3}}, .kind = TH_SAMPLE_INDEX, .high = 3}}, 0},
    {.name = NULL},
};

const th_op th_op_one_hot = {
    .name = "one_hot",
    .value = "y[n, c] = 1 if indices[n] = c, else 0",
    .gradient = "none",
    .n_inputs = 1,
    .attributes_size = sizeof(one_hot_attributes),
    .shape = one_hot_shape,
    .forward = one_hot_forward,
    .plan = th_indices_plan,
    .plan_size = sizeof(size_t),
    .not_differentiable = "indices do not vary continuously",
    .samples = one_hot_samples,
};

th_tensor *th_one_hot(th_tensor *indices, int64_t classes)
{
    return th_apply(&th_op_one_hot, &(one_hot_attributes){classes}, indices);
}
