/* Products in the precision int8: rows of A, rounded to blocks of int8 numbers, by columns of a B that is stored in
 * such blocks (TH_Q8_0 and below). product.h defines the sums. product_int8.c drives the kernels
 * (vector/product_int8*.c). */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_INT8_H
#define TH_KERNELS_PRODUCTS_PRODUCT_INT8_H

#include "kernels/products/product.h"
#include "tapehead/base.h"

enum {
    TH_INT8_WIDE = 256,    /* numbers of a block of the types that have so many */
    TH_INT8_GROUPS = 16,   /* groups of 16 numbers in such a block */
    TH_INT8_MOST_ROWS = 64 /* of a th_int8_product: with 2048 steps they take 288 KB when rounded */
};

/* A rounded block of 32 numbers of a row of A: the numbers with even indices, then those with odd ones; and their
 * sum. */
typedef struct th_int8_block {
    int16_t number[TH_BLOCK_NUMBERS];
    float scale;
    int32_t sum;
} th_int8_block;

/* A rounded block of 256 numbers of a row of A, and the sum of each group. */
typedef struct th_int8_wide {
    int8_t number[TH_INT8_WIDE];
    int16_t sums[TH_INT8_GROUPS];
    float scale;
} th_int8_wide;

/* C = init + A B. */
typedef struct th_int8_product {
    int64_t m, n, k; /* m: at most TH_INT8_MOST_ROWS */
    const void *a;   /* th_int8_block (k / TH_BLOCK_NUMBERS, m), or th_int8_wide (k / TH_INT8_WIDE, m) */
    const void *b;   /* blocks of the first column */
    int64_t b_bytes; /* from one column to the next */
    float *c;
    int64_t c_row, c_col;
    const float *init; /* or NULL */
    int64_t init_row, init_col;
} th_int8_product;

#endif
