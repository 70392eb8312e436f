/* mse: loss = mean((a - b)²), a and b broadcast together.
 * This file: shape rule, value, gradient, samples. */
#include "ops/shared/scratch.h"
#include "tapehead/ops.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"

static th_status mse_shape(th_call *c)
{
    const th_status status = th_shape_elementwise(c); /* as a - b */
    if (!status)
        th_call_output(c, 0, c->input[0].dtype, 0, NULL, NULL);
    return status;
}

/* a - b, contiguous, in scratch memory. */
static th_array difference(const th_call *c)
{
    th_array result = {.given = true, .data = c->scratch, .dtype = c->input[0].dtype};
    result.ndim = c->input[0].ndim > c->input[1].ndim ? c->input[0].ndim : c->input[1].ndim;
    int64_t stride = 1;
    for (int i = result.ndim - 1; i >= 0; i--) {
        const int a = i - (result.ndim - c->input[0].ndim), b = i - (result.ndim - c->input[1].ndim);
        const int64_t a_size = a < 0 ? 1 : c->input[0].size[a], b_size = b < 0 ? 1 : c->input[1].size[b];
        result.size[i] = a_size == 1 ? b_size : a_size;
        result.stride[i] = stride;
        stride *= result.size[i] > 1 ? result.size[i] : 1;
    }
    return result;
}

/* The scratch memory behind the differences: for sums over them. */
static void *after_difference(const th_call *c, const th_array *full)
{
    char *scratch = c->scratch;
    th_scratch_take(&scratch, th_array_numel(full), th_dtype_size(full->dtype));
    return scratch;
}

static bool is_broadcast(const th_array *operand, const th_array *full)
{
    return operand->ndim != full->ndim || th_array_numel(operand) != th_array_numel(full);
}

/* Of nothing: 0 / 0, NaN. */
static void mse_forward(const th_call *c)
{
    const th_array squares = difference(c);
    const double count = (double)th_array_numel(&squares);
    TH_MAP(c, squared_difference, NULL, &squares, false, &c->input[0], &c->input[1]);
    th_sum_within(c->ctx, &c->output[0], &squares, false, after_difference(c, &squares));
    TH_MAP(c, divide_by, &count, &c->output[0], false, &c->output[0]);
}

/* dL/da_i = dL/dloss 2 (a_i - b_i) / n,   dL/db_i = -dL/da_i, each summed over what the operand was broadcast along. */
static void mse_backward(const th_call *c)
{
    const th_array full = difference(c);
    const double scale =
        2 * th_number_load(c->output_gradient[0].dtype, c->output_gradient[0].data) / (double)th_array_numel(&full);
    for (int i = 0; i < 2; i++) {
        const th_array *gradient = &c->input_gradient[i];
        const double factor = i == 0 ? scale : -scale;
        if (!gradient->given)
            continue;
        if (!is_broadcast(gradient, &full)) {
            TH_MAP(c, scaled_difference, &factor, gradient, c->add[i], &c->input[0], &c->input[1]);
        } else {
            TH_MAP(c, scaled_difference, &factor, &full, false, &c->input[0], &c->input[1]);
            th_sum_within(c->ctx, gradient, &full, c->add[i], after_difference(c, &full));
        }
    }
}

static size_t mse_scratch(const th_call *c, bool backward)
{
    const th_array full = difference(c);
    bool needed = !backward;
    size_t sums = backward ? 0 : th_sum_scratch(&c->output[0], &full, false);
    for (int i = 0; i < 2 && backward; i++)
        if (c->input_gradient[i].given && is_broadcast(&c->input[i], &full)) {
            needed = true;
            sums = th_scratch_larger(sums, th_sum_scratch(&c->input_gradient[i], &full, c->add[i]));
        }
    return needed ? th_scratch_add(sums, th_array_numel(&full), th_dtype_size(full.dtype)) : 0;
}

static const th_sample mse_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"broadcast", NULL, 2, {{.shape = {3, {2, 3, 4}}}, {.shape = {2, {3, 1}}}}, 0},
    {"both broadcast", NULL, 2, {{.shape = {2, {5, 1}}}, {.shape = {1, {6}}}}, 0},
    {"constant target", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {0, {0}}, .constant = true}}, 0},
    {"scalars", NULL, 2, {{.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {0},
};

const th_op th_op_mse = {
    .name = "mse",
    .value = "loss = mean((a - b)²)",
    .gradient = "da = dloss * 2 (a - b) / n; db = -da",
    .n_inputs = 2,
    .saves = TH_SAVE_INPUT(0) | TH_SAVE_INPUT(1),
    .shape = mse_shape,
    .forward = mse_forward,
    .backward = mse_backward,
    .scratch = mse_scratch,
    .samples = mse_samples,
};

th_tensor *(th_mse)(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_mse, NULL, a, b);
}
