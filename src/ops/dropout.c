/* dropout: y = 0 with probability p, else x / (1 - p) (Srivastava et al. 2014). Whether an element is kept is a
 * function of the call's random numbers and of its place (row, column) in the logical shape, so nothing is saved:
 * backward draws the same mask. th_dropout gives x itself in evaluation; the operation always draws. */
#include "kernels/philox.h"
#include "tapehead/ops.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

typedef struct dropout_attributes {
    double p;
} dropout_attributes;

static th_status dropout_shape(th_call *call)
{
    const dropout_attributes *attributes = call->attributes;
    const th_array *x = &call->input[0];
    if (!(attributes->p >= 0 && attributes->p < 1))
        return th_call_fail(call, TH_ERROR_ARGUMENT, "p = %g is outside [0, 1)", attributes->p);
    const th_status status = th_call_floating(call, 0);
    if (status)
        return status;
    th_call_output(call, 0, x->dtype, x->ndim, x->size, x->axes);
    th_call_draw(call);
    return TH_OK;
}

typedef struct masking {
    const th_kernels *kernels;
    th_dropout_mask dropout;
    int64_t columns;
    size_t row_bytes;
    const char *from; /* (rows, columns) */
    char *to;         /* (rows, columns) */
} masking;

static void mask_rows(void *shared, int64_t first, int64_t end, int worker)
{
    const masking *m = shared;
    (void)worker;
    const size_t offset = (size_t)first * m->row_bytes;
    m->kernels->dropout(end - first, m->columns, m->from + offset, m->to + offset, first, &m->dropout);
}

/* to = from * the call's mask; both contiguous, of x's shape. */
static void mask(const th_call *call, const th_array *from, const th_array *to)
{
    const dropout_attributes *attributes = call->attributes;
    const th_philox random = {
        .key = {call->random.key[0], call->random.key[1]}, .call = call->random.call, .step = call->random.step};
    masking m = {.kernels = th_call_kernels(call),
                 .dropout = th_dropout_mask_make(random, attributes->p),
                 .columns = from->ndim > 0 ? from->size[from->ndim - 1] : 1,
                 .from = from->data,
                 .to = to->data};
    if (m.columns == 0)
        return;
    m.row_bytes = (size_t)m.columns * th_dtype_size(from->dtype);
    th_for_rows(call->ctx, th_array_numel(from) / m.columns, 2 * m.columns, mask_rows, &m);
}

static void dropout_forward(const th_call *call)
{
    mask(call, &call->input[0], &call->output[0]);
}

/* y_i = x_i m_i with m_i = 0 or 1 / (1 - p):  dL/dx_i = dL/dy_i m_i */
static void dropout_backward(const th_call *call)
{
    mask(call, &call->output_gradient[0], &call->input_gradient[0]);
}

static const th_sample dropout_samples[] = {
    {"half", &(dropout_attributes){0.5}, 1, {{.shape = {2, {5, 7}}}}, 0},
    {"a tenth, rows of four", &(dropout_attributes){0.1}, 1, {{.shape = {3, {2, 5, 4}}}}, 0},
    {"a long row", &(dropout_attributes){0.3}, 1, {{.shape = {1, {75}}}}, 0},
    {"nothing dropped", &(dropout_attributes){0}, 1, {{.shape = {2, {3, 3}}}}, 0},
    {"scalar", &(dropout_attributes){0.2}, 1, {{.shape = {0, {0}}}}, 0},
    {"nothing", &(dropout_attributes){0.5}, 1, {{.shape = {2, {3, 0}}}}, 0},
    {.name = NULL},
};

const th_op th_op_dropout = {
    .name = "dropout",
    .value = "y = x * m, m = 0 with probability p, else 1 / (1 - p)",
    .gradient = "dx = dy * m",
    .n_inputs = 1,
    .attributes_size = sizeof(dropout_attributes),
    .flags = TH_OP_CONTIGUOUS | TH_OP_CANNOT_ADD | TH_OP_RECOMPUTE | TH_OP_IN_PLACE,
    .shape = dropout_shape,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .samples = dropout_samples,
};

th_tensor *(th_dropout)(th_tensor *x, double p)
{
    const th_body *body = x ? th_usable(x, NULL, "dropout", "x") : NULL;
    const bool idle = p == 0 || (body && !body->ctx->training && p > 0 && p < 1);
    if (body && idle && th_is_floating(body->dtype))
        return x;
    return th_apply(&th_op_dropout, &(dropout_attributes){p}, x);
}
