/* dW (+)= dyᵀ x without the rows of x whose output gradient is exactly 0. A mask may have excluded these rows. NaN in
 * them must not reach dW, but 0 * NaN is NaN. If x is finite, the result has the same bits as the plain product. */
#ifndef TH_OPS_SHARED_WEIGHT_GRADIENT_H
#define TH_OPS_SHARED_WEIGHT_GRADIENT_H

#include "ops/shared/product_call.h"

typedef struct th_weight_gradient {
    th_product_call product; /* dyᵀ (out, N) x (N, in) */
    size_t copy;             /* offset of a copy of some rows of x */
} th_weight_gradient;

/* Describes the product: dy (.., N, out), x (.., N, in), dw (out, in). */
th_weight_gradient th_weight_gradient_of(const th_array *dy, const th_array *x, const th_array *dw);
/* In .plan: reserves scratch memory. */
void th_weight_gradient_reserve(const th_call *call, th_weight_gradient *gradient);
/* Computes dW. add: adds to it instead of overwriting it. */
void th_weight_gradient_run(const th_call *call, const th_weight_gradient *gradient, bool add);

#endif
