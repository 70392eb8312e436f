/* What kernels of rows (vector/softmax.c, reductions.c, norm.c) work on: blocks of rows of so many elements each. An
 * operation's forward reads x and writes y; its backward reads what it needs of x and y, and dy, and writes dx, or adds
 * to it. Which operands a kernel uses, and which of them have one number a row, stands above it. */
#ifndef TH_KERNELS_ROWS_ROWS_H
#define TH_KERNELS_ROWS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TH_ROW_X,
    TH_ROW_Y,
    TH_ROW_DY,
    TH_ROW_DX,
    TH_ROW_SAVED, /* the numbers that a norm keeps of each row for backward */
    TH_ROWS_OPERANDS
};

/* Row r < count of operand i starts at operand[i] + r * stride[i] elements and is contiguous. Operands that are not
 * there are NULL. */
typedef struct th_rows_block {
    int64_t first, count, length; /* the number of the first row, rows, elements of each */
    void *operand[TH_ROWS_OPERANDS];
    int64_t stride[TH_ROWS_OPERANDS];
    bool add;               /* to what is in dx, instead of overwriting it */
    const void *parameters; /* a kernel's own */
} th_rows_block;

typedef void th_rows_kernel(const th_rows_block *rows);

/* Parameters of the norms. */
typedef struct th_norm_parameters {
    double eps;                /* forward */
    const void *weight, *bias; /* (length), or NULL: 1, 0 */
    void *dweight, *dbias;     /* (groups, length), or NULL: one sum for each `group` rows; no block has rows of two */
    int64_t group;
} th_norm_parameters;

/* Parameters of rotary: of each row the first `width` elements are turned. */
typedef struct th_rotary_parameters {
    int64_t width;
    bool neighbors; /* pairs are 2 i and 2 i + 1, else i and i + width / 2 */
} th_rotary_parameters;

#endif
