/* Elementary functions of single numbers, for what is computed outside the kernels and ends in a result (learning
 * rates, the optimizer's corrections, sinusoids): the kernels' own instead of libm's, in the instance that every
 * processor runs, so that the bits are the same everywhere. */
#ifndef TH_KERNELS_ELEMENTWISE_SCALAR_H
#define TH_KERNELS_ELEMENTWISE_SCALAR_H

#include "private_api.h"

double th_scalar_sin(double x);
double th_scalar_cos(double x);
TH_PRIVATE_API double th_scalar_pow(double x, double y);

#endif
