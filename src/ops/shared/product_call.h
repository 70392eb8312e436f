/* Matrix products of arrays: what turns the last two axes of th_arrays, and the broadcast axes before them, into runs
 * of kernels/products/product.h. For operations that multiply matrices. */
#ifndef TH_OPS_SHARED_PRODUCT_CALL_H
#define TH_OPS_SHARED_PRODUCT_CALL_H

#include "kernels/products/product.h"
#include "tapehead/op.h"
#include "tensor/context.h"

/* c (.., m, n) (+)= a (.., m, k) b (.., k, n): the axes before the last two broadcast as in NumPy. If c lacks such an
 * axis, or has it with size 1, c is the sum over that axis. That sum becomes part of k if the strides allow it;
 * otherwise one product follows the other, in the order of the axes. (A nest would change the order: it follows the
 * strides.) All these products have the precision of the whole sum, however many they are (long_sum,
 * kernels/products/product.h). */
typedef struct th_product_call {
    th_dtype dtype;
    th_product product; /* the first term of the sum */
    int sums;           /* axes that are summed over one product at a time */
    int64_t sum[TH_PRODUCT_BATCH_DIMS], a_sum[TH_PRODUCT_BATCH_DIMS], b_sum[TH_PRODUCT_BATCH_DIMS]; /* sizes, strides */
    size_t workspace;                                                                               /* its place */
} th_product_call;

/* Describes the product. For a plan, in which arrays need no data: missing data is filled in before the run. `product`
 * may be given a bias, a residual or long_sum before memory is reserved for it. */
th_product_call th_product_call_of(const th_array *a, const th_array *b, const th_array *c);
/* The same, but no summed axis becomes part of k. So where k is padded with zeros, as in a batch of sequences, the sum
 * keeps its bits. */
th_product_call th_product_call_unfolded(const th_array *a, const th_array *b, const th_array *c);
/* In a plan: reserves the workspace of what was described. */
void th_product_call_reserve(const th_call *call, th_product_call *product);
/* In forward and backward. add: to what is in c. */
void th_product_call_run(const th_call *call, const th_product_call *product, bool add);

/* Term `index` of the sum, as a product of its own (which adds, from the second on), and how many there are: for
 * whoever does more with each term than to run it. */
int64_t th_product_call_parts(const th_product_call *call);
th_product th_product_call_part(const th_product_call *call, int64_t index, bool add);

/* Of the shape rule of a product of a (.., m, k) and b (.., k, n), of `least` dimensions at least; with one, a row (k)
 * and a column (k). Checks types and sizes, and gives the result's, and the letters of its axes. */
th_status th_product_shape(th_call *call, int least, int *ndim, int64_t *size, char *letters);
/* Multiply-adds of a product c (.., m, n) over k, INT64_MAX when that overflows. */
int64_t th_multiply_adds(const th_array *c, int64_t k);

/* The array with its last two axes exchanged. */
th_array th_array_transposed(const th_array *array);
/* A vector (k) as a row (1, k). */
th_array th_array_as_row(const th_array *array);

#endif
