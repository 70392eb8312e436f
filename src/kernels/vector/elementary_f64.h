/* Elementary functions on a register of float64 numbers. They are called, not inlined: elementary_f64.c, which states
 * their errors, is compiled once for every instruction set. */
#ifndef TH_KERNELS_VECTOR_ELEMENTARY_F64_H
#define TH_KERNELS_VECTOR_ELEMENTARY_F64_H

#include "kernels/vector/registers.h"

#define vec_exp TH_KERNEL(vec_exp)
#define vec_log TH_KERNEL(vec_log)
#define vec_tanh TH_KERNEL(vec_tanh)
#define vec_sin TH_KERNEL(vec_sin)
#define vec_cos TH_KERNEL(vec_cos)
#define vec_sigmoid_pair TH_KERNEL(vec_sigmoid_pair)
#define vec_normal TH_KERNEL(vec_normal)
#define vec_pow TH_KERNEL(vec_pow)

vec vec_exp(vec x);
vec vec_log(vec x);
vec vec_tanh(vec x);
vec vec_sin(vec x);
vec vec_cos(vec x);

/* sigmoid(x) = 1 / (1 + exp(-x)) and 1 - sigmoid(x), both accurate where they are small. */
void vec_sigmoid_pair(vec x, vec *sigmoid, vec *complement);

/* The standard normal distribution: density(x) = exp(-x²/2) / sqrt(2π), cumulative(x) = ∫ density from -∞ to x. */
void vec_normal(vec x, vec *cumulative, vec *density);

/* x^y as C's pow defines it, including special cases. */
vec vec_pow(vec x, vec y);

#endif
