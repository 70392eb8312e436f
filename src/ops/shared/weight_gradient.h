/* dW (+)= dyᵀ x, with one promise more than a product makes: rows of x whose output gradient is exactly 0 take no part.
 * That a mask hid them must not depend on what they hold, and 0 * NaN is NaN. While all is finite it changes no bit. */
#ifndef TH_OPS_SHARED_WEIGHT_GRADIENT_H
#define TH_OPS_SHARED_WEIGHT_GRADIENT_H

#include "ops/shared/product_call.h"

typedef struct th_weight_gradient {
    th_product_call product; /* dyᵀ (out, N) x (N, in) */
    size_t copy;             /* the place of some rows of x */
} th_weight_gradient;

/* dy (.., N, out), x (.., N, in), dw (out, in). */
th_weight_gradient th_weight_gradient_of(const th_array *dy, const th_array *x, const th_array *dw);
/* In a plan: reserves its scratch memory. */
void th_weight_gradient_reserve(const th_call *call, th_weight_gradient *gradient);
void th_weight_gradient_run(const th_call *call, const th_weight_gradient *gradient, bool add);

#endif
