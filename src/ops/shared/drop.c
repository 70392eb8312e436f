/* The shape rule and the computation of dropout (drop.h). */
#include "ops/shared/drop.h"

#include "kernels/random/philox.h"
#include "tensor/elementwise.h"
#include "tensor/tensor.h"

th_status th_drop_shape(th_call *call)
{
    const th_drop_attributes *attributes = call->attributes;
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

typedef struct dropout_run {
    const th_kernels *kernels;
    th_dropout_mask dropout;
    int64_t columns;
    size_t row_bytes;
    const char *from, *residual; /* (rows, columns); residual may be NULL */
    char *to;                    /* (rows, columns) */
} dropout_run;

static void drop_rows(void *shared, int64_t first, int64_t end, int worker)
{
    const dropout_run *d = shared;
    (void)worker;
    const size_t offset = (size_t)first * d->row_bytes;
    d->kernels->dropout(end - first, d->columns, d->from + offset, d->residual ? d->residual + offset : NULL,
                        d->to + offset, first, &d->dropout);
}

void th_drop(const th_call *call, const th_array *from, const th_array *residual, const th_array *to)
{
    const th_drop_attributes *attributes = call->attributes;
    const th_philox random = {
        .key = {call->random.key[0], call->random.key[1]}, .call = call->random.call, .step = call->random.step};
    dropout_run d = {.kernels = th_call_kernels(call),
                     .dropout = th_dropout_mask_make(random, attributes->p),
                     .columns = from->ndim > 0 ? from->size[from->ndim - 1] : 1,
                     .from = from->data,
                     .residual = residual ? residual->data : NULL,
                     .to = to->data};
    if (d.columns == 0)
        return;
    d.row_bytes = (size_t)d.columns * th_dtype_size(from->dtype);
    th_for_rows(call->ctx, th_array_numel(from) / d.columns, 2 * d.columns, drop_rows, &d);
}

bool th_drops_nothing(th_tensor *x, double p, const char *operation)
{
    const th_tensor_impl *impl = x ? th_usable_tensor(x, NULL, operation, "x") : NULL;
    const bool nothing = p == 0 || (impl && !impl->ctx->training && p > 0 && p < 1);
    return impl && nothing && th_is_floating(impl->dtype);
}
