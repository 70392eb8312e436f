/* Shared by the paths of bfloat16 parts (fma.c, dpbf16.c, amx.c): the operand to pack, and a macro that turns a path's
 * packing and multiplying into th_product_kernels (product_kernels.h).
 *
 * The bits are defined for one floating-point state, and a user may have set another. So kernels set the state and
 * restore it. The functions that run in between are not inlined (float_state.h). */
#ifndef TH_KERNELS_BFLOAT16_VECTOR_PART_KERNELS_H
#define TH_KERNELS_BFLOAT16_VECTOR_PART_KERNELS_H

#include "kernels/product_block.h"
#include "kernels/sizes.h"
#include "kernels/vector/float_state.h"
#include "kernels/vector/vector.h"

enum { MAX_PARTS = 2 };

/* An operand to pack: `lines` rows of A or columns of B, with k steps each. */
typedef struct part_operand {
    int64_t lines, k;
    const float *data;
    int64_t line_stride, step_stride; /* strides */
    void *panels;
    int64_t panel_stride; /* elements from one panel to the next */
} part_operand;

/* Operands are split in the usual state, and multiplied with denormal numbers as 0. */
TH_INLINE void pack_in_state(void (*pack)(const part_operand *operand), const part_operand *operand)
{
    const th_float_state before = th_float_state_get();
    th_float_state_set(TH_FLOAT_USUAL);
    pack(operand);
    th_float_state_set(before);
}

TH_INLINE void multiply_in_state(void (*multiply)(const th_product_block *block), const th_product_block *block)
{
    const th_float_state before = th_float_state_get();
    th_float_state_set(TH_FLOAT_FLUSH);
    multiply(block);
    th_float_state_set(before);
}

/* Defines pack_a_<parts>, pack_b_<parts> and block_<parts> from these two functions:
 *
 *     pack(parts, of_a, operand)
 *     multiply(parts, block)
 *
 * elements_of_a: the elements that a panel of A has for one part of a group. */
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
        const int64_t panel = th_ceil_div(k, TH_PART_GROUP) * (parts) * (elements_of_a);                               \
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
