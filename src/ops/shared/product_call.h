/* Matrix products of arrays: what turns the last two axes of th_arrays, and the broadcast axes before them, into runs
 * of kernels/product.h. For operations that multiply matrices; nothing here checks shapes. */
#ifndef TH_OPS_SHARED_PRODUCT_CALL_H
#define TH_OPS_SHARED_PRODUCT_CALL_H

#include "kernels/product.h"
#include "tapehead/op.h"
#include "tensor/context.h"

/* c (.., m, n) (+)= a (.., m, k) b (.., k, n): the axes before the last two broadcast NumPy's way, and where c lacks
 * one or has it with size 1, c is the sum over it. That sum is part of k where memory allows it, otherwise one product
 * after the other, in order. */
typedef struct th_product_call {
    th_dtype dtype;
    th_product product; /* the first term of the sum */
    int sums;           /* axes that are summed over one product at a time */
    int64_t sum[TH_PRODUCT_BATCH_DIMS], a_sum[TH_PRODUCT_BATCH_DIMS], b_sum[TH_PRODUCT_BATCH_DIMS]; /* sizes, strides */
} th_product_call;

/* The arrays need no data as long as the call is only asked for its workspace. bias: (n) contiguous, or NULL; then
 * nothing is summed or added. */
th_product_call th_product_call_of(const th_array *a, const th_array *b, const th_array *c, const void *bias, bool add);
size_t th_product_call_workspace(const th_context *ctx, const th_product_call *call);
void th_product_call_run(const th_context *ctx, const th_product_call *call, void *workspace);

/* Term `index` of the sum, as a product of its own (which adds, from the second on), and how many there are: for
 * whoever does more with each term than to run it. */
int64_t th_product_call_terms(const th_product_call *call);
th_product th_product_call_term(const th_product_call *call, int64_t index);

/* Of matrices (.., m, n): size and stride of the axis that is the i-th before the last two, counted from them. Axes
 * that are not there have size 1; those of size 1 have stride 0. */
static inline int64_t th_outer_size(const th_array *array, int i)
{
    const int axis = array->ndim - 3 - i;
    return axis >= 0 ? array->size[axis] : 1;
}

static inline int64_t th_outer_stride(const th_array *array, int i)
{
    return th_outer_size(array, i) == 1 ? 0 : array->stride[array->ndim - 3 - i];
}

/* The array with its last two axes exchanged. */
th_array th_array_transposed(const th_array *array);
/* A vector (k) as a row (1, k) or as a column (k, 1). */
th_array th_array_as_row(const th_array *array);
th_array th_array_as_column(const th_array *array);
/* size (N, m, n) of a product: multiply-adds over k, INT64_MAX when that overflows. */
int64_t th_multiply_adds(const th_array *c, int64_t k);

#endif
