/* Matrix products C (+)= A B over strided memory, float32 and float64.
 *
 * Every element of C is one fixed sequence of fused multiply-adds over k, in blocks of TH_PRODUCT_BLOCK counted from 0:
 * c = ((fma chain over block 0 from 0) + (fma chain over block 1 from 0)) + ..., added to C (or to the bias) at the end
 * of each block in order. The sequence is the same in every driver, tile edge, transposition, batch size, thread count
 * and instruction set with fused multiply-add. (Through OpenBLAS: blocks of fixed size, one BLAS thread per call.)
 *
 * If the machine's precision is not float32, operands of float32 products become bfloat16 terms: x1 = bf(x), and in
 * bfloat16x3 x2 = bf(x - x1). bf rounds to the nearest, ties to even. A number that would become infinite is truncated
 * instead. A number below the smallest normal number becomes 0 of the same sign. Infinity stays, NaN stays NaN, and
 * both have a second term of 0. An element c of C then begins with the first term of the sum (C, the bias, or 0). k is
 * taken in groups of TH_PART_GROUP = 32 steps from 0, filled up with zeros. For each group, and for each product of
 * terms (a1 b1; in bfloat16x3 then a1 b2, then a2 b1)
 *
 *     even = fused multiply-adds from 0 over the even steps, odd = over the odd ones, c = c + (even + odd)
 *
 * Every operation rounds to nearest, and denormal operands and results count as 0. tdpbf16ps computes the same (Intel,
 * Software Developer's Manual, volume 2), and so do all paths: tiles, dot products, fused multiply-add. In bfloat16x3,
 * if an element is NaN after a block of TH_PRODUCT_BLOCK steps, that block is computed again from a1 b1 alone.
 * Otherwise infinity times 1 would become infinity plus infinity times the second term of 1, which is 0.
 *
 * bfloat16x3 products of k < TH_SHORT_SUM are computed in float32: the error of a2 b2 and of the digits beyond two
 * terms needs many steps to average out. The parts of a long sum are never short (long_sum). Nor are attention's sums:
 * their length depends on other sequences of the batch and on the cache, which must not change a bit. So fused and
 * composed attention (th_masked_matmul) share one rule, th_long_sum_precision (product_backends.h). The sign and
 * payload of NaN may differ. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_H
#define TH_KERNELS_PRODUCTS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/machine/machine.h"

enum {
    TH_PRODUCT_BLOCK = 512,
    TH_SHORT_SUM = 64, /* steps of k below which bfloat16x3 is float32 */
    TH_PRODUCT_BATCH_DIMS = 6
};

/* One product, or a batch of them. Strides count elements and may be anything, 0 (broadcast; not in C) and negative
 * included. */
typedef struct th_product {
    int64_t m, n, k;
    const void *a; /* (m, k) */
    int64_t a_row, a_col;
    const void *b; /* (k, n) */
    int64_t b_row, b_col;
    void *c; /* (m, n) */
    int64_t c_row, c_col;
    bool add;         /* C += A B instead of C = A B */
    bool long_sum;    /* whatever k is, it is no short sum: it is a part of a long one, or may get longer */
    const void *bias; /* (n) contiguous, or NULL: C = bias + A B (first term of the sum, as if C held it; not together
                         with add) */
    bool biased;      /* there will be a bias when the product is run, although it has no memory yet */
    const void *residual; /* (m, n), columns contiguous, or NULL: added to that first term. Without batch dimensions,
                             where C's columns are contiguous */
    int64_t residual_row; /* not 0 where there is, or will be, a residual */
    int batch_dims;       /* leading dimensions over which A, B and C are walked together */
    int64_t batch[TH_PRODUCT_BATCH_DIMS];
    int64_t a_batch[TH_PRODUCT_BATCH_DIMS], b_batch[TH_PRODUCT_BATCH_DIMS], c_batch[TH_PRODUCT_BATCH_DIMS];
} th_product;

/* Bytes of scratch memory (64-byte aligned) that th_product_run needs for this product and team. Nothing is pointed to
 * yet: sizes, strides and flags decide. */
size_t th_product_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);

/* Runs it. k = 0 gives zeros (or the bias, or leaves C when adding). Never fails, never allocates. */
void th_product_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads, void *workspace);

#endif
