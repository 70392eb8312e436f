/* dW (+)= dyᵀ x, with one promise more than a product makes: rows of x whose output gradient is exactly 0 take no part.
 * That a mask hid them must not depend on what they hold, and 0 * NaN is NaN. While all is finite it changes no bit. */
#ifndef TH_OPS_SHARED_WEIGHT_GRADIENT_H
#define TH_OPS_SHARED_WEIGHT_GRADIENT_H

#include "ops/shared/product_call.h"

/* dw: the product dyᵀ (out, N) x (N, in). copy: room for th_weight_gradient_copy elements. */
void th_weight_gradient_run(const th_context *ctx, const th_product_call *dw, void *copy, void *workspace);
size_t th_weight_gradient_workspace(const th_context *ctx, const th_product_call *dw);
int64_t th_weight_gradient_copy(const th_product_call *dw);

#endif
