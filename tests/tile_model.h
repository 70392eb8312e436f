/* What reduced-precision products are, in the plainest C: every path of the library is compared with this, bit for bit.
 *
 * Nothing here is fast, and nothing here depends on the processor: no instruction set, no mode of its floating-point
 * unit (the usual one, rounding to nearest with denormals, is taken for granted). Signs and payloads of NaN mean
 * nothing. */
#ifndef TESTS_TILE_MODEL_H
#define TESTS_TILE_MODEL_H

#include <stdint.h>

#include "kernels/products/product.h"

/* A bfloat16 number is the upper half of a float. */
float bfloat16_value(uint16_t x);

/* fma(a, b, c) with denormals taken and given as 0; a and b are bfloat16 numbers. A result is a denormal if it is below
 * FLT_MIN when rounded to 24 bits whatever its exponent, as processors have it. */
float flushing_fma(float a, float b, float c);

/* a + b with denormals taken and given as 0. */
float flushing_add(float a, float b);

/* One element of what tdpbf16ps computes: c + (e + o), where e is the chain of flushing_fma over a[0] b[0], a[2] b[2],
 * ... from +0 and o that over a[1] b[1], a[3] b[3], ... `steps` is even, at most 32: half as many as the second tile
 * has rows. Zeros at the end are not quite nothing: they turn an e or o of -0 into +0. */
float tile_dot(float c, const uint16_t *a /* (steps) */, const uint16_t *b /* (steps) */, int steps);

/* Term 0 of x: x rounded to the nearest bfloat16 number, ties to even; truncated instead where that would make infinity
 * of a finite number; 0 of the same sign for denormals; NaN quiet. Term 1: what the same makes of the rest, x - term 0;
 * +0 for infinity and NaN. */
uint16_t model_part(float x, int part);

/* C of a float32 product whose operands are split in 1 or 2 terms (bfloat16, bfloat16x3): batches, strides, add, bias
 * and residual are the product's. Whether k is so small that the library would multiply in float32 is not looked at:
 * the caller knows.
 *
 * c = what is added to, or bias, residual or bias + residual (an ordinary addition), or +0. For each 32 steps of k, the
 * last ones filled up with zeros: c = tile_dot(c, a1, b1), and with two terms after it (a1, b2), then (a2, b1). With
 * two terms an element that is NaN at the end of a block of TH_PRODUCT_BLOCK steps is computed again from the block's
 * begin with (a1, b1) alone. */
void model_product(const th_product *product, int parts);

#endif
