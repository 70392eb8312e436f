/* Matrix products C (+)= A B over strided memory, float32 and float64.
 *
 * Every element of C is one fixed sequence of fused multiply-adds over k, in blocks of TH_PRODUCT_BLOCK counted from 0:
 * c = ((fma chain over block 0 from 0) + (fma chain over block 1 from 0)) + ..., added to C (or to the bias) at the end
 * of each block in order. The sequence is the same in every driver, tile edge, transposition, batch size, thread count
 * and instruction set with fused multiply-add. (Through OpenBLAS: blocks of fixed size, one BLAS thread per call.)
 *
 * With the machine's bfloat16_products, operands of float32 products are rounded to bfloat16 first: to the nearest,
 * ties to even; NaN and infinity stay, what is nearer to the number after the largest one becomes infinite, and what is
 * smaller than the smallest normal one 0. Emulated, the sequence is then the same as ever. Dot products (vdpbf16ps)
 * have one of their own: steps are paired from the start of each block, an odd one out with 0, and of each pair the odd
 * step is added first, then the even one, with results below FLT_MIN taken as 0. Either way it is one sequence for all
 * drivers, layouts, batches and teams; between the two, bits may differ. */
#ifndef TH_KERNELS_PRODUCT_H
#define TH_KERNELS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/machine.h"

enum { TH_PRODUCT_BLOCK = 512, TH_PRODUCT_BATCH_DIMS = 6 };

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
    bool exact;       /* operands are never rounded to bfloat16 */
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
