/* What the driver of our own matrix products (product_native.c) and its vector kernels (vector/product_*.c,
 * vector/terms) agree on: the sizes of a tile, the layout of packed operands, and the block of C that one kernel call
 * computes. */
#ifndef TH_KERNELS_PRODUCTS_PRODUCT_BLOCK_H
#define TH_KERNELS_PRODUCTS_PRODUCT_BLOCK_H

#include <stdint.h>

/* A tile of C lives in registers: 12 x 2 of the 32 registers of AVX-512, 6 x 2 of the 16 that there are otherwise. */
#define TH_TILE_ROWS(vector_bytes) ((vector_bytes) == 64 ? 12 : 6)
#define TH_TILE_COLUMNS(vector_bytes, real_bytes) (2 * (vector_bytes) / (real_bytes))

/* The most rows of C with which reading B limits a product; the second number is for bfloat16 terms. With so few rows B
 * is read where it is, and nothing of it is packed first. */
enum { TH_FEW_ROWS = 24, TH_FEW_PART_ROWS = 16 };

struct th_product_block;

/* One way to multiply: what packs the operands into panels, and what multiplies them. In a panel k is filled up with
 * zeros to whole groups of steps, which follow each other: each takes group_elements (of the size of an element) for
 * every row or column. So a product may begin at any panel and at any group. */
typedef struct th_product_kernels {
    const char *name;  /* of those of bfloat16 terms: fma, avx512_bf16 or amx */
    int rows, columns; /* of a panel of A, and of B */
    int group, group_elements;
    void (*pack_a)(int64_t m, int64_t k, const void *a, int64_t row, int64_t column, void *panels);
    void (*pack_b)(int64_t k, int64_t n, const void *b, int64_t row, int64_t column, void *panels, int64_t stride);
    void (*block)(const struct th_product_block *block);
    /* The same for few rows, with B where it is and its columns contiguous: element (k, j) is b[k + j * b_panel]. NULL
     * if this path has no such kernel. */
    void (*few_rows)(const struct th_product_block *block);
} th_product_kernels;

/* Elements that `steps` steps of k take in a packed panel, for each row of A or column of B. */
static inline int64_t th_panel_elements(const th_product_kernels *kernels, int64_t steps)
{
    return (steps + kernels->group - 1) / kernels->group * kernels->group_elements;
}

/* Steps of k in a group of the kernels that multiply bfloat16 terms (product.h). */
enum { TH_PART_GROUP = 32 };

/* One block of C over at most TH_PRODUCT_BLOCK steps of k: c = init + A B, or c = A B without init.
 *
 * A is walked in panels of TILE_ROWS rows: element (i, k) of panel p is a[p * a_panel + i * a_row + k * a_col]. Packed
 * panels have a_row = 1 and a_col = TILE_ROWS; in place a_panel = TILE_ROWS * a_row. B is walked in panels of
 * TILE_COLUMNS columns: element (k, j) of panel p is b[p * b_panel + k * b_row + j]. Packed panels have b_row =
 * TILE_COLUMNS and are filled up with anything finite or not; in place b_panel = TILE_COLUMNS, and where the columns
 * left over at the end do not fill registers they are given as one packed panel, b_rest. */
typedef struct th_product_block {
    int64_t m, n, k;
    const void *a;
    int64_t a_panel, a_row, a_col;
    const void *b;
    int64_t b_panel, b_row;
    const void *b_rest; /* (k, TILE_COLUMNS): the last n % TILE_COLUMNS columns, or NULL: they are read from b */
    void *c;            /* (m, n), columns contiguous */
    int64_t c_row;
    const void *init; /* (m, n), columns contiguous: C itself when adding, the bias with init_row = 0, or NULL */
    int64_t init_row;
} th_product_block;

#endif
