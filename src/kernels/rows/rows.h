/* Row kernels (vector/softmax.c, reductions.c, norm.c, rotary.c) work on blocks of rows of equal length. A forward
 * kernel reads x and writes y. A backward kernel reads dy and, if it needs them, x and y; it writes dx or adds to it.
 * The comment above each kernel says which operands it uses, and which operands have one number for each row. */
#ifndef TH_KERNELS_ROWS_ROWS_H
#define TH_KERNELS_ROWS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    TH_ROW_X,
    TH_ROW_Y,
    TH_ROW_DY,
    TH_ROW_DX,
    TH_ROW_SAVED, /* numbers of each row that a norm saves for backward; rotary's cosines and sines */
    TH_ROWS_OPERANDS
};

/* A block of rows. Row r < count of operand i starts at operand[i] + r * stride[i] elements and is contiguous. Missing
 * operands are NULL. */
typedef struct th_rows_block {
    int64_t first, count, length; /* the first row's index, the number of rows, elements of each row */
    void *operand[TH_ROWS_OPERANDS];
    int64_t stride[TH_ROWS_OPERANDS];
    bool add;               /* add to dx instead of overwriting it */
    const void *parameters; /* of the kernel */
} th_rows_block;

typedef void th_rows_kernel(const th_rows_block *rows);

/* Parameters of the norms. */
typedef struct th_norm_parameters {
    double eps;                /* forward */
    const void *weight, *bias; /* (length); NULL means 1 and 0 */
    void *dweight, *dbias;     /* (groups, length) or NULL: one sum for each `group` rows */
    int64_t group;             /* no block has rows of two groups */
} th_norm_parameters;

/* Parameters of rotary: the first `width` elements of each row are rotated. */
typedef struct th_rotary_parameters {
    int64_t width;
    bool neighbors; /* pairs are 2 i and 2 i + 1; otherwise i and i + width / 2 */
} th_rotary_parameters;

#endif
