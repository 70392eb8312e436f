/* What layer_norm and rms_norm share: rows of the last axis, a weight and a bias of its length, numbers kept of each
 * row for backward. Inputs: x (N, E), weight (E) or NULL, bias (E) or NULL. Outputs: y (N, E) and, for backward only,
 * the kept numbers. */
#ifndef TH_OPS_SHARED_NORM_H
#define TH_OPS_SHARED_NORM_H

#include "tapehead/op.h"

enum { TH_NORM_X, TH_NORM_WEIGHT, TH_NORM_BIAS };

typedef struct th_norm_attributes {
    double eps; /* 0: 1e-5; completed by the shape rule */
} th_norm_attributes;

/* The kernels that normalise rows and form their gradients. */
typedef void th_norm_kernel(int64_t rows, int64_t n, double eps, const void *x, int64_t x_row, const void *weight,
                            const void *bias, void *y, int64_t y_row, void *kept);
typedef void th_norm_backward_kernel(int64_t rows, int64_t n, const void *x, int64_t x_row, const void *kept,
                                     const void *weight, const void *dy, int64_t dy_row, void *dx, int64_t dx_row,
                                     bool add, void *dweight, void *dbias);

/* kept: numbers per row. */
th_status th_norm_shape(th_call *call, int kept);
void th_norm_forward(const th_call *call, th_norm_kernel *kernel);
void th_norm_backward(const th_call *call, th_norm_backward_kernel *kernel);
size_t th_norm_scratch(const th_call *call, bool backward);

#endif
