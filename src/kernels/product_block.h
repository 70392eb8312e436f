/* The interface between the driver of native matrix products (product_native.c) and its vector kernels
 * (vector/product_*.c, bfloat16/vector). It defines tile sizes, the layout of packed operands, and the block of C that
 * one kernel call computes. */
#ifndef TH_KERNELS_PRODUCT_BLOCK_H
#define TH_KERNELS_PRODUCT_BLOCK_H

#include <stdint.h>

#include "kernels/product_kernels.h"

/* The size of a tile of C, which stays in registers: 12 x 2 of 32 registers (AVX-512, NEON), or 6 x 2 of 16. */
#define TH_TILE_ROWS(vector_registers) ((vector_registers) == 32 ? 12 : 6)
#define TH_TILE_COLUMNS(vector_bytes, real_bytes) (2 * (vector_bytes) / (real_bytes))

/* With at most this many rows of C, B is read in place if its columns are contiguous: to pack it for so few rows takes
 * too long. The second number is for bfloat16 parts. */
enum { TH_FEW_ROWS = 128, TH_FEW_PART_ROWS = 16 };

/* The most steps of k for which the rows of A are packed at a time, if B is read in place for few rows of float32 or
 * float64. B is then read in the order of memory. */
enum { TH_FEW_STEPS = 2048 };

/* Up to this many rows, adding the products takes less time than reading and transposing B. A then stays in place, and
 * a panel of B is read over all steps of k at once. */
enum { TH_STREAM_ROWS = 3 };

/* Kernels for few rows read the columns of a panel of B at the same time. Panel j consists of column j and further
 * columns at equal distances. From one panel to the next, each of these columns is followed by its neighbor in memory.
 * Returns the distance; 0 if B has fewer columns than a panel. It is odd, because many even distances would put the
 * columns into few places of the cache. Some columns after the last panel remain. */
static inline int64_t th_columns_apart(int64_t columns, int64_t panel)
{
    const int64_t panels = columns / panel;
    return panels % 2 == 0 && panels > 0 ? panels - 1 : panels;
}

/* Returns the elements of `steps` steps in a packed panel, for each row of A or column of B. */
static inline int64_t th_panel_elements(const th_product_kernels *kernels, int64_t steps)
{
    return (steps + kernels->group - 1) / kernels->group * kernels->group_elements;
}

/* Steps of k in a group of bfloat16 parts (product.h). */
enum { TH_PART_GROUP = 32 };

/* One block of C over at most TH_PRODUCT_BLOCK steps of k: c = init + A B, or c = A B without init.
 *
 * A is read in panels of TILE_ROWS rows, B in panels of TILE_COLUMNS columns:
 *
 *     element (i, k) of panel p of A    a[p * a_panel + i * a_row + k * a_col]
 *     A packed                          a_row = 1, a_col = TILE_ROWS
 *     A in place                        a_panel = TILE_ROWS * a_row
 *     element (k, j) of panel p of B    b[p * b_panel + k * b_row + j]
 *     B packed                          b_row = TILE_COLUMNS; the last panel is filled with arbitrary numbers
 *     B in place                        b_panel = TILE_COLUMNS; b_rest: packed columns that do not fill registers */
typedef struct th_product_block {
    int64_t m, n, k;
    const void *a;
    int64_t a_panel, a_row, a_col;
    const void *b;
    int64_t b_panel, b_row;
    const void *b_rest; /* (k, TILE_COLUMNS): the last n % TILE_COLUMNS columns; NULL: read them from b */
    void *c;            /* (m, n), columns contiguous */
    int64_t c_row;
    const void *init; /* (m, n), columns contiguous: C itself when adding, the bias with init_row = 0, or NULL */
    int64_t init_row;
} th_product_block;

#endif
