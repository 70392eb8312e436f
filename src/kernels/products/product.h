/* Matrix products C (+)= A B over strided memory, float32 and float64. docs/internals/precision.md explains the
 * choices. A step is one value of k, the index of the sum.
 *
 * Float32 precision. The steps are divided into blocks of TH_PRODUCT_BLOCK, counted from 0. Each block's sum is a
 * sequence of fused multiply-adds from 0, in order of k. The sums of the blocks are added in order. The first is added
 * to C or to the bias, if there is one. Every driver, tile edge, transposition, batch size, thread count and
 * instruction set with fused multiply-add computes this sequence. (OpenBLAS computes other sums. Blocks of fixed
 * size, each with one BLAS thread, make them independent of the number of threads.)
 *
 * Reduced precision of float32 products. Operands are split into bfloat16 parts: x1 = bf(x), and in bfloat16x3 also x2
 * = bf(x - x1). bf rounds to nearest, ties to even, except:
 *
 *     finite, would become infinite              truncated
 *     smaller than the smallest normal number    0 of the same sign
 *     infinity, NaN                              unchanged; the second part is 0
 *
 * c begins with C, the bias, or 0. The steps are divided into groups of TH_PART_GROUP = 32, counted from 0; the last
 * group is filled with zeros. The following is computed for each group, and within it for a1 b1 (in bfloat16x3 then for
 * a1 b2, then for a2 b1):
 *
 *     even = fused multiply-adds from 0 over the even steps, odd = over the odd ones, c = c + (even + odd)
 *
 * Every operation rounds to nearest, and denormal operands and results count as 0. The instruction tdpbf16ps computes
 * this (Intel, Software Developer's Manual, volume 2), and so do all paths: amx, dpbf16, fma. In bfloat16x3, if a block
 * of TH_PRODUCT_BLOCK steps makes an element NaN, the block is computed again for that element from a1 b1 alone.
 * Otherwise infinity times 1 would be NaN: it would add infinity times the second part of 1, which is 0. The sign and
 * payload of NaN may differ.
 *
 * Int8. Only products x W whose W is stored in blocks along k (TH_Q8_0 and below) differ from float32. Each row of A is
 * rounded to blocks of 32 numbers. Let most be the largest |x| of a block:
 *
 *     x becomes scale n, with scale = most / 127, n = the integer nearest to x (127 / most), ties to even
 *     most < 2^-118: scale = 0, all n = 0; most is not finite: scale = NaN, all n = 0
 *
 * If a block of the type has 256 numbers, each row of A is rounded to blocks of 256 numbers in the same way. A number of
 * the column is f s w - g m, with integers s and m of each 16 numbers, and factors f and g of the block. In blocks of 32
 * numbers all s and m are 1. An element of C has one sum, which begins with 0. For each block a fused multiply-add adds
 * the integer sum of all n s w, times (scale f). Then, in types with least numbers, another one subtracts the integer
 * sum of all n m, times (scale g).
 *
 * The result is added to C, to the bias, or to nothing. So an element depends only on its row and its column.
 *
 * In bfloat16x3, products with k < TH_SHORT_SUM are computed in float32: the errors of two parts need many steps to
 * average out. A product that is a piece of a long sum never counts as short (long_sum). Nor do attention's sums: their
 * length depends on other sequences of the batch and on the cache, which must not change a bit
 * (th_long_sum_precision). */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_H
#define TH_KERNELS_PRODUCTS_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/machine/machine.h"
#include "kernels/storage/block_formats.h"

enum {
    TH_PRODUCT_BLOCK = 512,
    TH_SHORT_SUM = 64, /* bfloat16x3 is float32 for fewer steps of k */
    TH_PRODUCT_BATCH_DIMS = 6
};

/* One product, or a batch of products. Strides count elements and may be 0 (broadcast; not in C) or negative. */
typedef struct th_product {
    int64_t m, n, k;
    const void *a; /* (m, k) */
    int64_t a_row, a_col;
    const void *b; /* (k, n) */
    int64_t b_row, b_col;
    void *c; /* (m, n) */
    int64_t c_row, c_col;
    bool add;             /* C += A B instead of C = A B */
    bool long_sum;        /* never a short sum, even if k is small: a piece of a long sum, or may become longer */
    const void *bias;     /* (n) contiguous, or NULL: C = bias + A B. The sum begins with it, as if C held it. Not
                         together with add */
    bool biased;          /* the product will have a bias when it runs; its memory may not exist yet */
    const void *residual; /* (m, n), columns contiguous, or NULL: added to the beginning of the sum. Only without
                             batch dimensions and with contiguous columns of C */
    int64_t residual_row; /* not 0 if there is a residual now or when the product runs */
    int batch_dims;       /* leading dimensions that A, B and C share */
    int64_t batch[TH_PRODUCT_BATCH_DIMS];
    int64_t a_batch[TH_PRODUCT_BATCH_DIMS], b_batch[TH_PRODUCT_BATCH_DIMS], c_batch[TH_PRODUCT_BATCH_DIMS];
    /* The storage type of B, or of A after a transposition (TH_STORAGE_TYPES); 0 for an operand of the product's type.
     * Strides of a stored operand count numbers. One of them is 1: whole elements of the storage type are along it. The
     * other one is a multiple of these elements. B is not batched. The result has the bits of the product with the
     * loaded numbers. */
    th_dtype a_storage, b_storage;
} th_product;

/* Returns the precision of every sum that is not short, and of all sums of attention: float32 or bfloat16 parts. */
static inline th_precision th_long_sum_precision(const th_machine *machine, th_dtype dtype)
{
    return dtype == TH_FLOAT32 && machine->precision != TH_PRECISION_INT8 ? machine->precision : TH_PRECISION_FLOAT32;
}

/* Returns whether this product is computed in int8 (product_int8.c). */
static inline bool th_product_is_int8(const th_machine *machine, th_dtype dtype, const th_product *p)
{
    return machine->precision == TH_PRECISION_INT8 && dtype == TH_FLOAT32 && p->b_row == 1 &&
           p->k % TH_BLOCK_NUMBERS == 0 && th_block_format_of(p->b_storage);
}

/* Returns the precision of a product that is not computed in int8. If it is not float32, our own kernels multiply, even
 * if the backend is OpenBLAS. */
static inline th_precision th_product_precision(const th_machine *machine, th_dtype dtype, const th_product *product)
{
    const bool short_sum = product->k < TH_SHORT_SUM && !product->long_sum;
    return short_sum && machine->precision == TH_PRECISION_BFLOAT16X3 ? TH_PRECISION_FLOAT32
                                                                      : th_long_sum_precision(machine, dtype);
}

/* Returns the multiply-adds, as a double because an int64_t may overflow. */
static inline double th_product_work(const th_product *product)
{
    return (double)product->m * (double)product->n * (double)product->k;
}

/* Returns the bytes of scratch memory (64-byte aligned) that th_product_run needs for this product and team. Reads
 * sizes, strides and flags; the pointers may still be NULL. */
size_t th_product_workspace(const th_machine *machine, th_dtype dtype, const th_product *product, int threads);

/* Runs the product. k = 0 gives zeros (or the bias, or leaves C when adding). Never fails, never allocates. */
void th_product_run(const th_machine *machine, th_dtype dtype, const th_product *product, int threads, void *workspace);

#endif
