/* The table of kernels that pack and multiply the operands of matrix products: one for each instruction set, and for
 * one and for two bfloat16 parts (products/product.h). */
#ifndef TH_KERNELS_PRODUCT_KERNELS_H
#define TH_KERNELS_PRODUCT_KERNELS_H

#include "kernels/kernels.h"

/* One way to multiply: functions that pack the operands into panels, and functions that multiply panels. A step is one
 * value of k, the index of the sum. A panel stores the steps in groups, one after the other; zeros fill the last group.
 * A group takes group_elements elements for each row of A or column of B. So a product may begin at any panel and at
 * any group. */
typedef struct th_product_kernels {
    const char *name;  /* of bfloat16 parts: fma, avx512_bf16 or amx */
    int rows, columns; /* rows of a panel of A, columns of a panel of B */
    int group;         /* steps of a group */
    int group_elements;
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels);
    void (*pack_b)(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride);
    void (*block)(const th_product_block *block);
    /* Packs A for the two kernels below. */
    void (*pack_few)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels);
    /* For few rows, with B in place and its columns contiguous: element (k, j) is b[k + j * b_panel]. NULL if this path
     * has no such kernel. */
    void (*few_rows)(const th_product_block *block);
    /* The same for a B stored as bfloat16. Strides count its numbers. */
    void (*few_rows_stored)(const th_product_block *block);
} th_product_kernels;

#endif
