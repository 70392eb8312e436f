/* Matrix products of arrays: see product_call.h. */
#include "ops/shared/product_call.h"

#include "tensor/checked.h"

/* Lets a summed axis become the slow part of k; false when the operands do not lie so. */
static bool fold_into_k(th_product *p, int64_t size, int64_t a, int64_t b)
{
    if (p->k == 1) {
        p->a_col = a;
        p->b_row = b;
    } else if (a != p->k * p->a_col || b != p->k * p->b_row) {
        return false;
    }
    p->k *= size;
    return true;
}

th_product_call th_product_call_of(const th_array *a, const th_array *b, const th_array *c, const void *bias, bool add)
{
    th_product p = {.m = c->size[c->ndim - 2],
                    .n = c->size[c->ndim - 1],
                    .k = a->size[a->ndim - 1],
                    .a = a->data,
                    .a_row = a->stride[a->ndim - 2],
                    .a_col = a->stride[a->ndim - 1],
                    .b = b->data,
                    .b_row = b->stride[b->ndim - 2],
                    .b_col = b->stride[b->ndim - 1],
                    .c = c->data,
                    .c_row = c->stride[c->ndim - 2],
                    .c_col = c->stride[c->ndim - 1],
                    .add = add,
                    .bias = bias};
    th_product_call call = {.dtype = a->dtype};
    bool nothing = p.m == 0 || p.n == 0 || p.k == 0; /* a sum over nothing, or no sums at all */

    /* From the innermost axis outwards; the lists are filled from their end and moved to the front below. */
    int batch = TH_PRODUCT_BATCH_DIMS, sum = TH_PRODUCT_BATCH_DIMS;
    for (int i = 0; i < TH_PRODUCT_BATCH_DIMS; i++) {
        const int64_t size = th_outer_size(a, i) == 1 ? th_outer_size(b, i) : th_outer_size(a, i);
        const int64_t a_stride = th_outer_stride(a, i), b_stride = th_outer_stride(b, i);
        if (size == 1)
            continue;
        if (th_outer_size(c, i) == size) {
            batch--;
            p.batch[batch] = size;
            p.a_batch[batch] = a_stride;
            p.b_batch[batch] = b_stride;
            p.c_batch[batch] = th_outer_stride(c, i);
        } else if (size == 0) {
            nothing = true;
        } else if (sum < TH_PRODUCT_BATCH_DIMS || !fold_into_k(&p, size, a_stride, b_stride)) {
            sum--;
            call.sum[sum] = size;
            call.a_sum[sum] = a_stride;
            call.b_sum[sum] = b_stride;
        }
    }
    p.batch_dims = TH_PRODUCT_BATCH_DIMS - batch;
    for (int i = 0; i < p.batch_dims; i++) {
        p.batch[i] = p.batch[batch + i];
        p.a_batch[i] = p.a_batch[batch + i];
        p.b_batch[i] = p.b_batch[batch + i];
        p.c_batch[i] = p.c_batch[batch + i];
    }
    call.sums = TH_PRODUCT_BATCH_DIMS - sum;
    for (int i = 0; i < call.sums; i++) {
        call.sum[i] = call.sum[sum + i];
        call.a_sum[i] = call.a_sum[sum + i];
        call.b_sum[i] = call.b_sum[sum + i];
    }
    if (nothing) { /* the operands may have no memory: nothing points into it */
        p.k = 0;
        p.a = p.b = p.c;
        for (int i = 0; i < p.batch_dims; i++)
            p.a_batch[i] = p.b_batch[i] = 0;
        call.sums = 0;
    }
    call.product = p;
    return call;
}

size_t th_product_call_workspace(const th_context *ctx, const th_product_call *call)
{
    return th_product_workspace(&ctx->machine, call->dtype, &call->product, ctx->threads);
}

int64_t th_product_call_terms(const th_product_call *call)
{
    int64_t terms = 1;
    for (int i = 0; i < call->sums; i++)
        terms *= call->sum[i];
    return terms;
}

th_product th_product_call_term(const th_product_call *call, int64_t index)
{
    th_product term = call->product;
    if (index == 0)
        return term;
    term.add = true;
    int64_t a = 0, b = 0;
    for (int i = call->sums - 1; i >= 0; i--) {
        a += index % call->sum[i] * call->a_sum[i];
        b += index % call->sum[i] * call->b_sum[i];
        index /= call->sum[i];
    }
    const int64_t element = (int64_t)th_dtype_size(call->dtype);
    term.a = (const char *)term.a + a * element;
    term.b = (const char *)term.b + b * element;
    return term;
}

void th_product_call_run(const th_context *ctx, const th_product_call *call, void *workspace)
{
    for (int64_t i = 0, terms = th_product_call_terms(call); i < terms; i++) {
        const th_product term = th_product_call_term(call, i);
        th_product_run(&ctx->machine, call->dtype, &term, ctx->threads, workspace);
    }
}

th_array th_array_transposed(const th_array *array)
{
    th_array t = *array;
    const int row = array->ndim - 2, column = array->ndim - 1;
    t.size[row] = array->size[column];
    t.size[column] = array->size[row];
    t.stride[row] = array->stride[column];
    t.stride[column] = array->stride[row];
    return t;
}

th_array th_array_as_row(const th_array *array)
{
    th_array row = *array;
    row.ndim = 2;
    row.size[0] = 1;
    row.size[1] = array->size[0];
    row.stride[0] = array->size[0] * array->stride[0];
    row.stride[1] = array->stride[0];
    return row;
}

th_array th_array_as_column(const th_array *array)
{
    th_array column = *array;
    column.ndim = 2;
    column.size[0] = array->size[0];
    column.size[1] = 1;
    column.stride[0] = array->stride[0];
    column.stride[1] = 1;
    return column;
}

int64_t th_multiply_adds(const th_array *c, int64_t k)
{
    int64_t numel, product;
    return th_checked_numel(c->ndim, c->size, &numel) && th_checked_multiply(numel, k, &product) ? product : INT64_MAX;
}
