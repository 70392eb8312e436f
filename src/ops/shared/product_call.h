/* Matrix products of th_arrays: translates their last two axes, and the broadcast axes before them, to products of
 * kernels/products/product.h. */
#ifndef TH_OPS_SHARED_PRODUCT_CALL_H
#define TH_OPS_SHARED_PRODUCT_CALL_H

#include "kernels/products/product.h"
#include "tapehead/op.h"
#include "tensor/context.h"

/* c (.., m, n) (+)= a (.., m, k) b (.., k, n): the axes before the last two broadcast as in NumPy. If c lacks such an
 * axis, or has it with size 1, c is the sum over that axis. If the strides allow it, the axis becomes part of k.
 * Otherwise there is one product for each index of the axis; these run one after the other, in order. (A th_iterator
 * would change the order, because it follows the strides.) Each of these products has the precision of the whole sum
 * (long_sum in kernels/products/product.h). */
typedef struct th_product_call {
    th_dtype dtype;
    th_product product; /* the first of the products whose sum is c */
    int sum_axes;       /* the number of axes summed by separate products */
    int64_t sum_size[TH_PRODUCT_BATCH_DIMS];
    int64_t a_sum_stride[TH_PRODUCT_BATCH_DIMS], b_sum_stride[TH_PRODUCT_BATCH_DIMS];
    size_t workspace; /* its offset */
} th_product_call;

/* Describes the product; called in .plan. b may have a storage type: it is then an array of numbers
 * (shared/stored_weight.h), without batch axes. Arrays may lack data: the caller sets it in .product before the run.
 * The caller may also set a bias, a residual or long_sum in .product before th_product_call_reserve. */
th_product_call th_product_call_of(const th_array *a, const th_array *b, const th_array *c);
/* The same, but no summed axis becomes part of k. Then zeros that pad k, as in a batch of sequences, do not change the
 * bits of the sum. */
th_product_call th_product_call_unfolded(const th_array *a, const th_array *b, const th_array *c);
/* In .plan: reserves the product's workspace. */
void th_product_call_reserve(const th_call *call, th_product_call *product);
/* Runs the product. add: adds to c instead of overwriting it. */
void th_product_call_run(const th_call *call, const th_product_call *product, bool add);

/* Returns the number of products in the sum. */
int64_t th_product_call_count(const th_product_call *call);
/* Returns product `index` of the sum, for callers that do more than run it. The first product overwrites c or, with
 * `add`, adds to it; the others always add. */
th_product th_product_call_at(const th_product_call *call, int64_t index, bool add);

/* For shape rules of products a (.., m, k) b (.., k, n): checks types and sizes and computes the sizes and letters of
 * the result. Operands must have at least `least` dimensions; with least = 1, a may be a row (k) and b a column (k). */
th_status th_product_shape(th_call *call, int least, int *ndim, int64_t *size, char *letters);
/* Returns the multiply-adds of a product c (.., m, n) over k, or INT64_MAX on overflow. */
int64_t th_multiply_adds(const th_array *c, int64_t k);

/* Returns the array with its last two axes exchanged. */
th_array th_array_transposed(const th_array *array);
/* Returns a vector (k) as a row (1, k). */
th_array th_array_as_row(const th_array *array);

#endif
