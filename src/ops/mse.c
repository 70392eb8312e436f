/* mse: loss = mean((a - b)²), broadcast. */
#include "tapehead/ops.h"
#include "tensor/convert.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

static th_status mse_shape(th_call *call)
{
    const th_status status = th_shape_elementwise(call); /* as a - b */
    if (!status)
        th_call_output(call, 0, call->input[0].dtype, 0, NULL, NULL);
    return status;
}

/* Scratch memory: in forward for the squared differences and their sum; in backward for da, then for db. */
typedef struct plan {
    th_array full;                   /* a - b, contiguous; in scratch memory if it is summed */
    bool is_broadcast[2];            /* in backward: whether the operand was broadcast */
    size_t differences, sum_scratch; /* offsets of the differences and of partial sums */
} plan;

static void plan_sum(const th_call *call, plan *p, const th_array *sum, bool add)
{
    p->differences = th_plan_scratch(call, th_array_numel(&p->full), th_dtype_size(p->full.dtype));
    p->sum_scratch = th_plan_scratch(call, 1, th_sum_scratch_bytes(sum, &p->full, add));
    th_plan_reuse(call, p->differences);
}

static void mse_plan(const th_call *call, bool backward, void *memory)
{
    plan *p = memory;
    const th_array *a = &call->input[0], *b = &call->input[1];
    p->full = (th_array){.given = true, .dtype = a->dtype};
    th_broadcast_sizes(a->ndim, a->size, b->ndim, b->size, &p->full.ndim, p->full.size);
    th_compute_contiguous_strides(p->full.ndim, p->full.size, p->full.stride);
    if (!backward)
        plan_sum(call, p, &call->output[0], false);
    for (int i = 0; i < 2 && backward; i++) {
        const th_array *gradient = &call->input_gradient[i];
        p->is_broadcast[i] =
            gradient->given && (gradient->ndim != p->full.ndim || th_array_numel(gradient) != th_array_numel(&p->full));
        if (p->is_broadcast[i])
            plan_sum(call, p, gradient, call->add[i]);
    }
}

static th_array difference_array(const th_call *call, const plan *p)
{
    th_array full = p->full;
    full.data = th_call_scratch(call, p->differences);
    return full;
}

/* Empty operands give 0 / 0 = NaN. */
static void mse_forward(const th_call *call)
{
    const plan *p = call->plan;
    const th_array squares = difference_array(call, p);
    const double count = (double)th_array_numel(&squares);
    TH_ELEMENTWISE(call, squared_difference, NULL, &squares, false, &call->input[0], &call->input[1]);
    th_sum_with_scratch(call->ctx, &call->output[0], &squares, false, th_call_scratch(call, p->sum_scratch));
    TH_ELEMENTWISE(call, divide_by, &count, &call->output[0], false, &call->output[0]);
}

/* dL/da_i = dL/dloss 2 (a_i - b_i) / n,   dL/db_i = -dL/da_i, each summed where the operand was broadcast. */
static void mse_backward(const th_call *call)
{
    const plan *p = call->plan;
    const double scale = 2 * th_number_read(call->output_gradient[0].dtype, call->output_gradient[0].data) /
                         (double)th_array_numel(&p->full);
    for (int i = 0; i < 2; i++) {
        const th_array *gradient = &call->input_gradient[i];
        const double factor = i == 0 ? scale : -scale;
        if (p->is_broadcast[i]) {
            const th_array full = difference_array(call, p);
            TH_ELEMENTWISE(call, scaled_difference, &factor, &full, false, &call->input[0], &call->input[1]);
            th_sum_with_scratch(call->ctx, gradient, &full, call->add[i], th_call_scratch(call, p->sum_scratch));
        } else if (gradient->given) {
            TH_ELEMENTWISE(call, scaled_difference, &factor, gradient, call->add[i], &call->input[0], &call->input[1]);
        }
    }
}

static const th_sample mse_samples[] = {
    {"same shapes", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {2, {3, 4}}}}, 0},
    {"broadcast", NULL, 2, {{.shape = {3, {2, 3, 4}}}, {.shape = {2, {3, 1}}}}, 0},
    {"both broadcast", NULL, 2, {{.shape = {2, {5, 1}}}, {.shape = {1, {6}}}}, 0},
    {"constant target", NULL, 2, {{.shape = {2, {3, 4}}}, {.shape = {0, {0}}, .constant = true}}, 0},
    {"scalars", NULL, 2, {{.shape = {0, {0}}}, {.shape = {0, {0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_mse = {
    .name = "mse",
    .value = "loss = mean((a - b)²)",
    .gradient = "da = dloss * 2 (a - b) / n; db = -da",
    .n_inputs = 2,
    .saves = TH_INPUT(0) | TH_INPUT(1),
    .shape = mse_shape,
    .forward = mse_forward,
    .backward = mse_backward,
    .plan = mse_plan,
    .plan_size = sizeof(plan),
    .samples = mse_samples,
};

th_tensor *th_mse(th_tensor *a, th_tensor *b)
{
    return th_apply(&th_op_mse, NULL, a, b);
}
