/* The table of kernels that pack and multiply the operands of matrix products: one for each instruction set, and for
 * one and for two bfloat16 parts (products/product.h). */
#ifndef TH_KERNELS_PRODUCT_KERNELS_H
#define TH_KERNELS_PRODUCT_KERNELS_H

#include "kernels/kernels.h"

/* One way to multiply: functions that pack the operands into panels, and functions that multiply panels. In a panel, k
 * is filled with zeros to whole groups of steps, one after the other. A group takes group_elements elements for every
 * row or column. So a product may begin at any panel and at any group. */
typedef struct th_product_kernels {
    const char *name;  /* of bfloat16 parts: fma, avx512_bf16 or amx */
    int rows, columns; /* of a panel of A, and of B */
    int group, group_elements;
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels);
    void (*pack_b)(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride);
    void (*block)(const th_product_block *block);
    /* For few rows, with B in place and its columns contiguous: element (k, j) is b[k + j * b_panel]. NULL if this path
     * has no such kernel. */
    void (*few_rows)(const th_product_block *block);
} th_product_kernels;

#endif
