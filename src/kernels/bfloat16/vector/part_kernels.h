/* What the paths of bfloat16 terms share (chains.c, dots.c, tiles.c): the operand that is packed, and how a path's own
 * packing and multiplying become the kernels that a driver calls (product_block.h).
 *
 * What the bits are is defined in a state of the processor's floating-point unit that a user may have left. So kernels
 * set one of two states and put back what was there, and what runs in between is a function of its own: no arithmetic
 * moves out of it. */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_PART_KERNELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_PART_KERNELS_H

#include <immintrin.h>

#include "kernels/products/product_block.h"
#include "kernels/sizes.h"
#include "kernels/vector/vector.h"

enum { MAX_PARTS = 2 };

/* MXCSR: exceptions masked, rounding to nearest; then also denormals taken and given as 0. The second term depends on
 * the first of them, products on both. */
enum { TERMS_CSR = 0x1f80, PRODUCTS_CSR = 0x9fc0 };

/* An operand to be packed: `lines` rows of A or columns of B, of k steps each. */
typedef struct part_operand {
    int64_t lines, k;
    const float *at;
    int64_t line, step; /* strides */
    void *panels;
    int64_t panel; /* elements from one panel to the next */
} part_operand;

TH_INLINE void pack_in_state(void (*pack)(const part_operand *operand), const part_operand *operand)
{
    const unsigned int before = _mm_getcsr();
    _mm_setcsr(TERMS_CSR);
    pack(operand);
    _mm_setcsr(before);
}

TH_INLINE void multiply_in_state(void (*multiply)(const th_product_block *block), const th_product_block *block)
{
    const unsigned int before = _mm_getcsr();
    _mm_setcsr(PRODUCTS_CSR);
    multiply(block);
    _mm_setcsr(before);
}

/* Defines pack_a_<terms>, pack_b_<terms> and block_<terms> by
 *     pack(terms, of_a, operand)
 *     multiply(terms, block)
 * where elements_of_a is what one term of a group takes in a panel of A. */
#define PART_KERNELS(parts, pack, multiply, elements_of_a)                                                             \
    static __attribute__((noinline)) void pack##_of_a_##parts(const part_operand *operand)                             \
    {                                                                                                                  \
        pack(parts, true, operand);                                                                                    \
    }                                                                                                                  \
    static __attribute__((noinline)) void pack##_of_b_##parts(const part_operand *operand)                             \
    {                                                                                                                  \
        pack(parts, false, operand);                                                                                   \
    }                                                                                                                  \
    static __attribute__((noinline)) void multiply##_##parts(const th_product_block *block)                            \
    {                                                                                                                  \
        multiply(parts, block);                                                                                        \
    }                                                                                                                  \
    static void pack_a_##parts(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels)         \
    {                                                                                                                  \
        const int64_t panel = th_parts(k, TH_PART_GROUP) * (parts) * (elements_of_a);                                  \
        pack_in_state(pack##_of_a_##parts, &(part_operand){m, k, a, row, column, panels, panel});                      \
    }                                                                                                                  \
    static void pack_b_##parts(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels,         \
                               int64_t stride)                                                                         \
    {                                                                                                                  \
        pack_in_state(pack##_of_b_##parts, &(part_operand){n, k, b, column, row, panels, stride});                     \
    }                                                                                                                  \
    static void block_##parts(const th_product_block *block)                                                           \
    {                                                                                                                  \
        multiply_in_state(multiply##_##parts, block);                                                                  \
    }                                                                                                                  \
    static void block_##parts(const th_product_block *block)

#endif
