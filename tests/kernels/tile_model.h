/* Defines reduced-precision products in plain C. Tests compare every path of the library with it, bit for bit.
 *
 * It is slow, and independent of the processor's instruction sets and floating-point modes. (It assumes the default
 * mode: rounding to nearest, with denormals.) Signs and payloads of NaN are ignored. */
#ifndef TESTS_TILE_MODEL_H
#define TESTS_TILE_MODEL_H

#include <stdint.h>

#include "kernels/products/product.h"

/* The value of a bfloat16 number, which is the upper half of a float. */
float bfloat16_value(uint16_t x);

/* fma(a, b, c) with denormal operands and results as 0; a and b are bfloat16 numbers. A result is denormal if it is
 * below FLT_MIN after rounding to 24 bits with unlimited exponent, as in processors. */
float flushing_fma(float a, float b, float c);

/* a + b with denormal operands and results as 0. */
float flushing_add(float a, float b);

/* One element of tdpbf16ps: c + (e + o). e is the sum from +0 by flushing_fma of a[0] b[0], a[2] b[2], ..., and o of
 * a[1] b[1], a[3] b[3], ... `steps` is even, at most 32: half as many as the second tile has rows. Zeros at the end
 * have one effect: they turn an e or o of -0 into +0. */
float tile_dot(float c, const uint16_t *a /* (steps) */, const uint16_t *b /* (steps) */, int steps);

/* Part 0 of x: x rounded to the nearest bfloat16 number, ties to even. Instead, finite numbers that would become
 * infinite are truncated, denormals become 0 of the same sign, and NaN becomes quiet. Part 1: the same for the
 * remainder, x - part 0; +0 for infinity and NaN. */
uint16_t model_part(float x, int part);

/* Computes C of a float32 product whose operands are split into 1 or 2 parts (bfloat16, bfloat16x3). Batches, strides,
 * add, bias and residual are the product's. Ignores the library's rule that bfloat16x3 with small k is float32.
 *
 * c begins with the old C, or bias, residual, bias + residual (an ordinary addition), or +0. For each 32 steps of k,
 * the last ones filled with zeros: c = tile_dot(c, a1, b1), and with two parts then (a1, b2) and (a2, b1). With two
 * parts, an element that is NaN at the end of a block of TH_PRODUCT_BLOCK steps is computed again from the block's
 * beginning with (a1, b1) alone. */
void model_product(const th_product *product, int parts);

#endif
