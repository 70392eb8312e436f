/* Matrix products of arrays: see product_call.h. */
#include "ops/shared/product_call.h"

#include "kernels/dtype.h"
#include "kernels/sizes.h"
#include "ops/shared/letters.h"
#include "tensor/checked.h"
#include "tensor/shape.h"

/* -- shapes -- */

th_status th_product_shape(th_call *call, int least, int *ndim, int64_t *size, char *letters)
{
    const th_array *a = &call->input[0], *b = &call->input[1];
    if (th_call_floating(call, 0) || th_call_floating(call, 1) || th_call_same_type(call))
        return TH_ERROR_TYPE;
    if (a->ndim < least || b->ndim < least)
        return th_call_fail(call, TH_ERROR_SHAPE, "both operands need %s: a is %s, b is %s",
                            least == 1 ? "a dimension" : "two dimensions", TH_TEXT(a), TH_TEXT(b));
    const int64_t inner = b->size[b->ndim > 1 ? b->ndim - 2 : 0];
    if (a->size[a->ndim - 1] != inner)
        return th_call_fail(call, TH_ERROR_SHAPE, "inner sizes differ: a is %s, b is %s", TH_TEXT(a), TH_TEXT(b));
    const int a_outer = a->ndim > 1 ? a->ndim - 2 : 0, b_outer = b->ndim > 1 ? b->ndim - 2 : 0;
    if (!th_broadcast_sizes(a_outer, a->size, b_outer, b->size, ndim, size))
        return th_call_fail(call, TH_ERROR_SHAPE, "leading dimensions do not broadcast: a is %s, b is %s", TH_TEXT(a),
                            TH_TEXT(b));
    for (int i = 0; i < *ndim; i++) {
        const int a_axis = i - (*ndim - a_outer), b_axis = i - (*ndim - b_outer);
        letters[i] = a_axis >= 0 ? th_letter(a, a_axis) : ' ';
        if (letters[i] == ' ' && b_axis >= 0)
            letters[i] = th_letter(b, b_axis);
    }
    if (a->ndim > 1) {
        letters[*ndim] = th_letter(a, a->ndim - 2);
        size[(*ndim)++] = a->size[a->ndim - 2];
    }
    if (b->ndim > 1) {
        letters[*ndim] = th_letter(b, b->ndim - 1);
        size[(*ndim)++] = b->size[b->ndim - 1];
    }
    th_letters(letters, *ndim);
    return TH_OK;
}

int64_t th_multiply_adds(const th_array *c, int64_t k)
{
    int64_t numel, product;
    return th_checked_numel(c->ndim, c->size, &numel) && th_checked_multiply(numel, k, &product) ? product : INT64_MAX;
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

/* -- describing -- */

/* These two return the size and stride of the i-th axis before the last two, counted backward. A missing axis has size
 * 1; an axis of size 1 has stride 0. */
static int64_t outer_size(const th_array *array, int i)
{
    const int axis = array->ndim - 3 - i;
    return axis >= 0 ? array->size[axis] : 1;
}

static int64_t outer_stride(const th_array *array, int i)
{
    return outer_size(array, i) == 1 ? 0 : array->stride[array->ndim - 3 - i];
}

/* Merges the innermost summed axis into k, as its slower part. Returns false if the strides of the operands do not
 * allow it. */
static bool fold_into_k(th_product_call *call)
{
    th_product *p = &call->product;
    const int last = call->sum_axes - 1;
    if (p->k == 1) {
        p->a_col = call->a_sum_stride[last];
        p->b_row = call->b_sum_stride[last];
    } else if (call->a_sum_stride[last] != p->k * p->a_col || call->b_sum_stride[last] != p->k * p->b_row) {
        return false;
    }
    p->k *= call->sum_size[last];
    call->sum_axes = last;
    return true;
}

/* Returns whether the sum over all summed axes has at least TH_SHORT_SUM steps. */
static bool is_long_sum(const th_product_call *call)
{
    int64_t steps = call->product.k;
    for (int d = 0; d < call->sum_axes && steps < TH_SHORT_SUM; d++)
        steps *= call->sum_size[d] < TH_SHORT_SUM ? call->sum_size[d] : TH_SHORT_SUM;
    return steps >= TH_SHORT_SUM;
}

th_product_call th_product_call_unfolded(const th_array *a, const th_array *b, const th_array *c)
{
    th_product_call call = {.dtype = a->dtype,
                            .product = {.m = c->size[c->ndim - 2],
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
                                        .b_storage = th_is_storage_type(b->dtype) ? b->dtype : TH_FLOAT32}};
    th_product *p = &call.product;
    bool empty = p->m == 0 || p->n == 0 || p->k == 0; /* nothing to add, or nothing to compute */
    for (int i = TH_PRODUCT_BATCH_DIMS - 1; i >= 0; i--) {
        const int64_t size = outer_size(a, i) == 1 ? outer_size(b, i) : outer_size(a, i);
        if (size == 1)
            continue;
        if (outer_size(c, i) == size) {
            const int d = p->batch_dims++;
            p->batch[d] = size;
            p->a_batch[d] = outer_stride(a, i);
            p->b_batch[d] = outer_stride(b, i);
            p->c_batch[d] = outer_stride(c, i);
        } else {
            const int d = call.sum_axes++;
            call.sum_size[d] = size;
            call.a_sum_stride[d] = outer_stride(a, i);
            call.b_sum_stride[d] = outer_stride(b, i);
            empty |= size == 0;
        }
    }
    if (empty) { /* the operands may have no memory: do not point into it */
        p->k = 0;
        p->a = p->b = p->c;
        for (int d = 0; d < p->batch_dims; d++)
            p->a_batch[d] = p->b_batch[d] = 0;
        call.sum_axes = 0;
    }
    p->long_sum = is_long_sum(&call);
    return call;
}

th_product_call th_product_call_of(const th_array *a, const th_array *b, const th_array *c)
{
    th_product_call call = th_product_call_unfolded(a, b, c);
    while (call.sum_axes > 0 && fold_into_k(&call))
        continue;
    return call;
}

void th_product_call_reserve(const th_call *call, th_product_call *product)
{
    const th_context *ctx = call->ctx;
    product->workspace =
        th_plan_scratch(call, 1, th_product_workspace(&ctx->machine, product->dtype, &product->product, ctx->threads));
}

/* -- running -- */

int64_t th_product_call_count(const th_product_call *call)
{
    int64_t count = 1;
    for (int i = 0; i < call->sum_axes; i++)
        count *= call->sum_size[i];
    return count;
}

th_product th_product_call_at(const th_product_call *call, int64_t index, bool add)
{
    th_product product = call->product;
    product.add = add || index > 0;
    if (index == 0)
        return product;
    int64_t sum_index[TH_PRODUCT_BATCH_DIMS];
    th_index_at(call->sum_axes, call->sum_size, index, sum_index);
    const int64_t element = (int64_t)th_dtype_size(call->dtype);
    product.a = (const char *)product.a + th_offset_of(call->sum_axes, sum_index, call->a_sum_stride) * element;
    product.b = (const char *)product.b + th_offset_of(call->sum_axes, sum_index, call->b_sum_stride) * element;
    return product;
}

void th_product_call_run(const th_call *call, const th_product_call *product, bool add)
{
    void *workspace = th_call_scratch(call, product->workspace);
    for (int64_t i = 0, count = th_product_call_count(product); i < count; i++) {
        const th_product one = th_product_call_at(product, i, add);
        th_product_run(&call->ctx->machine, product->dtype, &one, call->ctx->threads, workspace);
    }
}
