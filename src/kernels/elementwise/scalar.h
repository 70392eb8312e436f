/* Elementary functions of single numbers, for results that are computed outside kernels: learning rates, the
 * optimizer's corrections, sinusoids. They use our own functions without fused multiply-add instead of libm, so that
 * the bits are the same on every processor. */
#ifndef TH_KERNELS_ELEMENTWISE_SCALAR_H
#define TH_KERNELS_ELEMENTWISE_SCALAR_H

#include "private_api.h"

double th_scalar_sin(double x);
double th_scalar_cos(double x);
double th_scalar_log(double x);
TH_PRIVATE_API double th_scalar_pow(double x, double y);

#endif
